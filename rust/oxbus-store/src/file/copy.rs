// SPDX-License-Identifier: Apache-2.0
//! The files of a log as they were after an entry, for a copy of an open log.
//!
//! Snapshots and finished segments never change. The segment with the last wanted entry does: its copy ends after that
//! entry. If the frame has later entries too, the copy gets a frame without them. While a [`FileView`] exists, its
//! file may be removed, and stays readable, but is not recycled, because the view holds it (`spare_files`). Only the
//! files with which a full disk is drained are copied into memory, because they must be recycled (`reserve`).

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::FileLog;
use super::frame::{self, FRAME_HEADER_BYTES, ParsedFrame};
use super::group_commit::Writer;
use super::header::{FileHeader, FileKind, HEADER_BYTES};
use super::segment::{self, SegmentFile};
use super::snapshot;
use crate::Wait;
use crate::disk::{Disk, DiskFile};
use crate::shard_log::{Level, Lsn};

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

    /// Bytes that differ if files of the same name and length differ: the header page and, of a snapshot, the lengths
    /// and CRCs of its parts. No other segment has the salt of a segment, but two copies of one namespace may write
    /// snapshots with equal header pages. Those with records apart have a random mark of their owner in it.
    pub fn identity(&self) -> io::Result<Vec<u8>> {
        let mut identity = vec![0; HEADER_BYTES];
        let read = self.read_at(&mut identity, 0)?;
        identity.truncate(read);
        if snapshot::lsn_of(&self.name).is_some() {
            let mut read = |buffer: &mut [u8], position| self.read_at(buffer, position);
            let header = FileHeader::read(&identity, FileKind::Snapshot);
            let record_bytes = header.map_or(0, |header| header.record_bytes);
            identity.extend(snapshot::chunk_headers(record_bytes, &mut read)?);
        }
        Ok(identity)
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

/// A segment that a view has.
enum ViewedSegment {
    OnDisk(SegmentFile),
    /// All bytes of a segment whose file the next fold needs.
    InMemory(FileHeader, Vec<u8>),
}

impl ViewedSegment {
    fn in_memory(segment: &SegmentFile) -> io::Result<Self> {
        let mut bytes = vec![0; segment.bytes as usize];
        let read = segment.file.read_full_at(&mut bytes, 0)?;
        bytes.truncate(read);
        Ok(Self::InMemory(segment.header, bytes))
    }

    fn header(&self) -> &FileHeader {
        match self {
            Self::OnDisk(segment) => &segment.header,
            Self::InMemory(header, _) => header,
        }
    }
}

/// The segments with the entries up to `last`, or `None` if a fold replaced some of these entries by a later one. The
/// segments that only drain are in memory: a view that held their files would keep a full disk from being drained.
fn viewed(writer: &Writer, last: Lsn) -> io::Result<Option<Vec<ViewedSegment>>> {
    let segments: Vec<&SegmentFile> = writer.finished.iter().chain(&writer.current).collect();
    let is_folded = |header: &FileHeader| {
        let replaces = header.resumes.is_some_and(|resumes| resumes.lsn < last);
        replaces && header.lsn > last
    };
    if segments.iter().any(|segment| is_folded(&segment.header)) {
        return Ok(None);
    }
    let drained_from = segments
        .iter()
        .rposition(|segment| !segment.header.drains)
        .map_or(0, |before| before + 1);
    let wanted = segments.iter().take_while(|segment| segment.header.lsn <= last);
    let of = |(index, segment): (usize, &&SegmentFile)| {
        if index < drained_from {
            Ok(ViewedSegment::OnDisk(SegmentFile::clone(segment)))
        } else {
            ViewedSegment::in_memory(segment)
        }
    };
    wanted.enumerate().map(of).collect::<io::Result<_>>().map(Some)
}

impl FileLog {
    /// The files of the log with its entries up to `last`, the oldest first. The caller prevents snapshots meanwhile,
    /// and the newest one covers no later entry. `None` if a full disk was folded since the caller noted the last
    /// entry: it must note a later one.
    pub fn view_until(&self, last: Lsn, wait: &Wait<'_>) -> io::Result<Option<Vec<FileView>>> {
        self.commits.commit(last, Level::Written, wait)?;
        let Some(segments) = self.commits.with_writer(|writer| viewed(writer, last))? else {
            return Ok(None);
        };
        let covered = Lsn(self.covered.load(Ordering::Acquire));
        if segments.is_empty() && covered < last {
            return Err(missing(&snapshot::path_of(&self.dir, covered), covered.next()));
        }
        let mut views = vec![FileView::of_file(&*self.disk, &snapshot::path_of(&self.dir, covered))?];
        let count = segments.len();
        for (index, segment) in segments.into_iter().enumerate() {
            views.push(self.view_of(segment, (index + 1 == count).then_some(last))?);
        }
        Ok(Some(views))
    }

    /// The view of a segment: of the whole file, or without the entries after `last`.
    fn view_of(&self, segment: ViewedSegment, last: Option<Lsn>) -> io::Result<FileView> {
        let path = segment::path_of(&self.dir, segment.header().segment);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match segment {
            ViewedSegment::InMemory(header, mut bytes) => {
                if let Some(last) = last {
                    let content = bytes.get(HEADER_BYTES..).unwrap_or_default();
                    let (whole, end) = cut(&header, content, last, &path)?;
                    bytes.truncate(whole);
                    bytes.extend(end);
                }
                Ok(FileView::of_bytes(&name, bytes))
            }
            ViewedSegment::OnDisk(segment) => {
                let (on_disk, end) = if let Some(last) = last {
                    let mut content = Vec::new();
                    segment.read_content(&mut content)?;
                    let (whole, end) = cut(&segment.header, &content, last, &path)?;
                    (whole as u64, end)
                } else {
                    (segment.bytes, Vec::new())
                };
                Ok(FileView {
                    name: name.into_owned(),
                    file: Some(segment.file),
                    on_disk,
                    end,
                })
            }
        }
    }
}

/// Where the copy of a segment ends that has no entry after `last`: the end of its last whole frame, and a frame with
/// the rest. `content` is what follows the header page.
fn cut(header: &FileHeader, content: &[u8], last: Lsn, path: &Path) -> io::Result<(usize, Vec<u8>)> {
    let (mut position, mut next, mut crc) = (0, header.lsn, header.crc_before);
    while next <= last {
        let (found, payload) = match frame::parse(&content[position..], header.salt) {
            ParsedFrame::Frame(found, payload) if found.first == next && found.crc_before == crc => (found, payload),
            _ => return Err(missing(path, next)),
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
            return Ok((HEADER_BYTES + position, frame));
        }
        position += FRAME_HEADER_BYTES + payload.len();
        (next, crc) = (end, found.crc);
    }
    Ok((HEADER_BYTES + position, Vec::new()))
}

fn missing(path: &Path, lsn: Lsn) -> io::Error {
    io::Error::other(format!(
        "entry {} is not in the journal, which was compacted or damaged: `{}`",
        lsn.0,
        path.display()
    ))
}
