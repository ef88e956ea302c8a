// SPDX-License-Identifier: Apache-2.0
//! The walk through all segments. It finds the valid frames, decides which of them count, and reports gaps.

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};

use super::SalvagedFile;
use super::log_file::LogFile;
use crate::file::Replay;
use crate::file::frame::{self, FRAME_HEADER_BYTES, FrameHeader, ParsedFrame};
use crate::file::header::{FileHeader, HEADER_BYTES};
use crate::shard_log::Lsn;

/// A frame begins at a multiple of this.
const STEP: usize = 8;
/// A write that a kill or a power cut interrupts ends where a sector ends.
const SECTOR_BYTES: u64 = 512;

/// The state after the segments read so far.
#[derive(Debug, Default)]
pub(super) struct SegmentWalk {
    /// The next entry to visit.
    pub(super) next: Lsn,
    /// Entries up to this one are known to have existed.
    pub(super) known: Lsn,
    /// The number after the last frame's entries, and its CRC.
    last_frame: Option<(Lsn, u32)>,
    /// Entries that existed but were not visited.
    pub(super) lost: Vec<RangeInclusive<Lsn>>,
}

impl SegmentWalk {
    /// Visits the entries of all segments that are not excluded.
    pub(super) fn segments(&mut self, segments: &mut [LogFile], visit: &mut dyn Replay) {
        let headers: Vec<Option<FileHeader>> = segments.iter().map(|file| file.header).collect();
        for (index, file) in segments.iter_mut().enumerate() {
            let Some(header) = file.header else { continue };
            self.resume(&header);
            self.known = self.known.max(Lsn(header.lsn.0.saturating_sub(1)));
            let following = headers[index + 1..].iter().flatten().next();
            // If the next segment is missing, what it replaced is unknown, unless the same owner wrote the segment
            // after it.
            let is_end_known = match following {
                None => index + 1 == headers.len(),
                Some(following) => following.segment == header.segment + 1 || following.epoch == header.epoch,
            };
            let until = following.map_or(Lsn(u64::MAX), |following| following.lsn);
            match file.content(HEADER_BYTES as u64) {
                Ok(content) => self.segment(&content, header, until, is_end_known, &mut file.report, visit),
                Err(error) => file.exclude(&format!("it could not be read: {error}")),
            }
        }
        self.mark_lost_before(self.known.next());
    }

    /// A folded segment contains the effect of all entries between the segment that it continues and its own first
    /// entry.
    fn resume(&mut self, header: &FileHeader) {
        if let Some(resumes) = header.resumes {
            self.known = self.known.max(resumes.lsn);
            self.mark_lost_before(resumes.lsn.next());
            self.next = self.next.max(header.lsn);
        }
    }

    fn segment(
        &mut self,
        content: &[u8],
        header: FileHeader,
        until: Lsn,
        is_end_known: bool,
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
                problems.insert("the next segment replaced its last entries; they were left out");
                continue;
            }
            if frame.first > expected && !is_end_known && synced.next() < frame.first {
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
            self.mark_lost_before(frame.first);
            report.frames += 1;
            report.entries += self.visit_entries(&frame, payload, visit);
        }
        report.problems.extend(problems.into_iter().map(str::to_owned));
    }

    /// Visits the entries of a frame that were not visited before. Returns their number.
    fn visit_entries(&mut self, frame: &FrameHeader, payload: &[u8], visit: &mut dyn Replay) -> u64 {
        let mut visited = 0;
        let mut lsn = frame.first;
        for entry in frame::entries(payload, frame.entries).expect("parsed before") {
            if lsn >= self.next {
                visit.entry(lsn, entry, None);
                self.next = lsn.next();
                visited += 1;
            }
            lsn = lsn.next();
        }
        visited
    }

    /// Records entries before `first` that were not visited as lost.
    fn mark_lost_before(&mut self, first: Lsn) {
        if self.next < first {
            self.lost.push(self.next..=Lsn(first.0 - 1));
            self.next = first;
        }
    }
}

type Frames<'a> = Vec<(FrameHeader, &'a [u8])>;

/// The valid frames of a segment in ascending order, and the byte ranges without a valid frame. A frame at the end whose
/// write was interrupted is neither: it was never synced.
fn frames<'a>(content: &'a [u8], header: &FileHeader) -> (Frames<'a>, Vec<Range<u64>>) {
    let end = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let (mut frames, mut bad) = (Vec::new(), Vec::<Range<u64>>::new());
    let (mut next, mut last_crc) = (header.lsn, header.crc_before);
    let mut position = 0;
    while position < end {
        let rest = &content[position..];
        // Zeros are skipped without parsing, which is fastest.
        if rest.first_chunk::<4>() != Some(&[0; 4])
            && let ParsedFrame::Frame(frame, payload) = frame::parse_if(rest, header.salt, |frame| frame.first >= next)
        {
            next = Lsn(frame.first.0 + u64::from(frame.entries));
            last_crc = frame.crc;
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
    let end = (HEADER_BYTES + end) as u64;
    if let Some(last) = bad.pop_if(|last| last.end == end) {
        let rest = &content[last.start as usize - HEADER_BYTES..];
        let begun = frame::unfinished_bytes(rest, next, last_crc) as u64;
        let is_interrupted = last.start + begun > end && end.next_multiple_of(SECTOR_BYTES) - end < STEP as u64;
        if header.recycled {
            // Bytes of an earlier segment, unless an unfinished frame begins here.
            bad.extend((begun > 0).then_some(last.start..last.start + begun));
        } else if !is_interrupted {
            bad.push(last);
        }
    }
    (frames, bad)
}
