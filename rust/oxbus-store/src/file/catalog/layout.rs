// SPDX-License-Identifier: Apache-2.0
//! The bytes of a catalog file.
//!
//! ```text
//!  0  `oxbuscat`        8  u16 format version    10  zeros     16  16 bytes store id
//! 32  u64 change: number of the change that wrote the content   40  u32 bytes of the content
//! 44  u32 CRC-32C of bytes 0 … 44 and the content               48  the content, then the records
//!
//! a record: 0  u32 bytes of the payload          4  u64 number of the change, one more than of the record before
//!          12  u32 CRC-32C of bytes 0 … 12 and the payload; its initial value is the CRC of the content
//!          16  the payload
//! ```
//!
//! A record is synced before the next one is written. So only the last record can be incomplete, and an invalid record
//! before a valid one is damage. Version 1 has no records.

use std::io;

use crate::file::header::{HeaderError, NUMBER_MAX, VERSION};

pub(super) const MAGIC: [u8; 8] = *b"oxbuscat";
pub(super) const HEADER_BYTES: usize = 48;
const CRC_AT: usize = 44;
const RECORD_HEADER_BYTES: usize = 16;
const RECORD_CRC_AT: usize = 12;
/// The first version whose files have records.
const RECORDS_SINCE: u16 = 2;

/// The content of a catalog and the changes recorded after it. The caller defines their meaning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CatalogBytes {
    /// The content.
    pub content: Vec<u8>,
    /// The changes since, in order.
    pub changes: Vec<Vec<u8>>,
    /// Bytes of an incomplete last record, which was never acknowledged.
    pub torn_bytes: u64,
}

/// The head of a catalog file, with the position of its last record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CatalogHead {
    pub(super) store: [u8; 16],
    /// Number of the last change.
    pub(super) change: u64,
    /// CRC of the content.
    pub(super) crc: u32,
    /// Bytes of the head and the content.
    pub(super) content_end: u64,
    /// End of the last valid record.
    pub(super) end: u64,
    /// True if the file may have records.
    pub(super) has_records: bool,
}

/// Encodes a file without records.
pub(super) fn encode(store: [u8; 16], change: u64, content: &[u8]) -> io::Result<(Vec<u8>, CatalogHead)> {
    let len = u32::try_from(content.len()).map_err(io::Error::other)?;
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[0..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..32].copy_from_slice(&store);
    bytes[32..40].copy_from_slice(&change.to_le_bytes());
    bytes[40..CRC_AT].copy_from_slice(&len.to_le_bytes());
    let crc = crc_of(&bytes, content);
    bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(content);
    let end = bytes.len() as u64;
    let head = CatalogHead {
        store,
        change,
        crc,
        content_end: end,
        end,
        has_records: true,
    };
    Ok((bytes, head))
}

/// Encodes the record of a change.
pub(super) fn encode_record(seed: u32, change: u64, payload: &[u8]) -> io::Result<Vec<u8>> {
    let len = u32::try_from(payload.len()).map_err(io::Error::other)?;
    let mut bytes = Vec::with_capacity(RECORD_HEADER_BYTES + payload.len());
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(&change.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c_append(seed, &bytes), payload);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(payload);
    Ok(bytes)
}

/// Decodes a file.
pub(super) fn decode(bytes: &[u8]) -> Result<(CatalogHead, CatalogBytes), HeaderError> {
    if bytes.len() >= MAGIC.len() && bytes[..MAGIC.len()] != MAGIC {
        return Err(HeaderError::Foreign);
    }
    let Some((header, after)) = bytes.split_at_checked(HEADER_BYTES) else {
        return Err(HeaderError::Damaged);
    };
    let len = u32_at(header, 40) as usize;
    let version = u16::from_le_bytes([header[8], header[9]]);
    if version > VERSION {
        return Err(if is_one_version_bit_wrong(header, after, version) {
            HeaderError::Damaged
        } else {
            HeaderError::Newer { version }
        });
    }
    let has_records = version >= RECORDS_SINCE;
    let Some((content, records)) = after
        .split_at_checked(len)
        .filter(|(_, records)| has_records || records.is_empty())
    else {
        return Err(HeaderError::Damaged);
    };
    let (crc, change) = (u32_at(header, CRC_AT), u64_at(header, 32));
    if version == 0 || crc_of(header, content) != crc || change > NUMBER_MAX {
        return Err(HeaderError::Damaged);
    }
    let (changes, whole) = decode_records(records, crc, change)?;
    let content_end = (HEADER_BYTES + len) as u64;
    let change = change + changes.len() as u64;
    if change > NUMBER_MAX {
        return Err(HeaderError::Damaged);
    }
    let head = CatalogHead {
        store: header[16..32].try_into().expect("sixteen bytes"),
        change,
        crc,
        content_end,
        end: content_end + whole as u64,
        has_records,
    };
    let found = CatalogBytes {
        content: content.to_vec(),
        changes,
        torn_bytes: (records.len() - whole) as u64,
    };
    Ok((head, found))
}

/// Decodes records that follow change number `change`. Returns their payloads and the bytes of all valid ones. What
/// follows them is an incomplete record, or damage if a later record was written.
fn decode_records(bytes: &[u8], seed: u32, change: u64) -> Result<(Vec<Vec<u8>>, usize), HeaderError> {
    let mut changes = Vec::new();
    let mut rest = bytes;
    loop {
        let expected = change + 1 + changes.len() as u64;
        match decode_record(rest, seed, |number| number == expected) {
            Some(payload) => {
                changes.push(payload.to_vec());
                rest = &rest[RECORD_HEADER_BYTES + payload.len()..];
            }
            // A later record was begun after the missing one was synced.
            None if has_record_after(rest, seed, expected) => return Err(HeaderError::Damaged),
            None => return Ok((changes, bytes.len() - rest.len())),
        }
    }
}

/// True if `bytes` has a record of a change after `change`, wherever it begins.
fn has_record_after(bytes: &[u8], seed: u32, change: u64) -> bool {
    let last = change + (bytes.len() / RECORD_HEADER_BYTES) as u64;
    (1..bytes.len()).any(|at| decode_record(&bytes[at..], seed, |number| number > change && number <= last).is_some())
}

/// The payload of the record at the beginning of `bytes`, if it is valid and has a wanted number.
fn decode_record(bytes: &[u8], seed: u32, is_wanted: impl Fn(u64) -> bool) -> Option<&[u8]> {
    let (header, after) = bytes.split_at_checked(RECORD_HEADER_BYTES)?;
    if !is_wanted(u64_at(header, 4)) {
        return None;
    }
    let payload = after.get(..u32_at(header, 0) as usize)?;
    let crc = crc32c::crc32c_append(crc32c::crc32c_append(seed, &header[..RECORD_CRC_AT]), payload);
    (crc == u32_at(header, RECORD_CRC_AT)).then_some(payload)
}

/// True if a single wrong bit in the version is the only damage: the checksum is right once a version that this build
/// reads is put in. A file of a newer version does not have that checksum.
fn is_one_version_bit_wrong(header: &[u8], after: &[u8], version: u16) -> bool {
    let Some(content) = after.get(..u32_at(header, 40) as usize) else {
        return false;
    };
    let mut expected = header.to_vec();
    (1..=VERSION).any(|known| {
        expected[8..10].copy_from_slice(&known.to_le_bytes());
        (version ^ known).is_power_of_two() && crc_of(&expected, content) == u32_at(header, CRC_AT)
    })
}

fn crc_of(header: &[u8], content: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[..CRC_AT]), content)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
