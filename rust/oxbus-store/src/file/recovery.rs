// SPDX-License-Identifier: Apache-2.0
//! Recovery: reads a log and decides what is complete, torn or damaged.
//!
//! Segments are read in the order of their numbers. Each header contains the number of the first entry and the CRC of
//! the frame before it, which reveals a missing, swapped or older segment. A segment with a successor was synced
//! before the successor was created, so every entry before the successor's first entry must be present.
//!
//! In the last segment, the first bytes that are not a valid frame end the log. If a later frame proves by its
//! `synced` number that the missing entries were synced, the log is damaged. Nothing is skipped: a frame after an
//! invalid one counts as never written, because the disk may store writes in any order (docs/format.md, "Torn or
//! damaged"). In a recycled file, bytes after the last frame are from an earlier segment, unless they begin like the
//! next frame.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::frame::{self, FRAME_HEADER_BYTES, ParsedFrame};
use super::header::{FileHeader, FileKind, HEADER_BYTES, HeaderError, ShardId};
use super::segment::{self, SegmentFile};
use crate::disk::Disk;
use crate::extent::{Extent, ExtentLocation};
use crate::shard_log::Lsn;

/// Why a log cannot be opened.
#[derive(Debug)]
pub enum OpenError {
    /// A file operation failed.
    Io(io::Error),
    /// The header of a file does not match its name.
    Header {
        /// The path of the file.
        path: PathBuf,
        /// The error of the header.
        error: HeaderError,
    },
    /// Acknowledged entries are missing or damaged.
    Damaged {
        /// The path of the file.
        path: PathBuf,
        /// The position in the file, in bytes.
        position: u64,
        /// The first lost entry.
        lost: Lsn,
        /// A readable description of the damage.
        detail: &'static str,
    },
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Header { .. } | Self::Damaged { .. } => None,
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the journal could not be read: {error}"),
            Self::Header { path, error } => {
                let what = match error {
                    HeaderError::Foreign => "is not a file of oxbus; move it out of the directory".to_owned(),
                    HeaderError::Newer { version } => {
                        format!("was written by a newer version of oxbus; open it with that one: format={version}")
                    }
                    HeaderError::Damaged => "has a damaged first page; restore it from a copy".to_owned(),
                    HeaderError::Misplaced => {
                        "belongs to another store or another partition; put it back where it was".to_owned()
                    }
                };
                write!(f, "{what}: `{}`", path.display())
            }
            Self::Damaged {
                path,
                position,
                lost,
                detail,
            } => write!(
                f,
                "the journal is damaged ({detail}); restore it from a copy: `{}` position={position} first lost entry={}",
                path.display(),
                lost.0
            ),
        }
    }
}

/// Counts of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplayResult {
    /// Complete frames.
    pub frames: u64,
    /// Entries in them.
    pub entries: u64,
    /// Bytes of frames.
    pub bytes: u64,
    /// Bytes of an unfinished write that were cut from the end.
    pub torn_bytes: u64,
}

/// The result of a replay.
#[derive(Debug)]
pub(super) struct RecoveredLog {
    pub(super) segments: Vec<SegmentFile>,
    pub(super) next: Lsn,
    pub(super) last_crc: u32,
    /// The end of the last frame of each segment.
    pub(super) ends: Vec<u64>,
    pub(super) replayed: ReplayResult,
}

/// The position of an entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryPosition<'a> {
    extent: &'a Extent,
    position: u64,
    /// The epoch of the owner that wrote the entry.
    pub(super) epoch: u64,
}

impl EntryPosition<'_> {
    pub(super) fn location(self) -> ExtentLocation {
        self.extent.at(self.position)
    }
}

/// Opens the segments of a directory from number `first` on, in order, and checks that none is missing.
pub(super) fn segments(disk: &dyn Disk, dir: &Path, id: ShardId, first: u64) -> Result<Vec<SegmentFile>, OpenError> {
    let numbers = segment::numbers(disk, dir)?
        .into_iter()
        .filter(|number| *number >= first);
    let mut found: Vec<SegmentFile> = Vec::new();
    for number in numbers {
        let path = segment::path_of(dir, number);
        let file = disk.open(&path)?;
        let mut page = vec![0; HEADER_BYTES];
        let read = file.read_full_at(&mut page, 0)?;
        let header = FileHeader::decode(&page[..read], FileKind::Segment, id).map_err(|error| OpenError::Header {
            path: path.clone(),
            error,
        })?;
        let damaged = |detail| OpenError::Damaged {
            path: path.clone(),
            position: 0,
            lost: header.lsn,
            detail,
        };
        if header.segment != number {
            return Err(damaged("its file name is that of another segment"));
        }
        let is_folded_after = |before: u64| header.resumes.is_some_and(|resumes| resumes.segment == before);
        if found.is_empty() && header.resumes.is_some_and(|it| it.segment >= first && it.segment > 0) {
            return Err(damaged("the segment that it continues is missing"));
        }
        if let Some(before) = found.last() {
            if before.header.segment + 1 != number && !is_folded_after(before.header.segment) {
                return Err(damaged("the segment before it is missing"));
            }
            if before.header.lsn > header.lsn || before.header.epoch > header.epoch {
                return Err(damaged("it is older than the segment before it"));
            }
        }
        let bytes = file.len()?;
        found.push(SegmentFile {
            header,
            extent: Extent::new(Arc::clone(&file))?,
            file,
            bytes,
            cleared: bytes,
        });
    }
    Ok(found)
}

