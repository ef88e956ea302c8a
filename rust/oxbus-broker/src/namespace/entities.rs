// SPDX-License-Identifier: Apache-2.0
//! Management of entities: create, update, find, list, delete.
//!
//! A change holds for all partitions or for none: the catalog is written before the change takes effect anywhere.

use oxbus_store::Wait;
use std::sync::Arc;

use oxbus_model::hash::partition_of;
use oxbus_model::name::EntityName;
use oxbus_model::options::QueueSettings;
use oxbus_model::{Effect, EntityKind, Error, ErrorKind, Result};

use super::Namespace;
use super::inner::Inner;
use crate::catalog::{CatalogChange, EntityEntry, EntityRole};
use crate::entity::{Entity, EntityChange, EntityMap};
use crate::shard::Shard;

impl Namespace {
    /// Creates a queue.
    pub fn create_queue(&self, name: &str, settings: QueueSettings, wait: &Wait<'_>) -> Result<Arc<Entity>> {
        self.create(&EntityName::parse(name)?, settings, EntityRole::Queue, wait)
    }

    /// Creates an entity.
    pub(super) fn create(
        &self,
        name: &EntityName,
        mut settings: QueueSettings,
        role: EntityRole,
        wait: &Wait<'_>,
    ) -> Result<Arc<Entity>> {
        let inner = &self.inner;
        inner.core.check_open()?;
        let plan = inner.core.plan();
        let kind = role.kind();
        if kind.accepts_sends() {
            plan.complete(&mut settings);
        }
        settings.check()?;
        plan.check(kind, &settings, None)?;
        kind.check_status(settings.status)?;
        self.delete_idle();
        let change = inner.core.change_entities();
        let changed = change.apply(|entities| inner.refresh(entities));
        let created = self.create_in(&change, name, settings, role);
        drop(change);
        for entity in &changed {
            entity.wake_all();
        }
        // Messages may wait to be forwarded to an entity of that name.
        created.inspect(|entity| entity.tick(inner.core.clock().moment(), wait))
    }

    /// Creates the entity in a change.
    fn create_in(
        &self,
        change: &EntityChange<'_>,
        name: &EntityName,
        settings: QueueSettings,
        role: EntityRole,
    ) -> Result<Arc<Entity>> {
        let inner = &self.inner;
        let home = self.check_new(&change.entities(), name, &settings, &role)?;
        let shards = inner.shards_of(&settings, home);
        check_health(&shards, "create")?;
        let now = inner.core.clock().now();
        let entry = EntityEntry {
            id: inner.take_entity_number(),
            name: name.as_str().to_owned(),
            home,
            created_at_ms: now.0,
            updated_at_ms: now.0,
            accessed_at_ms: None,
            settings,
            role,
        };
        // This precedes the change of the catalog, so that a rule that does not compile leaves no trace.
        let entity = inner.entity_of(&entry, &change.entities())?;
        if let Some(stores) = &inner.stores {
            stores.change(|_| Some(CatalogChange::Put(Box::new(entry))))?;
        }
        change.apply(|entities| entities.insert(&entity));
        Ok(entity)
    }

    /// Fails if there can be no such entity beside the others. Returns the home of its messages.
    fn check_new(
        &self,
        entities: &EntityMap,
        name: &EntityName,
        settings: &QueueSettings,
        role: &EntityRole,
    ) -> Result<u16> {
        let kind = role.kind();
        check_destinations((kind == EntityKind::Queue).then_some(name), settings, entities)?;
        if entities.get(name.key()).is_some() {
            let detail = format!(
                "an entity of that name exists; choose another name or update that one: `{}`",
                name.as_str()
            );
            return Err(Error::new(ErrorKind::EntityAlreadyExists, detail));
        }
        if kind.accepts_sends() {
            let (targets, partitioned) = entities.target_counts();
            let plan = self.inner.core.plan();
            plan.check_count(targets, partitioned, settings.enable_partitioning)?;
        }
        match role {
            // A subscription is in the shard of its topic, so that one write covers both.
            EntityRole::Subscription { topic, .. } => Inner::home_of(entities, *topic),
            _ => Ok(partition_of(name.key().as_bytes(), self.partitions().into()) as u16),
        }
    }

