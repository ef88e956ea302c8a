// SPDX-License-Identifier: Apache-2.0
//! A disk whose files live in a blob store.
//!
//! Every change of a file is a part of an object of the owner's lane; the files are what the changes, in the order of
//! the lane, make of them. A change is durable once its object is acknowledged, and then all changes before it are. A
//! checkpoint holds the names, the lengths and the places of the bytes, so an open reads it and the objects after it.
//!
//! Read in this order: `options`; `place`, `change` and `object` (what is stored), `file_map` and `checkpoint` (the
//! files), `manifest` and `holder` (who owns them), `state` (what the threads share), `pace`, `requests` and `driver`
//! (writing the lane), `upkeep` with `sizes` and `sweep` (checkpoints, deletion, the lease), `read`, `cache` and `file`,
//! `wait`, `takeover` and `open` (acquiring the namespace), and this module, which is the disk.
//!
//! Threads: calls come from any thread and block. One thread of this disk has its own runtime and talks to the store.

mod cache;
mod change;
mod checkpoint;
mod driver;
mod file;
mod file_map;
mod holder;
mod manifest;
mod object;
mod open;
mod open_error;
mod options;
mod pace;
mod place;
mod read;
mod requests;
mod sizes;
mod state;
mod sweep;
mod takeover;
mod upkeep;
mod wait;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use oxbus_blob::{BlobError, BlobStore};
use oxbus_log::event;
use oxbus_model::sync::ignore_poison;
use oxbus_store::disk::{Disk, DiskFile, Lease, SyncCallback};
use tokio::sync::mpsc::Sender;
use tokio::sync::{Notify, Semaphore, oneshot};

use cache::Cache;
use change::{Change, FileId};
use file::LaneFile;
use place::LaneId;
use state::SharedState;
use upkeep::Request;

pub use manifest::OwnerInfo;
pub use open::{Opening, has_namespace};
pub use open_error::{OpenError, Opened};
pub use options::{LaneDiskOptions, Takeover};

/// Parts of objects that are read at once.
const READS: usize = 16;
/// How long a disk that is about to be released may be in trouble without anything becoming durable.
const RELEASE_PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait for the last requests when a disk is closed.
const CLOSE_PATIENCE: Duration = Duration::from_secs(25);

/// What the threads of a disk share.
struct Shared {
    store: Arc<dyn BlobStore>,
    options: LaneDiskOptions,
    lane: LaneId,
    state: SharedState,
    /// Wakes the driver.
    work: Notify,
    /// Wakes the upkeep.
    upkeep: Notify,
    /// A panic leaves a part cached or not.
    cache: Mutex<Cache>,
    runtime: tokio::runtime::Handle,
    reads: Semaphore,
    /// The last trouble with the store, until it answers again. Set in one step.
    trouble: Mutex<Option<BlobError>>,
}

impl Shared {
    /// Keeps the trouble with the store, for those who ask why nothing happens.
    fn note_trouble(&self, trouble: Option<&BlobError>) {
        let mut kept = ignore_poison(self.trouble.lock());
        if kept.as_ref() == trouble {
            return;
        }
        let url = self.store.url();
        if let Some(error) = trouble {
            event!(STORE_TROUBLE, cause = %error, url = %url);
        } else {
            event!(STORE_ANSWERS, url = %url);
        }
        *kept = trouble.cloned();
    }
}

/// A disk in a blob store. Dropping it without [`Disk::release`] is like a crash: the next owner waits until the lease
/// is over.
pub struct LaneDisk {
    shared: Arc<Shared>,
    /// The place of the namespace, which paths begin with.
    root: String,
    requests: Sender<Request>,
    thread: Mutex<Option<JoinHandle<()>>>,
    stop: Arc<Notify>,
    pid: u32,
}

impl fmt::Debug for LaneDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneDisk")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

fn missing<T>() -> io::Result<T> {
    Err(io::ErrorKind::NotFound.into())
}

impl LaneDisk {
    /// The name of a path within the namespace.
    fn name(&self, path: &Path) -> io::Result<String> {
        let text = path.to_str().and_then(|text| text.strip_prefix(&self.root));
        let text = text.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(text.replace('\\', "/").trim_matches('/').to_owned())
    }

    /// Tells other processes where the server of this owner listens, as `HOST:PORT`.
    pub fn set_address(&self, address: &str) {
        // A full queue means that the upkeep waits for the store; without the address, others wait for the lease.
        let _ = self.requests.try_send(Request::Address(address.to_owned()));
    }

    /// Why the store does not do what it should, if it does not.
    pub fn trouble(&self) -> Option<String> {
        let trouble = ignore_poison(self.shared.trouble.lock());
        trouble.as_ref().map(ToString::to_string)
    }

    fn change(&self, change: &Change) -> io::Result<()> {
        self.shared.state.lock_for_change()?.change(change);
        self.shared.work.notify_one();
        Ok(())
    }

