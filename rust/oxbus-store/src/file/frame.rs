// SPDX-License-Identifier: Apache-2.0
//! A frame: the entries of one group commit, written together.
//!
//! ```text
//!  0  u32 payload bytes, padding included    4  u32 entries
//!  8  u64 number of the first entry         16  u64 last entry known to be synced when this was written
//! 24  u32 CRC of the frame before           28  u32 CRC of this frame: bytes 0 … 28 and the payload, from the salt
//! 32  entries, each: u32 length, bytes, zeros up to a multiple of 8
//! ```
//!
//! All numbers are little-endian. A frame begins at a multiple of 8. The CRC is CRC-32C begun at the salt of the
//! segment, so that a frame from an earlier use of a recycled file, or one inside a message, is not taken for a frame
//! of this segment.

use super::header::NUMBER_MAX;
use crate::shard_log::Lsn;

pub(super) const FRAME_HEADER_BYTES: usize = 32;
/// Bytes of an entry besides its content, without padding.
pub(super) const ENTRY_HEADER_BYTES: usize = 4;
const ALIGNMENT: usize = 8;
const CRC_AT: usize = 28;

/// The fixed part of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) payload_bytes: u32,
    pub(super) entries: u32,
    pub(super) first: Lsn,
    pub(super) synced: Lsn,
    pub(super) crc_before: u32,
    pub(super) crc: u32,
}

/// The result of parsing a position where a frame may begin.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ParsedFrame<'a> {
    Frame(FrameHeader, &'a [u8]),
    /// Zeros: nothing was written here.
    Empty,
    /// Bytes that are not a valid frame.
    Invalid,
}

/// The bytes that an entry of `len` bytes takes in a frame.
pub(super) fn entry_bytes(len: usize) -> usize {
    (ENTRY_HEADER_BYTES + len).next_multiple_of(ALIGNMENT)
}

/// Appends an entry to the payload of a frame.
pub(super) fn push_entry(payload: &mut Vec<u8>, entry: &[u8]) {
    let len = u32::try_from(entry.len()).expect("an entry has at most 4 GiB");
    payload.reserve(entry_bytes(entry.len()));
    payload.extend_from_slice(&len.to_le_bytes());
    payload.extend_from_slice(entry);
    payload.resize(payload.len().next_multiple_of(ALIGNMENT), 0);
}

/// Fills in the header of `frame`, whose payload begins after [`FRAME_HEADER_BYTES`]. Returns its CRC.
pub(super) fn seal(frame: &mut [u8], entries: u32, first: Lsn, synced: Lsn, crc_before: u32, salt: u32) -> u32 {
    let payload_bytes = u32::try_from(frame.len() - FRAME_HEADER_BYTES).expect("a frame has at most 4 GiB");
    frame[0..4].copy_from_slice(&payload_bytes.to_le_bytes());
    frame[4..8].copy_from_slice(&entries.to_le_bytes());
    frame[8..16].copy_from_slice(&first.0.to_le_bytes());
    frame[16..24].copy_from_slice(&synced.0.to_le_bytes());
    frame[24..28].copy_from_slice(&crc_before.to_le_bytes());
    let crc = crc_of(frame, salt);
    frame[CRC_AT..FRAME_HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    crc
}

fn crc_of(frame: &[u8], salt: u32) -> u32 {
    crc32c::crc32c_append(
        crc32c::crc32c_append(salt, &frame[..CRC_AT]),
        &frame[FRAME_HEADER_BYTES..],
    )
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl FrameHeader {
    /// Decodes the fields of a header without checking them.
    fn read(header: &[u8]) -> Self {
        Self {
            payload_bytes: u32_at(header, 0),
            entries: u32_at(header, 4),
            first: Lsn(u64_at(header, 8)),
            synced: Lsn(u64_at(header, 16)),
            crc_before: u32_at(header, 24),
            crc: u32_at(header, CRC_AT),
        }
    }

    /// True if no field has an impossible value.
    fn is_plausible(&self) -> bool {
        self.payload_bytes > 0
            && (self.payload_bytes as usize).is_multiple_of(ALIGNMENT)
            && self.entries > 0
            && self.first > Lsn::NONE
            && self.first.0 <= NUMBER_MAX
            && self.synced < self.first
    }
}

/// Bytes of a frame whose write may not have finished: its header continues the log, but the rest may be missing.
/// Returns 0 if there is no valid header.
pub(super) fn unfinished_bytes(bytes: &[u8], next: Lsn, last_crc: u32) -> usize {
    let Some(header) = bytes.get(..FRAME_HEADER_BYTES) else {
        return 0;
    };
    let header = FrameHeader::read(header);
    if header.is_plausible() && header.first == next && header.crc_before == last_crc {
        bytes.len().min(FRAME_HEADER_BYTES + header.payload_bytes as usize)
    } else {
        0
    }
}

/// Parses a frame at the start of `bytes`, which reach to the end of the segment.
pub(super) fn parse(bytes: &[u8], salt: u32) -> ParsedFrame<'_> {
    parse_if(bytes, salt, |_| true)
}

/// Parses a frame like [`parse`] if `is_wanted` accepts its header. Other frames count as invalid, and only their
/// header is read.
pub(super) fn parse_if(bytes: &[u8], salt: u32, is_wanted: impl FnOnce(&FrameHeader) -> bool) -> ParsedFrame<'_> {
    let Some(header) = bytes.get(..FRAME_HEADER_BYTES) else {
        return if bytes.iter().all(|byte| *byte == 0) {
            ParsedFrame::Empty
        } else {
            ParsedFrame::Invalid
        };
    };
    let found = FrameHeader::read(header);
    if found.payload_bytes == 0 {
        return if header.iter().all(|byte| *byte == 0) {
            ParsedFrame::Empty
        } else {
            ParsedFrame::Invalid
        };
    }
    let end = FRAME_HEADER_BYTES + found.payload_bytes as usize;
    let Some(frame) = bytes.get(..end) else {
        return ParsedFrame::Invalid;
    };
    if !found.is_plausible() || !is_wanted(&found) || crc_of(frame, salt) != found.crc {
        return ParsedFrame::Invalid;
    }
    let payload = &frame[FRAME_HEADER_BYTES..];
    if entries(payload, found.entries).is_some() {
        ParsedFrame::Frame(found, payload)
    } else {
        ParsedFrame::Invalid
    }
}