    /// The queue of that name.
    pub fn queue(&self, name: &str) -> Result<Arc<Entity>> {
        self.entity_of_kind(name, EntityKind::Queue)
    }

    /// The entity of that path, if it is of that kind (B-019).
    pub(super) fn entity_of_kind(&self, path: &str, kind: EntityKind) -> Result<Arc<Entity>> {
        self.entity_if(path, kind, |entity| entity.kind() == kind)
    }

    fn entity_if(&self, path: &str, kind: EntityKind, is_it: impl Fn(&Entity) -> bool) -> Result<Arc<Entity>> {
        self.inner.core.check_open()?;
        self.inner.refresh_shared();
        self.delete_idle();
        let found = self.inner.core.entities().get(&EntityName::key_of(path)).cloned();
        found.filter(|entity| is_it(entity)).ok_or_else(|| {
            let kind = kind.name();
            Error::entity_not_found(
                path,
                &format!("Check its name, or create the {kind} with create_{kind}."),
            )
        })
    }

    /// The entity of that path, of any kind.
    pub fn entity(&self, path: &str) -> Result<Arc<Entity>> {
        let expected = if path.to_ascii_lowercase().contains("/subscriptions/") {
            EntityKind::Subscription
        } else {
            EntityKind::Queue
        };
        self.entity_if(path, expected, |_| true)
    }

    /// Updates the settings of an entity. `change` edits a copy of the current ones.
    pub fn update(&self, entity: &Arc<Entity>, change: impl FnOnce(&mut QueueSettings), wait: &Wait<'_>) -> Result<()> {
        self.update_entry(
            entity,
            |settings, _| {
                change(settings);
                Ok(())
            },
            wait,
        )
    }

    /// Updates the settings of an entity and of its kind. `change` edits copies of the current ones.
    pub(super) fn update_entry(
        &self,
        entity: &Arc<Entity>,
        change: impl FnOnce(&mut QueueSettings, &mut EntityRole) -> Result<()>,
        wait: &Wait<'_>,
    ) -> Result<()> {
        // Pending expiry and activation use the old settings.
        entity.tick(self.inner.core.clock().moment(), wait);
        let in_turn = self.inner.core.change_entities();
        entity.check_alive()?;
        let held = entity.settings();
        let mut next = QueueSettings::clone(held);
        let mut role = entity.catalog_role();
        change(&mut next, &mut role)?;
        held.check_change(&next)?;
        let plan = self.inner.core.plan();
        plan.check(role.kind(), &next, Some(held))?;
        if next.status != held.status {
            role.kind().check_status(next.status)?;
        }
        check_destinations(None, &next, &in_turn.entities())?;
        check_all_in_service(entity, "update")?;
        let now = self.inner.core.clock().now();
        if let Some(stores) = &self.inner.stores {
            stores.change(|contents| {
                contents.updated(entity.id(), now, |entry| {
                    entry.settings = next.clone();
                    entry.role = role.clone();
                })
            })?;
        }
        in_turn.apply(|entities| entities.update(entity, || entity.apply(next, &role, now)));
        if let Some(topic) = entity.topic() {
            topic.touch(now);
        }
        drop(in_turn);
        entity.wake_all();
        // Forwards the existing messages, or makes them receivable if forwarding ended.
        entity.restart_forwarding(wait);
        entity.announce_ready(wait);
        // Senders that forward to it may succeed now.
        entity.tick(self.inner.core.clock().moment(), wait);
        Ok(())
    }

    /// Deletes an entity with its messages, and a topic with its subscriptions. If it is in doubt whether the catalog
    /// says so, they no longer exist here, and the next open decides.
    pub fn delete(&self, entity: &Arc<Entity>) -> Result<()> {
        entity.check_alive()?;
        self.delete_if(entity, |_| true)
    }

