// SPDX-License-Identifier: Apache-2.0
//! The first page of a file: its kind, its shard and its position in the log.
//!
//! ```text
//!  0  8 bytes magic          8  u16 version    10  u16 shard      12  u32 salt
//! 16 16 bytes store id      32  u64 epoch      40  u64 number of the segment, or 0 for a snapshot
//! 48  u64 first entry of the segment, or the last entry that the snapshot covers
//! 56  u32 CRC of the last frame before the segment               60  u32 CRC of bytes 0 … 60
//! 64  u8 1 in a segment in a recycled file                       65  u8 1 in a segment that only drains
//! 66  u8 1 in a folded segment                                   67  zeros up to 72
//! 72  u64 last segment before the folded ones, 0 for none; in a snapshot, bytes of records before its parts
//! 80  u64 last entry of that segment
//! 88  u32 last CRC of that segment; in a snapshot with records, a random number of its owner
//! 92  u32 CRC of bytes 65 … 92, 0 while these are zeros          96  zeros up to 4096
//! ```

use crate::shard_log::Lsn;

/// Bytes of the page.
pub(super) const HEADER_BYTES: usize = 4096;
/// The format version of all files but snapshots with records before their parts.
pub(super) const VERSION: u16 = 2;
/// The format version of a snapshot with records before its parts.
pub(super) const VERSION_WITH_RECORDS: u16 = 3;

/// No log reaches this number. A larger number means damage, and counting up from a smaller one never overflows.
pub(super) const NUMBER_MAX: u64 = 1 << 60;

const SEGMENT_MAGIC: [u8; 8] = *b"oxbusjnl";
const SNAPSHOT_MAGIC: [u8; 8] = *b"oxbussnp";
const USED_BYTES: usize = 64;
const CRC_AT: usize = 60;
const RECYCLED_AT: usize = 64;
const DRAINS_AT: usize = 65;
const RESUMES_AT: usize = 66;
const RECORDS_AT: usize = 72;
const MARK_AT: usize = 88;
const DRAIN_CRC_AT: usize = 92;
const DRAIN_END: usize = 96;

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    Segment,
    Snapshot,
}

impl FileKind {
    /// The newest format version that this build reads.
    fn newest(self) -> u16 {
        match self {
            Self::Segment => VERSION,
            Self::Snapshot => VERSION_WITH_RECORDS,
        }
    }
}

/// Identifies one shard of one store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardId {
    /// A random id that all shards of a namespace share.
    pub store: [u8; 16],
    /// The number of the shard.
    pub shard: u16,
}

/// The decoded first page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileHeader {
    pub(super) kind: FileKind,
    pub(super) id: ShardId,
    pub(super) salt: u32,
    pub(super) epoch: u64,
    pub(super) segment: u64,
    pub(super) lsn: Lsn,
    pub(super) crc_before: u32,
    /// True if bytes of an earlier segment may follow the last frame. The CRC does not cover this field, because it
    /// only marks bytes that are not damage.
    pub(super) recycled: bool,
    /// True if no entry of the segment adds a message.
    pub(super) drains: bool,
    /// The segment replaces the segments between this position and itself, which may be gone.
    pub(super) resumes: Option<FoldContinuation>,
    /// Bytes of records between this page and the first part of a snapshot.
    pub(super) record_bytes: u64,
    /// In a snapshot with records, a random number of its owner: two copies of a namespace may have the same parts, and
    /// other records.
    pub(super) mark: u32,
}

/// The end of the entries that a folded segment continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FoldContinuation {
    /// The segment that ends there, or 0 if none is left.
    pub(super) segment: u64,
    /// Its last entry.
    pub(super) lsn: Lsn,
    /// The CRC of its last frame.
    pub(super) crc: u32,
}

/// Why a page is not a valid header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderError {
    /// It does not begin with the magic bytes of oxbus.
    Foreign,
    /// A newer version wrote it.
    Newer {
        /// The format version in the file.
        version: u16,
    },
    /// Its bytes fail their checksum.
    Damaged,
    /// It belongs to another store or another shard.
    Misplaced,
}

