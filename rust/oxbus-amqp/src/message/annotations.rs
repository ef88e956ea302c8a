// SPDX-License-Identifier: Apache-2.0
//! The map sections: delivery annotations, message annotations and application properties.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};

use super::section;
use crate::codec::{DecodeError, Entries, Field, Map, Reader, code, descriptor_code};

/// Reads a map section. An empty range and null are an empty map.
pub fn read_map(message: &Bytes, section: &Range<usize>) -> Result<Map, DecodeError> {
    let mut reader = Reader::within(message, section.start, section.end);
    if reader.is_at_end() {
        return Ok(Map::new());
    }
    descriptor_code(&mut reader)?;
    Ok(reader.field::<Option<Map>>("map")?.unwrap_or_default())
}

/// Iterates over a map section without decoding it as a whole. Returns `None` for an empty range and null.
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

/// Writes delivery annotations, which are for the next receiver only.
pub fn put_delivery_annotations(out: &mut BytesMut, map: &Map) {
    put_map(out, section::DELIVERY_ANNOTATIONS, map);
}

/// Writes message annotations, which are for brokers.
pub fn put_message_annotations(out: &mut BytesMut, map: &Map) {
    put_map(out, section::MESSAGE_ANNOTATIONS, map);
}

/// Writes application properties.
pub fn put_application_properties(out: &mut BytesMut, map: &Map) {
    put_map(out, section::APPLICATION_PROPERTIES, map);
}

fn put_map(out: &mut BytesMut, descriptor: u8, map: &Map) {
    out.put_slice(&[code::DESCRIBED, code::ULONG_SMALL, descriptor]);
    map.encode(out);
}
