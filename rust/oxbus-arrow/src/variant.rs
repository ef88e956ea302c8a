// SPDX-License-Identifier: Apache-2.0
//! Application properties as a variant of Spark: an object of typed values in two binary columns.
//!
//! The encoding is that of the Parquet format, "Variant Binary Encoding". A property is null, a truth value, a whole number,
//! a double, text, bytes, a timestamp or a UUID. A time span has no such type, so it is the object
//! `{"$timespan": value}`.

use oxbus_model::message::{PropertiesBuilder, Value};
use oxbus_model::{Error, ErrorKind, Result};

/// The key of the only member of an object that stands for a time span.
pub(crate) const TIMESPAN_TAG: &str = "$timespan";

const PRIMITIVE: u8 = 0;
const SHORT_STRING: u8 = 1;
const OBJECT: u8 = 2;

const NULL: u8 = 0;
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const INT8: u8 = 3;
const INT16: u8 = 4;
const INT32: u8 = 5;
const INT64: u8 = 6;
const DOUBLE: u8 = 7;
const DECIMAL4: u8 = 8;
const DECIMAL8: u8 = 9;
const DECIMAL16: u8 = 10;
const TIMESTAMP: u8 = 12;
const TIMESTAMP_NTZ: u8 = 13;
const FLOAT: u8 = 14;
const BINARY: u8 = 15;
const STRING: u8 = 16;
const UUID: u8 = 20;

const VERSION: u8 = 1;
const SHORT_STRING_MAX: usize = 63;
const MICROS_PER_MS: i64 = 1000;

/// Properties as the two binaries of a variant.
#[derive(Debug, Default)]
pub(crate) struct EncodedVariant {
    pub(crate) metadata: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

impl EncodedVariant {
    /// Encodes properties.
    pub(crate) fn of<'a>(properties: impl Iterator<Item = (&'a str, Value<'a>)>) -> Self {
        let mut members: Vec<(&str, Value<'_>)> = properties.collect();
        // The members of an object are sorted by key, and so are the keys here.
        members.sort_by(|a, b| a.0.cmp(b.0));
        members.dedup_by(|later, earlier| later.0 == earlier.0);
        let mut keys: Vec<&str> = members.iter().map(|(key, _)| *key).collect();
        if members.iter().any(|(_, value)| matches!(value, Value::Timespan(_))) {
            keys.push(TIMESPAN_TAG);
            keys.sort_unstable();
            keys.dedup();
        }
        let id_of = |key: &str| keys.binary_search(&key).expect("each key is in the dictionary");
        let mut values = Vec::new();
        let mut fields = Vec::with_capacity(members.len());
        for (key, value) in &members {
            fields.push((id_of(key), values.len()));
            match value {
                Value::Timespan(units) => {
                    let mut inner = Vec::new();
                    push_int(*units, &mut inner);
                    push_object(&[(id_of(TIMESPAN_TAG), 0)], &inner, &mut values);
                }
                other => push_value(*other, &mut values),
            }
        }
        let mut encoded = Self::default();
        push_object(&fields, &values, &mut encoded.value);
        push_metadata(&keys, &mut encoded.metadata);
        encoded
    }
}

/// Bytes that hold every number up to `max`.
fn width(max: usize) -> usize {
    (1..4).find(|width| max < 1 << (8 * width)).unwrap_or(4)
}

fn push_number(number: usize, width: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(number as u64).to_le_bytes()[..width]);
}

fn push_metadata(keys: &[&str], out: &mut Vec<u8>) {
    let bytes: usize = keys.iter().map(|key| key.len()).sum();
    let width = width(bytes.max(keys.len()));
    let is_sorted = 1 << 4;
    out.push(VERSION | is_sorted | ((width - 1) as u8) << 6);
    push_number(keys.len(), width, out);
    let mut offset = 0;
    push_number(offset, width, out);
    for key in keys {
        offset += key.len();
        push_number(offset, width, out);
    }
    for key in keys {
        out.extend_from_slice(key.as_bytes());
    }
}

/// Writes an object of fields, each with the id of its key and the offset of its value.
fn push_object(fields: &[(usize, usize)], values: &[u8], out: &mut Vec<u8>) {
    let id_width = width(fields.iter().map(|(id, _)| *id).max().unwrap_or(0));
    let offset_width = width(values.len());
    let is_large = fields.len() > usize::from(u8::MAX);
    let header = (offset_width - 1) | (id_width - 1) << 2 | usize::from(is_large) << 4;
    out.push(OBJECT | (header as u8) << 2);
    push_number(fields.len(), if is_large { 4 } else { 1 }, out);
    for (id, _) in fields {
        push_number(*id, id_width, out);
    }
    for (_, offset) in fields {
        push_number(*offset, offset_width, out);
    }
    push_number(values.len(), offset_width, out);
    out.extend_from_slice(values);
}

