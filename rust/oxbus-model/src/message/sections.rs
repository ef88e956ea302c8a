// SPDX-License-Identifier: Apache-2.0
//! Views of stored AMQP 1.0 bodies and values for callers that do not speak AMQP: filters, in-process programs, tables.
//!
//! AMQP clients get the stored bytes unchanged (B-428, B-429). A value that cannot be converted shows as its bytes; no
//! function fails.
//!
//! Body sections are always stored with one-byte descriptors.

use super::properties::Value;
use crate::timespan::{self, UNITS_PER_MS};

const DATA: u8 = 0x75;
const SEQUENCE: u8 = 0x76;
const VALUE: u8 = 0x77;
/// .NET ticks, of 100 ns, between the year 1 and 1970.
const TICKS_BEFORE_1970: i64 = 621_355_968_000_000_000;

/// The AMQP type of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    /// Bytes, in one or more sections.
    Data,
    /// Lists, in one or more sections.
    Sequence,
    /// One value.
    Value,
}

/// The type of encoded sections. No sections count as data.
pub(super) fn kind(sections: &[u8]) -> BodyKind {
    match sections.get(2) {
        Some(&SEQUENCE) => BodyKind::Sequence,
        Some(&VALUE) => BodyKind::Value,
        _ => BodyKind::Data,
    }
}

/// The data sections joined, or the text or bytes of a value. Empty for any other body.
pub(super) fn data(mut sections: &[u8]) -> Vec<u8> {
    let mut joined = Vec::new();
    while let Some(([0, 0x53, code @ (DATA | VALUE)], rest)) = sections.split_first_chunk::<3>() {
        let Some((bytes, rest)) = sized(rest) else { break };
        joined.extend_from_slice(bytes);
        if *code == VALUE {
            break;
        }
        sections = rest;
    }
    joined
}

/// The bytes of a binary, string or symbol, and the rest.
fn sized(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let (code, rest) = value.split_first()?;
    let (len, rest) = match code {
        0xa0 | 0xa1 | 0xa3 => {
            let (len, rest) = rest.split_first()?;
            (usize::from(*len), rest)
        }
        0xb0 | 0xb1 | 0xb3 => {
            let (len, rest) = rest.split_first_chunk::<4>()?;
            (u32::from_be_bytes(*len) as usize, rest)
        }
        _ => return None,
    };
    rest.split_at_checked(len)
}

/// The nearest common type: numbers as numbers, symbols as text, described values as the value inside. Anything else is
/// its bytes.
pub(super) fn nearest(encoded: &[u8]) -> Value<'_> {
    plain(encoded).unwrap_or(Value::Bytes(encoded))
}

fn plain(encoded: &[u8]) -> Option<Value<'_>> {
    let (&code, rest) = encoded.split_first()?;
    Some(match code {
        0x00 => return described(rest),
        0x40 => Value::Null,
        0x41 => Value::Bool(true),
        0x42 => Value::Bool(false),
        0x56 => Value::Bool(*rest.first()? != 0),
        0x43..=0x44 => Value::Int(0),
        0x50 | 0x52 | 0x53 => Value::Int((*rest.first()?).into()),
        0x51 | 0x54 | 0x55 => Value::Int((*rest.first()? as i8).into()),
        0x60 => Value::Int(u16::from_be_bytes(*rest.first_chunk()?).into()),
        0x61 => Value::Int(i16::from_be_bytes(*rest.first_chunk()?).into()),
        0x70 => Value::Int(u32::from_be_bytes(*rest.first_chunk()?).into()),
        0x71 => Value::Int(i32::from_be_bytes(*rest.first_chunk()?).into()),
        0x72 => Value::Double(f32::from_be_bytes(*rest.first_chunk()?).into()),
        // An ASCII character is in the last byte.
        0x73 => match rest.first_chunk::<4>()? {
            [0, 0, 0, _] => Value::Text(std::str::from_utf8(rest.get(3..4)?).ok()?),
            _ => return None,
        },
        0x80 => {
            let number = u64::from_be_bytes(*rest.first_chunk()?);
            i64::try_from(number).map_or(Value::Double(number as f64), Value::Int)
        }
        0x81 => Value::Int(i64::from_be_bytes(*rest.first_chunk()?)),
        0x82 => Value::Double(f64::from_be_bytes(*rest.first_chunk()?)),
        0x83 => Value::Time(i64::from_be_bytes(*rest.first_chunk()?)),
        0x98 => Value::Uuid(*rest.first_chunk()?),
        0xa0 | 0xb0 => Value::Bytes(sized(encoded)?.0),
        0xa1 | 0xa3 | 0xb1 | 0xb3 => Value::Text(std::str::from_utf8(sized(encoded)?.0).ok()?),
        _ => return None,
    })
}

