// SPDX-License-Identifier: Apache-2.0
//! The queues over their shards: which cell is where, what a reopened directory gives them, healing and closing.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use oxbus_model::caps::TAKING_OVER_THREADS;
use oxbus_model::name::{EntityName, SubQueue};
use oxbus_model::options::QueueSettings;
use oxbus_model::{Clock, Error, ErrorKind, PartitionId, Result, Timestamp};
use oxbus_store::NumberedStore;
use oxbus_store::file::FileLog;

use super::NamespaceOptions;
use super::core::Core;
use crate::abreast;
use crate::bulk_load;
use crate::clock::{ManualClock, SystemClock};
use crate::durable::{self, Contents, EntityEntry, EntityRole, Stores, Upkeep};
use crate::entity::Queue;
use crate::entity::role::{CompiledRule, Role, SubscriptionRole, TopicRole};
use crate::shard::journal::{EntityId, Image, Journal, Origin};
use crate::shard::{Cell, CellHandle, Shard};
use crate::stage::Shelf;

/// Closes a namespace, without keeping it alive.
pub struct CloseHandle(Weak<Inner>);

impl CloseHandle {
    pub(super) fn new(inner: &Arc<Inner>) -> Self {
        Self(Arc::downgrade(inner))
    }

    /// False when the namespace is gone.
    pub fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Closes it, if it is still there.
    pub fn close(&self) {
        if let Some(inner) = self.0.upgrade() {
            inner.close(false);
        }
    }
}

/// What the handles of a namespace share.
pub(super) struct Inner {
    /// Dropped first: its thread looks at the rest.
    upkeep: OnceLock<Upkeep>,
    pub(super) core: Arc<Core>,
    pub(super) shards: Arc<[Arc<Shard>]>,
    /// In memory; the catalog counts in a directory.
    pub(super) next_entity: AtomicU64,
    pub(super) stores: Option<Stores>,
    /// Where stages wait.
    pub(super) shelf: Arc<Shelf>,
    pub(super) opened_at: Timestamp,
    /// Kept alive for the clock, which knows it weakly.
    _on_advance: Option<Arc<dyn Fn() + Send + Sync>>,
}

/// A cell, kept alive by its queue.
pub(super) struct CellRef {
    queue: Arc<Queue>,
    index: usize,
}

impl CellHandle for CellRef {
    fn cell(&self) -> &Cell {
        self.queue.cell(self.index).expect("a cell lives as long as its queue")
    }
}

impl Inner {
    /// Opens the directory, if there is one, and starts what looks after it.
    pub(super) fn open(options: NamespaceOptions) -> Result<Arc<Self>> {
        let NamespaceOptions {
            store,
            partitions,
            lock_policy,
            peek_policy,
            plan,
            memory_limit_bytes,
            clock: manual,
        } = options;
        let clock: Arc<dyn Clock> = match &manual {
            Some(manual) => Arc::<ManualClock>::clone(manual),
            None => Arc::new(SystemClock::new()),
        };
        let core = Arc::new(Core::new(
            clock,
            (lock_policy, peek_policy),
            plan,
            memory_limit_bytes,
            store.is_some(),
        )?);
        let on_advance = manual.map(|clock| {
            let handle = core.wake_handle();
            let wake: Arc<dyn Fn() + Send + Sync> = Arc::new(move || handle.wake_all());
            clock.on_advance(&wake);
            wake
        });
        let mut found = None;
        let (shards, stores): (Arc<[Arc<Shard>]>, _) = match store {
            None => {
                let ids = (0..plan.partitions(partitions)?).map(PartitionId);
                (ids.map(|id| Arc::new(Shard::in_memory(id))).collect(), None)
            }
            Some(store) => {
                let opened = durable::open(&store, partitions, plan.partitions(partitions)?, &core.memory)?;
                core.set_identity_key(opened.stores.identity_key());
                if !opened.stores.owns_all() {
                    core.share();
                }
                found = Some((opened.contents, opened.images));
                (opened.shards.into(), Some(opened.stores))
            }
        };
        let core_now = core.clock().now();
        let shelf = Arc::new(Shelf::new(&core, &shards, stores.as_ref().map(Stores::stage_files)));
        let inner = Arc::new(Self {
            upkeep: OnceLock::new(),
            core,
            shards,
            next_entity: AtomicU64::new(1),
            opened_at: core_now,
            stores,
            shelf,
            _on_advance: on_advance,
        });
        if let Some((contents, images)) = found {
            let stores = Arc::downgrade(&inner);
            inner.core.set_fences(Box::new(move |partition, late| {
                let inner = stores.upgrade();
                let stores = inner.as_ref().and_then(|inner| inner.stores.as_ref());
                stores.map_or(Ok(()), |stores| stores.fence(partition.0, late))
            }));
            inner.restore(&contents, images)?;
            inner.take_loads_over();
            inner.start_upkeep()?;
        }
        Ok(inner)
    }