fn push_value(value: Value<'_>, out: &mut Vec<u8>) {
    let primitive = |kind: u8| PRIMITIVE | kind << 2;
    match value {
        Value::Null => out.push(primitive(NULL)),
        Value::Bool(it) => out.push(primitive(if it { TRUE } else { FALSE })),
        Value::Int(it) | Value::Timespan(it) => push_int(it, out),
        Value::Double(it) => {
            out.push(primitive(DOUBLE));
            out.extend_from_slice(&it.to_le_bytes());
        }
        Value::Time(ms) => {
            out.push(primitive(TIMESTAMP));
            out.extend_from_slice(&ms.saturating_mul(MICROS_PER_MS).to_le_bytes());
        }
        Value::Text(it) if it.len() <= SHORT_STRING_MAX => {
            out.push(SHORT_STRING | (it.len() as u8) << 2);
            out.extend_from_slice(it.as_bytes());
        }
        Value::Text(it) => {
            out.push(primitive(STRING));
            push_number(it.len(), 4, out);
            out.extend_from_slice(it.as_bytes());
        }
        Value::Bytes(it) => {
            out.push(primitive(BINARY));
            push_number(it.len(), 4, out);
            out.extend_from_slice(it);
        }
        Value::Uuid(it) => {
            out.push(primitive(UUID));
            out.extend_from_slice(&it);
        }
    }
}

/// Writes a whole number in the fewest bytes, as Spark does.
fn push_int(number: i64, out: &mut Vec<u8>) {
    let (kind, bytes) = if i8::try_from(number).is_ok() {
        (INT8, 1)
    } else if i16::try_from(number).is_ok() {
        (INT16, 2)
    } else if i32::try_from(number).is_ok() {
        (INT32, 4)
    } else {
        (INT64, 8)
    };
    out.push(PRIMITIVE | kind << 2);
    out.extend_from_slice(&number.to_le_bytes()[..bytes]);
}

/// Writes the members of a variant object as properties.
pub(crate) fn read_variant(value: &[u8], metadata: &[u8], out: &mut PropertiesBuilder) -> Result<()> {
    let keys = Keys::new(metadata).ok_or_else(damaged)?;
    let object = Object::new(value).ok_or_else(|| wrong("must be a variant with an object"))?;
    for at in 0..object.count {
        let (id, value) = object.field(at).ok_or_else(damaged)?;
        let key = keys.get(id).ok_or_else(damaged)?;
        out.push(key, property_of(key, value, &keys)?);
    }
    Ok(())
}

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("application_properties {what}"))
}

fn damaged() -> Error {
    wrong("must be a variant; its bytes are damaged")
}

/// The value of a property, or an error that says how to convert a value of another type.
fn property_of<'a>(key: &str, value: &'a [u8], keys: &Keys<'a>) -> Result<Value<'a>> {
    if let Some(object) = Object::new(value) {
        let timespan = (object.count == 1).then(|| object.field(0)).flatten();
        let timespan = timespan.filter(|(id, _)| keys.get(*id) == Some(TIMESPAN_TAG));
        if let Some(Ok(Value::Int(units))) = timespan.map(|(_, units)| primitive_of(key, units)) {
            return Ok(Value::Timespan(units));
        }
    }
    primitive_of(key, value)
}

fn primitive_of<'a>(key: &str, value: &'a [u8]) -> Result<Value<'a>> {
    let (header, rest) = value.split_first().ok_or_else(damaged)?;
    let kind = header >> 2;
    match header & 3 {
        SHORT_STRING => text(rest.get(..usize::from(kind)).ok_or_else(damaged)?),
        PRIMITIVE => scalar(key, kind, rest),
        _ => {
            let detail = "allow null, truth values, numbers, texts, bytes, timestamps and UUIDs; convert lists and objects to text";
            Err(wrong(&format!("{detail}: `{key}`")))
        }
    }
}

