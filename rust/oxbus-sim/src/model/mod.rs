// SPDX-License-Identifier: Apache-2.0
//! A namespace as lists of messages, written from docs/behaviour.md and not from the broker.
//!
//! The model defines the allowed results, not which one occurs: fan-in may serve partitions in any order, and a
//! keyless message may go to any partition. So a test reports each result of the broker to the model, which checks it
//! and updates itself. A violation is a panic whose text names the rule.

pub mod arrival;
pub mod delivery;
pub mod entity;
pub mod forward;
pub mod management;
pub mod message;
pub mod send;
pub mod session;
pub mod time;
pub mod topic;
pub mod transaction;

use std::collections::BTreeMap;

use oxbus_model::hash::partition_of;
pub use oxbus_model::{ErrorKind, name::SubQueue};

use entity::{Entity, Kind};
use message::Content;

/// The errors with which a call may fail. If there are none, the call must succeed.
pub type Refusals = Vec<ErrorKind>;

/// Dropped duplicates, by the body of the message that was kept.
pub type Dropped = BTreeMap<u64, Vec<Content>>;

/// A namespace.
#[derive(Debug, Clone)]
pub struct World {
    /// Milliseconds since 1970.
    pub now: u64,
    /// Partitions of the namespace.
    pub partitions: u16,
    /// All entities, including deleted ones.
    pub entities: Vec<Entity>,
    /// Steps taken.
    pub step: u64,
    /// The last serial number of a lock, a message or an acceptance.
    pub last_serial: u64,
    /// Duplicates that forwarding dropped, by the body of the message that came first in the same step.
    pub dropped: Dropped,
}

impl World {
    /// A namespace without entities.
    pub fn new(now: u64, partitions: u16) -> Self {
        Self {
            now,
            partitions,
            entities: Vec::new(),
            step: 0,
            last_serial: 0,
            dropped: Dropped::new(),
        }
    }

    /// A new serial number.
    pub fn serial(&mut self) -> u64 {
        self.last_serial += 1;
        self.last_serial
    }

    /// The entity of that path (B-018).
    pub fn find(&self, path: &str) -> Option<usize> {
        self.entities
            .iter()
            .position(|entity| entity.alive && entity.name.eq_ignore_ascii_case(path))
    }

    /// Entities that are not deleted.
    pub fn alive_entities(&self) -> Vec<usize> {
        (0..self.entities.len()).filter(|at| self.entities[*at].alive).collect()
    }

    /// Subscriptions of a topic.
    pub fn subscriptions(&self, topic: usize) -> Vec<usize> {
        let is_one = |at: &usize| self.entities[*at].kind == Kind::Subscription(topic);
        self.alive_entities().into_iter().filter(is_one).collect()
    }

    /// The partition of a key in an entity (B-062).
    pub fn partition_of(&self, entity: usize, key: &str) -> u64 {
        if self.entities[entity].settings.enable_partitioning {
            partition_of(key.as_bytes(), self.partitions.into()).into()
        } else {
            0
        }
    }

    /// The partition of the namespace that has a message (B-324).
    pub fn shard_of(&self, entity: usize, number: u64) -> u64 {
        let entity = &self.entities[entity];
        if entity.settings.enable_partitioning {
            Entity::partition_of_number(number)
        } else {
            entity.home.into()
        }
    }
}