    pub(super) fn delete_if(&self, entity: &Arc<Entity>, is_wanted: impl Fn(&Entity) -> bool) -> Result<()> {
        let change = self.inner.core.change_entities();
        let is_there = |it: &Arc<Entity>| Arc::ptr_eq(it, entity);
        if !change.entities().get(entity.name().key()).is_some_and(is_there) || !is_wanted(entity) {
            return Ok(());
        }
        check_all_in_service(entity, "delete")?;
        let mut gone = entity.subscriptions();
        gone.push(Arc::clone(entity));
        let mut written = Ok(());
        if let Some(stores) = &self.inner.stores {
            // Its messages are deleted with it: recovery drops entities that the catalog does not have.
            let numbers = gone.iter().map(|entity| entity.id().0).collect();
            written = stores.change(|_| Some(CatalogChange::Remove(numbers)));
            if written
                .as_ref()
                .is_err_and(|error| error.effect() != Some(Effect::Unknown))
            {
                return written;
            }
        }
        change.apply(|entities| {
            for entity in &gone {
                entities.remove(entity);
                entity.mark_removed();
            }
        });
        drop(change);
        for entity in &gone {
            entity.wake_all();
        }
        written
    }

    /// Deletes entities that have been idle for longer than their settings allow (B-382).
    pub(super) fn delete_idle(&self) {
        let core = &self.inner.core;
        if core.is_shared() {
            return;
        }
        let idle = core.entities().idle(core.clock().now());
        for entity in idle {
            // An entity with a partition out of service is deleted later. Until then its handles fail.
            let _ = self.delete_if(&entity, Entity::is_idle);
        }
    }

    /// All entities of a kind by path.
    pub fn list(&self, kind: EntityKind) -> Result<Vec<Arc<Entity>>> {
        let mut entities = self.list_entities()?;
        entities.retain(|entity| entity.kind() == kind);
        Ok(entities)
    }

    /// All entities by path: queues, topics, subscriptions.
    pub fn list_entities(&self) -> Result<Vec<Arc<Entity>>> {
        self.inner.core.check_open()?;
        self.inner.refresh_shared();
        self.delete_idle();
        let entities = self.inner.core.entities();
        Ok(entities.values().cloned().collect())
    }
}

/// Fails if a forwarding destination is missing or a subscription (B-332). A new queue may forward to itself (B-033).
fn check_destinations(made: Option<&EntityName>, settings: &QueueSettings, entities: &EntityMap) -> Result<()> {
    let options = [
        ("forward_to", &settings.forward_to),
        ("forward_dead_lettered_messages_to", &settings.forward_dead_letters_to),
    ];
    for (option, path) in options {
        let Some(path) = path else { continue };
        let key = EntityName::key_of(path);
        let is_there = entities.get(&key).is_some_and(|entity| entity.kind().accepts_sends());
        if is_there || made.is_some_and(|made| made.key() == key) {
            continue;
        }
        let detail = format!(
            "The auto forwarding destination entity doesn't exist. Create the queue or topic first, or leave {option} out: `{path}`"
        );
        return Err(Error::new(ErrorKind::InvalidOperation, detail));
    }
    Ok(())
}

/// Fails if a partition of the entity is out of service.
pub(super) fn check_all_in_service(entity: &Entity, what: &str) -> Result<()> {
    check_health(
        (0..usize::from(entity.partitions())).map(|index| entity.shard(index)),
        what,
    )
}

/// Fails if one of the shards is out of service: management needs all partitions of an entity (B-096).
fn check_health<'a>(shards: impl IntoIterator<Item = &'a Arc<Shard>>, what: &str) -> Result<()> {
    for shard in shards {
        if let Some(reason) = shard.health().reason() {
            let detail = format!(
                "cannot {what} the entity: {reason}; heal the partition and try again: partition={}",
                shard.id()
            );
            return Err(Error::new(ErrorKind::PartitionUnavailable, detail).with_shared_source(shard.health().source()));
        }
    }
    Ok(())
}