    /// The shard of each cell of a queue: all of the namespace, or its home alone.
    pub(super) fn shards_of(&self, settings: &QueueSettings, home: u16) -> Box<[Arc<Shard>]> {
        if settings.enable_partitioning {
            self.shards.iter().map(Arc::clone).collect()
        } else {
            Box::new([Arc::clone(&self.shards[usize::from(home)])])
        }
    }

    /// The shard of a topic that is not partitioned, for its subscriptions.
    pub(super) fn home_of(entities: &BTreeMap<String, Arc<Queue>>, topic: u64) -> Result<u16> {
        let topic = entities.values().find(|entity| entity.id().0 == topic);
        let topic =
            topic.ok_or_else(|| Error::new(ErrorKind::EntityNotFound, "the topic was deleted; create it again"))?;
        Ok(topic.shard(0).id().0)
    }

    /// The entity that an entry of the catalog describes, without messages. `entities` has the topic of a subscription.
    pub(super) fn entity_of(&self, entry: &EntityEntry, entities: &BTreeMap<String, Arc<Queue>>) -> Result<Arc<Queue>> {
        if usize::from(entry.home) >= self.shards.len() {
            let detail = format!("the catalog names a partition that does not exist: `{}`", entry.name);
            return Err(Error::new(ErrorKind::Corrupt, detail));
        }
        let entity = Queue::new(
            &self.core,
            EntityName::of_catalog(&entry.name)?,
            entry.settings.clone(),
            role_of(entry, entities)?,
            self.shards_of(&entry.settings, entry.home),
            EntityId(entry.id),
            (Timestamp(entry.created_at_ms), Timestamp(entry.updated_at_ms)),
        );
        if let Some(accessed_at_ms) = entry.accessed_at_ms {
            entity.used_at(Timestamp(accessed_at_ms));
        }
        Ok(Arc::new(entity))
    }

    /// Makes the queues of the catalog with the messages of the journals.
    fn restore(&self, contents: &Contents, mut images: Vec<Image>) -> Result<()> {
        for (shard, image) in self.shards.iter().zip(&mut images) {
            shard.restore_intents(std::mem::take(image.sinks_mut()));
        }
        // Before any cell forgets what was attached to it.
        self.shelf.note_undone();
        let mut queues = self.core.queues_for_change();
        for entry in &contents.queues {
            let queue = self.entity_of(entry, &queues)?;
            for index in 0..usize::from(queue.partitions()) {
                let partition = usize::from(queue.shard(index).id().0);
                if let Some(messages) = images[partition].take(queue.id()) {
                    queue.restore(index, messages);
                }
            }
            queue.restore_reservations();
            queues.insert(queue.name().key().to_owned(), queue);
        }
        subscribe_all(&queues);
        let entities: Vec<Arc<Queue>> = queues.values().cloned().collect();
        link_all(&queues);
        drop(queues);
        for entity in &entities {
            entity.forward_anew();
            entity.announce_ready();
        }
        forget_arrivals(&entities);
        self.shelf.restore()
    }

    /// Stores what bulk loads attached to the partitions that are open here.
    fn take_loads_over(&self) {
        let Some(stores) = &self.stores else { return };
        let queues: Vec<Arc<Queue>> = self.core.queues().values().cloned().collect();
        let entity = |id| queues.iter().find(|queue| queue.id().0 == id).cloned();
        let serving: Vec<_> = self.shards.iter().filter(|shard| shard.health().serves()).collect();
        let left = Mutex::new(BTreeMap::new());
        let take = |shard: &&Arc<Shard>| {
            let waiting = bulk_load::take_over(stores, shard.id(), entity, self.opened_at);
            let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
            left.insert(shard.id(), waiting);
            Ok(())
        };
        // What cannot be taken over now waits for another open, and keeps this one from nothing.
        let _ = abreast::for_each(&serving, TAKING_OVER_THREADS, take);
        let left = left.into_inner().unwrap_or_else(PoisonError::into_inner);
        stores.note_waiting(left.into_values().flatten().collect());
    }

    fn start_upkeep(self: &Arc<Self>) -> Result<()> {
        let inner = Arc::downgrade(self);
        let upkeep = Upkeep::start(move || Some(inner.upgrade()? as Arc<dyn durable::Kept>)).map_err(|error| {
            let detail = format!("the thread that looks after the namespace could not be started: {error}");
            Error::new(ErrorKind::Storage, detail)
        })?;
        let _ = self.upkeep.set(upkeep);
        Ok(())
    }

