// SPDX-License-Identifier: Apache-2.0
//! A disk that fails when it is told to: for tests of programs, on top of a real one.
//!
//! `fault` is the disk of this crate's own tests: it lives in memory and fails at a counted call. This one passes
//! everything on, and costs one load per call while no fault is on.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use oxbus_model::sync::ignore_poison;

use crate::disk::{Disk, DiskFile};

/// The system's numbers of an input or output error, and of a full disk.
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFault {
    /// Writes fail.
    Write,
    /// Syncs fail.
    Sync,
    /// Giving a file another name fails.
    Rename,
    /// There is no room: files cannot be made, and writes fail.
    Full,
    /// The next write stores one bit wrong and says nothing; then the fault is over.
    BitFlip,
    /// Writes and syncs do not come back until the fault is over.
    Stall,
    /// Writes and syncs take so much longer.
    Latency(Duration),
}

/// The fault of a disk, shared with whoever sets it.
#[derive(Debug, Default)]
pub struct Injection {
    active: AtomicBool,
    /// Whole after a panic: its fields do not depend on each other.
    state: Mutex<InjectionState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct InjectionState {
    fault: Option<DiskFault>,
    /// Calls of the fault's kind to let through first.
    skip: u64,
}

/// The kind of a call.
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

    /// Begins a fault after that many calls that it would meet.
    pub fn begin(&self, fault: DiskFault, skip: u64) {
        *self.state() = InjectionState {
            fault: Some(fault),
            skip,
        };
        self.active.store(true, Ordering::SeqCst);
        self.changed.notify_all();
    }

    /// Ends the fault; calls that hang come back.
    pub fn end(&self) {
        self.active.store(false, Ordering::SeqCst);
        *self.state() = InjectionState::default();
        self.changed.notify_all();
    }

    /// True while calls hang, or will.
    fn hangs(&self) -> bool {
        self.is_active() && self.state().fault == Some(DiskFault::Stall)
    }

    /// True while there is no room.
    fn is_full(&self) -> bool {
        self.is_active() && {
            let state = self.state();
            state.fault == Some(DiskFault::Full) && state.skip == 0
        }
    }

    /// Meets a call: delays or fails it. True when it is to store a bit wrong.
    fn apply(&self, call: DiskCallKind) -> io::Result<bool> {
        if !self.is_active() {
            return Ok(false);
        }
        let mut state = self.state();
        let Some(fault) = state.fault.filter(|fault| fault.affects(call)) else {
            return Ok(false);
        };
        if state.skip > 0 {
            // Making a file is many calls and no operation of anybody.
            state.skip -= u64::from(call != DiskCallKind::Zeros);
            return Ok(false);
        }
        match fault {
            DiskFault::Write | DiskFault::Sync | DiskFault::Rename => Err(io::Error::from_raw_os_error(EIO)),
            DiskFault::Full => Err(io::Error::from_raw_os_error(ENOSPC)),
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

/// A disk with an [`Injection`] in front of it.
#[derive(Debug)]
pub struct InjectedDisk {
    disk: Arc<dyn Disk>,
    injection: Arc<Injection>,
}

impl InjectedDisk {
    /// Puts `injection` in front of `disk`.
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
        // The zeros of a new file, and those ahead of a frame, hold nothing that could be wrong.
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
        assert_eq!(file.write_at(b"two", 0).expect_err("fails").raw_os_error(), Some(EIO));
        file.sync().expect("not met");
        injection.begin(DiskFault::Sync, 0);
        file.write_at(b"two", 0).expect("not met");
        assert!(file.sync().is_err());
        injection.begin(DiskFault::BitFlip, 0);
        file.write_at(b"abc", 0).expect("says nothing");
        let mut read = [0; 3];
        file.read_at(&mut read, 0).expect("read");
        assert_eq!(&read, b"acc");
        file.write_at(b"abc", 0).expect("over");
        file.read_at(&mut read, 0).expect("read");
        assert_eq!(&read, b"abc");
        injection.end();
        file.sync().expect("over");
    }

    #[test]
    fn rename_and_full_disk_are_separate_faults() {
        let injection = Arc::new(Injection::default());
        let disk = InjectedDisk::new(Arc::new(FaultDisk::new()), Arc::clone(&injection));
        let (from, to) = (Path::new("/from"), Path::new("/to"));
        let file = disk.create(from).expect("created");
        injection.begin(DiskFault::Rename, 0);
        file.write_at(b"one", 0).expect("not met");
        assert_eq!(disk.rename(from, to).expect_err("fails").raw_os_error(), Some(EIO));
        injection.begin(DiskFault::Full, 1);
        disk.create(Path::new("/other")).expect("let through");
        assert_eq!(
            file.write_at(b"two", 0).expect_err("fails").raw_os_error(),
            Some(ENOSPC)
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
