// SPDX-License-Identifier: Apache-2.0
//! A disk like a store, for tests: what is synced in the background is synced when the test says so.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use oxbus_model::sync::ignore_poison;

use crate::disk::{Disk, DiskFile, SyncCallback};
use crate::fault::FaultDisk;

/// A disk whose background syncs end when the test ends them.
#[derive(Debug, Clone, Default)]
pub struct LateDisk {
    below: FaultDisk,
    syncs: Arc<LateSyncs>,
}

#[derive(Default)]
struct LateSyncs {
    pending: Mutex<Vec<(Arc<dyn DiskFile>, SyncCallback)>>,
    /// True if syncs end at once.
    is_prompt: AtomicBool,
    /// True if changes would wait.
    is_crowded: AtomicBool,
}

impl fmt::Debug for LateSyncs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} syncs", ignore_poison(self.pending.lock()).len())
    }
}

#[derive(Debug)]
struct LateFile {
    file: Arc<dyn DiskFile>,
    syncs: Arc<LateSyncs>,
}

impl LateDisk {
    /// The disk below.
    pub fn below(&self) -> &FaultDisk {
        &self.below
    }

    /// The number of syncs in progress.
    pub fn pending(&self) -> usize {
        ignore_poison(self.syncs.pending.lock()).len()
    }

    /// Ends the first sync in progress.
    ///
    /// # Panics
    /// If there is none.
    pub fn end_sync(&self, outcome: io::Result<()>) {
        let (file, done) = ignore_poison(self.syncs.pending.lock()).remove(0);
        done(outcome.and_then(|()| file.sync()));
    }

    /// Ends all syncs in progress, and from now on each one at once, or not.
    pub fn set_prompt(&self, is_prompt: bool) {
        self.syncs.is_prompt.store(is_prompt, Ordering::SeqCst);
        while is_prompt && self.pending() > 0 {
            self.end_sync(Ok(()));
        }
    }

    /// Makes changes wait, or no longer.
    pub fn set_crowded(&self, is_crowded: bool) {
        self.syncs.is_crowded.store(is_crowded, Ordering::SeqCst);
    }

    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        let syncs = Arc::clone(&self.syncs);
        Arc::new(LateFile { file, syncs })
    }
}

impl Disk for LateDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.below.create_dir(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.below.list(dir)
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.below.create(path).map(|file| self.file(file))
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.below.open(path).map(|file| self.file(file))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.below.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.below.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.below.sync_dir(dir)
    }
    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.below.free_bytes(dir)
    }
    fn keeps_unsynced(&self) -> bool {
        false
    }
    fn keeps_order(&self) -> bool {
        true
    }
    fn changes_wait(&self) -> bool {
        self.syncs.is_crowded.load(Ordering::SeqCst)
    }
}

impl DiskFile for LateFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(buffer, position)
    }
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        self.file.write_at(bytes, position)
    }
    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.file.allocate(bytes)
    }
    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.file.truncate(bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
    fn sync_later(&self, done: SyncCallback) {
        if self.syncs.is_prompt.load(Ordering::SeqCst) {
            return done(self.file.sync());
        }
        ignore_poison(self.syncs.pending.lock()).push((Arc::clone(&self.file), done));
    }
}
