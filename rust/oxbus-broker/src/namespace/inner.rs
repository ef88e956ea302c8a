// SPDX-License-Identifier: Apache-2.0
//! The shared state of a namespace: open, cells of a shard, heal, close.

use oxbus_store::Wait;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use oxbus_log::event;
use oxbus_model::options::QueueSettings;
use oxbus_model::{Clock, Error, ErrorKind, PartitionId, Result, Timestamp};
use oxbus_store::NumberedStore;
use oxbus_store::file::FileLog;

use super::NamespaceOptions;
use crate::catalog::{CatalogChange, EntityEntry};
use crate::clock::{ManualClock, SystemClock};
use crate::durable::{self, Stores, Upkeep};
use crate::entity::Core;
use crate::entity::Entity;
use crate::shard::journal::Journal;
use crate::shard::{Cell, CellHandle, PartitionFault, Shard, snapshot_bytes};
use crate::stage::StageFiles;
use crate::stage::StageRegistry;

/// Closes a namespace without keeping it alive.
pub struct CloseHandle(Weak<Inner>);

impl CloseHandle {
    pub(super) fn new(inner: &Arc<Inner>) -> Self {
        Self(Arc::downgrade(inner))
    }

    /// False once the namespace is dropped.
    pub fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Closes the namespace if it is alive.
    pub fn close(&self) {
        if let Some(inner) = self.0.upgrade() {
            inner.close(false);
        }
    }
}

/// The state that the handles of a namespace share.
pub(super) struct Inner {
    /// Dropped first: its threads use the other fields.
    upkeep: OnceLock<Upkeep>,
    pub(super) core: Arc<Core>,
    pub(super) shards: Arc<[Arc<Shard>]>,
    /// Used only in memory. A durable namespace counts in the catalog.
    pub(super) next_entity: AtomicU64,
    pub(super) stores: Option<Stores>,
    pub(super) registry: Arc<StageRegistry>,
    pub(super) opened_at: Timestamp,
    /// Keeps alive the callback that the clock references weakly.
    _on_advance: Option<Arc<dyn Fn() + Send + Sync>>,
}

/// A cell, kept alive by its entity.
pub(super) struct CellRef {
    queue: Arc<Entity>,
    index: usize,
}

impl CellHandle for CellRef {
    fn cell(&self) -> &Cell {
        self.queue.cell(self.index).expect("a cell lives as long as its entity")
    }
}

impl Inner {
    /// Opens the namespace and starts the upkeep of a durable one.
    pub(super) fn open(options: NamespaceOptions) -> Result<Arc<Self>> {
        let NamespaceOptions {
            store,
            partitions,
            lock_policy,
            peek_policy,
            plan,
            memory_limit_bytes,
            keep_bodies_on_disk,
            clock: manual,
            slow_call_ms,
            randomness,
        } = options;
        let clock: Arc<dyn Clock> = match &manual {
            Some(manual) => Arc::<ManualClock>::clone(manual),
            None => Arc::new(SystemClock::new()),
        };
        let core = Arc::new(Core::new(
            (clock, randomness),
            (lock_policy, peek_policy),
            plan,
            (memory_limit_bytes, keep_bodies_on_disk),
            store.as_ref().map(|store| store.durability),
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
                let opened = durable::open(
                    &store,
                    (partitions, plan.partitions(partitions)?),
                    &core.memory,
                    core.randomness(),
                )?;
                core.set_identity_key(opened.stores.identity_key());
                core.set_lease(opened.stores.disk().lease());
                if !opened.stores.owns_all() {
                    core.mark_shared();
                }
                found = Some((opened.contents, opened.states));
                let journals = opened.shards.iter().filter_map(|shard| shard.journal());
                journals.for_each(|journal| journal.set_slow_call_ms(slow_call_ms));
                (opened.shards.into(), Some(opened.stores))
            }
        };
        let core_now = core.clock().now();
        let registry = Arc::new(StageRegistry::new(&core, &shards, stores.as_ref().map(StageFiles::of)));
        let inner = Arc::new(Self {
            upkeep: OnceLock::new(),
            core,
            shards,
            next_entity: AtomicU64::new(1),
            opened_at: core_now,
            stores,
            registry,
            _on_advance: on_advance,
        });
        if let Some((contents, states)) = found {
            let stores = Arc::downgrade(&inner);
            inner.core.set_fences(Box::new(move |partition, late| {
                let inner = stores.upgrade();
                let stores = inner.as_ref().and_then(|inner| inner.stores.as_ref());
                stores.map_or(Ok(()), |stores| stores.fence(partition.0, late))
            }));
            inner.restore(&contents, states)?;
            inner.take_over_loads();
            for shard in &*inner.shards {
                if let Some(log) = durable::UpkeepTarget::log(&*inner, shard) {
                    durable::compact_opened(shard, &log, &*inner);
                }
            }
            inner.start_upkeep()?;
        }
        inner.log_opened();
        Ok(inner)
    }

