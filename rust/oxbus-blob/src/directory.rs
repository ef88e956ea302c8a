// SPDX-License-Identifier: Apache-2.0
//! Blobs in a directory of one machine, for tests and development.
//!
//! A blob is a file: a header with its version, then the content. A new file is written under another name and synced,
//! and then linked or renamed to its own name, so a reader never sees half of it. Writers of one key take the lock of a
//! file, so several processes may use a directory, but not several machines. One key cannot be the folder of another.

mod file;

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::key::{check_key, check_prefix};
use crate::open::OpenError;
use crate::{Answer, Blob, BlobError, BlobListing, BlobStore, Version};

/// Holds the locks and the files that have no name yet. No key begins with a dot.
const OWN: &str = ".oxbus";

/// Writers of keys with the same hash wait for each other.
const LOCKS: u64 = 64;

/// Blobs in a directory. Clones share them.
#[derive(Debug, Clone)]
pub struct DirectoryStore(Arc<Path>);

impl DirectoryStore {
    /// Opens a directory, and creates it if it does not exist.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, OpenError> {
        let path: PathBuf = path.into();
        let opened = tokio::task::spawn_blocking(move || {
            let failed = |error: io::Error| OpenError::new(format!("`{}`: {error}", path.display()));
            fs::create_dir_all(path.join(OWN)).map_err(failed)?;
            let path = std::path::absolute(&path).map_err(failed)?;
            Ok(Self(path.into()))
        });
        opened.await.expect("opening does not panic")
    }

    /// Does blocking work on another thread.
    async fn blocking<T, F>(&self, work: F) -> Result<T, BlobError>
    where
        T: Send + 'static,
        F: FnOnce(&Self) -> io::Result<T> + Send + 'static,
    {
        let this = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&this).map_err(|error| this.error(&error)));
        done.await
            .unwrap_or_else(|error| Err(BlobError::Other(format!("the work on the directory stopped: {error}"))))
    }

    /// What an error of the system means.
    fn error(&self, error: &io::Error) -> BlobError {
        let text = error.to_string();
        match error.kind() {
            ErrorKind::AlreadyExists => BlobError::Exists,
            ErrorKind::NotFound if self.0.join(OWN).exists() => BlobError::Missing,
            ErrorKind::NotFound => BlobError::NoContainer(text),
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => BlobError::Denied(text),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => BlobError::Full(text),
            _ if error.raw_os_error() == Some(oxbus_system::DISK_FULL) => BlobError::Full(text),
            _ => BlobError::Other(text),
        }
    }

    fn path(&self, key: &str) -> PathBuf {
        self.0.join(key)
    }

    /// Waits for the other writers of a key. The lock ends when the file is dropped.
    fn lock(&self, key: &str) -> io::Result<File> {
        // FNV-1a: the same in every process.
        let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let path = self.0.join(OWN).join(format!("lock-{:02}", hash % LOCKS));
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        file.lock()?;
        Ok(file)
    }

    /// Creates the folders of a key, and makes their names durable.
    fn create_folders(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().expect("a key lies in the directory");
        if folder.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(folder)?;
        for made in folder.ancestors().take_while(|made| made.starts_with(&self.0)) {
            oxbus_system::sync_names(made)?;
        }
        Ok(())
    }

    fn create_now(&self, key: &str, bytes: &[u8]) -> io::Result<Version> {
        let path = self.path(key);
        let (temporary, version) = file::write(&self.0.join(OWN), bytes)?;
        self.create_folders(&path)?;
        fs::hard_link(&temporary.0, &path)?;
        sync_folder(&path)?;
        Ok(version)
    }

    /// Returns nothing if the version is another one.
    fn swap_now(&self, key: &str, bytes: &[u8], expected: &Version) -> io::Result<Option<Version>> {
        let path = self.path(key);
        let _lock = self.lock(key)?;
        match File::open(&path).and_then(|mut file| file::read_header(&mut file)) {
            Ok(found) if found == *expected => {}
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
        let (temporary, version) = file::write(&self.0.join(OWN), bytes)?;
        fs::rename(&temporary.0, &path)?;
        sync_folder(&path)?;
        Ok(Some(version))
    }

    fn read_now(&self, key: &str) -> io::Result<Blob> {
        let mut file = File::open(self.path(key))?;
        let version = file::read_header(&mut file)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let modified = file.metadata()?.modified().ok();
        Ok(Blob {
            bytes: bytes.into(),
            version,
            modified,
        })
    }

    fn read_range_now(&self, key: &str, range: &Range<u64>) -> io::Result<Bytes> {
        let mut file = File::open(self.path(key))?;
        file::read_header(&mut file)?;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let mut filled = 0;
        while filled < bytes.len() {
            let position = file::HEADER as u64 + range.start + filled as u64;
            match oxbus_system::read_at(&file, &mut bytes[filled..], position)? {
                0 => return Err(io::Error::other("the range is not in the object")),
                read => filled += read,
            }
        }
        Ok(bytes.into())
    }

    fn list_now(&self, prefix: &str) -> io::Result<Vec<BlobListing>> {
        let mut found = Vec::new();
        let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut waiting = vec![folder.to_owned()];
        while let Some(folder) = waiting.pop() {
            let entries = match fs::read_dir(self.path(&folder)) {
                Err(error) if is_absent(&error) && !folder.is_empty() => continue,
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                let Ok(name) = entry.file_name().into_string() else {
                    continue;
                };
                let key = if folder.is_empty() {
                    name
                } else {
                    format!("{folder}/{name}")
                };
                if check_key(&key).is_err() || !key.starts_with(prefix) {
                    continue;
                }
                match entry.metadata() {
                    Ok(data) if data.is_dir() => waiting.push(key),
                    Ok(data) => {
                        let bytes = data.len().saturating_sub(file::HEADER as u64);
                        found.push(BlobListing { key, bytes });
                    }
                    Err(error) if !is_absent(&error) => return Err(error),
                    Err(_) => {}
                }
            }
        }
        found.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(found)
    }

    fn delete_now(&self, key: &str) -> io::Result<()> {
        let path = self.path(key);
        let _lock = self.lock(key)?;
        match fs::remove_file(&path) {
            Err(error) if is_absent(&error) => Ok(()),
            removed => removed.and_then(|()| sync_folder(&path)),
        }
    }
}

