// SPDX-License-Identifier: Apache-2.0
//! Salvage: reads every valid frame of a damaged log, including frames after damage.
//!
//! An open returns the complete log or fails, because a log with a gap must not be continued. A salvage is for people
//! who need the remaining data: it reads what it can, reports what is missing, and changes nothing. The caller must
//! make sure that no process writes to the directory during the salvage.
//!
//! Invariants
//! - entries are visited in the order of their numbers, each at most once, and none that the snapshot covers;
//! - an entry is visited only from a frame with a valid CRC, which begins at the salt of its segment;
//! - frames that a later owner replaced are not visited: within a segment, only entries before the first entry of a
//!   later segment are visited;
//! - files of another store or shard are reported but not read;
//! - memory is allocated only for existing bytes, never for a length that a file claims.
//!
//! `log_file` reads the headers, `segment_walk` the frames.

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

/// The result of a salvage.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SalvageResult {
    /// The shard that the files name. `None` if no file is readable.
    pub id: Option<ShardId>,
    /// The last entry that the visited snapshot covers. `None` if there is no complete snapshot.
    pub snapshot: Option<Lsn>,
    /// All snapshots, newest first, then all segments in the order of their numbers.
    pub files: Vec<SalvagedFile>,
    /// Entries that existed but were not visited. Entries after the last known one are not included.
    pub lost: Vec<RangeInclusive<Lsn>>,
    /// Numbers of missing segments between existing ones.
    pub missing_segments: Vec<RangeInclusive<u64>>,
}

/// The report on one file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SalvagedFile {
    /// The file name.
    pub name: String,
    /// Valid frames.
    pub frames: u64,
    /// Entries that were visited.
    pub entries: u64,
    /// Byte ranges that do not contain valid frames.
    pub bad: Vec<Range<u64>>,
    /// Readable descriptions of the file's problems.
    pub problems: Vec<String>,
}

impl SalvageResult {
    /// True if no damage and no loss is known.
    pub fn is_whole(&self) -> bool {
        let sound = |file: &SalvagedFile| file.bad.is_empty() && file.problems.is_empty();
        self.lost.is_empty() && self.missing_segments.is_empty() && self.files.iter().all(sound)
    }
}

/// Passes the readable content of the log in `dir` to `visit`. If `id` is `None`, the shard that most files name is
/// used.
///
/// Fails only if the directory cannot be listed.
pub fn salvage(disk: &dyn Disk, dir: &Path, id: Option<ShardId>, visit: &mut dyn Replay) -> io::Result<SalvageResult> {
    let mut files = log_file::list(disk, dir)?;
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
    let snapshot = visit_snapshot(&mut snapshots, &mut walk, visit);
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

/// Visits the newest complete snapshot.
fn visit_snapshot(snapshots: &mut [LogFile], walk: &mut SegmentWalk, visit: &mut dyn Replay) -> Option<Lsn> {
    for file in snapshots {
        if file.header.is_some_and(|header| header.lsn.0 != file.number) {
            file.exclude("its file name is that of another snapshot");
        }
        if file.number <= NUMBER_MAX {
            // Whether or not the snapshot is complete, entries up to its number existed.
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
        let len = bytes.len() as u64;
        let extent = file.extent();
        let mut pass_on = |position, part: &[u8]| {
            let location = extent.as_ref().map(|extent| extent.at(position));
            visit.snapshot(header.lsn, part, location.as_ref());
        };
        // The snapshot is visited only once it is known to be complete.
        let checked = snapshot::read_chunks(&mut read, len, &header, &mut |_, _| {});
        match checked.and_then(|checked| match checked {
            Ok(()) => snapshot::read_chunks(&mut read, len, &header, &mut pass_on),
            damaged => Ok(damaged),
        }) {
            Ok(Ok(())) => return Some(header.lsn),
            Ok(Err((position, what))) => {
                file.report.bad.push(position..len);
                file.exclude(what);
            }
            Err(error) => file.exclude(&format!("it could not be read: {error}")),
        }
    }
    None
}

/// Sorts segments by their numbers, and excludes copies and segments of another history.
fn sort_and_exclude(segments: &mut [LogFile]) {
    let number = |file: &LogFile| file.header.map_or(file.number, |header| header.segment);
    segments.sort_by_key(|file| (number(file), file.number != number(file)));
    let mut before: Option<FileHeader> = None;
    for file in segments {
        let Some(header) = file.header else { continue };
        if header.segment != file.number {
            let problem = format!(
                "its file name is that of another segment; it is number {}",
                header.segment
            );
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

/// The numbers missing between those of `segments`, except numbers that a folded segment replaced.
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