/// Reads all segments and passes each entry from `from` on to `visit`, until it returns false. If `last` is given,
/// every entry up to it must be present, and later bytes are not read.
pub(super) fn replay(
    dir: &Path,
    segments: Vec<SegmentFile>,
    from: Lsn,
    last: Option<Lsn>,
    visit: &mut dyn FnMut(Lsn, &[u8], EntryPosition<'_>) -> bool,
) -> Result<RecoveredLog, OpenError> {
    let mut replayed = ReplayResult::default();
    let mut ends = Vec::with_capacity(segments.len());
    let (first, crc_before) = segments
        .first()
        .map_or((from, 0), |segment| segment.header.continues(None));
    if first > from {
        return Err(OpenError::Damaged {
            path: segment::path_of(dir, segments[0].header.segment),
            position: 0,
            lost: from,
            detail: "the segments before it are missing",
        });
    }
    let mut next = first;
    let mut continues = true;
    // One buffer serves all segments, because touching fresh memory takes longer than reading the file.
    let mut content = Vec::new();
    let mut last_crc = crc_before;
    for (index, current) in segments.iter().enumerate() {
        let path = || segment::path_of(dir, current.header.segment);
        let following = segments.get(index + 1);
        let following = following.map(|following| following.header.continues(Some(&current.header)).0);
        let until = following.or(last.map(Lsn::next));
        let before = index.checked_sub(1).map(|before| &segments[before].header);
        if current.header.continues(before) != (next, last_crc) {
            return Err(OpenError::Damaged {
                path: path(),
                position: 0,
                lost: next,
                detail: "it does not continue the segment before it",
            });
        }
        // Entries that were folded into this segment no longer have separate numbers.
        (next, last_crc) = (current.header.lsn, current.header.crc_before);
        current.read_content(&mut content)?;
        let mut position = 0;
        while continues && until.is_none_or(|until| next < until) {
            let at = HEADER_BYTES as u64 + position as u64;
            let rest = &content[position..];
            let damaged = |detail| OpenError::Damaged {
                path: path(),
                position: at,
                lost: next,
                detail,
            };
            match frame::parse(rest, current.header.salt) {
                ParsedFrame::Frame(header, payload) if header.first == next && header.crc_before == last_crc => {
                    let entries = frame::entries(payload, header.entries).expect("parsed before");
                    for entry in entries {
                        let at = EntryPosition {
                            extent: &current.extent,
                            epoch: current.header.epoch,
                            position: HEADER_BYTES as u64 + (entry.as_ptr().addr() - content.as_ptr().addr()) as u64,
                        };
                        continues = continues && (next < from || visit(next, entry, at));
                        next = next.next();
                    }
                    last_crc = header.crc;
                    let bytes = FRAME_HEADER_BYTES + payload.len();
                    position += bytes;
                    // An entry that a snapshot covers is checked but not replayed.
                    if next > from {
                        replayed.frames += 1;
                        replayed.entries += u64::from(header.entries);
                        replayed.bytes += bytes as u64;
                    }
                }
                _ if until.is_some() => return Err(damaged("an entry is missing in a finished segment")),
                found => {
                    let Some(torn) = torn_bytes(rest, &current.header, next, last_crc) else {
                        return Err(damaged("a synced entry is damaged"));
                    };
                    if torn > 0 || (found != ParsedFrame::Empty && !current.header.recycled) {
                        replayed.torn_bytes = torn as u64;
                    }
                    break;
                }
            }
        }
        ends.push(HEADER_BYTES as u64 + position as u64);
        if !continues {
            break;
        }
        if following.is_some_and(|following| next > following) {
            return Err(OpenError::Damaged {
                path: path(),
                position: HEADER_BYTES as u64 + position as u64,
                lost: next,
                detail: "it and the next segment hold the same entries",
            });
        }
    }
    Ok(RecoveredLog {
        segments,
        next,
        last_crc,
        ends,
        replayed,
    })
}

/// The number of bytes of an unfinished write at the end of a log. `None` if later frames prove that the entry `next`
/// was synced.
fn torn_bytes(rest: &[u8], header: &FileHeader, next: Lsn, last_crc: u32) -> Option<usize> {
    let used = used_bytes(rest);
    let after = frames_after_gap(rest, used, header.salt, next);
    if after.proves_loss {
        return None;
    }
    Some(if header.recycled {
        frame::unfinished_bytes(rest, next, last_crc).max(after.end)
    } else {
        used
    })
}

/// The number of bytes up to the last one that is not zero.
fn used_bytes(bytes: &[u8]) -> usize {
    const STEP: usize = 4096;
    let mut end = bytes.len();
    // Most of a segment may be zeros, so many bytes are compared at once.
    while end >= STEP && bytes[end - STEP..end] == [0; STEP] {
        end -= STEP;
    }
    bytes[..end]
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1)
}

/// The valid frames after a gap, which count as never written.
#[derive(Default)]
struct FramesAfterGap {
    /// The end of the last such frame.
    end: usize,
    /// True if one of the frames proves that the entry `next` was synced.
    proves_loss: bool,
}

/// Searches the first `used` bytes of `rest`, which begins with an invalid frame, for frames from the entry `next` on.
/// The last bytes of a frame may be zeros.
fn frames_after_gap(rest: &[u8], used: usize, salt: u32, next: Lsn) -> FramesAfterGap {
    let mut found = FramesAfterGap::default();
    let mut position = 8;
    while position < used {
        let here = &rest[position..];
        position += 8;
        // Most positions hold zeros. A header without a payload is not a frame.
        if here.first_chunk::<4>() == Some(&[0; 4]) {
            continue;
        }
        if let ParsedFrame::Frame(header, payload) = frame::parse_if(here, salt, |header| header.first >= next) {
            position += FRAME_HEADER_BYTES + payload.len() - 8;
            found.end = position;
            found.proves_loss |= header.synced >= next && header.first > next;
        }
    }
    found
}
