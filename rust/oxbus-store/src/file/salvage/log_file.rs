// SPDX-License-Identifier: Apache-2.0
//! The files of a log, identified by their headers.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::SalvagedFile;
use crate::disk::{Disk, DiskFile};
use crate::extent::Extent;
use crate::file::header::{FileHeader, FileKind, HEADER_BYTES, HeaderError, ShardId};
use crate::file::{segment, snapshot};

pub(super) struct LogFile {
    pub(super) kind: FileKind,
    /// The number in the file name.
    pub(super) number: u64,
    /// `None` if the file is unreadable or excluded.
    pub(super) header: Option<FileHeader>,
    file: Option<Arc<dyn DiskFile>>,
    pub(super) report: SalvagedFile,
}

impl LogFile {
    fn read(disk: &dyn Disk, dir: &Path, name: &str, kind: FileKind, number: u64) -> Self {
        let mut file = Self {
            kind,
            number,
            header: None,
            file: None,
            report: SalvagedFile {
                name: name.to_owned(),
                ..SalvagedFile::default()
            },
        };
        if let Err(error) = file.read_header(disk, &dir.join(name)) {
            file.exclude(&format!("it could not be read: {error}"));
        }
        file
    }

    fn read_header(&mut self, disk: &dyn Disk, path: &Path) -> io::Result<()> {
        let file = disk.open(path)?;
        let mut page = vec![0; HEADER_BYTES];
        let read = file.read_full_at(&mut page, 0)?;
        self.file = Some(file);
        self.header = match FileHeader::read(&page[..read], self.kind) {
            Ok(header) => Some(header),
            Err(error) => {
                let repaired = FileHeader::repair_one_bit(&page[..read], self.kind);
                self.report.problems.push(match (repaired, error) {
                    (Some(_), _) => "one bit of its first page is wrong".to_owned(),
                    (None, HeaderError::Foreign) => "it does not begin as a file of oxbus".to_owned(),
                    (None, HeaderError::Newer { version }) => {
                        format!("a newer version of oxbus wrote it: format={version}")
                    }
                    (None, _) => "its first page is damaged".to_owned(),
                });
                repaired
            }
        };
        Ok(())
    }

    /// Excludes the file and reports why.
    pub(super) fn exclude(&mut self, why: &str) {
        self.header = None;
        self.report.problems.push(why.to_owned());
    }

    /// The file, to read records from later.
    pub(super) fn extent(&self) -> Option<Extent> {
        Extent::new(Arc::clone(self.file.as_ref()?)).ok()
    }

    /// Reads all bytes from `position` on.
    pub(super) fn content(&self, position: u64) -> io::Result<Vec<u8>> {
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let len = usize::try_from(file.len()?.saturating_sub(position)).map_err(io::Error::other)?;
        let mut content = Vec::new();
        // A sparse file may report more bytes than there is memory.
        content.try_reserve_exact(len).map_err(io::Error::other)?;
        content.resize(len, 0);
        let read = file.read_full_at(&mut content, position)?;
        content.truncate(read);
        Ok(content)
    }
}

/// Reads the header of each file whose name belongs to a log.
pub(super) fn list(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<LogFile>> {
    let mut names = disk.list(dir)?;
    names.sort_unstable();
    let log_file = |name: &String| {
        if let Some(number) = segment::number_of(name) {
            Some(LogFile::read(disk, dir, name, FileKind::Segment, number))
        } else {
            let lsn = snapshot::lsn_of(name)?;
            Some(LogFile::read(disk, dir, name, FileKind::Snapshot, lsn.0))
        }
    };
    Ok(names.iter().filter_map(log_file).collect())
}

/// The shard id that most headers contain. In a tie, the first of them.
pub(super) fn most_common_id(files: &[LogFile]) -> Option<ShardId> {
    let ids = || files.iter().filter_map(|file| Some(file.header?.id));
    ids().rev().max_by_key(|id| ids().filter(|other| other == id).count())
}
