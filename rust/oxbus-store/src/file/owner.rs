// SPDX-License-Identifier: Apache-2.0
//! Ownership of a directory by one process at a time.
//!
//! The owner holds a kernel lock on the file `owner`, which ends when the ownership is dropped or the process ends in
//! any way. The file also contains the owner's process id, for the error message of a second process. A forked child
//! shares the lock until it closes the file, so it must close it: directories opened before a fork belong to the
//! parent. On Windows the lock also keeps others from reading the file, so that the error lacks the process id.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use oxbus_system::ClosedInChild;

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

/// The ownership of a directory, until it is dropped.
#[derive(Debug)]
pub struct Owner {
    // Fields are dropped in this order: the descriptor of a closed file may be reused right afterwards.
    _closed_in_child: ClosedInChild,
    file: File,
}

impl Drop for Owner {
    fn drop(&mut self) {
        // The lock belongs to all copies of the file descriptor. A program that is being started may hold a copy
        // briefly, because the kernel may close it only after the start call has returned.
        let _ = self.file.unlock();
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
        match ClosedInChild::register(&file) {
            Some(closed_in_child) => Ok(Self {
                _closed_in_child: closed_in_child,
                file,
            }),
            None => Err(OwnershipError::Io(io::Error::other(
                "this process owns as many partitions as it can; close a namespace first",
            ))),
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