impl FileHeader {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut page = vec![0; HEADER_BYTES];
        page[0..8].copy_from_slice(match self.kind {
            FileKind::Segment => &SEGMENT_MAGIC,
            FileKind::Snapshot => &SNAPSHOT_MAGIC,
        });
        let version = if self.record_bytes > 0 {
            VERSION_WITH_RECORDS
        } else {
            VERSION
        };
        page[8..10].copy_from_slice(&version.to_le_bytes());
        page[10..12].copy_from_slice(&self.id.shard.to_le_bytes());
        page[12..16].copy_from_slice(&self.salt.to_le_bytes());
        page[16..32].copy_from_slice(&self.id.store);
        page[32..40].copy_from_slice(&self.epoch.to_le_bytes());
        page[40..48].copy_from_slice(&self.segment.to_le_bytes());
        page[48..56].copy_from_slice(&self.lsn.0.to_le_bytes());
        page[56..60].copy_from_slice(&self.crc_before.to_le_bytes());
        let crc = crc32c::crc32c(&page[..CRC_AT]);
        page[CRC_AT..USED_BYTES].copy_from_slice(&crc.to_le_bytes());
        page[RECYCLED_AT] = self.recycled.into();
        if self.drains || self.resumes.is_some() || self.record_bytes > 0 {
            page[RECORDS_AT..RECORDS_AT + 8].copy_from_slice(&self.record_bytes.to_le_bytes());
            page[MARK_AT..DRAIN_CRC_AT].copy_from_slice(&self.mark.to_le_bytes());
            page[DRAINS_AT] = self.drains.into();
            if let Some(FoldContinuation { segment, lsn, crc }) = self.resumes {
                page[RESUMES_AT] = 1;
                page[72..80].copy_from_slice(&segment.to_le_bytes());
                page[80..88].copy_from_slice(&lsn.0.to_le_bytes());
                page[88..DRAIN_CRC_AT].copy_from_slice(&crc.to_le_bytes());
            }
            let crc = crc32c::crc32c(&page[DRAINS_AT..DRAIN_CRC_AT]);
            page[DRAIN_CRC_AT..DRAIN_END].copy_from_slice(&crc.to_le_bytes());
        }
        page
    }

    /// The first entry of the segment and the CRC of the frame before it, given the segment that was found before it.
    /// If the segments that a folded segment replaces are gone, it begins where they began.
    pub(super) fn continues(&self, before: Option<&Self>) -> (Lsn, u32) {
        match self.resumes {
            Some(resumes) if before.is_none_or(|before| before.segment + 1 != self.segment) => {
                (resumes.lsn.next(), resumes.crc)
            }
            _ => (self.lsn, self.crc_before),
        }
    }

    /// Decodes the header of a file that must belong to `id`.
    pub(super) fn decode(page: &[u8], kind: FileKind, id: ShardId) -> Result<Self, HeaderError> {
        let found = Self::read(page, kind)?;
        if found.id == id {
            Ok(found)
        } else {
            Err(HeaderError::Misplaced)
        }
    }

    /// Decodes a header of any shard.
    pub(super) fn read(page: &[u8], kind: FileKind) -> Result<Self, HeaderError> {
        let magic = match kind {
            FileKind::Segment => SEGMENT_MAGIC,
            FileKind::Snapshot => SNAPSHOT_MAGIC,
        };
        let Some(used) = page.get(..USED_BYTES) else {
            return Err(HeaderError::Damaged);
        };
        if used[0..8] != magic {
            return Err(HeaderError::Foreign);
        }
        let u16_at = |at: usize| u16::from_le_bytes(used[at..at + 2].try_into().expect("two bytes"));
        let u32_at = |at: usize| u32::from_le_bytes(used[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(used[at..at + 8].try_into().expect("eight bytes"));
        // Checked before the checksum, because a newer version may use another one.
        let version = u16_at(8);
        if version > kind.newest() {
            return Err(HeaderError::Newer { version });
        }
        if version == 0 || crc32c::crc32c(&used[..CRC_AT]) != u32_at(CRC_AT) {
            return Err(HeaderError::Damaged);
        }
        let more = MoreFields::read(page)?;
        let found = Self {
            kind,
            id: ShardId {
                store: used[16..32].try_into().expect("sixteen bytes"),
                shard: u16_at(10),
            },
            salt: u32_at(12),
            epoch: u64_at(32),
            segment: u64_at(40),
            lsn: Lsn(u64_at(48)),
            crc_before: u32_at(56),
            recycled: page.get(RECYCLED_AT) == Some(&1),
            drains: more.drains,
            resumes: more.resumes,
            record_bytes: more.record_bytes,
            mark: more.mark,
        };
        let greatest = found.lsn.0.max(found.epoch).max(found.segment).max(found.record_bytes);
        if greatest > NUMBER_MAX {
            return Err(HeaderError::Damaged);
        }
        Ok(found)
    }

    /// Decodes a header with one wrong bit, which the checksum identifies.
    pub(super) fn repair_one_bit(page: &[u8], kind: FileKind) -> Option<Self> {
        let mut used: [u8; USED_BYTES] = *page.first_chunk()?;
        (0..USED_BYTES * 8).find_map(|bit| {
            used[bit / 8] ^= 1 << (bit % 8);
            let repaired = Self::read(&used, kind).ok();
            used[bit / 8] ^= 1 << (bit % 8);
            let more = MoreFields::read(page).unwrap_or_default();
            repaired.map(|repaired| Self {
                recycled: page.get(RECYCLED_AT) == Some(&1),
                drains: more.drains,
                resumes: more.resumes,
                record_bytes: more.record_bytes,
                mark: more.mark,
                ..repaired
            })
        })
    }
}

/// The fields after the first 64 bytes. Headers without them have zeros there.
#[derive(Default)]
struct MoreFields {
    drains: bool,
    resumes: Option<FoldContinuation>,
    record_bytes: u64,
    mark: u32,
}

impl MoreFields {
    fn read(page: &[u8]) -> Result<Self, HeaderError> {
        let Some(part) = page
            .get(DRAINS_AT..DRAIN_END)
            .filter(|part| part.iter().any(|byte| *byte != 0))
        else {
            return Ok(Self::default());
        };
        let (fields, check) = part.split_at(DRAIN_CRC_AT - DRAINS_AT);
        if crc32c::crc32c(fields).to_le_bytes() != check {
            return Err(HeaderError::Damaged);
        }
        let u64_at = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"));
        let last = u32::from_le_bytes(page[MARK_AT..DRAIN_CRC_AT].try_into().expect("four bytes"));
        let found = Self {
            drains: page[DRAINS_AT] == 1,
            ..Self::default()
        };
        if page[RESUMES_AT] != 1 {
            return Ok(Self {
                record_bytes: u64_at(RECORDS_AT),
                mark: last,
                ..found
            });
        }
        let resumes = FoldContinuation {
            segment: u64_at(72),
            lsn: Lsn(u64_at(80)),
            crc: last,
        };
        if resumes.segment.max(resumes.lsn.0) > NUMBER_MAX {
            return Err(HeaderError::Damaged);
        }
        Ok(Self {
            resumes: Some(resumes),
            ..found
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ShardId = ShardId {
        store: *b"0123456789abcdef",
        shard: 7,
    };
    const HEADER: FileHeader = FileHeader {
        kind: FileKind::Segment,
        id: ID,
        salt: 0xDEAD_BEEF,
        epoch: 3,
        segment: 12,
        lsn: Lsn(1_000),
        crc_before: 42,
        recycled: true,
        drains: true,
        resumes: Some(FoldContinuation {
            segment: 3,
            lsn: Lsn(8),
            crc: 0x1234_5678,
        }),
        record_bytes: 0,
        mark: 0,
    };
    const SNAPSHOT: FileHeader = FileHeader {
        kind: FileKind::Snapshot,
        resumes: None,
        recycled: false,
        drains: false,
        record_bytes: 0x0123_4567_89AB,
        mark: 0x5EED_BEEF,
        ..HEADER
    };

    #[test]
    fn a_header_round_trips() {
        for header in [HEADER, SNAPSHOT] {
            assert_eq!(FileHeader::decode(&header.encode(), header.kind, ID), Ok(header));
        }
    }

    #[test]
    fn only_a_snapshot_with_records_has_the_newer_version() {
        let version = |header: FileHeader| u16::from_le_bytes(header.encode()[8..10].try_into().expect("two bytes"));
        let without = FileHeader {
            record_bytes: 0,
            mark: 0,
            ..SNAPSHOT
        };
        assert_eq!([HEADER, without, SNAPSHOT].map(version), [2, 2, 3]);
    }

    #[test]
    fn every_flipped_bit_is_found() {
        for header in [HEADER, SNAPSHOT] {
            let page = header.encode();
            for at in (0..USED_BYTES * 8).chain(DRAINS_AT * 8..DRAIN_END * 8) {
                let mut damaged = page.clone();
                damaged[at / 8] ^= 1 << (at % 8);
                assert!(FileHeader::decode(&damaged, header.kind, ID).is_err(), "bit {at}");
            }
        }
    }

    #[test]
    fn one_wrong_bit_is_repaired() {
        let page = HEADER.encode();
        for at in 0..USED_BYTES * 8 {
            let mut damaged = page.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            assert_eq!(
                FileHeader::repair_one_bit(&damaged, FileKind::Segment),
                Some(HEADER),
                "bit {at}"
            );
            damaged[(at / 8 + 1) % USED_BYTES] ^= 0b101;
            assert_eq!(
                FileHeader::repair_one_bit(&damaged, FileKind::Segment),
                None,
                "bit {at} and two more"
            );
        }
    }

    #[test]
    fn numbers_that_no_log_reaches_are_damage() {
        for header in [
            FileHeader {
                lsn: Lsn(u64::MAX),
                ..HEADER
            },
            FileHeader {
                epoch: u64::MAX,
                ..HEADER
            },
            FileHeader {
                segment: NUMBER_MAX + 1,
                ..HEADER
            },
        ] {
            assert_eq!(
                FileHeader::decode(&header.encode(), FileKind::Segment, ID),
                Err(HeaderError::Damaged)
            );
        }
    }

    #[test]
    fn foreign_and_newer_headers_are_rejected() {
        let page = HEADER.encode();
        let other = ShardId { shard: 8, ..ID };
        assert_eq!(
            FileHeader::decode(&page, FileKind::Segment, other),
            Err(HeaderError::Misplaced)
        );
        assert_eq!(
            FileHeader::decode(&page, FileKind::Snapshot, ID),
            Err(HeaderError::Foreign)
        );
        assert_eq!(
            FileHeader::decode(&page[..10], FileKind::Segment, ID),
            Err(HeaderError::Damaged)
        );
        let mut newer = page;
        newer[8] = VERSION as u8 + 1;
        assert_eq!(
            FileHeader::decode(&newer, FileKind::Segment, ID),
            Err(HeaderError::Newer { version: VERSION + 1 })
        );
    }
}