    fn file(&self, file: FileId) -> Arc<dyn DiskFile> {
        Arc::new(LaneFile::new(&self.shared, file))
    }
}

impl Disk for LaneDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let name = self.name(path)?;
        if self.shared.state.lock().map.has_directory(&name) {
            return Ok(());
        }
        self.change(&Change::Directory(name))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let name = self.name(dir)?;
        let found = self.shared.state.lock().map.list(&name);
        found.map_or_else(missing, Ok)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let name = self.name(path)?;
        let mut state = self.shared.state.lock_for_change()?;
        if state.map.named(&name).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = state.map.new_file();
        state.change(&Change::Create(file, name));
        state.map.open(file);
        drop(state);
        self.shared.work.notify_one();
        Ok(self.file(file))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let name = self.name(path)?;
        let mut state = self.shared.state.lock();
        match state.map.named(&name) {
            Some(file) => {
                state.map.open(file);
                drop(state);
                Ok(self.file(file))
            }
            None => missing(),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.name(from)?, self.name(to)?);
        let mut state = self.shared.state.lock_for_change()?;
        if state.map.named(&from).is_none() {
            return missing();
        }
        state.change(&Change::Rename(from, to));
        drop(state);
        self.shared.work.notify_one();
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let name = self.name(path)?;
        let mut state = self.shared.state.lock_for_change()?;
        if state.map.named(&name).is_none() {
            return missing();
        }
        state.change(&Change::Remove(name));
        drop(state);
        self.shared.work.notify_one();
        Ok(())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        self.shared.sync()
    }

    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        let is_full = self.shared.state.lock().is_full;
        Ok(if is_full { 0 } else { u64::MAX })
    }

    fn keeps_unsynced(&self) -> bool {
        false
    }

    fn changes_wait(&self) -> bool {
        self.shared.state.changes_wait()
    }

    fn keeps_order(&self) -> bool {
        true
    }

    fn shares_bytes(&self) -> bool {
        true
    }

    fn lease(&self) -> Option<Arc<dyn Lease>> {
        Some(Arc::<Shared>::clone(&self.shared))
    }

    fn begin_release(&self) {
        let shared = Arc::clone(&self.shared);
        self.shared.runtime.spawn(async move {
            let mut before = None;
            loop {
                let acknowledged = shared.state.lock().writer.acknowledged();
                let has_trouble = ignore_poison(shared.trouble.lock()).is_some();
                if has_trouble && before == Some(acknowledged) {
                    shared.state.end(state::Ended::Closed);
                    return;
                }
                before = has_trouble.then_some(acknowledged);
                tokio::time::sleep(RELEASE_PATIENCE).await;
            }
        });
    }

    fn release(&self) {
        let (done, closed) = oneshot::channel();
        let request = Request::Close(done);
        let has_ended = self.shared.state.lock().ended.is_some();
        if !has_ended && self.requests.try_send(request).is_ok() {
            let (sender, receiver) = sync_channel(1);
            self.shared.runtime.spawn(async move {
                let _ = sender.send(closed.await.is_ok());
            });
            // Without an answer, the next owner waits until the lease is over.
            let _ = receiver.recv_timeout(CLOSE_PATIENCE);
        }
        self.shared.state.end(state::Ended::Closed);
        self.stop();
    }
}

impl LaneDisk {
    /// Gives the disk up without a word, as a crash does: what is not durable is lost.
    pub fn abandon(&self) {
        self.shared.state.end(state::Ended::Closed);
        self.stop();
    }

    fn stop(&self) {
        self.stop.notify_one();
        let thread = ignore_poison(self.thread.lock()).take();
        // The thread itself may drop the disk last, after a sync that it ended.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            // The thread panics only with the store's code; nothing is left to do.
            let _ = thread.join();
        }
        wait::forget(self.shared.lane);
    }
}

impl Drop for LaneDisk {
    fn drop(&mut self) {
        // A forked child has no such thread.
        if self.pid == std::process::id() {
            self.abandon();
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("lane", &self.lane)
            .finish_non_exhaustive()
    }
}

impl Lease for Shared {
    fn lasts(&self) -> bool {
        self.state.has_lease()
    }

    fn wait(&self, patience: Duration) -> io::Result<bool> {
        self.state.wait_for_lease(patience)
    }
}

impl Shared {
    /// Calls `done` once everything so far is durable, or the disk has ended.
    fn sync_later(&self, done: SyncCallback) {
        self.state.when_durable(done, || self.work.notify_one());
    }

    fn sync(&self) -> io::Result<()> {
        let (sender, synced) = sync_channel(1);
        self.sync_later(Box::new(move |outcome| {
            // The receiver waits for it.
            let _ = sender.send(outcome);
        }));
        synced.recv().unwrap_or_else(|_| Err(state::Ended::Closed.error()))
    }
}