    /// Logs the open and the result of recovery.
    fn log_opened(&self) {
        let found = self.stores.as_ref().map(Stores::recovery).unwrap_or_default();
        event!(
            NAMESPACE_OPENED,
            path = %self.display_path(),
            partitions = self.shards.len(),
            frames = found.frames,
            cut_bytes = found.truncated_bytes,
            damaged = found.corrupt_partitions.len(),
            ms = (found.seconds * 1e3) as u64
        );
    }

    /// Its directory as shown in the log.
    pub(super) fn display_path(&self) -> std::borrow::Cow<'_, str> {
        match &self.stores {
            Some(stores) => stores.dir().to_string_lossy(),
            None => "(memory)".into(),
        }
    }

    /// Takes the number of a new entity.
    pub(super) fn take_entity_number(&self) -> u64 {
        match &self.stores {
            Some(stores) => stores.take_entity_number(),
            None => self.next_entity.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// The shards of an entity's cells: all of the namespace, or only its home shard.
    pub(super) fn shards_of(&self, settings: &QueueSettings, home: u16) -> Box<[Arc<Shard>]> {
        if settings.enable_partitioning {
            self.shards.iter().map(Arc::clone).collect()
        } else {
            Box::new([Arc::clone(&self.shards[usize::from(home)])])
        }
    }

    fn start_upkeep(self: &Arc<Self>) -> Result<()> {
        let inner = Arc::downgrade(self);
        let upkeep =
            Upkeep::start(move || Some(inner.upgrade()? as Arc<dyn durable::UpkeepTarget>)).map_err(|error| {
                let detail = format!("the upkeep threads of the namespace could not be started: {error}");
                Error::new(ErrorKind::Storage, detail).with_source(error)
            })?;
        for journal in self.shards.iter().filter_map(|shard| shard.journal()) {
            journal.on_growth(upkeep.snapshot_notifier());
        }
        let _ = self.upkeep.set(upkeep);
        Ok(())
    }

    /// Removes expired identities, so that snapshots do not contain them.
    pub(super) fn forget_expired_identities(&self) {
        for queue in self.core.entities().values() {
            queue.forget_expired_identities();
        }
    }

    /// Returns the cells of a shard. Call it under the append guard of the shard's journal: a cell created later has
    /// no entry yet.
    pub(super) fn cells_of(&self, shard: &Arc<Shard>) -> Vec<CellRef> {
        let queues: Vec<Arc<Entity>> = self.core.entities().values().cloned().collect();
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

    fn has_reserved_numbers(&self, shard: &Arc<Shard>) -> bool {
        let cells = self.cells_of(shard);
        cells
            .iter()
            .any(|cell| cell.cell().reserved_until() > cell.cell().main().next())
    }

    pub(super) fn heal(&self, shard: &Arc<Shard>, wait: &Wait<'_>) -> Result<()> {
        self.forget_expired_identities();
        let partition = shard.id();
        let store = self.stores.as_ref().and_then(|stores| stores.shard(partition.0));
        // The order of the checks matters: healing installs the new log first and ends the fault last.
        let is_unhealed = |log: &FileLog| log.has_ended() || shard.health().fault() == Some(PartitionFault::Healing);
        match store.filter(|store| is_unhealed(&store.log())) {
            Some(store) => shard.heal(
                || store.log().has_ended(),
                || self.cells_of(shard),
                |chunks| store.restart_journal(chunks),
            )?,
            None => shard.health().heal(),
        }
        if let Some(stores) = &self.stores {
            stores.forget_fenced(partition.0);
        }
        let queues: Vec<Arc<Entity>> = self.core.entities().values().cloned().collect();
        for queue in queues {
            queue.resume_partition(partition, wait);
        }
        self.registry.resume_after_heal();
        Ok(())
    }

    /// Saves the last use of entities in the catalog, so that idle times continue after the next open.
    pub(super) fn record_uses(&self, of: impl Fn(&Entity) -> bool) {
        let Some(stores) = self.stores.as_ref().filter(|stores| stores.owns_all()) else {
            return;
        };
        let used: HashMap<u64, u64> = self
            .core
            .entities()
            .values()
            .filter(|entity| of(entity))
            .filter_map(|entity| Some((entity.id().0, entity.times().2?.0)))
            .collect();
        let new_use = |entry: &EntityEntry| {
            let at = used.get(&entry.id).filter(|at| Some(**at) != entry.accessed_at_ms)?;
            Some((entry.id, *at))
        };
        // If this fails, idle times count from an earlier use.
        let _ = stores.change(|contents| {
            let entries = contents.queues.values();
            let new: Vec<(u64, u64)> = entries.filter_map(new_use).collect();
            (!new.is_empty()).then_some(CatalogChange::Uses(new))
        });
    }

    /// Removes the drain reserves of empty partitions, which have nothing to drain.
    fn release_drain_reserves(&self, stores: &Stores) {
        for shard in &*self.shards {
            let Some(store) = stores.shard(shard.id().0) else {
                continue;
            };
            if self.cells_of(shard).iter().all(|cell| cell.cell().is_empty()) {
                // The next owner uses or removes a reserve that stays.
                let _ = store.log().release_reserve();
            }
        }
    }

    /// Closes the namespace. Writes snapshots unless `without_snapshots`.
    pub(super) fn close(&self, without_snapshots: bool) {
        if !self.core.mark_closed() {
            return;
        }
        self.forget_expired_identities();
        if let Some(stores) = &self.stores {
            stores.disk().begin_release();
            for shard in &*self.shards {
                if let Some(store) = stores.shard(shard.id().0) {
                    // Injected faults end with the namespace, so a last attempt to heal may succeed.
                    store.injection().end();
                    if store.log().has_ended() {
                        let _ = self.heal(shard, &Wait::FOREVER);
                    }
                }
            }
            self.registry.close();
            for shard in &*self.shards {
                // If a snapshot fails, the next open reads the journal. A shard without new entries writes a snapshot
                // if numbers are reserved, so that numbers continue without a gap.
                let has_changes = |journal: &Journal| journal.unsaved_bytes() > 0 || self.has_reserved_numbers(shard);
                let saves = !without_snapshots || self.has_reserved_numbers(shard);
                if saves && shard.health().serves() && shard.journal().is_some_and(has_changes) {
                    let _ = shard.write_snapshot(|| self.cells_of(shard), true);
                }
            }
            self.release_drain_reserves(stores);
            self.record_uses(|_| true);
            for shard in &*self.shards {
                shard.close();
            }
            stores.close();
        }
        let queues = self.core.change_entities().apply(std::mem::take);
        for queue in queues.values() {
            queue.mark_removed();
            queue.wake_all();
        }
        event!(NAMESPACE_CLOSED, path = %self.display_path());
    }
}

impl durable::UpkeepTarget for Inner {
    fn shards(&self) -> &[Arc<Shard>] {
        &self.shards
    }

    fn save(&self, shard: &Arc<Shard>) -> bool {
        self.forget_expired_identities();
        // A failed snapshot is retried. Until then the journal grows.
        let saved = shard.write_snapshot(|| self.cells_of(shard), false).is_ok();
        if let Some(stores) = self.stores.as_ref().filter(|_| saved) {
            stores.forget_fenced(shard.id().0);
        }
        saved
    }

    fn snapshot_bytes(&self, shard: &Arc<Shard>) -> u64 {
        snapshot_bytes(&self.cells_of(shard))
    }

    fn resume_stages(&self) {
        self.registry.resume();
    }

    fn log(&self, shard: &Shard) -> Option<Arc<FileLog>> {
        Some(self.stores.as_ref()?.shard(shard.id().0)?.log())
    }

    fn record_uses(&self) {
        self.record_uses(|entity| entity.idle_ms().is_some());
    }

    fn try_heal(&self, shard: &Arc<Shard>) -> bool {
        self.heal(shard, &Wait::FOREVER).is_ok()
    }
}

/// Closes the namespace when the user drops the last handle, in the user's thread. An upkeep thread may hold [`Inner`]
/// a moment longer.
pub(super) struct CloseGuard(pub(super) Arc<Inner>);

impl Drop for CloseGuard {
    fn drop(&mut self) {
        self.0.close(false);
    }
}

/// Covers a namespace whose open failed, which has no handle.
impl Drop for Inner {
    fn drop(&mut self) {
        self.close(false);
    }
}

#[cfg(test)]
mod panics;
#[cfg(test)]
mod tests;
