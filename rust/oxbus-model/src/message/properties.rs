// SPDX-License-Identifier: Apache-2.0
//! Application properties: typed values under text keys (B-429), encoded entry by entry.
//!
//! ```text
//! entry = varint key length, key UTF-8, type u8, value
//! value = null · bool u8 · int i64 · double f64 · text (varint length) · bytes (varint length) · uuid 16 · time i64 ms ·
//!         timespan i64 units of 100 ns · AMQP (varint length): a value of a type that only AMQP 1.0 has, AMQP-encoded
//! ```
//! Keys are unique. Entries keep their insertion order.

use super::sections::nearest;
use crate::varint::{self, VarintReader};

/// A property value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// Present without a value.
    Null,
    /// True or false.
    Bool(bool),
    /// A 64-bit integer.
    Int(i64),
    /// A double.
    Double(f64),
    /// Text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A UUID, big-endian.
    Uuid([u8; 16]),
    /// Milliseconds since 1970 in UTC.
    Time(i64),
    /// A duration, in [units of 100 ns](crate::timespan).
    Timespan(i64),
}

/// A property value as stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StoredValue<'a> {
    /// A value of a common type.
    Plain(Value<'a>),
    /// A value in AMQP 1.0 encoding, with its constructor.
    Amqp(&'a [u8]),
}

impl<'a> StoredValue<'a> {
    /// The value, converted to the nearest common type.
    pub fn plain(self) -> Value<'a> {
        match self {
            Self::Plain(value) => value,
            Self::Amqp(encoded) => nearest(encoded),
        }
    }
}

/// Encoded properties, which are always well-formed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Properties<'a>(&'a [u8]);

impl<'a> Properties<'a> {
    /// Checks the bytes. Returns `None` if [`PropertiesBuilder`] did not write them.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = VarintReader(bytes);
        while !reader.0.is_empty() {
            entry(&mut reader)?;
        }
        Some(Self(bytes))
    }

    /// The encoded bytes.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Keys and values in insertion order. Values of AMQP-only types are converted to the nearest common type.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, Value<'a>)> {
        self.entries().map(|(key, raw)| (key, raw.plain()))
    }

    /// Keys and stored values in insertion order.
    pub fn entries(self) -> impl Iterator<Item = (&'a str, StoredValue<'a>)> {
        let mut reader = VarintReader(self.0);
        std::iter::from_fn(move || entry(&mut reader))
    }

    /// The value under `key`.
    pub fn get(self, key: &str) -> Option<Value<'a>> {
        self.iter().find_map(|(name, value)| (name == key).then_some(value))
    }
}

fn entry<'a>(reader: &mut VarintReader<'a>) -> Option<(&'a str, StoredValue<'a>)> {
    let key = reader.text()?;
    let kind = reader.take(1)?[0];
    let mut eight = || reader.take(8)?.try_into().ok();
    let value = match kind {
        0 => Value::Null,
        1 => Value::Bool(reader.take(1)?[0] != 0),
        2 => Value::Int(i64::from_le_bytes(eight()?)),
        3 => Value::Double(f64::from_le_bytes(eight()?)),
        4 => Value::Text(reader.text()?),
        5 => Value::Bytes(reader.bytes()?),
        6 => Value::Uuid(reader.take(16)?.try_into().ok()?),
        7 => Value::Time(i64::from_le_bytes(eight()?)),
        8 => return Some((key, StoredValue::Amqp(reader.bytes()?))),
        9 => Value::Timespan(i64::from_le_bytes(eight()?)),
        _ => return None,
    };
    Some((key, StoredValue::Plain(value)))
}

/// Encodes properties.
#[derive(Debug, Default)]
pub struct PropertiesBuilder(Vec<u8>);

impl PropertiesBuilder {
    /// Appends an entry with a new key.
    pub fn push(&mut self, key: &str, value: Value<'_>) {
        self.put_bytes(key.as_bytes());
        let (kind, fixed): (u8, &[u8]) = match &value {
            Value::Null => (0, &[]),
            Value::Bool(it) => (1, &[u8::from(*it)]),
            Value::Int(it) => (2, &it.to_le_bytes()),
            Value::Double(it) => (3, &it.to_le_bytes()),
            Value::Text(_) => (4, &[]),
            Value::Bytes(_) => (5, &[]),
            Value::Uuid(it) => (6, it),
            Value::Time(it) => (7, &it.to_le_bytes()),
            Value::Timespan(it) => (9, &it.to_le_bytes()),
        };
        self.0.push(kind);
        self.0.extend_from_slice(fixed);
        match value {
            Value::Text(it) => self.put_bytes(it.as_bytes()),
            Value::Bytes(it) => self.put_bytes(it),
            _ => {}
        }
    }

    /// Appends a stored entry with a new key.
    pub fn push_stored(&mut self, key: &str, value: StoredValue<'_>) {
        match value {
            StoredValue::Plain(value) => self.push(key, value),
            StoredValue::Amqp(encoded) => {
                self.put_bytes(key.as_bytes());
                self.0.push(8);
                self.put_bytes(encoded);
            }
        }
    }

    /// `stored` with `changes`, which replace entries with the same key (B-166).
    pub fn merge<'a>(stored: Option<Properties<'a>>, changes: &[(&'a str, Value<'a>)]) -> Self {
        let mut entries: Vec<(&str, StoredValue<'_>)> = stored.into_iter().flat_map(Properties::entries).collect();
        for &(key, value) in changes {
            match entries.iter_mut().find(|(name, _)| *name == key) {
                Some(entry) => entry.1 = StoredValue::Plain(value),
                None => entries.push((key, StoredValue::Plain(value))),
            }
        }
        let mut builder = Self::default();
        for (key, value) in entries {
            builder.push_stored(key, value);
        }
        builder
    }

    /// Removes all entries but keeps the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The encoded properties.
    pub fn properties(&self) -> Properties<'_> {
        Properties(&self.0)
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        let start = self.0.len();
        let len = varint::len(bytes.len() as u64);
        self.0.resize(start + len, 0);
        varint::put(&mut self.0, start, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}