/// A described value with a symbolic descriptor: .NET's date with offset is a time, its timespan a timespan; others are
/// the value inside.
fn described(encoded: &[u8]) -> Option<Value<'_>> {
    let (name, rest) = sized(encoded)?;
    let value = plain(rest)?;
    Some(match value {
        Value::Int(ticks) if name == b"com.microsoft:datetime-offset" => {
            Value::Time((ticks - TICKS_BEFORE_1970).div_euclid(UNITS_PER_MS))
        }
        Value::Int(units) if name == timespan::AMQP_NAME.as_bytes() => Value::Timespan(units),
        value => value,
    })
}

#[cfg(test)]
mod tests {
    use super::{BodyKind, data, kind, nearest};
    use crate::message::Value;

    #[test]
    fn data_sections_are_joined_and_a_text_value_is_its_text() {
        // B-428.
        let two = b"\x00\x53\x75\xa0\x02ab\x00\x53\x75\xb0\x00\x00\x00\x01c\x00\x53\x78\xc1\x01\x00";
        assert_eq!((kind(two), data(two)), (BodyKind::Data, b"abc".to_vec()));
        let text = b"\x00\x53\x77\xa1\x02hi";
        assert_eq!((kind(text), data(text)), (BodyKind::Value, b"hi".to_vec()));
        let list = b"\x00\x53\x76\x45";
        assert_eq!((kind(list), data(list)), (BodyKind::Sequence, Vec::new()));
        assert_eq!((kind(b""), data(b"")), (BodyKind::Data, Vec::new()));
    }

    #[test]
    fn each_type_converts_to_the_nearest_common_one() {
        // B-429.
        let shown: [(&[u8], Value<'_>); 12] = [
            (&[0x50, 200], Value::Int(200)),
            (&[0x54, 0xff], Value::Int(-1)),
            (&[0x71, 0xff, 0xff, 0xff, 0xfe], Value::Int(-2)),
            (&[0x60, 1, 0], Value::Int(256)),
            (&[0x72, 0x3f, 0x80, 0, 0], Value::Double(1.0)),
            (&[0x73, 0, 0, 0, b'x'], Value::Text("x")),
            (&[0x73, 0, 0, 1, 0], Value::Bytes(&[0x73, 0, 0, 1, 0])),
            (&[0x80, 0, 0, 0, 0, 0, 0, 0, 7], Value::Int(7)),
            (b"\xa3\x02ab", Value::Text("ab")),
            (b"\x00\xa3\x03uri\xa1\x01u", Value::Text("u")),
            (&[0x94, 1, 2], Value::Bytes(&[0x94, 1, 2])),
            (&[0x71], Value::Bytes(&[0x71])),
        ];
        for (encoded, value) in shown {
            assert_eq!(nearest(encoded), value, "{encoded:x?}");
        }
        let offset = b"\x00\xa3\x1dcom.microsoft:datetime-offset\x81\x08\x9f\x7f\xf5\xf7\xb5\x80\x00";
        assert_eq!(nearest(offset), Value::Time(0));
        let span = b"\x00\xa3\x16com.microsoft:timespan\x55\xff";
        assert_eq!(nearest(span), Value::Timespan(-1));
    }
}
