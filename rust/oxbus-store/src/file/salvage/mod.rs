// SPDX-License-Identifier: Apache-2.0
//! Reading what is left of a damaged log: each whole frame, also those behind damaged places.
//!
//! An open shows everything or nothing, because a log with a hole must not go on. A salvage is for people who want back
//! what there is: it reads what it can, says what is missing, and changes nothing. Its caller sees to it that nobody writes
//! into the directory meanwhile.
//!
//! Holds always
//! - entries are shown in the order of their numbers, each at most once, and none that the snapshot covers;
//! - an entry is shown only from a frame whose CRC, begun at the salt of its segment, is right;
//! - a frame that a later owner replaced is not shown: no entry of a segment reaches the first one of a later segment;
//! - files of another store or shard are not read, only named;
//! - memory is set aside for bytes that are there, never for a length that a file tells.
//!
//! `part` reads the first pages, `walk` the frames behind them.

mod log_file;
mod segment_walk;

use std::io;
use std::ops::{Range, RangeInclusive};
use std::path::Path;

use super::header::{FileHeader, FileKind, NUMBER_MAX, ShardId};
use super::{Replay, snapshot};
use crate::disk::Disk;
use crate::shard_log::Lsn;
use log_file::LogFile;
use segment_walk::SegmentWalk;

/// What a salvage found.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SalvageResult {
    /// Whose log it is, as its files say; `None` when none of them can be read.
    pub id: Option<ShardId>,
    /// The last entry that the snapshot covers which was shown; `None` when there is no whole one.
    pub snapshot: Option<Lsn>,
    /// Each snapshot, the newest first, then each segment in the order of their numbers.
    pub files: Vec<SalvagedFile>,
    /// Entries that existed and were not shown. What stood behind the last one that is known is not in it.
    pub lost: Vec<RangeInclusive<Lsn>>,
    /// Numbers of segments that are missing between others.
    pub missing_segments: Vec<RangeInclusive<u64>>,
}

/// One file of a log as a salvage found it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SalvagedFile {
    /// Its name in the directory.
    pub name: String,
    /// Whole frames.
    pub frames: u64,
    /// Entries of them that were shown.
    pub entries: u64,
    /// Places, in bytes, that hold something else than frames.
    pub bad: Vec<Range<u64>>,
    /// What is wrong with it, for people.
    pub problems: Vec<String>,
}

impl SalvageResult {
    /// True when nothing is missing or damaged, as far as can be known.
    pub fn is_whole(&self) -> bool {
        let sound = |file: &SalvagedFile| file.bad.is_empty() && file.problems.is_empty();
        self.lost.is_empty() && self.missing_segments.is_empty() && self.files.iter().all(sound)
    }
}

/// Shows to `visit` what can be read of the log in `dir`. Without `id` the log is that of most of its files.
///
/// Only a directory that cannot be listed is an error.
pub fn salvage(disk: &dyn Disk, dir: &Path, id: Option<ShardId>, visit: &mut dyn Replay) -> io::Result<SalvageResult> {
    let mut files = log_file::all(disk, dir)?;
    let id = id.or_else(|| log_file::most_common_id(&files));
    for file in &mut files {
        if file.header.is_some_and(|header| Some(header.id) != id) {
            file.exclude("it belongs to another store or partition and was not read");
        }
    }
    let (mut snapshots, mut segments): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|file| file.kind == FileKind::Snapshot);
    snapshots.sort_by_key(|file| std::cmp::Reverse(file.number));
    let mut walk = SegmentWalk::default();
    let snapshot = show_snapshot(&mut snapshots, &mut walk, visit);
    sort_and_exclude(&mut segments);
    let missing_segments = missing(&segments);
    walk.next = snapshot.unwrap_or(Lsn::NONE).next();
    walk.segments(&mut segments, visit);
    let files = snapshots.into_iter().chain(segments).map(|file| file.report).collect();
    Ok(SalvageResult {
        id,
        snapshot,
        files,
        lost: walk.lost,
        missing_segments,
    })
}

/// Shows the newest whole snapshot.
fn show_snapshot(snapshots: &mut [LogFile], walk: &mut SegmentWalk, visit: &mut dyn Replay) -> Option<Lsn> {
    for file in snapshots {
        if file.header.is_some_and(|header| header.lsn.0 != file.number) {
            file.exclude("it has the name of another snapshot");
        }
        if file.number <= NUMBER_MAX {
            // Whole or not: there were entries up to it.
            walk.known = walk.known.max(Lsn(file.number));
        }
        let Some(header) = file.header else { continue };
        let bytes = match file.content(0) {
            Ok(bytes) => bytes,
            Err(error) => {
                file.exclude(&format!("it could not be read: {error}"));
                continue;
            }
        };
        let mut read = |buffer: &mut [u8], position: u64| {
            let rest = bytes.get(position as usize..).unwrap_or_default();
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        };
        // Shown when all of it is known to be whole.
        let mut content = Vec::new();
        let mut keep = |_, part: &[u8]| content.extend_from_slice(part);
        match snapshot::read_chunks(&mut read, bytes.len() as u64, header.salt, &mut keep) {
            Ok(Ok(())) => {
                visit.snapshot(header.lsn, &content, None);
                return Some(header.lsn);
            }
            Ok(Err((position, what))) => {
                file.report.bad.push(position..bytes.len() as u64);
                file.exclude(what);
            }
            Err(error) => file.exclude(&format!("it could not be read: {error}")),
        }
    }
    None
}

/// Puts segments into the order of their numbers, and refuses copies and those of another history.
fn sort_and_exclude(segments: &mut [LogFile]) {
    let number = |file: &LogFile| file.header.map_or(file.number, |header| header.segment);
    segments.sort_by_key(|file| (number(file), file.number != number(file)));
    let mut before: Option<FileHeader> = None;
    for file in segments {
        let Some(header) = file.header else { continue };
        if header.segment != file.number {
            let problem = format!("it has the name of another segment; it is number {}", header.segment);
            file.report.problems.push(problem);
        }
        match before {
            Some(before) if before.segment == header.segment => file.exclude("it is a copy and was not read"),
            Some(before) if before.epoch > header.epoch || before.lsn > header.lsn => {
                file.exclude("it is older than the segment before it and was not read");
            }
            _ => before = Some(header),
        }
    }
}

/// The numbers between those of `segments`, but for those that a folded one stands for.
fn missing(segments: &[LogFile]) -> Vec<RangeInclusive<u64>> {
    let mut numbers: Vec<(u64, Option<u64>)> = segments
        .iter()
        .map(|file| {
            let resumes = file.header.and_then(|header| header.resumes);
            let number = file.header.map_or(file.number, |header| header.segment);
            (number, resumes.map(|resumes| resumes.segment))
        })
        .collect();
    numbers.sort_unstable();
    let between = |pair: &[(u64, Option<u64>)]| {
        let (before, (number, continues)) = (pair[0].0, pair[1]);
        let is_gap = before + 1 < number && continues.is_none_or(|it| it > before);
        is_gap.then(|| before + 1..=number - 1)
    };
    numbers.windows(2).filter_map(between).collect()
}