/// True if there is no such file, or a part of its path is a file.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    oxbus_system::sync_names(path.parent().expect("a key lies in the directory"))
}

impl BlobStore for DirectoryStore {
    fn create<'a>(&'a self, key: &'a str, bytes: Bytes) -> Answer<'a, Version> {
        Box::pin(async move {
            check_key(key)?;
            let key = key.to_owned();
            self.blocking(move |this| this.create_now(&key, &bytes)).await
        })
    }

    fn swap<'a>(&'a self, key: &'a str, bytes: Bytes, version: &'a Version) -> Answer<'a, Version> {
        Box::pin(async move {
            check_key(key)?;
            let (key, version) = (key.to_owned(), version.clone());
            let swapped = self.blocking(move |this| this.swap_now(&key, &bytes, &version));
            swapped.await?.ok_or(BlobError::Changed)
        })
    }

    fn read<'a>(&'a self, key: &'a str) -> Answer<'a, Blob> {
        Box::pin(async move {
            check_key(key)?;
            let key = key.to_owned();
            self.blocking(move |this| this.read_now(&key)).await
        })
    }

    fn read_range<'a>(&'a self, key: &'a str, range: Range<u64>) -> Answer<'a, Bytes> {
        Box::pin(async move {
            check_key(key)?;
            let key = key.to_owned();
            self.blocking(move |this| this.read_range_now(&key, &range)).await
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Answer<'a, Vec<BlobListing>> {
        Box::pin(async move {
            check_prefix(prefix)?;
            let prefix = prefix.to_owned();
            self.blocking(move |this| this.list_now(&prefix)).await
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            check_key(key)?;
            let key = key.to_owned();
            self.blocking(move |this| this.delete_now(&key)).await
        })
    }

    fn url(&self) -> String {
        let path = self.0.to_string_lossy().replace('\\', "/");
        format!("objects:///{}", path.trim_start_matches('/'))
    }
}
