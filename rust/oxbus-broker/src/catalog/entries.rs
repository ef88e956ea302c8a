// SPDX-License-Identifier: Apache-2.0
//! The entities in the JSON of a catalog: a list in the order of their numbers.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

use super::EntityEntry;

pub(super) fn serialize<S: Serializer>(entries: &BTreeMap<u64, EntityEntry>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(entries.values())
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<u64, EntityEntry>, D::Error> {
    let mut entries = BTreeMap::new();
    for entry in Vec::<EntityEntry>::deserialize(from)? {
        if let Some(other) = entries.insert(entry.id, entry) {
            return Err(D::Error::custom(format!("two entities have the number {}", other.id)));
        }
    }
    Ok(entries)
}
