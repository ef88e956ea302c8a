// SPDX-License-Identifier: Apache-2.0
//! The bytes of an object of a lane.
//!
//! ```text
//! 64 bytes: "OXLANE01", kind (u8: 1 data, 2 fence), 7 zeros, lane (16), number (u64), bytes of the payload (u64),
//!           bytes of the changes (u32), CRC-32C of the changes (u32), zeros (4), CRC-32C of these bytes (u32)
//! payload:  what was written to files
//! changes:  one after another (`change`)
//! ```
//!
//! The payload has no checksum here: what the files hold has its own. Integers are little-endian.

use bytes::Bytes;
use oxbus_model::varint::VarintReader;

use super::change::Change;
use super::place::LaneId;
use crate::lane::{Found, ObjectNumber};

/// Bytes before the payload.
pub(super) const HEADER_BYTES: usize = 64;
const MAGIC: &[u8; 8] = b"OXLANE01";
const CRC_AT: usize = HEADER_BYTES - 4;

/// A data object.
#[derive(Debug, Clone)]
pub(super) struct DataObject {
    /// All bytes.
    pub(super) bytes: Bytes,
    /// Bytes of the payload.
    pub(super) payload: usize,
}

impl DataObject {
    /// The payload.
    pub(super) fn payload(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..HEADER_BYTES + self.payload]
    }

    /// The changes, in order. Fails if they are malformed.
    pub(super) fn changes(&self) -> Result<Vec<Change>, &'static str> {
        let mut reader = VarintReader(&self.bytes[HEADER_BYTES + self.payload..]);
        let mut changes = Vec::new();
        while !reader.0.is_empty() {
            changes.push(Change::decode(&mut reader).ok_or("a change cannot be decoded")?);
        }
        Ok(changes)
    }
}

/// What an object is.
#[derive(Debug, Clone)]
pub(super) enum LaneObject {
    /// Changes of files.
    Data(DataObject),
    /// The end of a lane.
    Fence,
}

fn header(kind: u8, lane: LaneId, number: ObjectNumber, payload: usize, changes: &[u8]) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8] = kind;
    header[16..32].copy_from_slice(&lane.0);
    header[32..40].copy_from_slice(&number.0.to_le_bytes());
    header[40..48].copy_from_slice(&(payload as u64).to_le_bytes());
    header[48..52].copy_from_slice(&(changes.len() as u32).to_le_bytes());
    header[52..56].copy_from_slice(&crc32c::crc32c(changes).to_le_bytes());
    let crc = crc32c::crc32c(&header[..CRC_AT]);
    header[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// The bytes of a fence.
pub(super) fn fence(lane: LaneId, number: ObjectNumber) -> Bytes {
    Bytes::copy_from_slice(&header(2, lane, number, 0, &[]))
}

/// Completes a data object. `bytes` has room for the header, and the payload.
pub(super) fn seal(mut bytes: Vec<u8>, changes: &[u8], lane: LaneId, number: ObjectNumber) -> DataObject {
    let payload = bytes.len() - HEADER_BYTES;
    let header = header(1, lane, number, payload, changes);
    bytes[..HEADER_BYTES].copy_from_slice(&header);
    bytes.extend_from_slice(changes);
    DataObject {
        bytes: bytes.into(),
        payload,
    }
}

fn number_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the header is long enough")
}

/// What an object is, by its header. The text of an error says what is wrong with it.
pub(super) fn kind(bytes: &[u8], lane: LaneId, number: ObjectNumber) -> Result<Found, &'static str> {
    if bytes.len() < HEADER_BYTES || bytes[..8] != MAGIC[..] {
        return Err("it is no object of a lane of this version");
    }
    if number_at(bytes, CRC_AT) != crc32c::crc32c(&bytes[..CRC_AT]).to_le_bytes() {
        return Err("its header fails its checksum");
    }
    if bytes[16..32] != lane.0 || u64::from_le_bytes(number_at(bytes, 32)) != number.0 {
        return Err("it belongs to another place");
    }
    match bytes[8] {
        1 => Ok(Found::Data),
        2 => Ok(Found::Fence),
        _ => Err("it has an unknown kind"),
    }
}

/// Reads an object. The text of an error says what is wrong with it.
pub(super) fn open(bytes: Bytes, lane: LaneId, number: ObjectNumber) -> Result<LaneObject, &'static str> {
    if kind(&bytes, lane, number)? == Found::Fence {
        return Ok(LaneObject::Fence);
    }
    let payload = u64::from_le_bytes(number_at(&bytes, 40)) as usize;
    let changes = u32::from_le_bytes(number_at(&bytes, 48)) as usize;
    let start = payload.checked_add(HEADER_BYTES).filter(|start| *start <= bytes.len());
    let found = start.map(|start| &bytes[start..]).filter(|rest| rest.len() == changes);
    let found = found.ok_or("it is cut off")?;
    if number_at(&bytes, 52) != crc32c::crc32c(found).to_le_bytes() {
        return Err("its changes fail their checksum");
    }
    Ok(LaneObject::Data(DataObject { bytes, payload }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::change::FileId;

    const LANE: LaneId = LaneId([7; 16]);
    const NUMBER: ObjectNumber = ObjectNumber(9);

    #[test]
    fn an_object_is_read_as_it_was_written() {
        let changes = [
            Change::Directory("a".to_owned()),
            Change::Create(FileId(3), "a/b".to_owned()),
            Change::Write {
                file: FileId(3),
                position: 1 << 40,
                len: 5,
                offset: 0,
            },
            Change::Clear {
                file: FileId(3),
                position: 7,
                len: 300,
            },
            Change::Length(FileId(3), 12),
            Change::Rename("a/b".to_owned(), "a/c".to_owned()),
            Change::Remove("a/c".to_owned()),
        ];
        let mut encoded = Vec::new();
        for change in &changes {
            change.encode(&mut encoded);
        }
        let mut bytes = vec![0; HEADER_BYTES];
        bytes.extend_from_slice(b"hello");
        let sealed = seal(bytes, &encoded, LANE, NUMBER);
        let Ok(LaneObject::Data(found)) = open(sealed.bytes.clone(), LANE, NUMBER) else {
            panic!("it is data");
        };
        assert_eq!(found.payload(), b"hello");
        assert_eq!(found.changes().expect("well formed"), changes);
        assert!(open(sealed.bytes.clone(), LANE, ObjectNumber(8)).is_err());
        let mut damaged = sealed.bytes.to_vec();
        *damaged.last_mut().expect("not empty") ^= 1;
        assert!(open(damaged.into(), LANE, NUMBER).is_err());
        assert!(open(sealed.bytes.slice(..sealed.bytes.len() - 1), LANE, NUMBER).is_err());
    }

    #[test]
    fn a_fence_is_a_fence() {
        let found = open(fence(LANE, NUMBER), LANE, NUMBER);
        assert!(matches!(found, Ok(LaneObject::Fence)));
    }
}
