// SPDX-License-Identifier: Apache-2.0
//! Backup: the files of a namespace as they were at one moment.
//!
//! The moment is common to all partitions, so a copy of the files is as consistent as after a crash: it has each entry
//! whole or not at all, and no effect without its cause in another partition. `open_namespace` finds the files of an
//! open namespace, `directory` those of a directory that nobody has open. Whoever writes the copy decides where to:
//! this module only reads.

mod directory;
mod open_namespace;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use oxbus_model::hash::fingerprint;
use oxbus_model::{Error, ErrorKind, Result};
use oxbus_store::disk::Disk;
use oxbus_store::file::{FileView, Owner};

pub use directory::of_directory;
pub(crate) use open_namespace::of_open;

use crate::entity::Core;
use crate::stage::StageFileHold;

/// The files of a namespace at one moment. While it exists, they stay readable.
pub struct Backup {
    files: Vec<BackupFile>,
    disk: Arc<dyn Disk>,
    source: BackupSource,
}

impl fmt::Debug for Backup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backup")
            .field("files", &self.files.len())
            .finish_non_exhaustive()
    }
}

/// What keeps the files readable.
enum BackupSource {
    /// An open namespace. Once it is closed, another process may change the files.
    Open(Arc<Core>, #[expect(dead_code, reason = "held")] StageFileHold),
    /// The ownership of a directory.
    Owned(#[expect(dead_code, reason = "held")] Vec<Owner>),
}

/// One file of a backup.
pub struct BackupFile {
    /// Its path below the directory of the namespace, with `/`.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// A fingerprint of what identifies it and of its length. Two files with the same name and fingerprint are the same,
    /// also if they are of two copies of one namespace.
    pub fingerprint: u128,
    content: Content,
}

enum Content {
    View(FileView),
    /// A file that does not change and that is opened only while it is read.
    Path(PathBuf),
}

impl BackupFile {
    fn of_view(dir: &str, view: FileView) -> io::Result<Self> {
        let name = format!("{dir}{}", view.name());
        let bytes = view.len();
        Ok(Self {
            fingerprint: fingerprint_of(&view)?,
            content: Content::View(view),
            name,
            bytes,
        })
    }

    fn of_path(disk: &dyn Disk, dir: &str, path: PathBuf) -> io::Result<Self> {
        let file = Self::of_view(dir, FileView::of_file(disk, &path)?)?;
        let content = Content::Path(path);
        Ok(Self { content, ..file })
    }
}

fn fingerprint_of(view: &FileView) -> io::Result<u128> {
    let mut identity = view.identity()?;
    identity.extend_from_slice(&view.len().to_le_bytes());
    Ok(fingerprint(&identity))
}

impl Backup {
    /// The files.
    pub fn files(&self) -> &[BackupFile] {
        &self.files
    }

    /// Reads bytes of a file of [`Self::files`] from `position` on. Returns their number, which is less than that of
    /// `buffer` only at the end of the file.
    pub fn read(&self, file: &BackupFile, position: u64, buffer: &mut [u8]) -> Result<usize> {
        let read = match &file.content {
            Content::View(view) => view.read_at(buffer, position),
            Content::Path(path) => FileView::of_file(&*self.disk, path).and_then(|view| view.read_at(buffer, position)),
        };
        // The check comes after the read, because another process may change the files from the close on.
        if let BackupSource::Open(core, _) = &self.source
            && core.check_open().is_err()
        {
            let detail = "the namespace was closed during its backup; open it and back it up again";
            return Err(Error::new(ErrorKind::Closed, detail));
        }
        read.map_err(|error| unreadable(&file.name, error))
    }
}

fn unreadable(name: &str, error: io::Error) -> Error {
    let detail = format!("a file could not be read for the backup ({error}); check its disk and try again: `{name}`");
    Error::new(ErrorKind::Storage, detail).with_source(error)
}
