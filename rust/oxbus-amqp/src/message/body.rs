// SPDX-License-Identifier: Apache-2.0
//! Bodies that the server reads and writes itself: values of requests and replies, and the messages of a batch.

use bytes::{BufMut, Bytes, BytesMut};

use super::{AmqpBodyKind, Sections, section};
use crate::codec::{AmqpValue, DecodeError, Field, Reader, code, descriptor_code};

/// Iterates over the binaries of data sections, without copies: the messages of a batch.
pub fn data<'a>(message: &'a Bytes, sections: &Sections) -> impl Iterator<Item = Result<Bytes, DecodeError>> + use<'a> {
    let end = if sections.body_kind == AmqpBodyKind::Data {
        sections.body.end
    } else {
        sections.body.start
    };
    let mut reader = Reader::within(message, sections.body.start, end);
    std::iter::from_fn(move || {
        if reader.is_at_end() {
            return None;
        }
        let read = descriptor_code(&mut reader).and_then(|_| reader.field("data"));
        if read.is_err() {
            reader = Reader::within(message, end, end);
        }
        Some(read)
    })
}

/// Reads an amqp-value body.
pub fn read_value_body(message: &Bytes, sections: &Sections) -> Result<AmqpValue, DecodeError> {
    if sections.body_kind != AmqpBodyKind::Value {
        return Err(DecodeError::MissingField("amqp-value"));
    }
    let mut reader = value_body(message, sections)?;
    reader.field("amqp-value")
}

/// A reader at the value of an amqp-value body.
pub fn value_body<'a>(message: &'a Bytes, sections: &Sections) -> Result<Reader<'a>, DecodeError> {
    let mut reader = Reader::within(message, sections.body.start, sections.body.end);
    descriptor_code(&mut reader)?;
    Ok(reader)
}

/// Writes an amqp-value body.
pub fn put_value_body(out: &mut BytesMut, value: &AmqpValue) {
    out.put_slice(&[code::DESCRIBED, code::ULONG_SMALL, section::VALUE]);
    value.encode(out);
}

/// Writes a data section.
pub fn put_data(out: &mut BytesMut, bytes: &Bytes) {
    out.put_slice(&[code::DESCRIBED, code::ULONG_SMALL, section::DATA]);
    bytes.encode(out);
}
