// SPDX-License-Identifier: Apache-2.0
//! The machine's file system, read-only: files can be opened and read, and every change fails.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile, LocalDisk};

/// The machine's file system, read-only.
#[derive(Debug, Default, Clone, Copy)]
pub struct ReadOnlyDisk;

fn read_only_error<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Disk for ReadOnlyDisk {
    fn create_dir(&self, _path: &Path) -> io::Result<()> {
        read_only_error()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        LocalDisk.list(dir)
    }

    fn create(&self, _path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        read_only_error()
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        // Opening a pipe would wait for a writer.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        Ok(Arc::new(ReadOnlyFile(File::open(path)?)))
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        read_only_error()
    }

    fn remove(&self, _path: &Path) -> io::Result<()> {
        read_only_error()
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        read_only_error()
    }

    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        Ok(0)
    }
}

#[derive(Debug)]
struct ReadOnlyFile(File);

impl DiskFile for ReadOnlyFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        oxbus_system::read_at(&self.0, buffer, position)
    }

    fn write_at(&self, _bytes: &[u8], _position: u64) -> io::Result<usize> {
        read_only_error()
    }

    fn allocate(&self, _bytes: u64) -> io::Result<()> {
        read_only_error()
    }

    fn truncate(&self, _bytes: u64) -> io::Result<()> {
        read_only_error()
    }

    fn sync(&self) -> io::Result<()> {
        read_only_error()
    }
}
