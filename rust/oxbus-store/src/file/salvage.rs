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

use std::collections::BTreeSet;
use std::io;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::sync::Arc;

use super::Replay;
use super::frame::{self, FRAME_HEADER_BYTES, Found, FrameHeader};
use super::header::{HEADER_BYTES, Header, HeaderError, Kind, NUMBER_MAX, ShardId};
use super::{segment, snapshot};
use crate::disk::{Disk, DiskFile};
use crate::shard_log::Lsn;

/// A frame begins at a multiple of this.
const STEP: usize = 8;

/// What a salvage found.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Salvaged {
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

impl Salvaged {
    /// True when nothing is missing or damaged, as far as can be known.
    pub fn is_whole(&self) -> bool {
        let sound = |file: &SalvagedFile| file.bad.is_empty() && file.problems.is_empty();
        self.lost.is_empty() && self.missing_segments.is_empty() && self.files.iter().all(sound)
    }
}

/// Shows to `visit` what can be read of the log in `dir`. Without `id` the log is that of most of its files.
///
/// Only a directory that cannot be listed is an error.
pub fn salvage(disk: &dyn Disk, dir: &Path, id: Option<ShardId>, visit: &mut dyn Replay) -> io::Result<Salvaged> {
    let mut parts = parts(disk, dir)?;
    let id = id.or_else(|| most_named(&parts));
    for part in &mut parts {
        if part.header.is_some_and(|header| Some(header.id) != id) {
            part.refuse("it belongs to another store or partition and was not read");
        }
    }
    let (mut snapshots, mut segments): (Vec<_>, Vec<_>) =
        parts.into_iter().partition(|part| part.kind == Kind::Snapshot);
    snapshots.sort_by_key(|part| std::cmp::Reverse(part.number));
    let mut walk = Walk::default();
    let snapshot = show_snapshot(&mut snapshots, &mut walk, visit);
    order(&mut segments);
    let missing_segments = missing(&segments);
    walk.next = snapshot.unwrap_or(Lsn::NONE).next();
    walk.segments(&mut segments, visit);
    let files = snapshots.into_iter().chain(segments).map(|part| part.report).collect();
    Ok(Salvaged {
        id,
        snapshot,
        files,
        lost: walk.lost,
        missing_segments,
    })
}

/// A file of the log.
struct Part {
    kind: Kind,
    /// Its number by its name.
    number: u64,
    /// `None` when it cannot be read, or must not.
    header: Option<Header>,
    file: Option<Arc<dyn DiskFile>>,
    report: SalvagedFile,
}

impl Part {
    fn read(disk: &dyn Disk, dir: &Path, name: &str, kind: Kind, number: u64) -> Self {
        let mut part = Self {
            kind,
            number,
            header: None,
            file: None,
            report: SalvagedFile {
                name: name.to_owned(),
                ..SalvagedFile::default()
            },
        };
        if let Err(error) = part.read_header(disk, &dir.join(name)) {
            part.refuse(&format!("it could not be read: {error}"));
        }
        part
    }

    fn read_header(&mut self, disk: &dyn Disk, path: &Path) -> io::Result<()> {
        let file = disk.open(path)?;
        let mut page = vec![0; HEADER_BYTES];
        let read = file.read_full_at(&mut page, 0)?;
        self.file = Some(file);
        self.header = match Header::read(&page[..read], self.kind) {
            Ok(header) => Some(header),
            Err(error) => {
                let mended = Header::mend(&page[..read], self.kind);
                self.report.problems.push(match (mended, error) {
                    (Some(_), _) => "one bit of its first page is wrong".to_owned(),
                    (None, HeaderError::Foreign) => "it does not begin as a file of oxbus".to_owned(),
                    (None, HeaderError::Newer { version }) => {
                        format!("a newer version of oxbus wrote it: format={version}")
                    }
                    (None, _) => "its first page is damaged".to_owned(),
                });
                mended
            }
        };
        Ok(())
    }

    fn refuse(&mut self, why: &str) {
        self.header = None;
        self.report.problems.push(why.to_owned());
    }

