// SPDX-License-Identifier: Apache-2.0
//! The file system operations that the journal uses. The set is small so that tests can make each call fail.
//!
//! Written bytes survive a power loss only after `sync`; file names only after `sync_dir`.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A file system.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Creates a directory unless it exists.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory, in no particular order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Creates a file for reading and writing. Fails if it exists.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Renames a file within its directory, replacing any file that has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Bytes that files in a directory may still use, as the system reports them.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;
    /// True if calls are known to hang.
    fn may_hang(&self) -> bool {
        false
    }
    /// True if what is written but not synced survives the end of the process.
    fn keeps_unsynced(&self) -> bool {
        true
    }
    /// True if a write would wait now. Asked only of a disk that does not keep what is unsynced.
    fn changes_wait(&self) -> bool {
        false
    }
    /// True if no change survives that came after a lost one. A sync is then needed only before something is promised.
    fn keeps_order(&self) -> bool {
        false
    }
    /// True if files can share bytes: a part of one becomes a part of another without being written again. Reading
    /// then takes as long as a request over a network.
    fn shares_bytes(&self) -> bool {
        false
    }
    /// The lease of this owner, if another process may take the disk over from one that only does not answer.
    fn lease(&self) -> Option<Arc<dyn Lease>> {
        None
    }
    /// The owner is about to release the disk: from now on, calls fail once nothing has become durable for a while.
    fn begin_release(&self) {}
    /// Makes everything durable and gives the disk up, so that another process can use it at once. Later calls fail.
    fn release(&self) {}
}

/// The lease of an owner. While it lasts, no other process owns the disk. It is renewed in the background.
pub trait Lease: Send + Sync + fmt::Debug {
    /// True while it lasts.
    fn lasts(&self) -> bool;
    /// Waits for at most `patience` until it lasts, and returns whether it does. Fails once it cannot be renewed any
    /// more.
    fn wait(&self, patience: Duration) -> io::Result<bool>;
}

/// Another process owns the disk now. The cause of every error of a disk that was taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenOver {
    /// The new owner, if it is known, or what showed that there is one.
    pub by: String,
}

impl TakenOver {
    /// True if an error of a disk says that another process owns it now.
    pub fn is_cause_of(error: &io::Error) -> bool {
        let cause = error.get_ref();
        cause.is_some_and(<dyn std::error::Error + Send + Sync>::is::<Self>)
    }
}

impl fmt::Display for TakenOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "another process took the namespace over: {}", self.by)
    }
}

impl std::error::Error for TakenOver {}

/// Receives the outcome of a sync. It must not block.
pub type SyncCallback = Box<dyn FnOnce(io::Result<()>) + Send>;

/// An open file.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// True if the length is 0.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Reads up to `buffer.len()` bytes and returns the number read, which is 0 at the end of the file.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;
    /// Writes up to `bytes.len()` bytes and returns the number written.
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize>;
    /// Extends the file to at least `bytes` bytes of allocated space. New bytes are zeros, and writing them cannot
    /// fail for lack of space. Existing bytes do not change.
    fn allocate(&self, bytes: u64) -> io::Result<()>;
    /// Cuts the file to `bytes` bytes and frees the space after them.
    fn truncate(&self, bytes: u64) -> io::Result<()>;
    /// Makes the bytes durable.
    fn sync(&self) -> io::Result<()>;
    /// Begins a sync, and calls `done` when it has ended, on any thread. Without a way to sync in the background, it
    /// syncs first.
    fn sync_later(&self, done: SyncCallback) {
        done(self.sync());
    }
    /// The number of the file, for [`DiskFile::share`]; `None` if the disk shares no bytes.
    fn number(&self) -> Option<u64> {
        None
    }
    /// Makes `len` bytes from `position` on the ones that the file with the number `of` has from `from` on.
    fn share(&self, of: u64, from: u64, len: u64, position: u64) -> io::Result<()> {
        let _ = (of, from, len, position);
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl dyn Disk + '_ {
    /// Makes what was written to a file durable before later changes, unless the disk keeps their order by itself.
    pub(crate) fn keep_before(&self, file: &(dyn DiskFile + 'static)) -> io::Result<()> {
        if self.keeps_order() { Ok(()) } else { file.sync() }
    }

    /// Makes the names in a directory durable before later changes, unless the disk keeps their order by itself.
    pub(crate) fn keep_names_before(&self, dir: &Path) -> io::Result<()> {
        if self.keeps_order() { Ok(()) } else { self.sync_dir(dir) }
    }
}

impl dyn DiskFile {
    /// Writes all of `bytes`.
    pub(crate) fn write_all_at(&self, mut bytes: &[u8], mut position: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_at(bytes, position) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    position += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads until `buffer` is full or the file ends. Returns the number of bytes read.
    pub(crate) fn read_full_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read_at(&mut buffer[filled..], position + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

/// Zeros for clearing space and for allocating it by writing.
pub(crate) static ZEROS: [u8; 256 << 10] = [0; 256 << 10];

/// Allocates space by writing zeros, for file systems without another way.
fn allocate_by_writing(file: &(dyn DiskFile + 'static), bytes: u64) -> io::Result<()> {
    let mut position = file.len()?;
    while position < bytes {
        let piece = (bytes - position).min(ZEROS.len() as u64);
        file.write_all_at(&ZEROS[..piece as usize], position)?;
        position += piece;
    }
    Ok(())
}

/// The machine's file system.
#[derive(Debug, Default, Clone, Copy)]
pub struct LocalDisk;

impl Disk for LocalDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        std::fs::read_dir(dir)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        Ok(Arc::new(LocalFile(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(LocalFile(
            OpenOptions::new().read(true).write(true).open(path)?,
        )))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        oxbus_system::sync_names(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        oxbus_system::free_bytes(dir)
    }
}

#[derive(Debug)]
struct LocalFile(File);

impl DiskFile for LocalFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        oxbus_system::read_at(&self.0, buffer, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        oxbus_system::write_at(&self.0, bytes, position)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        if oxbus_system::allocate(&self.0, bytes)? {
            Ok(())
        } else {
            allocate_by_writing(self, bytes)
        }
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        oxbus_system::sync(&self.0)
    }
}
