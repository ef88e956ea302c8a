// SPDX-License-Identifier: Apache-2.0
//! The entities of a namespace by path and by number, linked with each other.
//!
//! An entity joins and leaves without a look at all others: the map counts its entities, and it knows the forwarding
//! entities by their destination and the entities that are deleted when idle.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use oxbus_model::Timestamp;
use oxbus_model::name::EntityName;

use super::Entity;
use super::forward::SUB_QUEUES;
use crate::shard::journal::EntityId;

/// The entities of a namespace.
#[derive(Default)]
pub(crate) struct EntityMap {
    by_key: BTreeMap<String, Arc<Entity>>,
    by_id: HashMap<EntityId, Arc<Entity>>,
    /// Queues and topics.
    targets: usize,
    /// Queues and topics with partitioning.
    partitioned_targets: usize,
    /// Entities that forward to a path, by the key of the path. There may be no entity of that path.
    sources: HashMap<String, BTreeSet<EntityId>>,
    expiring: ExpiringEntities,
}

/// Entities that are deleted when idle.
struct ExpiringEntities {
    entities: HashMap<EntityId, Arc<Entity>>,
    /// None of them is idle before this time.
    earliest: AtomicU64,
}

impl Default for ExpiringEntities {
    fn default() -> Self {
        Self {
            entities: HashMap::new(),
            earliest: AtomicU64::new(u64::MAX),
        }
    }
}

impl ExpiringEntities {
    fn insert(&mut self, entity: &Arc<Entity>) {
        if let Some(at) = entity.idle_at() {
            self.earliest.fetch_min(at.0, Ordering::Relaxed);
            self.entities.insert(entity.id(), Arc::clone(entity));
        }
    }

    fn idle(&self, now: Timestamp) -> Vec<Arc<Entity>> {
        if now.0 < self.earliest.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let idle = self.entities.values().filter(|entity| entity.is_idle());
        let idle = idle.cloned().collect();
        // Uses only postpone these times. Updates of settings insert the entity again.
        let times = self.entities.values().filter_map(|entity| entity.idle_at());
        let earliest = times.min().map_or(u64::MAX, |at| at.0);
        self.earliest.store(earliest, Ordering::Relaxed);
        idle
    }
}

impl EntityMap {
    /// The entity with this key.
    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Entity>> {
        self.by_key.get(key)
    }

    /// The entity with this number.
    pub(crate) fn by_id(&self, id: EntityId) -> Option<&Arc<Entity>> {
        self.by_id.get(&id)
    }

    /// The entities by path.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Arc<Entity>> {
        self.by_key.values()
    }

    /// The number of queues and topics, and of those with partitioning.
    pub(crate) fn target_counts(&self) -> (usize, usize) {
        (self.targets, self.partitioned_targets)
    }

    /// Adds an entity. Links it with its topic, with its destinations, and with the entities that forward to it.
    pub(crate) fn insert(&mut self, entity: &Arc<Entity>) {
        let key = entity.name().key();
        if let Some(other) = self.by_key.get(key).cloned() {
            self.remove(&other);
        }
        self.by_key.insert(key.to_owned(), Arc::clone(entity));
        self.by_id.insert(entity.id(), Arc::clone(entity));
        self.count(entity, 1);
        if let Some(topic) = entity.topic() {
            topic.add_subscription(entity);
        }
        for source in self.sources.get(key).into_iter().flatten() {
            if let Some(source) = self.by_id.get(source) {
                entity.add_source(source);
            }
        }
        self.add_settings(entity);
    }

    /// Removes an entity, which need not be here.
    pub(crate) fn remove(&mut self, entity: &Arc<Entity>) {
        if self.by_id.remove(&entity.id()).is_none() {
            return;
        }
        self.by_key.remove(entity.name().key());
        self.count(entity, -1);
        if let Some(topic) = entity.topic() {
            topic.remove_subscription(entity);
        }
        self.remove_settings(entity);
    }

    /// Changes the settings of an entity with `apply`, and links it with its new destinations.
    pub(crate) fn update(&mut self, entity: &Arc<Entity>, apply: impl FnOnce()) {
        self.remove_settings(entity);
        apply();
        self.add_settings(entity);
    }

    /// Entities that have been idle for longer than their settings allow.
    pub(crate) fn idle(&self, now: Timestamp) -> Vec<Arc<Entity>> {
        self.expiring.idle(now)
    }

    fn count(&mut self, entity: &Entity, by: isize) {
        let by = by * isize::from(entity.kind().accepts_sends());
        self.targets = self.targets.saturating_add_signed(by);
        let by = by * isize::from(entity.is_partitioned());
        self.partitioned_targets = self.partitioned_targets.saturating_add_signed(by);
    }

    fn add_settings(&mut self, entity: &Arc<Entity>) {
        self.expiring.insert(entity);
        for key in destinations(entity) {
            if let Some(destination) = self.by_key.get(&key) {
                destination.add_source(entity);
            }
            self.sources.entry(key).or_default().insert(entity.id());
        }
    }

    fn remove_settings(&mut self, entity: &Entity) {
        self.expiring.entities.remove(&entity.id());
        for key in destinations(entity) {
            if let Some(destination) = self.by_key.get(&key) {
                destination.remove_source(entity);
            }
            if let Some(sources) = self.sources.get_mut(&key) {
                sources.remove(&entity.id());
                if sources.is_empty() {
                    self.sources.remove(&key);
                }
            }
        }
    }
}

/// The keys of the paths to which an entity forwards.
fn destinations(entity: &Entity) -> impl Iterator<Item = String> {
    let paths = SUB_QUEUES.map(|sub_queue| entity.forwards_to(sub_queue));
    paths.into_iter().flatten().map(|path| EntityName::key_of(&path))
}