    /// Takes over what another process changed in the catalog, when this one does not own it.
    pub(super) fn refresh_shared(&self) {
        if self.stores.as_ref().is_some_and(|stores| !stores.owns_all()) {
            let changed = self.refresh(&mut self.core.queues_for_change());
            for queue in &changed {
                queue.wake_all();
            }
        }
    }

    /// The same under the queue map; those to wake when it is let go.
    #[must_use]
    pub(super) fn refresh(&self, queues: &mut BTreeMap<String, Arc<Queue>>) -> Vec<Arc<Queue>> {
        let Some(stores) = self.stores.as_ref().filter(|stores| !stores.owns_all()) else {
            return Vec::new();
        };
        let (contents, true) = stores.contents() else {
            return Vec::new();
        };
        let changed = queues.values().cloned().collect();
        queues.retain(|_, queue| {
            let lives = contents.has(queue.id());
            if !lives {
                queue.remove();
            }
            lives
        });
        for entry in &contents.queues {
            match queues.get(&EntityName::key_of(&entry.name)) {
                Some(queue) => {
                    queue.apply(entry.settings.clone(), Timestamp(entry.updated_at_ms));
                    if let EntityRole::Subscription { rules, bury_failed, .. } = &entry.role {
                        // What was compiled there compiles here.
                        let rules = rules.iter().filter_map(|rule| CompiledRule::new(rule.clone()).ok());
                        queue.set_rules(rules.collect());
                        queue.set_buries_failed(*bury_failed);
                    }
                }
                None => {
                    if let Ok(queue) = self.entity_of(entry, queues) {
                        queues.insert(queue.name().key().to_owned(), queue);
                    }
                }
            }
        }
        subscribe_all(queues);
        link_all(queues);
        changed
    }

    /// What is over is not written down any more.
    pub(super) fn forget_seen(&self) {
        for queue in self.core.queues().values() {
            queue.forget_seen();
        }
    }

    /// The cells of a shard. Call it under the order of the shard's journal: a cell made later has no entry yet.
    pub(super) fn cells_of(&self, shard: &Arc<Shard>) -> Vec<CellRef> {
        let queues: Vec<Arc<Queue>> = self.core.queues().values().cloned().collect();
        let cells = queues.iter().flat_map(|queue| {
            let here = queue
                .cells()
                .filter(|(index, _)| Arc::ptr_eq(queue.shard(*index), shard));
            here.map(|(index, _)| CellRef {
                queue: Arc::clone(queue),
                index,
            })
        });
        cells.collect()
    }

    fn sets_numbers_aside(&self, shard: &Arc<Shard>) -> bool {
        let cells = self.cells_of(shard);
        cells
            .iter()
            .any(|cell| cell.cell().promised() > cell.cell().main().next())
    }

    pub(super) fn heal(&self, shard: &Arc<Shard>) -> Result<()> {
        self.forget_seen();
        let partition = shard.id();
        let store = self.stores.as_ref().and_then(|stores| stores.shard(partition.0));
        match store.filter(|store| store.log().has_ended()) {
            Some(store) => shard.heal(
                || store.log().has_ended(),
                || self.cells_of(shard),
                |chunks| store.begin_anew(chunks),
            )?,
            None => shard.health().heal(),
        }
        if let Some(stores) = &self.stores {
            stores.forget_fenced(partition.0);
        }
        let queues: Vec<Arc<Queue>> = self.core.queues().values().cloned().collect();
        for queue in queues {
            queue.revive(partition);
        }
        self.shelf.healed();
        Ok(())
    }

    /// Writes down when entities were used last, so that their idle time goes on after the next open.
    pub(super) fn note_uses(&self, of: impl Fn(&Queue) -> bool) {
        let Some(stores) = self.stores.as_ref().filter(|stores| stores.owns_all()) else {
            return;
        };
        let used: HashMap<u64, u64> = self
            .core
            .queues()
            .values()
            .filter(|entity| of(entity))
            .filter_map(|entity| Some((entity.id().0, entity.times().2?.0)))
            .collect();
        let is_new = |entry: &EntityEntry| used.get(&entry.id).is_some_and(|at| Some(*at) != entry.accessed_at_ms);
        if stores.contents().0.queues.iter().any(is_new) {
            // When it fails, the idle time counts from an earlier use.
            let _ = stores.change(|contents| {
                for entry in &mut contents.queues {
                    entry.accessed_at_ms = used.get(&entry.id).copied().or(entry.accessed_at_ms);
                }
            });
        }
    }