fn scalar<'a>(key: &str, kind: u8, rest: &'a [u8]) -> Result<Value<'a>> {
    let int = |bytes: usize| {
        let bytes = rest.get(..bytes)?;
        let sign = if bytes.last()? & 0x80 == 0 { 0 } else { 0xff };
        let mut wide = [sign; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        Some(i64::from_le_bytes(wide))
    };
    let sized = || {
        let (length, bytes) = rest.split_first_chunk::<4>()?;
        bytes.get(..u32::from_le_bytes(*length) as usize)
    };
    let found = match kind {
        NULL => Some(Value::Null),
        TRUE => Some(Value::Bool(true)),
        FALSE => Some(Value::Bool(false)),
        INT8 => int(1).map(Value::Int),
        INT16 => int(2).map(Value::Int),
        INT32 => int(4).map(Value::Int),
        INT64 => int(8).map(Value::Int),
        DOUBLE => rest
            .first_chunk()
            .map(|bytes| Value::Double(f64::from_le_bytes(*bytes))),
        FLOAT => rest
            .first_chunk()
            .map(|bytes| Value::Double(f32::from_le_bytes(*bytes).into())),
        TIMESTAMP | TIMESTAMP_NTZ => int(8).map(|micros| Value::Time(micros.div_euclid(MICROS_PER_MS))),
        BINARY => sized().map(Value::Bytes),
        STRING => return text(sized().ok_or_else(damaged)?),
        UUID => rest.first_chunk().map(|bytes| Value::Uuid(*bytes)),
        // Spark writes whole numbers of JSON beyond 64 bits, and fractions, as decimals.
        DECIMAL4 | DECIMAL8 | DECIMAL16 => return decimal(key, kind, rest),
        _ => {
            let detail = "have a value of a type that properties lack, such as a date; convert it to text";
            return Err(wrong(&format!("{detail}: `{key}`")));
        }
    };
    found.ok_or_else(damaged)
}

/// A decimal as a whole number, or as the nearest double.
fn decimal<'a>(key: &str, kind: u8, rest: &[u8]) -> Result<Value<'a>> {
    let (scale, digits) = rest.split_first().ok_or_else(damaged)?;
    let unscaled = match kind {
        DECIMAL4 => digits.first_chunk().map(|it| i128::from(i32::from_le_bytes(*it))),
        DECIMAL8 => digits.first_chunk().map(|it| i128::from(i64::from_le_bytes(*it))),
        _ => digits.first_chunk().map(|it| i128::from_le_bytes(*it)),
    };
    let unscaled = unscaled.ok_or_else(damaged)?;
    if *scale == 0 {
        return i64::try_from(unscaled).map(Value::Int).map_err(|_| {
            wrong(&format!(
                "contain a number of more than 64 bits; convert it to text: `{key}` {unscaled}"
            ))
        });
    }
    // The text of a decimal is read to the nearest double, without a second rounding.
    let text = format!("{unscaled}e-{scale}");
    text.parse().map(Value::Double).map_err(|_| damaged())
}

fn text(bytes: &[u8]) -> Result<Value<'_>> {
    std::str::from_utf8(bytes).map(Value::Text).map_err(|_| damaged())
}

fn number(bytes: &[u8], at: usize, width: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(width)?)?;
    let mut wide = [0; 8];
    wide[..width].copy_from_slice(bytes);
    usize::try_from(u64::from_le_bytes(wide)).ok()
}

/// The keys of a variant.
struct Keys<'a> {
    metadata: &'a [u8],
    width: usize,
    count: usize,
}

impl<'a> Keys<'a> {
    fn new(metadata: &'a [u8]) -> Option<Self> {
        let header = *metadata.first()?;
        let width = usize::from(header >> 6) + 1;
        (header & 0xf == VERSION).then_some(())?;
        Some(Self {
            metadata,
            width,
            count: number(metadata, 1, width)?,
        })
    }

    fn get(&self, id: usize) -> Option<&'a str> {
        (id < self.count).then_some(())?;
        let offsets = 1 + self.width;
        let offset = |at: usize| number(self.metadata, offsets + at * self.width, self.width);
        let texts = offsets + (self.count + 1) * self.width;
        let bytes = self.metadata.get(texts + offset(id)?..texts + offset(id + 1)?)?;
        std::str::from_utf8(bytes).ok()
    }
}

/// An object of a variant.
struct Object<'a> {
    bytes: &'a [u8],
    count: usize,
    id_width: usize,
    offset_width: usize,
    ids: usize,
}

