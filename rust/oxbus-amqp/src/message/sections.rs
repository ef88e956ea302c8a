// SPDX-License-Identifier: Apache-2.0
//! Locates the sections of a message.

use std::ops::Range;

use bytes::Bytes;

use crate::codec::{DecodeError, Reader, code, descriptor_code};

/// The format of a single message.
pub const MESSAGE_FORMAT_DEFAULT: u32 = 0;
/// The format of a batch, whose data sections are messages.
pub const MESSAGE_FORMAT_BATCH: u32 = 0x8001_3700;

/// Descriptors of sections.
#[expect(missing_docs, reason = "each name is that of the specification")]
pub mod section {
    pub const HEADER: u8 = 0x70;
    pub const DELIVERY_ANNOTATIONS: u8 = 0x71;
    pub const MESSAGE_ANNOTATIONS: u8 = 0x72;
    pub const PROPERTIES: u8 = 0x73;
    pub const APPLICATION_PROPERTIES: u8 = 0x74;
    pub const DATA: u8 = 0x75;
    pub const SEQUENCE: u8 = 0x76;
    pub const VALUE: u8 = 0x77;
    pub const FOOTER: u8 = 0x78;
}

/// Larger than all descriptors: no section may follow.
const NOTHING_FOLLOWS: u8 = u8::MAX;

/// The type of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AmqpBodyKind {
    /// No body.
    #[default]
    None,
    /// Data sections.
    Data,
    /// Sequence sections.
    Sequence,
    /// One value.
    Value,
}

/// The byte ranges of the sections, with their descriptors. The range of a missing section is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sections {
    /// Durable, priority, time to live, delivery count.
    pub header: Range<usize>,
    /// For the next receiver only. Second or last; the Python SDK writes them last.
    pub delivery_annotations: Range<usize>,
    /// For brokers.
    pub message_annotations: Range<usize>,
    /// Message id, subject, session.
    pub properties: Range<usize>,
    /// Application properties.
    pub application_properties: Range<usize>,
    /// All sections of the body.
    pub body: Range<usize>,
    /// The footer, after the body.
    pub footer: Range<usize>,
    /// The type of the body.
    pub body_kind: AmqpBodyKind,
    /// Number of body sections.
    pub body_sections: usize,
}

impl Sections {
    /// Locates the sections. Checks their order, their types and that they fill the bytes, not their contents.
    ///
    /// Delivery annotations may also be last: azure-servicebus writes them there, and the service accepts it.
    pub fn scan(message: &Bytes) -> Result<Self, DecodeError> {
        let mut sections = Self::default();
        let mut reader = Reader::new(message);
        let mut last = 0;
        while !reader.is_at_end() {
            let start = reader.position();
            let descriptor = section_code(message, &mut reader)?;
            let is_again = descriptor == last && matches!(descriptor, section::DATA | section::SEQUENCE);
            let is_other_body = descriptor > section::DATA && descriptor < section::FOOTER && last >= section::DATA;
            let is_at_end = descriptor == section::DELIVERY_ANNOTATIONS
                && last > descriptor
                && last != NOTHING_FOLLOWS
                && sections.delivery_annotations.is_empty();
            if (descriptor <= last || is_other_body) && !is_again && !is_at_end {
                return Err(DecodeError::SectionOrder(descriptor));
            }
            last = if is_at_end { NOTHING_FOLLOWS } else { descriptor };
            check_type(descriptor, reader.peek()?)?;
            reader.skip()?;
            sections.note(descriptor, start..reader.position());
        }
        Ok(sections)
    }

    fn note(&mut self, descriptor: u8, range: Range<usize>) {
        match descriptor {
            section::HEADER => self.header = range,
            section::DELIVERY_ANNOTATIONS => self.delivery_annotations = range,
            section::MESSAGE_ANNOTATIONS => self.message_annotations = range,
            section::PROPERTIES => self.properties = range,
            section::APPLICATION_PROPERTIES => self.application_properties = range,
            section::FOOTER => self.footer = range,
            _ => {
                self.body_kind = match descriptor {
                    section::DATA => AmqpBodyKind::Data,
                    section::SEQUENCE => AmqpBodyKind::Sequence,
                    _ => AmqpBodyKind::Value,
                };
                let start = if self.body_sections == 0 {
                    range.start
                } else {
                    self.body.start
                };
                self.body = start..range.end;
                self.body_sections += 1;
            }
        }
    }

    /// The bare message: properties, application properties, body and footer, which a broker never changes.
    pub fn bare(&self) -> Range<usize> {
        let parts = [&self.properties, &self.application_properties, &self.body, &self.footer];
        let mut there = parts.into_iter().filter(|range| !range.is_empty());
        let Some(first) = there.next() else {
            return 0..0;
        };
        first.start..there.next_back().unwrap_or(first).end
    }
}

#[inline]
fn section_code(message: &Bytes, reader: &mut Reader<'_>) -> Result<u8, DecodeError> {
    let at = reader.position();
    // The usual encoding.
    if let Some(&[code::DESCRIBED, code::ULONG_SMALL, descriptor]) = message.get(at..at + 3)
        && (section::HEADER..=section::FOOTER).contains(&descriptor)
    {
        reader.take(3)?;
        return Ok(descriptor);
    }
    match descriptor_code(reader)? {
        Some(descriptor @ 0x70..=0x78) => Ok(descriptor as u8),
        descriptor => Err(DecodeError::WrongDescriptor {
            expected: "message section",
            descriptor,
        }),
    }
}

#[inline]
fn check_type(descriptor: u8, code: u8) -> Result<(), DecodeError> {
    let (expected, fits) = match descriptor {
        section::HEADER | section::PROPERTIES | section::SEQUENCE => {
            ("list", matches!(code, code::LIST_0 | code::LIST_8 | code::LIST_32))
        }
        section::DATA => ("binary", matches!(code, code::BINARY_8 | code::BINARY_32)),
        section::VALUE => return Ok(()),
        _ => ("map", matches!(code, code::MAP_8 | code::MAP_32 | code::NULL)),
    };
    if fits {
        Ok(())
    } else {
        Err(DecodeError::WrongType { expected, code })
    }
}
