// SPDX-License-Identifier: Apache-2.0
//! Parts of objects that were read, up to a number of bytes. What was used least recently goes first.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::place::{ObjectKey, Place};

#[derive(Debug)]
struct Part {
    bytes: Bytes,
    used: u64,
}

/// Parts of payloads, by their object and their first byte.
#[derive(Debug, Default)]
pub(super) struct Cache {
    parts: BTreeMap<(ObjectKey, u32), Part>,
    by_use: BTreeMap<u64, (ObjectKey, u32)>,
    clock: u64,
    bytes: usize,
    bytes_max: usize,
}

impl Cache {
    /// A cache of up to `bytes_max` bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            ..Self::default()
        }
    }

    /// The bytes from a place on that one part has, at most `len`.
    pub(super) fn get(&mut self, place: Place, len: usize) -> Option<Bytes> {
        let key = (place.object, place.offset);
        let (&(object, start), part) = self.parts.range_mut(..=key).next_back()?;
        if object != place.object {
            return None;
        }
        let skipped = (place.offset - start) as usize;
        if skipped >= part.bytes.len() {
            return None;
        }
        self.clock += 1;
        self.by_use.remove(&part.used);
        part.used = self.clock;
        self.by_use.insert(self.clock, (object, start));
        let end = part.bytes.len().min(skipped + len);
        Some(part.bytes.slice(skipped..end))
    }

    /// Adds a part.
    pub(super) fn add(&mut self, place: Place, bytes: Bytes) {
        if bytes.is_empty() || bytes.len() > self.bytes_max {
            return;
        }
        self.clock += 1;
        let key = (place.object, place.offset);
        self.bytes += bytes.len();
        self.by_use.insert(self.clock, key);
        let part = Part {
            bytes,
            used: self.clock,
        };
        if let Some(before) = self.parts.insert(key, part) {
            self.bytes -= before.bytes.len();
            self.by_use.remove(&before.used);
        }
        while self.bytes > self.bytes_max {
            let Some((_, oldest)) = self.by_use.pop_first() else {
                break;
            };
            if let Some(part) = self.parts.remove(&oldest) {
                self.bytes -= part.bytes.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::ObjectNumber;

    #[test]
    fn the_part_used_least_recently_goes_first() {
        let at = |number, offset| Place {
            object: ObjectKey::new(0, ObjectNumber(number)),
            offset,
        };
        let mut cache = Cache::new(10);
        cache.add(at(1, 100), Bytes::from_static(b"abcde"));
        cache.add(at(2, 0), Bytes::from_static(b"fghi"));
        assert_eq!(cache.get(at(1, 102), 2).expect("cached"), "cd");
        assert_eq!(cache.get(at(1, 102), 20).expect("cached"), "cde");
        assert!(cache.get(at(1, 105), 1).is_none() && cache.get(at(1, 99), 1).is_none());
        cache.add(at(3, 0), Bytes::from_static(b"jkl"));
        assert!(cache.get(at(2, 0), 1).is_none(), "it was used before the others");
        assert!(cache.get(at(1, 100), 1).is_some() && cache.get(at(3, 1), 1).is_some());
    }
}
