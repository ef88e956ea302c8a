// SPDX-License-Identifier: Apache-2.0
//! Maps: ordered pairs of key and value.

use bytes::{Bytes, BytesMut};

use super::writer::Compound;
use super::{AmqpValue, DecodeError, Field, Reader, Symbol, code};

/// Ordered pairs of key and value. Maps are small, so lookups are linear.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Map(Vec<(AmqpValue, AmqpValue)>);

impl Map {
    /// An empty map.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The value of a key. The key may be a symbol or a string, since clients use both.
    pub fn get(&self, key: &str) -> Option<&AmqpValue> {
        self.0
            .iter()
            .find(|(known, _)| is_key(known, key))
            .map(|(_, value)| value)
    }

    /// Appends a pair, without checking whether the key exists.
    pub fn push(&mut self, key: impl Into<AmqpValue>, value: impl Into<AmqpValue>) {
        self.0.push((key.into(), value.into()));
    }

    /// Appends a pair with a static symbol as key.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl Into<AmqpValue>) -> Self {
        self.push(Symbol::from(key), value);
        self
    }

    /// Keeps the pairs for which `keep` holds.
    pub fn retain(&mut self, mut keep: impl FnMut(&AmqpValue, &AmqpValue) -> bool) {
        self.0.retain(|(key, value)| keep(key, value));
    }

    /// The pairs in order.
    pub fn iter(&self) -> impl Iterator<Item = &(AmqpValue, AmqpValue)> {
        self.0.iter()
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn decode_body(reader: &mut Reader<'_>, is_wide: bool) -> Result<Self, DecodeError> {
        let opened = reader.open(is_wide)?;
        if opened.count % 2 == 1 {
            return Err(DecodeError::BadSize);
        }
        reader.count_values(opened.count)?;
        let mut pairs = Vec::new();
        for _ in 0..opened.count / 2 {
            pairs.push((AmqpValue::decode(reader)?, AmqpValue::decode(reader)?));
        }
        reader.close(opened)?;
        Ok(Self(pairs))
    }
}

fn is_key(known: &AmqpValue, key: &str) -> bool {
    match known {
        AmqpValue::Symbol(symbol) => symbol == key,
        AmqpValue::String(text) => *text == *key,
        _ => false,
    }
}

impl FromIterator<(AmqpValue, AmqpValue)> for Map {
    fn from_iter<I: IntoIterator<Item = (AmqpValue, AmqpValue)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl IntoIterator for Map {
    type Item = (AmqpValue, AmqpValue);
    type IntoIter = std::vec::IntoIter<(AmqpValue, AmqpValue)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Field for Map {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            wide @ (code::MAP_8 | code::MAP_32) => Self::decode_body(reader, wide == code::MAP_32),
            code => Err(DecodeError::WrongType { expected: "map", code }),
        }
    }

    fn encode(&self, out: &mut BytesMut) {
        let map = Compound::begin(out, code::MAP_32);
        for (key, value) in &self.0 {
            key.encode(out);
            value.encode(out);
        }
        map.end(out, self.0.len() * 2);
    }
}

/// Iterates over the pairs of an encoded map without decoding it as a whole.
#[derive(Debug)]
pub struct Entries<'a> {
    reader: Reader<'a>,
    left: u32,
}

impl<'a> Entries<'a> {
    /// The pairs of the map that begins at `at`.
    pub fn new(bytes: &'a Bytes, at: usize) -> Result<Self, DecodeError> {
        let mut reader = Reader::within(bytes, at, bytes.len());
        let is_wide = match reader.u8()? {
            code::MAP_8 => false,
            code::MAP_32 => true,
            code => return Err(DecodeError::WrongType { expected: "map", code }),
        };
        let opened = reader.open(is_wide)?;
        if opened.count % 2 == 1 {
            return Err(DecodeError::BadSize);
        }
        Ok(Self {
            reader,
            left: opened.count / 2,
        })
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<(AmqpValue, AmqpValue), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let key = AmqpValue::decode(&mut self.reader);
        let pair = key.and_then(|key| Ok((key, AmqpValue::decode(&mut self.reader)?)));
        if pair.is_err() {
            self.left = 0;
        }
        Some(pair)
    }
}
