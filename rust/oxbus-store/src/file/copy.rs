// SPDX-License-Identifier: Apache-2.0
//! The files of a log as they were after an entry, for a copy of an open log.
//!
//! Snapshots and finished segments never change. The segment with the last wanted entry does: its copy ends after that
//! entry. If the frame has later entries too, the copy gets a frame without them. While a [`FileView`] exists, its
//! file may be removed, and stays readable, but is not recycled, because the view holds it (`spare_files`).

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::FileLog;
use super::frame::{self, FRAME_HEADER_BYTES, ParsedFrame};
use super::header::HEADER_BYTES;
use super::segment::{self, SegmentFile};
use super::snapshot;
use crate::Wait;
use crate::disk::{Disk, DiskFile};
use crate::shard_log::{Level, Lsn};

/// Bytes at the start of a file that identify it: the header page, whose salt, epoch and numbers no other file has.
pub const HEAD_BYTES: usize = HEADER_BYTES;

/// A file as a copy sees it: the first bytes of the file on disk, then bytes in memory.
pub struct FileView {
    name: String,
    file: Option<Arc<dyn DiskFile>>,
    on_disk: u64,
    end: Vec<u8>,
}

impl fmt::Debug for FileView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileView({:?}, {} bytes)", self.name, self.len())
    }
}

impl FileView {
    /// A whole file on disk.
    pub fn of_file(disk: &dyn Disk, path: &Path) -> io::Result<Self> {
        let file = disk.open(path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self {
            name,
            on_disk: file.len()?,
            file: Some(file),
            end: Vec::new(),
        })
    }

    /// A file of bytes in memory.
    pub fn of_bytes(name: &str, bytes: Vec<u8>) -> Self {
        Self {
            name: name.to_owned(),
            file: None,
            on_disk: 0,
            end: bytes,
        }
    }

    /// Its name, without a directory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.on_disk + self.end.len() as u64
    }

    /// True if the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads bytes from `position` on. Returns their number, which is less than that of `buffer` only at the end.
    pub fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut filled = 0;
        if let Some(file) = self.file.as_ref().filter(|_| position < self.on_disk) {
            let wanted = (self.on_disk - position).min(buffer.len() as u64) as usize;
            filled = file.read_full_at(&mut buffer[..wanted], position)?;
            if filled < wanted {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    format!("the file became shorter while it was read: `{}`", self.name),
                ));
            }
        }
        let from = (position + filled as u64)
            .saturating_sub(self.on_disk)
            .min(self.end.len() as u64) as usize;
        let rest = &self.end[from..];
        let count = rest.len().min(buffer.len() - filled);
        buffer[filled..filled + count].copy_from_slice(&rest[..count]);
        Ok(filled + count)
    }
}

impl FileLog {
    /// The files of the log with its entries up to `last`, the oldest first. The caller prevents snapshots meanwhile,
    /// and the newest one covers no later entry. Fails if a full disk was folded at this moment.
    pub fn view_until(&self, last: Lsn, wait: &Wait<'_>) -> io::Result<Vec<FileView>> {
        self.commits.commit(last, Level::Written, wait)?;
        let segments: Vec<SegmentFile> = self
            .commits
            .with_writer(|writer| writer.finished.iter().chain(&writer.current).cloned().collect());
        let covered = Lsn(self.covered.load(Ordering::Acquire));
        let mut views = vec![FileView::of_file(&*self.disk, &snapshot::path_of(&self.dir, covered))?];
        let wanted = segments.iter().filter(|segment| segment.header.lsn <= last).count();
        for (index, segment) in segments[..wanted].iter().enumerate() {
            let (on_disk, end) = if index + 1 == wanted {
                self.cut(segment, last)?
            } else {
                (segment.bytes, Vec::new())
            };
            let path = segment::path_of(&self.dir, segment.header.segment);
            views.push(FileView {
                name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                file: Some(Arc::clone(&segment.file)),
                on_disk,
                end,
            });
        }
        Ok(views)
    }

    /// Where the copy of a segment ends that has no entry after `last`: the end of its last whole frame, and a frame
    /// with the rest.
    fn cut(&self, segment: &SegmentFile, last: Lsn) -> io::Result<(u64, Vec<u8>)> {
        let header = &segment.header;
        let mut content = Vec::new();
        segment.read_content(&mut content)?;
        let (mut position, mut next, mut crc) = (0, header.lsn, header.crc_before);
        while next <= last {
            let (found, payload) = match frame::parse(&content[position..], header.salt) {
                ParsedFrame::Frame(found, payload) if found.first == next && found.crc_before == crc => {
                    (found, payload)
                }
                _ => return Err(missing(self, header.segment, next)),
            };
            let end = Lsn(next.0 + u64::from(found.entries));
            if end.0 > last.0 + 1 {
                let kept = last.0 + 1 - next.0;
                let mut frame = vec![0; FRAME_HEADER_BYTES];
                let entries = frame::entries(payload, found.entries).expect("parsed before");
                for entry in entries.into_iter().take(kept as usize) {
                    frame::push_entry(&mut frame, entry);
                }
                frame::seal(&mut frame, kept as u32, found.first, found.synced, crc, header.salt);
                return Ok(((HEADER_BYTES + position) as u64, frame));
            }
            position += FRAME_HEADER_BYTES + payload.len();
            (next, crc) = (end, found.crc);
        }
        Ok(((HEADER_BYTES + position) as u64, Vec::new()))
    }
}

fn missing(log: &FileLog, segment: u64, lsn: Lsn) -> io::Error {
    io::Error::other(format!(
        "entry {} is not in the journal, which was compacted or damaged: `{}`",
        lsn.0,
        segment::path_of(&log.dir, segment).display()
    ))
}
