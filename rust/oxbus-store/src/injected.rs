// SPDX-License-Identifier: Apache-2.0
//! A disk wrapper that injects faults on request, for tests of programs on a real disk.
//!
//! The unit tests of this crate use `fault` instead, a disk in memory that fails at a counted call. This wrapper
//! forwards every call, at the cost of one atomic load while no fault is active.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use oxbus_model::sync::ignore_poison;
use oxbus_system::{DISK_FAILED, DISK_FULL};

use crate::disk::{Disk, DiskFile, Lease, SyncCallback};

/// A fault of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFault {
    /// Writes fail.
    Write,
    /// Syncs fail.
    Sync,
    /// Renames fail.
    Rename,
    /// The disk is full: creating files and writing fail.
    Full,
    /// The next write silently stores one wrong bit. Then the fault ends.
    BitFlip,
    /// Writes and syncs hang until the fault ends.
    Stall,
    /// Writes and syncs take this much longer.
    Latency(Duration),
}

/// The switch for the fault of a disk, shared with the test that sets it.
#[derive(Debug, Default)]
pub struct Injection {
    active: AtomicBool,
    /// Consistent after a panic: its fields do not depend on each other.
    state: Mutex<InjectionState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct InjectionState {
    fault: Option<DiskFault>,
    /// The number of affected calls that still succeed before the fault begins.
    skip: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiskCallKind {
    Write,
    Zeros,
    Sync,
    Create,
    Rename,
}

impl DiskFault {
    fn affects(self, call: DiskCallKind) -> bool {
        match self {
            Self::Write => matches!(call, DiskCallKind::Write | DiskCallKind::Zeros),
            Self::BitFlip => call == DiskCallKind::Write,
            Self::Sync => call == DiskCallKind::Sync,
            Self::Rename => call == DiskCallKind::Rename,
            Self::Full => matches!(call, DiskCallKind::Write | DiskCallKind::Zeros | DiskCallKind::Create),
            Self::Stall | Self::Latency(_) => {
                matches!(call, DiskCallKind::Write | DiskCallKind::Zeros | DiskCallKind::Sync)
            }
        }
    }
}

impl Injection {
    fn state(&self) -> MutexGuard<'_, InjectionState> {
        ignore_poison(self.state.lock())
    }

    #[inline]
    fn is_active(&self) -> bool {
        self.active.load(Ordering::Acquire)
    }

    /// Begins a fault after `skip` more calls that it would affect.
    pub fn begin(&self, fault: DiskFault, skip: u64) {
        *self.state() = InjectionState {
            fault: Some(fault),
            skip,
        };
        self.active.store(true, Ordering::SeqCst);
        self.changed.notify_all();
    }

    /// Ends the fault. Hanging calls return.
    pub fn end(&self) {
        self.active.store(false, Ordering::SeqCst);
        *self.state() = InjectionState::default();
        self.changed.notify_all();
    }

    /// True while calls hang or will hang.
    fn hangs(&self) -> bool {
        self.is_active() && self.state().fault == Some(DiskFault::Stall)
    }

    /// True while the disk is full.
    fn is_full(&self) -> bool {
        self.is_active() && {
            let state = self.state();
            state.fault == Some(DiskFault::Full) && state.skip == 0
        }
    }

    /// Applies the fault to a call: delays it or fails it. Returns true if the call must store one wrong bit.
    fn apply(&self, call: DiskCallKind) -> io::Result<bool> {
        if !self.is_active() {
            return Ok(false);
        }
        let mut state = self.state();
        let Some(fault) = state.fault.filter(|fault| fault.affects(call)) else {
            return Ok(false);
        };
        if state.skip > 0 {
            // Allocating a file makes many calls that belong to no client operation.
            state.skip -= u64::from(call != DiskCallKind::Zeros);
            return Ok(false);
        }
        match fault {
            DiskFault::Write | DiskFault::Sync | DiskFault::Rename => Err(io::Error::from_raw_os_error(DISK_FAILED)),
            DiskFault::Full => Err(io::Error::from_raw_os_error(DISK_FULL)),
            DiskFault::BitFlip => {
                state.fault = None;
                self.active.store(false, Ordering::SeqCst);
                Ok(true)
            }
            DiskFault::Stall => {
                while state.fault == Some(DiskFault::Stall) {
                    state = ignore_poison(self.changed.wait(state));
                }
                Ok(false)
            }
            DiskFault::Latency(time) => {
                let waited = self
                    .changed
                    .wait_timeout_while(state, time, |state| state.fault == Some(fault));
                drop(ignore_poison(waited));
                Ok(false)
            }
        }
    }
}

/// A disk whose calls pass through an [`Injection`].
#[derive(Debug)]
pub struct InjectedDisk {
    disk: Arc<dyn Disk>,
    injection: Arc<Injection>,
}

impl InjectedDisk {
    /// Wraps `disk` so that its calls pass through `injection`.
    pub fn new(disk: Arc<dyn Disk>, injection: Arc<Injection>) -> Self {
        Self { disk, injection }
    }

    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(InjectedFile {
            file,
            injection: Arc::clone(&self.injection),
        })
    }
}

