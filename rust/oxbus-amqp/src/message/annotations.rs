// SPDX-License-Identifier: Apache-2.0
//! The three sections that are maps.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};

use super::section;
use crate::codec::{DecodeError, Entries, Field, Map, Reader, code, descriptor_code};

/// Reads a section that is a map; an empty range and null are an empty map.
pub fn read_map(message: &Bytes, section: &Range<usize>) -> Result<Map, DecodeError> {
    let mut reader = Reader::within(message, section.start, section.end);
    if reader.is_at_end() {
        return Ok(Map::new());
    }
    descriptor_code(&mut reader)?;
    Ok(reader.field::<Option<Map>>("map")?.unwrap_or_default())
}

/// The pairs of a section that is a map one by one, with no memory for the map; nothing for an empty range and null.
pub fn entries<'a>(message: &'a Bytes, section: &Range<usize>) -> Result<Option<Entries<'a>>, DecodeError> {
    let mut reader = Reader::within(message, section.start, section.end);
    if reader.is_at_end() {
        return Ok(None);
    }
    descriptor_code(&mut reader)?;
    if reader.peek()? == code::NULL {
        return Ok(None);
    }
    Entries::new(message, reader.position()).map(Some)
}

/// Writes what is for the next receiver only.
pub fn put_delivery_annotations(out: &mut BytesMut, map: &Map) {
    put_map(out, section::DELIVERY_ANNOTATIONS, map);
}

/// Writes what is for brokers on the way.
pub fn put_message_annotations(out: &mut BytesMut, map: &Map) {
    put_map(out, section::MESSAGE_ANNOTATIONS, map);
}

/// Writes what the application set.
pub fn put_application_properties(out: &mut BytesMut, map: &Map) {
    put_map(out, section::APPLICATION_PROPERTIES, map);
}

fn put_map(out: &mut BytesMut, descriptor: u8, map: &Map) {
    out.put_slice(&[code::DESCRIBED, code::ULONG_SMALL, descriptor]);
    map.encode(out);
}
