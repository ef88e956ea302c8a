// SPDX-License-Identifier: Apache-2.0
//! Builds entities from the catalog, restores their messages at open, and links entities with each other.

use oxbus_store::Wait;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use oxbus_model::caps::TAKE_OVER_THREADS;
use oxbus_model::name::{EntityName, SubQueue};
use oxbus_model::sync::ignore_poison;
use oxbus_model::{Error, ErrorKind, Result, Timestamp};

use super::inner::Inner;
use crate::bulk_load;
use crate::catalog::{CatalogContents, EntityEntry};
use crate::durable::Stores;
use crate::entity::forward::forget_origins;
use crate::entity::kind::KindState;
use crate::entity::{Core, Entity, EntityMap};
use crate::parallel;
use crate::shard::Shard;
use crate::shard::journal::{EntityId, Origin, ShardState};

impl Inner {
    /// The home shard of a topic, for its subscriptions.
    pub(super) fn home_of(entities: &EntityMap, topic: u64) -> Result<u16> {
        let topic = entities.by_id(EntityId(topic));
        let topic =
            topic.ok_or_else(|| Error::new(ErrorKind::EntityNotFound, "the topic was deleted; create it again"))?;
        Ok(topic.shard(0).id().0)
    }

    /// Builds the entity of a catalog entry, without messages. `entities` contains the topic of a subscription.
    pub(super) fn entity_of(&self, entry: &EntityEntry, entities: &EntityMap) -> Result<Arc<Entity>> {
        if usize::from(entry.home) >= self.shards.len() {
            let detail = format!("the catalog names a partition that does not exist: `{}`", entry.name);
            return Err(Error::new(ErrorKind::Corrupt, detail));
        }
        let kind = KindState::of(&entry.role, |topic| {
            let found = entities.by_id(EntityId(topic));
            found.cloned().ok_or_else(|| {
                let detail = format!("the catalog has a subscription without its topic: `{}`", entry.name);
                Error::new(ErrorKind::Corrupt, detail)
            })
        })?;
        let entity = Entity::new(
            &self.core,
            EntityName::from_catalog(&entry.name)?,
            entry.settings.clone(),
            kind,
            self.shards_of(&entry.settings, entry.home),
            EntityId(entry.id),
            (Timestamp(entry.created_at_ms), Timestamp(entry.updated_at_ms)),
        );
        if let Some(accessed_at_ms) = entry.accessed_at_ms {
            entity.note_use_at(Timestamp(accessed_at_ms));
        }
        Ok(Arc::new(entity))
    }

    /// Builds the entities of the catalog with the messages of the journals.
    pub(super) fn restore(&self, contents: &CatalogContents, mut states: Vec<ShardState>) -> Result<()> {
        for (shard, state) in self.shards.iter().zip(&mut states) {
            shard.restore_intents(std::mem::take(state.sinks_mut()));
        }
        // This comes first, because it extends how long cells remember the names of attached rows.
        self.registry.note_unpublished();
        let change = self.core.change_entities();
        for entry in contents.queues.values() {
            let queue = self.entity_of(entry, &change.entities())?;
            for index in 0..usize::from(queue.partitions()) {
                let partition = usize::from(queue.shard(index).id().0);
                if let Some(messages) = states[partition].take(queue.id()) {
                    queue.restore(index, messages);
                }
            }
            queue.restore_reservations(&Wait::FOREVER);
            change.apply(|queues| queues.insert(&queue));
        }
        let entities: Vec<Arc<Entity>> = change.entities().values().cloned().collect();
        drop(change);
        for entity in &entities {
            entity.restart_forwarding(&Wait::FOREVER);
            entity.announce_ready(&Wait::FOREVER);
        }
        forget_stale_origins(&self.core, &entities);
        self.registry.restore()
    }

    /// Takes over the rows that bulk loads attached to the partitions of this process.
    pub(super) fn take_over_loads(&self) {
        let Some(stores) = &self.stores else { return };
        let entity = |id| self.core.entity_by_id(EntityId(id));
        let serving: Vec<_> = self.shards.iter().filter(|shard| shard.health().serves()).collect();
        let left = Mutex::new(BTreeMap::new());
        let take = |shard: &&Arc<Shard>, wait: &Wait<'_>| {
            let waiting = bulk_load::take_over(stores, shard.id(), entity, self.opened_at, wait);
            let mut left = ignore_poison(left.lock());
            left.insert(shard.id(), waiting);
            Ok(())
        };
        // A failed take-over does not fail the open; the next open tries again.
        let _ = parallel::for_each(&serving, TAKE_OVER_THREADS, &Wait::FOREVER, take);
        let left = ignore_poison(left.into_inner());
        stores.set_waiting_loads(left.into_values().flatten().collect());
    }

    /// Applies catalog changes by the process that owns the catalog, if that is another process.
    pub(super) fn refresh_shared(&self) {
        if self.stores.as_ref().is_some_and(|stores| !stores.owns_all()) {
            let changed = self.core.change_entities().apply(|queues| self.refresh(queues));
            for queue in &changed {
                queue.wake_all();
            }
        }
    }

    /// [`Inner::refresh_shared`] under the lock of the entity map. Returns the entities to wake after it is released.
    #[must_use]
    pub(super) fn refresh(&self, queues: &mut EntityMap) -> Vec<Arc<Entity>> {
        let Some(contents) = self.stores.as_ref().and_then(Stores::reread) else {
            return Vec::new();
        };
        let changed: Vec<Arc<Entity>> = queues.values().cloned().collect();
        for queue in changed.iter().filter(|queue| !contents.has(queue.id())) {
            queues.remove(queue);
            queue.mark_removed();
        }
        for entry in contents.queues.values() {
            match queues.by_id(EntityId(entry.id)).cloned() {
                Some(queue) => {
                    let updated_at = Timestamp(entry.updated_at_ms);
                    queues.update(&queue, || queue.apply(entry.settings.clone(), &entry.role, updated_at));
                    if let Some(topic) = queue.topic() {
                        topic.recompile();
                    }
                }
                None => {
                    if let Ok(queue) = self.entity_of(entry, queues) {
                        queues.insert(&queue);
                    }
                }
            }
        }
        changed
    }
}

/// Removes the origins of forwarded messages that no longer exist at their source.
fn forget_stale_origins(core: &Core, entities: &[Arc<Entity>]) {
    let is_there = |origin: &Origin| {
        let Some(source) = core.entity_by_id(origin.entity) else {
            return false;
        };
        let sub_queue = if origin.is_dead_letter {
            SubQueue::DeadLetter
        } else {
            SubQueue::Main
        };
        source.cells().any(|(index, cell)| {
            let shard = source.shard(index);
            shard.id().0 == origin.partition && (!shard.health().serves() || cell.has(sub_queue, origin.counter))
        })
    };
    for (_, cell) in entities.iter().flat_map(|entity| entity.cells()) {
        let gone = cell.origins().into_iter().filter(|origin| !is_there(origin));
        forget_origins(cell, gone.collect(), &Wait::FOREVER);
    }
}
