// SPDX-License-Identifier: Apache-2.0
//! Ownership of a directory by one process at a time.
//!
//! The owner holds a kernel lock on the file `owner`, which ends when the ownership is dropped or the process ends in
//! any way. The file also contains the owner's process id, for the error message of a second process. A forked child
//! shares the lock until it closes the file, so it must close it: directories opened before a fork belong to the
//! parent. [`lock_files`] lists these files for a fork handler.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};

const NAME: &str = "owner";

/// Why a directory could not be owned.
#[derive(Debug)]
pub enum OwnershipError {
    /// Another process, or another handle of this process, owns it.
    InUse {
        /// The locked file.
        path: PathBuf,
        /// The process id of the owner, if the file contains it.
        pid: Option<u32>,
    },
    /// The system failed.
    Io(io::Error),
}

/// The number of directories that one process can own at the same time.
const OWNERS_MAX: usize = 4096;

/// The lock files of this process; -1 marks a free slot. They are atomics because a fork handler must not lock a
/// mutex.
static LOCK_FILES: [AtomicI32; OWNERS_MAX] = [const { AtomicI32::new(-1) }; OWNERS_MAX];

/// The lock files of this process. Takes no lock and allocates no memory.
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
        // The lock belongs to all copies of the file descriptor. A program that is being started may hold a copy
        // briefly, because the kernel may close it only after the start call has returned.
        let _ = self.file.unlock();
        let fd = self.file.as_raw_fd();
        for slot in &LOCK_FILES {
            // Done before the file is closed, because its descriptor may be reused right afterwards.
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
    /// Acquires the ownership of `dir`, which must exist.
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
                // The error is clear enough without the process id.
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
        // A full disk does not prevent ownership. Only the error of a second process then lacks the process id.
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
        std::fs::create_dir_all(&dir).expect("created");
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
        drop(Owner::acquire(&dir).expect("free although a copy of the file is open"));
        drop(copy);
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
