// SPDX-License-Identifier: Apache-2.0
//! Who owns a directory: one process at a time.
//!
//! The owner holds a lock of the kernel on the file `owner`, which ends with its drop, and with the process, however that
//! ends. The file also tells the owner's process id, for the error of whoever comes second. A forked child shares the lock
//! until it closes the file, so it must: what was open before a fork is the parent's. [`lock_files`] tells a fork handler
//! which files.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};

const NAME: &str = "owner";

/// Why a directory could not be owned.
#[derive(Debug)]
pub enum OwnershipError {
    /// Another process owns it, or another handle of this one.
    InUse {
        /// The file that is locked.
        path: PathBuf,
        /// Its owner, when it said so.
        pid: Option<u32>,
    },
    /// The system failed.
    Io(io::Error),
}

/// Directories that one process can own at a time.
const OWNERS_MAX: usize = 4096;

/// Files behind the owners of this process; -1 in a free slot. Atomics, because a fork handler may take no lock.
static LOCK_FILES: [AtomicI32; OWNERS_MAX] = [const { AtomicI32::new(-1) }; OWNERS_MAX];

/// The files that hold the ownerships of this process. Takes no lock and no memory.
pub fn lock_files() -> impl Iterator<Item = RawFd> {
    LOCK_FILES
        .iter()
        .map(|slot| slot.load(Ordering::Relaxed))
        .filter(|file| *file >= 0)
}

/// The ownership of a directory, until it is dropped.
#[derive(Debug)]
pub struct Owner {
    file: File,
}

impl Drop for Owner {
    fn drop(&mut self) {
        // The lock belongs to all copies of the file, and a program that was just started may have one for a moment more:
        // its starter goes on before the kernel closes what a started program does not keep.
        let _ = self.file.unlock();
        let fd = self.file.as_raw_fd();
        for slot in &LOCK_FILES {
            // Before the file is closed: its number may be somebody else's right after.
            if slot
                .compare_exchange(fd, -1, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
            {
                return;
            }
        }
    }
}

impl Owner {
    /// Takes ownership of `dir`, which exists.
    pub fn acquire(dir: &Path) -> Result<Self, OwnershipError> {
        let path = dir.join(NAME);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(OwnershipError::Io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // Without it the error is still clear.
                let _ = file.read_to_string(&mut text);
                return Err(OwnershipError::InUse {
                    path,
                    pid: text.trim().parse().ok(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(OwnershipError::Io(error)),
        }
        let write = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", std::process::id())
        };
        // A full disk does not keep anybody from owning: only the error of the next one tells less.
        let _ = write(&mut file);
        let fd = file.as_raw_fd();
        let is_registered = LOCK_FILES.iter().any(|slot| {
            slot.compare_exchange(-1, fd, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        });
        if is_registered {
            Ok(Self { file })
        } else {
            let detail = format!("a process can own {OWNERS_MAX} partitions; close a namespace first");
            Err(OwnershipError::Io(io::Error::other(detail)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_owner_gets_the_process_id_of_the_first() {
        let dir = std::env::temp_dir().join(format!("oxbus-owner-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("made");
        let owner = Owner::acquire(&dir).expect("free");
        match Owner::acquire(&dir) {
            Err(OwnershipError::InUse { pid, path }) => {
                assert_eq!(pid, Some(std::process::id()));
                assert!(path.starts_with(&dir));
            }
            other => panic!("{other:?}"),
        }
        let copy = owner.file.try_clone().expect("copied");
        drop(owner);
        drop(Owner::acquire(&dir).expect("free again, whoever else has the file"));
        drop(copy);
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