    /// Ends it. Snapshots are written unless `as_it_is`.
    pub(super) fn close(&self, as_it_is: bool) {
        if !self.core.shut() {
            return;
        }
        self.forget_seen();
        if let Some(stores) = &self.stores {
            for shard in &*self.shards {
                if let Some(store) = stores.shard(shard.id().0) {
                    // Faults that a test asked for end with the namespace, and a last try may find the disk well again.
                    store.injection().end();
                    if store.log().has_ended() {
                        let _ = self.heal(shard);
                    }
                }
            }
            self.shelf.close();
            for shard in &*self.shards {
                // A shard that cannot be saved keeps its journal: the next open reads that. One without news is saved when
                // numbers were set aside, so that the next open goes on without a gap.
                let has_news = |journal: &Journal| journal.unsaved_bytes() > 0 || self.sets_numbers_aside(shard);
                let saves = !as_it_is || self.sets_numbers_aside(shard);
                if saves && shard.health().serves() && shard.journal().is_some_and(has_news) {
                    let _ = shard.save(|| self.cells_of(shard), true);
                }
            }
            self.note_uses(|_| true);
            for shard in &*self.shards {
                shard.close();
            }
            stores.close();
        }
        let queues = std::mem::take(&mut *self.core.queues_for_change());
        for queue in queues.values() {
            queue.remove();
            queue.wake_all();
        }
    }
}

/// What the entity of an entry is.
fn role_of(entry: &EntityEntry, entities: &BTreeMap<String, Arc<Queue>>) -> Result<Role> {
    Ok(match &entry.role {
        EntityRole::Queue => Role::Queue,
        EntityRole::Topic { support_ordering } => Role::Topic(TopicRole::new(*support_ordering)),
        EntityRole::Subscription {
            topic,
            bury_failed,
            rules,
        } => {
            let found = entities.values().find(|entity| entity.id().0 == *topic);
            let topic = found.ok_or_else(|| {
                let detail = format!("the catalog has a subscription without its topic: `{}`", entry.name);
                Error::new(ErrorKind::Corrupt, detail)
            })?;
            let rules = rules.iter().cloned().map(CompiledRule::new).collect::<Result<_>>()?;
            Role::Subscription(SubscriptionRole::new(topic, *bury_failed, rules))
        }
    })
}

/// Tells each entity of those that forward to it.
pub(super) fn link_all(entities: &BTreeMap<String, Arc<Queue>>) {
    for source in entities.values() {
        for sub_queue in [SubQueue::Main, SubQueue::DeadLetter] {
            let destination = source.forwards_to(sub_queue);
            let destination = destination.and_then(|path| entities.get(&EntityName::key_of(&path)));
            if let Some(destination) = destination {
                destination.add_source(source);
            }
        }
    }
}

/// Forgets where messages came from that are not there any more.
fn forget_arrivals(entities: &[Arc<Queue>]) {
    let is_there = |origin: &Origin| {
        let Some(source) = entities.iter().find(|entity| entity.id() == origin.entity) else {
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
        cell.forget_arrival(cell.arrived().into_iter().filter(|origin| !is_there(origin)).collect());
    }
}

/// Tells each topic of its subscriptions.
pub(super) fn subscribe_all(entities: &BTreeMap<String, Arc<Queue>>) {
    for topic in entities.values().filter(|entity| entity.is_topic()) {
        let is_of_topic = |entity: &&Arc<Queue>| entity.topic().is_some_and(|it| Arc::ptr_eq(&it, topic));
        topic.subscribe(entities.values().filter(is_of_topic).cloned().collect());
    }
}

impl durable::Kept for Inner {
    fn shards(&self) -> &[Arc<Shard>] {
        &self.shards
    }

    fn save(&self, shard: &Arc<Shard>) {
        self.forget_seen();
        // It is tried again; until then the journal grows.
        let saved = shard.save(|| self.cells_of(shard), false);
        if let Some(stores) = self.stores.as_ref().filter(|_| saved.is_ok()) {
            stores.forget_fenced(shard.id().0);
        }
    }

    fn tend_stages(&self) {
        self.shelf.tend();
    }

    fn log(&self, shard: &Shard) -> Option<Arc<FileLog>> {
        Some(self.stores.as_ref()?.shard(shard.id().0)?.log())
    }

    fn note_uses(&self) {
        self.note_uses(Queue::may_become_idle);
    }

    fn try_heal(&self, shard: &Arc<Shard>) -> bool {
        self.heal(shard).is_ok()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close(false);
    }
}

#[cfg(test)]
mod tests;
