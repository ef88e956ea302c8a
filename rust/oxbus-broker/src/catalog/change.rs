// SPDX-License-Identifier: Apache-2.0
//! A change of the catalog: the payload of one record, and its effect on the contents.
//!
//! A record is JSON on one line. Its size does not depend on the number of entities, and that of a rule does not
//! depend on the number of rules.

use oxbus_model::rules::RuleSettings;
use oxbus_model::{Result, Timestamp};
use serde::{Deserialize, Serialize};

use super::{CatalogContents, EntityEntry, EntityRole, FencedEntry, unsupported};
use crate::shard::journal::EntityId;

/// A change of the catalog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum CatalogChange {
    /// An entity was created, or its settings changed: its new entry.
    Put(Box<EntityEntry>),
    /// Entities were deleted together.
    Remove(Vec<u64>),
    /// A rule was added to a subscription.
    AddRule(RuleChange),
    /// The rule of that name was replaced.
    ReplaceRule(RuleChange),
    /// A rule was deleted.
    RemoveRule {
        /// The number of the subscription.
        subscription: u64,
        /// When the rule was deleted.
        updated_at_ms: u64,
        /// Its name.
        name: String,
    },
    /// A journal entry never counts.
    Fence(FencedEntry),
    /// A snapshot of the partition made its older fences obsolete.
    ForgetFences {
        /// The partition.
        partition: u16,
        /// The first epoch whose fences stay.
        epoch: u64,
    },
    /// Last uses of entities: their numbers and times.
    Uses(Vec<(u64, u64)>),
}

/// A new rule of a subscription.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleChange {
    /// The number of the subscription.
    pub subscription: u64,
    /// When the rule was changed.
    pub updated_at_ms: u64,
    /// The rule.
    pub rule: RuleSettings,
}

impl CatalogChange {
    /// The payload of its record.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers, texts and lists are JSON")
    }

    /// Decodes the payload of a record whose checksum was verified.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes).map_err(unsupported)
    }

    /// True if it deletes entities.
    pub fn is_removal(&self) -> bool {
        matches!(self, Self::Remove(_))
    }
}

impl CatalogContents {
    /// Makes a change.
    pub fn apply(&mut self, change: CatalogChange) {
        match change {
            CatalogChange::Put(entry) => self.put(*entry),
            CatalogChange::Remove(entities) => {
                for entity in entities {
                    self.queues.remove(&entity);
                }
            }
            CatalogChange::AddRule(RuleChange {
                subscription,
                updated_at_ms,
                rule,
            }) => self.edit_rules(subscription, updated_at_ms, |rules| rules.push(rule)),
            CatalogChange::ReplaceRule(RuleChange {
                subscription,
                updated_at_ms,
                rule,
            }) => self.edit_rules(subscription, updated_at_ms, |rules| {
                if let Some(at) = position(rules, &rule.name) {
                    rules[at] = rule;
                }
            }),
            CatalogChange::RemoveRule {
                subscription,
                updated_at_ms,
                name,
            } => self.edit_rules(subscription, updated_at_ms, |rules| {
                if let Some(at) = position(rules, &name) {
                    rules.remove(at);
                }
            }),
            CatalogChange::Fence(entry) => self.fenced.push(entry),
            CatalogChange::ForgetFences { partition, epoch } => {
                self.fenced.retain(|it| it.partition != partition || it.epoch >= epoch);
            }
            CatalogChange::Uses(uses) => {
                for (entity, at) in uses {
                    if let Some(entry) = self.queues.get_mut(&entity) {
                        entry.accessed_at_ms = Some(at);
                    }
                }
            }
        }
    }

    /// Adds an entity, or replaces its entry.
    pub fn put(&mut self, entry: EntityEntry) {
        self.next_entity = self.next_entity.max(entry.id.saturating_add(1));
        self.queues.insert(entry.id, entry);
    }

    fn edit_rules(&mut self, subscription: u64, updated_at_ms: u64, edit: impl FnOnce(&mut Vec<RuleSettings>)) {
        if let Some(entry) = self.queues.get_mut(&subscription)
            && let EntityRole::Subscription { rules, .. } = &mut entry.role
        {
            entry.updated_at_ms = updated_at_ms;
            edit(rules);
        }
    }

    /// The entry of an entity after a change of its settings.
    pub(crate) fn updated(
        &self,
        entity: EntityId,
        now: Timestamp,
        change: impl FnOnce(&mut EntityEntry),
    ) -> Option<CatalogChange> {
        let mut entry = self.queues.get(&entity.0)?.clone();
        entry.updated_at_ms = now.0;
        change(&mut entry);
        Some(CatalogChange::Put(Box::new(entry)))
    }
}

/// The position of a rule by name, case-insensitive (B-018).
fn position(rules: &[RuleSettings], name: &str) -> Option<usize> {
    rules.iter().position(|rule| rule.name.eq_ignore_ascii_case(name))
}
