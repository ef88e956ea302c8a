// SPDX-License-Identifier: Apache-2.0
//! The content of a namespace's catalog: its partitions and its entities.
//!
//! The content is JSON, readable by people, and so is each change after it (`change`). The file around them has the
//! checksums (docs/format.md).

mod change;
mod entries;

use std::collections::BTreeMap;

use oxbus_model::options::QueueSettings;
use oxbus_model::rules::RuleSettings;
use oxbus_model::{EntityKind, Error, ErrorKind, IdentityKey, Result};
use oxbus_store::file::CatalogBytes;
use serde::{Deserialize, Serialize};

pub(crate) use self::change::{CatalogChange, RuleChange};
use crate::shard::journal::EntityId;

/// The content of a catalog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogContents {
    /// Shards of the namespace.
    pub partitions: u16,
    /// Number of the next entity. Numbers are never reused.
    pub next_entity: u64,
    /// Key of the identity hash as 32 hexadecimal digits, if it differs from the store id. A salvaged namespace has a
    /// new store id and keeps the identities of the original.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_key: Option<String>,
    /// Journal entries that recovery ignores, because their messages were stored in another partition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fenced: Vec<FencedEntry>,
    /// The queues, topics and subscriptions by number; a list in the file.
    #[serde(with = "entries")]
    pub queues: BTreeMap<u64, EntityEntry>,
}

/// A journal entry that recovery ignores: its disk did not answer, and its messages were stored in another partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FencedEntry {
    /// Its partition.
    pub partition: u16,
    /// Epoch of its writer. An entry of another owner may have the same number.
    pub epoch: u64,
    /// Its number.
    pub lsn: u64,
}

/// The kind of an entity, with the settings that only this kind has.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum EntityRole {
    /// A queue.
    #[default]
    Queue,
    /// A topic.
    Topic {
        /// Stored and returned, but has no effect (B-354).
        support_ordering: bool,
    },
    /// A subscription.
    Subscription {
        /// The number of its topic.
        topic: u64,
        /// Messages that make a rule fail go to the dead-letter queue (B-358).
        #[serde(rename = "bury_failed")]
        dead_letter_failed: bool,
        /// Its rules.
        rules: Vec<RuleSettings>,
    },
}

impl EntityRole {
    /// Its kind.
    pub fn kind(&self) -> EntityKind {
        match self {
            Self::Queue => EntityKind::Queue,
            Self::Topic { .. } => EntityKind::Topic,
            Self::Subscription { .. } => EntityKind::Subscription,
        }
    }

    fn is_queue(&self) -> bool {
        *self == Self::Queue
    }
}

/// An entity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntityEntry {
    /// Its number in the journals. An entity that is created again under the same name gets a new number.
    pub id: u64,
    /// Its name, with the case in which it was given.
    pub name: String,
    /// The shard of a queue that is not partitioned.
    pub home: u16,
    /// When it was created, in milliseconds since 1970.
    pub created_at_ms: u64,
    /// When its settings last changed.
    pub updated_at_ms: u64,
    /// When it was last used, as of the last save of this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accessed_at_ms: Option<u64>,
    /// Its settings. Settings that its kind does not have are at their defaults.
    pub settings: QueueSettings,
    /// Its kind.
    #[serde(default, skip_serializing_if = "EntityRole::is_queue")]
    pub role: EntityRole,
}

impl CatalogContents {
    /// The catalog of a namespace without entities.
    pub fn new(partitions: u16) -> Self {
        Self {
            partitions,
            next_entity: 1,
            identity_key: None,
            fenced: Vec::new(),
            queues: BTreeMap::new(),
        }
    }

    /// The key of the identity hash; the store id by default.
    pub fn identity_key(&self, store: [u8; 16]) -> IdentityKey {
        let digits = self.identity_key.as_ref();
        let number = digits.and_then(|digits| u128::from_str_radix(digits, 16).ok());
        IdentityKey(number.map_or(store, u128::to_be_bytes))
    }

    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("numbers, texts and lists are JSON")
    }

    /// Decodes a catalog whose checksums were verified.
    pub fn decode(bytes: &CatalogBytes) -> Result<Self> {
        let mut contents: Self = serde_json::from_slice(&bytes.content).map_err(unsupported)?;
        for change in &bytes.changes {
            contents.apply(CatalogChange::decode(change)?);
        }
        Ok(contents)
    }

    /// True if the entity exists.
    pub fn has(&self, entity: EntityId) -> bool {
        self.queues.contains_key(&entity.0)
    }
}

/// The error of content that is whole but has another meaning.
fn unsupported(error: serde_json::Error) -> Error {
    let detail = format!(
        "the catalog has content that this version does not support; open the namespace with the version that wrote it: {error}"
    );
    Error::new(ErrorKind::InvalidOperation, detail).with_source(error)
}

#[cfg(test)]
mod tests;