/// The entries of a payload, if they fill it exactly.
pub(super) fn entries(payload: &[u8], count: u32) -> Option<Vec<&[u8]>> {
    // The count is not trusted, so no memory is reserved for it.
    let mut found = Vec::new();
    let mut rest = payload;
    for _ in 0..count {
        let len = u32_at(rest.get(..ENTRY_HEADER_BYTES)?, 0) as usize;
        let taken = entry_bytes(len);
        let entry = rest.get(..taken)?;
        found.push(&entry[ENTRY_HEADER_BYTES..ENTRY_HEADER_BYTES + len]);
        rest = &rest[taken..];
    }
    rest.is_empty().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(entries: &[&[u8]], first: u64, salt: u32) -> Vec<u8> {
        let mut bytes = vec![0; FRAME_HEADER_BYTES];
        for entry in entries {
            push_entry(&mut bytes, entry);
        }
        seal(&mut bytes, entries.len() as u32, Lsn(first), Lsn(first - 1), 7, salt);
        bytes
    }

    #[test]
    fn entries_round_trip() {
        let written: [&[u8]; 4] = [b"", b"a", b"exactly twelve bytes and more", &[0xFF; 100]];
        let bytes = frame(&written, 5, 99);
        let ParsedFrame::Frame(header, payload) = parse(&bytes, 99) else {
            panic!("a frame");
        };
        assert_eq!((header.first, header.synced, header.crc_before), (Lsn(5), Lsn(4), 7));
        assert_eq!(entries(payload, header.entries).as_deref(), Some(&written[..]));
        assert_eq!(bytes.len() % ALIGNMENT, 0);
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let bytes = frame(&[b"one", b"two"], 1, 3);
        for at in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            assert_eq!(parse(&damaged, 3), ParsedFrame::Invalid, "bit {at}");
        }
        assert_eq!(parse(&bytes, 4), ParsedFrame::Invalid, "another salt");
    }

    #[test]
    fn a_truncated_frame_is_invalid() {
        let bytes = frame(&[b"one", b"two"], 1, 3);
        for len in 1..bytes.len() {
            assert_eq!(parse(&bytes[..len], 3), ParsedFrame::Invalid, "{len} bytes");
        }
        assert_eq!(parse(&[0; 100], 3), ParsedFrame::Empty);
        assert_eq!(parse(&[0; 3], 3), ParsedFrame::Empty);
    }
}