impl<'a> Object<'a> {
    fn new(bytes: &'a [u8]) -> Option<Self> {
        let header = *bytes.first()?;
        (header & 3 == OBJECT).then_some(())?;
        let header = usize::from(header >> 2);
        let count_width = if header >> 4 & 1 == 1 { 4 } else { 1 };
        Some(Self {
            bytes,
            count: number(bytes, 1, count_width)?,
            id_width: (header >> 2 & 3) + 1,
            offset_width: (header & 3) + 1,
            ids: 1 + count_width,
        })
    }

    /// The id of a key, and its value with all bytes after it.
    fn field(&self, at: usize) -> Option<(usize, &'a [u8])> {
        let id = number(self.bytes, self.ids + at * self.id_width, self.id_width)?;
        let offsets = self.ids + self.count * self.id_width;
        let offset = number(self.bytes, offsets + at * self.offset_width, self.offset_width)?;
        let values = offsets + (self.count + 1) * self.offset_width;
        Some((id, self.bytes.get(values.checked_add(offset)?..)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxbus_model::message::Properties;
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Owned {
        Plain(Value<'static>),
        Text(String),
        Bytes(Vec<u8>),
    }

    impl Owned {
        fn value(&self) -> Value<'_> {
            match self {
                Self::Plain(value) => *value,
                Self::Text(text) => Value::Text(text),
                Self::Bytes(bytes) => Value::Bytes(bytes),
            }
        }
    }

    fn values() -> impl Strategy<Value = Owned> {
        let ms = i64::MAX / MICROS_PER_MS;
        prop_oneof![
            Just(Owned::Plain(Value::Null)),
            any::<bool>().prop_map(|it| Owned::Plain(Value::Bool(it))),
            any::<i64>().prop_map(|it| Owned::Plain(Value::Int(it))),
            (-300..300i64).prop_map(|it| Owned::Plain(Value::Int(it))),
            any::<i64>().prop_map(|it| Owned::Plain(Value::Timespan(it))),
            (-ms..ms).prop_map(|it| Owned::Plain(Value::Time(it))),
            any::<[u8; 16]>().prop_map(|it| Owned::Plain(Value::Uuid(it))),
            prop_oneof![any::<f64>(), Just(f64::NAN), Just(f64::INFINITY)]
                .prop_map(|it| Owned::Plain(Value::Double(it))),
            ".{0,80}".prop_map(Owned::Text),
            vec(any::<u8>(), 0..200).prop_map(Owned::Bytes),
        ]
    }

    proptest! {
        #[test]
        fn properties_survive(given in btree_map(".{0,20}", values(), 0..300)) {
            let encoded = EncodedVariant::of(given.iter().map(|(key, value)| (key.as_str(), value.value())));
            let mut read = PropertiesBuilder::default();
            read_variant(&encoded.value, &encoded.metadata, &mut read).expect("it was encoded here");
            let read: Properties<'_> = read.properties();
            let found: Vec<(String, String)> = read.iter().map(|(key, it)| (key.to_owned(), format!("{it:?}"))).collect();
            let wanted: Vec<(String, String)> =
                given.iter().map(|(key, it)| (key.clone(), format!("{:?}", it.value()))).collect();
            prop_assert_eq!(found, wanted);
        }

        #[test]
        fn damaged_bytes_are_errors(value in vec(any::<u8>(), 0..60), metadata in vec(any::<u8>(), 0..40)) {
            let _ = read_variant(&value, &metadata, &mut PropertiesBuilder::default());
        }

        #[test]
        fn cut_bytes_are_errors(given in btree_map(".{0,5}", values(), 1..6), cut in any::<prop::sample::Index>()) {
            let encoded = EncodedVariant::of(given.iter().map(|(key, value)| (key.as_str(), value.value())));
            let end = cut.index(encoded.value.len());
            let _ = read_variant(&encoded.value[..end], &encoded.metadata, &mut PropertiesBuilder::default());
            let end = cut.index(encoded.metadata.len());
            let read = read_variant(&encoded.value, &encoded.metadata[..end], &mut PropertiesBuilder::default());
            prop_assert!(read.is_err());
        }
    }

    #[test]
    fn decimals_of_spark() {
        for (bytes, wanted) in [
            (&[DECIMAL4 << 2, 1, 25, 0, 0, 0][..], Value::Double(2.5)),
            (&[DECIMAL8 << 2, 0, 7, 0, 0, 0, 0, 0, 0, 0][..], Value::Int(7)),
        ] {
            assert_eq!(primitive_of("key", bytes).expect("it is a number"), wanted);
        }
    }
}
