// SPDX-License-Identifier: Apache-2.0
//! The bytes of a checkpoint: all files after the changes of some object, without what they hold.
//!
//! ```text
//! "OXFILES1", then varints: next file; lanes: count, each index and 16 bytes; objects: count, each lane, number and
//! bytes; directories: count, each a text; files: count, each name, number, length, and extents: count, each gap
//! before it, bytes, lane, number, offset; at the end CRC-32C of all before it (4 bytes)
//! ```

use oxbus_model::varint::{VarintReader, push, push_bytes};

use super::change::FileId;
use super::file_map::{Extent, FileMap};
use super::place::{LaneId, ObjectKey, Place};
use crate::lane::ObjectNumber;

const MAGIC: &[u8; 8] = b"OXFILES1";
const CRC_BYTES: usize = 4;

impl FileMap {
    /// The bytes of a checkpoint of the files that have a name.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        push(&mut out, self.next_file);
        push(&mut out, self.lanes.len() as u64);
        for (index, lane) in &self.lanes {
            push(&mut out, u64::from(*index));
            out.extend_from_slice(&lane.0);
        }
        push(&mut out, self.objects.len() as u64);
        for (key, usage) in &self.objects {
            for value in [u64::from(key.lane()), key.number().0, u64::from(usage.bytes)] {
                push(&mut out, value);
            }
        }
        push(&mut out, self.directories.len() as u64);
        for path in &self.directories {
            push_bytes(&mut out, path.as_bytes());
        }
        push(&mut out, self.names.len() as u64);
        for (path, file) in &self.names {
            push_bytes(&mut out, path.as_bytes());
            let entry = &self.files[file];
            for value in [file.0, entry.len, entry.extents.len() as u64] {
                push(&mut out, value);
            }
            let mut end = 0;
            for (position, extent) in &entry.extents {
                let key = extent.place.object;
                let (lane, number) = (u64::from(key.lane()), key.number().0);
                let offset = u64::from(extent.place.offset);
                for value in [position - end, u64::from(extent.len), lane, number, offset] {
                    push(&mut out, value);
                }
                end = position + u64::from(extent.len);
            }
        }
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads a checkpoint. Returns `None` if it is malformed.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (content, crc) = bytes.split_at_checked(bytes.len().checked_sub(CRC_BYTES)?)?;
        if crc != crc32c::crc32c(content).to_le_bytes() {
            return None;
        }
        let mut reader = VarintReader(content.strip_prefix(MAGIC)?);
        let reader = &mut reader;
        let mut map = Self {
            next_file: reader.varint()?,
            ..Self::default()
        };
        for _ in 0..reader.varint()? {
            let index = u16::try_from(reader.varint()?).ok()?;
            map.lanes.insert(index, LaneId(reader.take(16)?.try_into().ok()?));
        }
        for _ in 0..reader.varint()? {
            let key = Self::decode_key(reader)?;
            map.add_object(key, u32::try_from(reader.varint()?).ok()? as usize);
        }
        for _ in 0..reader.varint()? {
            map.directories.insert(reader.text()?.to_owned());
        }
        for _ in 0..reader.varint()? {
            let path = reader.text()?.to_owned();
            let file = FileId(reader.varint()?);
            let len = reader.varint()?;
            map.names.insert(path, file);
            map.files.entry(file).or_default().has_name = true;
            let mut end = 0;
            for _ in 0..reader.varint()? {
                let position = reader.varint()?.checked_add(end)?;
                let len = u32::try_from(reader.varint()?).ok()?;
                let object = Self::decode_key(reader)?;
                let offset = u32::try_from(reader.varint()?).ok()?;
                let place = Place { object, offset };
                map.write(file, position, Extent { len, place });
                end = position + u64::from(len);
            }
            map.files.get_mut(&file)?.len = len;
        }
        reader.0.is_empty().then_some(map)
    }

    fn decode_key(reader: &mut VarintReader<'_>) -> Option<ObjectKey> {
        let lane = u16::try_from(reader.varint()?).ok()?;
        let number = reader.varint().filter(|number| number >> 48 == 0)?;
        Some(ObjectKey::new(lane, ObjectNumber(number)))
    }
}

/// The key of the checkpoint of a lane.
pub(super) fn checkpoint_key(lane: LaneId, floor: ObjectNumber) -> String {
    format!("checkpoints/{lane}-{:012}", floor.0)
}