impl Disk for InjectedDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.injection.apply(DiskCallKind::Create)?;
        self.disk.create(path).map(|file| self.file(file))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(path).map(|file| self.file(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.injection.apply(DiskCallKind::Rename)?;
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.injection.apply(DiskCallKind::Sync)?;
        self.disk.sync_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        if self.injection.is_full() {
            return Ok(0);
        }
        self.disk.free_bytes(dir)
    }

    fn may_hang(&self) -> bool {
        self.injection.hangs()
    }

    fn keeps_unsynced(&self) -> bool {
        self.disk.keeps_unsynced()
    }

    fn changes_wait(&self) -> bool {
        self.disk.changes_wait()
    }

    fn keeps_order(&self) -> bool {
        self.disk.keeps_order()
    }

    fn shares_bytes(&self) -> bool {
        self.disk.shares_bytes()
    }

    fn lease(&self) -> Option<Arc<dyn Lease>> {
        self.disk.lease()
    }

    fn begin_release(&self) {
        self.disk.begin_release();
    }

    fn release(&self) {
        self.disk.release();
    }
}

#[derive(Debug)]
struct InjectedFile {
    file: Arc<dyn DiskFile>,
    injection: Arc<Injection>,
}

impl DiskFile for InjectedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(buffer, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        if !self.injection.is_active() {
            return self.file.write_at(bytes, position);
        }
        // Zeros of a new file and zeros ahead of a frame contain nothing that a flipped bit could damage.
        let matters = bytes.iter().any(|byte| *byte != 0);
        if self.injection.apply(if matters {
            DiskCallKind::Write
        } else {
            DiskCallKind::Zeros
        })? {
            let mut wrong = bytes.to_vec();
            let middle = wrong.len() / 2;
            wrong[middle] ^= 1;
            return self.file.write_at(&wrong, position);
        }
        self.file.write_at(bytes, position)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.injection.apply(DiskCallKind::Zeros)?;
        self.file.allocate(bytes)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.file.truncate(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.injection.apply(DiskCallKind::Sync)?;
        self.file.sync()
    }

    fn sync_later(&self, done: SyncCallback) {
        match self.injection.apply(DiskCallKind::Sync) {
            Ok(_) => self.file.sync_later(done),
            Err(error) => done(Err(error)),
        }
    }

    fn number(&self) -> Option<u64> {
        self.file.number()
    }

    fn share(&self, of: u64, from: u64, len: u64, position: u64) -> io::Result<()> {
        // Nothing is written that a flipped bit could damage.
        self.injection.apply(DiskCallKind::Zeros)?;
        self.file.share(of, from, len, position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::FaultDisk;

    fn file() -> (Arc<Injection>, Arc<dyn DiskFile>) {
        let injection = Arc::new(Injection::default());
        let disk = InjectedDisk::new(Arc::new(FaultDisk::new()), Arc::clone(&injection));
        (injection, disk.create(Path::new("/file")).expect("created"))
    }

    #[test]
    fn each_fault_affects_its_calls_and_ends() {
        let (injection, file) = file();
        injection.begin(DiskFault::Write, 1);
        assert_eq!(file.write_at(b"one", 0).expect("let through"), 3);
        assert_eq!(
            file.write_at(b"two", 0).expect_err("fails").raw_os_error(),
            Some(DISK_FAILED)
        );
        file.sync().expect("not met");
        injection.begin(DiskFault::Sync, 0);
        file.write_at(b"two", 0).expect("not met");
        assert!(file.sync().is_err());
        injection.begin(DiskFault::BitFlip, 0);
        file.write_at(b"abc", 0).expect("a bit flip reports no error");
        let mut read = [0; 3];
        file.read_at(&mut read, 0).expect("read");
        assert_eq!(&read, b"acc");
        file.write_at(b"abc", 0).expect("the fault is over");
        file.read_at(&mut read, 0).expect("read");
        assert_eq!(&read, b"abc");
        injection.end();
        file.sync().expect("the fault is over");
    }

    #[test]
    fn rename_and_full_disk_are_separate_faults() {
        let injection = Arc::new(Injection::default());
        let disk = InjectedDisk::new(Arc::new(FaultDisk::new()), Arc::clone(&injection));
        let (from, to) = (Path::new("/from"), Path::new("/to"));
        let file = disk.create(from).expect("created");
        injection.begin(DiskFault::Rename, 0);
        file.write_at(b"one", 0).expect("not met");
        assert_eq!(
            disk.rename(from, to).expect_err("fails").raw_os_error(),
            Some(DISK_FAILED)
        );
        injection.begin(DiskFault::Full, 1);
        disk.create(Path::new("/other")).expect("let through");
        assert_eq!(
            file.write_at(b"two", 0).expect_err("fails").raw_os_error(),
            Some(DISK_FULL)
        );
        assert!(disk.create(Path::new("/third")).is_err());
        disk.rename(from, to).expect("not met");
        assert!(disk.open(from).is_err());
    }

    #[test]
    fn a_stalled_call_comes_back_when_the_fault_ends() {
        let (injection, file) = file();
        injection.begin(DiskFault::Stall, 0);
        let stalled = std::thread::spawn(move || file.write_at(b"late", 0));
        injection.end();
        assert_eq!(stalled.join().expect("no panic").expect("written"), 4);
    }
}