    /// Reads all bytes from `position` on.
    fn content(&self, position: u64) -> io::Result<Vec<u8>> {
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let len = usize::try_from(file.len()?.saturating_sub(position)).map_err(io::Error::other)?;
        let mut content = Vec::new();
        // A sparse file may claim more than there is memory.
        content.try_reserve_exact(len).map_err(io::Error::other)?;
        content.resize(len, 0);
        let read = file.read_full_at(&mut content, position)?;
        content.truncate(read);
        Ok(content)
    }
}

/// Reads the first page of each file that has a name of the log's.
fn parts(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<Part>> {
    let mut names = disk.list(dir)?;
    names.sort_unstable();
    let part = |name: &String| {
        if let Some(number) = segment::number_of(name) {
            Some(Part::read(disk, dir, name, Kind::Segment, number))
        } else {
            let lsn = snapshot::lsn_of(name)?;
            Some(Part::read(disk, dir, name, Kind::Snapshot, lsn.0))
        }
    };
    Ok(names.iter().filter_map(part).collect())
}

/// The shard that most headers name; the first of those that are named as often.
fn most_named(parts: &[Part]) -> Option<ShardId> {
    let ids = || parts.iter().filter_map(|part| Some(part.header?.id));
    ids().rev().max_by_key(|id| ids().filter(|other| other == id).count())
}

/// Shows the newest whole snapshot.
fn show_snapshot(snapshots: &mut [Part], walk: &mut Walk, visit: &mut dyn Replay) -> Option<Lsn> {
    for part in snapshots {
        if part.header.is_some_and(|header| header.lsn.0 != part.number) {
            part.refuse("it has the name of another snapshot");
        }
        if part.number <= NUMBER_MAX {
            // Whole or not: there were entries up to it.
            walk.known = walk.known.max(Lsn(part.number));
        }
        let Some(header) = part.header else { continue };
        let bytes = match part.content(0) {
            Ok(bytes) => bytes,
            Err(error) => {
                part.refuse(&format!("it could not be read: {error}"));
                continue;
            }
        };
        match snapshot::content(&bytes, header.salt) {
            Ok(content) => {
                visit.snapshot(header.lsn, &content);
                return Some(header.lsn);
            }
            Err((position, what)) => {
                part.report.bad.push(position as u64..bytes.len() as u64);
                part.refuse(what);
            }
        }
    }
    None
}

/// Puts segments into the order of their numbers, and refuses copies and those of another history.
fn order(segments: &mut [Part]) {
    let place = |part: &Part| part.header.map_or(part.number, |header| header.segment);
    segments.sort_by_key(|part| (place(part), part.number != place(part)));
    let mut before: Option<Header> = None;
    for part in segments {
        let Some(header) = part.header else { continue };
        if header.segment != part.number {
            let problem = format!("it has the name of another segment; it is number {}", header.segment);
            part.report.problems.push(problem);
        }
        match before {
            Some(before) if before.segment == header.segment => part.refuse("it is a copy and was not read"),
            Some(before) if before.epoch > header.epoch || before.lsn > header.lsn => {
                part.refuse("it is older than the segment before it and was not read");
            }
            _ => before = Some(header),
        }
    }
}

/// The numbers between those of `segments`.
fn missing(segments: &[Part]) -> Vec<RangeInclusive<u64>> {
    let mut numbers: Vec<u64> = segments
        .iter()
        .map(|part| part.header.map_or(part.number, |header| header.segment))
        .collect();
    numbers.sort_unstable();
    let between = |pair: &[u64]| (pair[0] + 1 < pair[1]).then(|| pair[0] + 1..=pair[1] - 1);
    numbers.windows(2).filter_map(between).collect()
}

/// What is known after the segments read so far.
#[derive(Debug, Default)]
struct Walk {
    /// The next entry that was not seen yet.
    next: Lsn,
    /// Entries up to here existed.
    known: Lsn,
    /// The last frame: the number after its entries, and its CRC.
    last_frame: Option<(Lsn, u32)>,
    lost: Vec<RangeInclusive<Lsn>>,
}

impl Walk {
    fn segments(&mut self, segments: &mut [Part], visit: &mut dyn Replay) {
        let headers: Vec<Option<Header>> = segments.iter().map(|part| part.header).collect();
        for (index, part) in segments.iter_mut().enumerate() {
            let Some(header) = part.header else { continue };
            self.known = self.known.max(Lsn(header.lsn.0.saturating_sub(1)));
            let following = headers[index + 1..].iter().flatten().next();
            // Where the next segment is missing, nobody knows what it replaced, unless this segment's owner wrote it too.
            let sure = match following {
                None => index + 1 == headers.len(),
                Some(following) => following.segment == header.segment + 1 || following.epoch == header.epoch,
            };
            let until = following.map_or(Lsn(u64::MAX), |following| following.lsn);
            match part.content(HEADER_BYTES as u64) {
                Ok(content) => self.segment(&content, header, until, sure, &mut part.report, visit),
                Err(error) => part.refuse(&format!("it could not be read: {error}")),
            }
        }
        self.lose_before(self.known.next());
    }

    fn segment(
        &mut self,
        content: &[u8],
        header: Header,
        until: Lsn,
        sure: bool,
        report: &mut SalvagedFile,
        visit: &mut dyn Replay,
    ) {
        let mut problems = BTreeSet::new();
        let mut expected = header.lsn;
        let (frames, bad) = frames(content, &header);
        report.bad = bad;
        let synced = frames.iter().map(|(frame, _)| frame.synced).max().unwrap_or_default();
        for (frame, payload) in frames {
            let after = Lsn(frame.first.0 + u64::from(frame.entries));
            if after > until {
                problems.insert("its end was replaced by the next segment and left out");
                continue;
            }
            if frame.first > expected && !sure && synced.next() < frame.first {
                problems.insert("entries behind a gap may have been replaced by a missing segment and were left out");
                continue;
            }
            self.known = self.known.max(frame.synced);
            match self.last_frame {
                Some((next, crc)) if next == frame.first && crc != frame.crc_before => {
                    problems.insert("entries in it do not continue those before them");
                }
                _ => {}
            }
            expected = after;
            self.last_frame = Some((after, frame.crc));
            self.lose_before(frame.first);
            report.frames += 1;
            report.entries += self.show(&frame, payload, visit);
        }
        report.problems.extend(problems.into_iter().map(str::to_owned));
    }

    /// Shows the entries of a frame that were not seen; how many.
    fn show(&mut self, frame: &FrameHeader, payload: &[u8], visit: &mut dyn Replay) -> u64 {
        let mut shown = 0;
        let mut lsn = frame.first;
        for entry in frame::entries(payload, frame.entries).expect("looked at") {
            if lsn >= self.next {
                visit.entry(lsn, entry);
                self.next = lsn.next();
                shown += 1;
            }
            lsn = lsn.next();
        }
        shown
    }

    /// Notes that what was not seen before `first` is lost.
    fn lose_before(&mut self, first: Lsn) {
        if self.next < first {
            self.lost.push(self.next..=Lsn(first.0 - 1));
            self.next = first;
        }
    }
}

/// The whole frames of a segment in rising order, and the places that hold something else.
fn frames<'a>(content: &'a [u8], header: &Header) -> (Vec<(FrameHeader, &'a [u8])>, Vec<Range<u64>>) {
    let end = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let (mut frames, mut bad) = (Vec::new(), Vec::<Range<u64>>::new());
    let mut next = header.lsn;
    let mut position = 0;
    while position < end {
        let rest = &content[position..];
        // Zeros are looked at soonest.
        if rest.first_chunk::<4>() != Some(&[0; 4])
            && let Found::Frame(frame, payload) = frame::look(rest, header.salt)
            && frame.first >= next
        {
            next = Lsn(frame.first.0 + u64::from(frame.entries));
            position += FRAME_HEADER_BYTES + payload.len();
            frames.push((frame, payload));
            continue;
        }
        let at = (HEADER_BYTES + position) as u64;
        let step = STEP.min(end - position) as u64;
        position += STEP;
        match bad.last_mut() {
            Some(last) if last.end == at => last.end += step,
            _ => bad.push(at..at + step),
        }
    }
    (frames, bad)
}
