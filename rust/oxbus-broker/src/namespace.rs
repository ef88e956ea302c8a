// SPDX-License-Identifier: Apache-2.0
//! The front door: a namespace, its shards, and the queues in them.
//!
//! In memory, or in a directory (`durable`). Queues are found by name without case. Handles keep their queue alive; a deleted queue refuses every call,
//! and a queue of the same name created later is another incarnation.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use oxbus_model::caps::{PARTITIONS_DEFAULT, PARTITIONS_MAX};
use oxbus_model::hash::partition_of;
use oxbus_model::name::EntityName;
use oxbus_model::options::{LockPolicy, QueueSettings};
use oxbus_model::{Clock, Error, ErrorKind, PartitionId, Result, Timestamp, TokenKey};
use oxbus_store::NumberedStore;

use crate::client::{Receiver, ReceiverOptions, Sender};
use crate::clock::{ManualClock, SystemClock, random_bytes};
use crate::durable::{self, Contents, QueueEntry, Recovery, StoreOptions, Stores, Upkeep};
use crate::entity::{Queue, QueueCounts, QueueDescription};
use crate::memory::Memory;
use crate::shard::journal::{EntityId, Image, Journal};
use crate::shard::{Cell, CellHandle, Fault, Injected, Shard};

/// How to open a namespace.
#[derive(Default)]
pub struct NamespaceOptions {
    /// Where to keep it; `None` in memory.
    pub store: Option<StoreOptions>,
    /// Shards, and cells of a partitioned entity. `None` for the usual number, or for those that it has.
    pub partitions: Option<u16>,
    /// Policy of receivers that name none.
    pub lock_policy: LockPolicy,
    /// Bytes the messages may take; `None` without a bound.
    pub memory_limit_bytes: Option<u64>,
    /// A clock moved by hand; `None` for the machine's.
    pub clock: Option<Arc<ManualClock>>,
}

/// What every queue of a namespace shares.
pub struct Core {
    clock: Arc<dyn Clock>,
    token_key: TokenKey,
    lock_policy: LockPolicy,
    memory_limit_bytes: Option<u64>,
    /// Bytes appended since the last exact count, plus that count: an upper bound. Moves only with a limit.
    stored_bytes_bound: AtomicU64,
    /// The same limit in a directory.
    memory: Arc<Memory>,
    turns: AtomicU64,
    durable: bool,
    open: AtomicBool,
    queues: RwLock<BTreeMap<String, Arc<Queue>>>,
}

impl Core {
    /// The namespace's clock.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// The secret of its lock tokens.
    pub fn token_key(&self) -> &TokenKey {
        &self.token_key
    }

    /// Policy of receivers that name none.
    pub fn lock_policy(&self) -> LockPolicy {
        self.lock_policy
    }

    /// Where the next sender begins its turns.
    pub fn next_turn(&self) -> u64 {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }

    /// True when messages are kept in a directory.
    #[inline]
    pub fn is_durable(&self) -> bool {
        self.durable
    }

    /// Refuses when the namespace was closed.
    pub fn check_open(&self) -> Result<()> {
        if self.open.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Closed,
            "the namespace was closed; open it again and make new handles",
        ))
    }

    /// Refuses a send of `bytes` that would take the messages over the memory limit. Counts exactly only near it.
    pub fn check_memory(&self, bytes: usize) -> Result<()> {
        let Some(limit) = self.memory_limit_bytes else {
            return Ok(());
        };
        let bytes = bytes as u64;
        if self.durable {
            return self.memory.check(bytes, || {
                let queues = self.queues();
                let cells = queues.values().flat_map(|queue| queue.cells());
                cells.map(|(_, cell)| cell.overhead_bytes()).sum()
            });
        }
        let bound = self.stored_bytes_bound.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if bound <= limit {
            return Ok(());
        }
        let queues: Vec<Arc<Queue>> = self.queues().values().cloned().collect();
        let stored: u64 = queues
            .iter()
            .flat_map(|queue| queue.cells())
            .map(|(_, cell)| cell.stored_bytes())
            .sum();
        let fits = stored + bytes <= limit;
        self.stored_bytes_bound
            .store(if fits { stored + bytes } else { stored }, Ordering::Relaxed);
        if fits {
            return Ok(());
        }
        let detail = format!(
            "the namespace is full; receive and complete messages, or open it with a larger memory_limit_bytes: \
             stored={stored} bytes, limit={limit} bytes"
        );
        Err(Error::new(ErrorKind::QuotaExceeded, detail))
    }

    fn wake_all(&self) {
        self.queues().values().for_each(|queue| queue.wake_all());
    }

    fn queues(&self) -> RwLockReadGuard<'_, BTreeMap<String, Arc<Queue>>> {
        self.queues.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn queues_for_change(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Arc<Queue>>> {
        self.queues.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes everyone who waits in a namespace, without keeping it alive.
pub struct WakeHandle(Weak<Core>);

impl WakeHandle {
    /// False when the namespace is gone.
    pub fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Lets everyone who waits look again.
    pub fn wake_all(&self) {
        if let Some(core) = self.0.upgrade() {
            core.wake_all();
        }
    }
}

/// Closes a namespace, without keeping it alive.
pub struct CloseHandle(Weak<Inner>);

impl CloseHandle {
    /// False when the namespace is gone.
    pub fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Closes it, if it is still there.
    pub fn close(&self) {
        if let Some(inner) = self.0.upgrade() {
            inner.close();
        }
    }
}

/// Health of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionHealth {
    /// Which partition.
    pub partition: PartitionId,
    /// What is wrong with it; `None` when it is healthy.
    pub fault: Option<Fault>,
    /// The same for people.
    pub reason: Option<String>,
}

/// A set of queues over a set of shards. Closes when the last handle of it is gone.
#[derive(Clone)]
pub struct Namespace {
    inner: Arc<Inner>,
}

struct Inner {
    /// Dropped first: its thread looks at the rest.
    upkeep: OnceLock<Upkeep>,
    core: Arc<Core>,
    shards: Arc<[Arc<Shard>]>,
    /// In memory; the catalog counts in a directory.
    next_entity: AtomicU64,
    stores: Option<Stores>,
    /// Kept alive for the clock, which knows it weakly.
    _on_advance: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Namespace {
    /// Opens a namespace: empty in memory, or what is in its directory.
    pub fn open(options: NamespaceOptions) -> Result<Self> {
        let NamespaceOptions {
            store,
            partitions,
            lock_policy,
            memory_limit_bytes,
            clock,
        } = options;
        if partitions.is_some_and(|partitions| partitions == 0 || partitions > PARTITIONS_MAX) {
            let detail = format!(
                "partitions is out of range; use 1 to {PARTITIONS_MAX}: {}",
                partitions.unwrap_or_default()
            );
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
        let core = Arc::new(Core {
            clock: match &clock {
                Some(manual) => Arc::<ManualClock>::clone(manual),
                None => Arc::new(SystemClock::default()),
            },
            token_key: TokenKey(random_bytes()?),
            lock_policy,
            memory_limit_bytes,
            stored_bytes_bound: AtomicU64::new(0),
            memory: Arc::new(Memory::new(memory_limit_bytes)),
            turns: AtomicU64::new(0),
            durable: store.is_some(),
            open: AtomicBool::new(true),
            queues: RwLock::default(),
        });
        let on_advance = clock.map(|clock| {
            let handle = WakeHandle(Arc::downgrade(&core));
            let wake: Arc<dyn Fn() + Send + Sync> = Arc::new(move || handle.wake_all());
            clock.on_advance(&wake);
            wake
        });
        let mut found = None;
        let (shards, stores) = match store {
            None => {
                let ids = (0..partitions.unwrap_or(PARTITIONS_DEFAULT)).map(PartitionId);
                (ids.map(|id| Arc::new(Shard::in_memory(id))).collect(), None)
            }
            Some(store) => {
                let opened = durable::open(&store, partitions, PARTITIONS_DEFAULT, &core.memory)?;
                found = Some((opened.contents, opened.images));
                (opened.shards.into(), Some(opened.stores))
            }
        };
        let inner = Arc::new(Inner {
            upkeep: OnceLock::new(),
            core,
            shards,
            next_entity: AtomicU64::new(1),
            stores,
            _on_advance: on_advance,
        });
        if let Some((contents, images)) = found {
            inner.restore(&contents, images)?;
            inner.start_upkeep()?;
        }
        Ok(Self { inner })
    }

    /// Number of partitions.
    pub fn partitions(&self) -> u16 {
        self.inner.shards.len() as u16
    }

    /// A handle that wakes who waits.
    pub fn wake_handle(&self) -> WakeHandle {
        WakeHandle(Arc::downgrade(&self.inner.core))
    }

    /// A handle that closes the namespace.
    pub fn close_handle(&self) -> CloseHandle {
        CloseHandle(Arc::downgrade(&self.inner))
    }

    /// True until [`Namespace::close`].
    pub fn is_open(&self) -> bool {
        self.inner.core.check_open().is_ok()
    }

    /// The namespace's clock.
    pub fn clock(&self) -> &dyn Clock {
        self.inner.core.clock()
    }

    /// The files of a durable namespace.
    pub fn stores(&self) -> Option<&Stores> {
        self.inner.stores.as_ref()
    }

    /// What opening a durable namespace found.
    pub fn recovery(&self) -> Option<&Recovery> {
        self.stores().map(Stores::recovery)
    }

    /// Ends the namespace: every later call fails, and who waits learns it. In memory, the messages are gone; in a
    /// directory, everything acknowledged is there, and others may open it.
    pub fn close(&self) {
        self.inner.close();
    }

    /// Writes a snapshot of every healthy partition and lets go of the journals before it.
    pub fn checkpoint(&self) -> Result<()> {
        self.inner.core.check_open()?;
        let healthy = |shard: &&Arc<Shard>| shard.health().serves();
        self.inner
            .shards
            .iter()
            .filter(healthy)
            .try_for_each(|shard| shard.save(|| self.inner.cells_of(shard), false))
    }

    /// Creates a queue.
    pub fn create_queue(&self, name: &str, settings: QueueSettings) -> Result<QueueDescription> {
        let inner = &self.inner;
        inner.core.check_open()?;
        let name = EntityName::parse(name)?;
        settings.check()?;
        let mut queues = inner.core.queues_for_change();
        inner.refresh(&mut queues);
        if queues.contains_key(name.key()) {
            let detail = format!(
                "an entity of that name exists; choose another name or update that one: `{}`",
                name.as_str()
            );
            return Err(Error::new(ErrorKind::EntityAlreadyExists, detail));
        }
        let home = partition_of(name.key().as_bytes(), self.partitions().into()) as u16;
        let shards = inner.shards_of(&settings, home);
        check_health(&shards, "create")?;
        let now = inner.core.clock().now();
        let mut entry = QueueEntry {
            id: 0,
            name: name.as_str().to_owned(),
            home,
            created_at_ms: now.0,
            updated_at_ms: now.0,
            settings,
        };
        match &inner.stores {
            None => entry.id = inner.next_entity.fetch_add(1, Ordering::Relaxed),
            Some(stores) => stores.change(|contents| {
                entry.id = contents.next_entity;
                contents.next_entity += 1;
                contents.queues.push(entry.clone());
            })?,
        }
        let queue = inner.queue_of(&entry)?;
        let description = queue.describe();
        queues.insert(name.key().to_owned(), queue);
        Ok(description)
    }

    /// The queue of that name.
    pub fn queue(&self, name: &str) -> Result<Arc<Queue>> {
        self.inner.core.check_open()?;
        self.inner.refresh_shared();
        self.inner
            .core
            .queues()
            .get(&EntityName::key_of(name))
            .cloned()
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::EntityNotFound,
                    format!("no queue of that name; create it with create_queue: `{name}`"),
                )
            })
    }

    /// Changes the settings of a queue; `change` edits a copy of those that hold.
    pub fn update_queue(&self, name: &str, change: impl FnOnce(&mut QueueSettings)) -> Result<()> {
        let queue = self.queue(name)?;
        // Taken for writing, so that two updates do not undo each other.
        let _guard = self.inner.core.queues_for_change();
        queue.check_alive()?;
        let held = queue.settings();
        let mut next = (*held).clone();
        change(&mut next);
        held.check_change(&next)?;
        check_health(
            (0..usize::from(queue.partitions())).map(|index| queue.shard(index)),
            "update",
        )?;
        let now = self.inner.core.clock().now();
        if let Some(stores) = &self.inner.stores {
            stores.change(|contents| {
                for entry in contents.queues.iter_mut().filter(|entry| entry.id == queue.id().0) {
                    entry.settings = next.clone();
                    entry.updated_at_ms = now.0;
                }
            })?;
        }
        queue.apply(next, now);
        Ok(())
    }

    /// Deletes a queue with its messages.
    pub fn delete_queue(&self, name: &str) -> Result<()> {
        let queue = self.queue(name)?;
        let mut queues = self.inner.core.queues_for_change();
        queue.check_alive()?;
        check_health(
            (0..usize::from(queue.partitions())).map(|index| queue.shard(index)),
            "delete",
        )?;
        if let Some(stores) = &self.inner.stores {
            // Its messages go with it: the journals forget an entity that the catalog does not know.
            stores.change(|contents| contents.queues.retain(|entry| entry.id != queue.id().0))?;
        }
        queues.remove(queue.name().key());
        queue.remove();
        Ok(())
    }

    /// All queues by name.
    pub fn list_queues(&self) -> Result<Vec<Arc<Queue>>> {
        self.inner.core.check_open()?;
        self.inner.refresh_shared();
        Ok(self.inner.core.queues().values().cloned().collect())
    }

    /// Counts of a queue.
    pub fn queue_counts(&self, name: &str) -> Result<QueueCounts> {
        Ok(self.queue(name)?.counts())
    }

    /// A sender to a queue.
    pub fn sender(&self, queue: &str) -> Result<Sender> {
        Sender::new(self.queue(queue)?)
    }

    /// A receiver from a queue or its dead-letter queue.
    pub fn receiver(&self, queue: &str, options: ReceiverOptions) -> Result<Receiver> {
        Receiver::new(self.queue(queue)?, options)
    }

    /// Health of every partition.
    pub fn partition_health(&self) -> Vec<PartitionHealth> {
        self.inner
            .shards
            .iter()
            .map(|shard| PartitionHealth {
                partition: shard.id(),
                fault: shard.health().fault(),
                reason: shard.health().reason(),
            })
            .collect()
    }

    /// Makes a partition fail after that many operations on it, or calls of its disk. For tests.
    pub fn inject_fault(&self, partition: PartitionId, fault: Injected, after: u64) -> Result<()> {
        let shard = self.shard(partition)?;
        if let Some(fault) = shard.health().fault().filter(|fault| fault.is_final()) {
            return Err(cannot_heal(shard, fault));
        }
        match fault {
            Injected::Shard(fault) => shard.health().inject(fault, after),
            Injected::Disk(fault) => {
                let store = self.stores().and_then(|stores| stores.shard(partition.0));
                let store = store.ok_or_else(|| {
                    let detail = "the fault needs a disk; open the namespace with a path, or use `unavailable`, `busy` or `enospc`";
                    Error::new(ErrorKind::InvalidOperation, detail)
                })?;
                store.injection().begin(fault, after);
            }
        }
        Ok(())
    }

    /// Ends the fault of a partition; one whose store failed is written anew.
    pub fn heal(&self, partition: PartitionId) -> Result<()> {
        let shard = self.shard(partition)?;
        if let Some(fault) = shard.health().fault().filter(|fault| fault.is_final()) {
            return Err(cannot_heal(shard, fault));
        }
        if let Some(store) = self.stores().and_then(|stores| stores.shard(partition.0)) {
            store.injection().end();
        }
        self.inner.heal(shard)
    }

    fn shard(&self, partition: PartitionId) -> Result<&Arc<Shard>> {
        self.inner.core.check_open()?;
        self.inner.shards.get(usize::from(partition.0)).ok_or_else(|| {
            let detail = format!(
                "partition_id is out of range; use 0 to {}: {partition}",
                self.partitions() - 1
            );
            Error::new(ErrorKind::InvalidArgument, detail)
        })
    }
}

fn cannot_heal(shard: &Shard, fault: Fault) -> Error {
    let reason = shard.health().reason().unwrap_or_default();
    let advice = if fault == Fault::Elsewhere {
        "heal it in the process that owns it"
    } else {
        "salvage or restore it and open the namespace again"
    };
    let detail = format!("the partition is offline: {reason}; {advice}: partition={}", shard.id());
    Error::new(ErrorKind::PartitionUnavailable, detail)
}

/// A cell, kept alive by its queue.
struct CellRef {
    queue: Arc<Queue>,
    index: usize,
}

impl CellHandle for CellRef {
    fn cell(&self) -> &Cell {
        self.queue.cell(self.index).expect("a cell lives as long as its queue")
    }
}

impl Inner {
    /// The shard of each cell of a queue: all of the namespace, or its home alone.
    fn shards_of(&self, settings: &QueueSettings, home: u16) -> Box<[Arc<Shard>]> {
        if settings.enable_partitioning {
            self.shards.iter().map(Arc::clone).collect()
        } else {
            Box::new([Arc::clone(&self.shards[usize::from(home)])])
        }
    }

    /// The queue that an entry of the catalog describes, without messages.
    fn queue_of(&self, entry: &QueueEntry) -> Result<Arc<Queue>> {
        if usize::from(entry.home) >= self.shards.len() {
            let detail = format!("the catalog names a partition that does not exist: `{}`", entry.name);
            return Err(Error::new(ErrorKind::Corrupt, detail));
        }
        Ok(Arc::new(Queue::new(
            &self.core,
            EntityName::parse(&entry.name)?,
            entry.settings.clone(),
            self.shards_of(&entry.settings, entry.home),
            EntityId(entry.id),
            (Timestamp(entry.created_at_ms), Timestamp(entry.updated_at_ms)),
        )))
    }

    /// Makes the queues of the catalog with the messages of the journals.
    fn restore(&self, contents: &Contents, mut images: Vec<Image>) -> Result<()> {
        let mut queues = self.core.queues_for_change();
        for entry in &contents.queues {
            let queue = self.queue_of(entry)?;
            for index in 0..usize::from(queue.partitions()) {
                let partition = usize::from(queue.shard(index).id().0);
                if let Some(messages) = images[partition].take(queue.id()) {
                    queue.restore(index, messages);
                }
            }
            queues.insert(queue.name().key().to_owned(), queue);
        }
        Ok(())
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
    fn refresh_shared(&self) {
        if self.stores.as_ref().is_some_and(|stores| !stores.owns_all()) {
            self.refresh(&mut self.core.queues_for_change());
        }
    }

    fn refresh(&self, queues: &mut BTreeMap<String, Arc<Queue>>) {
        let Some(stores) = self.stores.as_ref().filter(|stores| !stores.owns_all()) else {
            return;
        };
        let (contents, true) = stores.contents() else { return };
        queues.retain(|_, queue| {
            let lives = contents.has(queue.id());
            if !lives {
                queue.remove();
            }
            lives
        });
        for entry in &contents.queues {
            match queues.get(&EntityName::key_of(&entry.name)) {
                Some(queue) => queue.apply(entry.settings.clone(), Timestamp(entry.updated_at_ms)),
                None => {
                    if let Ok(queue) = self.queue_of(entry) {
                        queues.insert(queue.name().key().to_owned(), queue);
                    }
                }
            }
        }
    }

    /// The cells of a shard. Call it under the order of the shard's journal: a cell made later has no entry yet.
    fn cells_of(&self, shard: &Arc<Shard>) -> Vec<CellRef> {
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

    fn heal(&self, shard: &Arc<Shard>) -> Result<()> {
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
        let queues: Vec<Arc<Queue>> = self.core.queues().values().cloned().collect();
        for queue in queues {
            queue.revive(partition);
        }
        Ok(())
    }

    fn close(&self) {
        if !self.core.open.swap(false, Ordering::SeqCst) {
            return;
        }
        if let Some(stores) = &self.stores {
            for shard in &*self.shards {
                if let Some(store) = stores.shard(shard.id().0) {
                    // Faults that a test asked for end with the namespace, and a last try may find the disk well again.
                    store.injection().end();
                    if store.log().has_ended() {
                        let _ = self.heal(shard);
                    }
                }
                // A shard that cannot be saved keeps its journal: the next open reads that. One without news is saved when
                // numbers were set aside, so that the next open goes on without a gap.
                let has_news = |journal: &Journal| journal.unsaved_bytes() > 0 || self.sets_numbers_aside(shard);
                if shard.health().serves() && shard.journal().is_some_and(has_news) {
                    let _ = shard.save(|| self.cells_of(shard), true);
                }
            }
            stores.close();
        }
        let queues = std::mem::take(&mut *self.core.queues_for_change());
        for queue in queues.values() {
            queue.remove();
        }
    }
}

impl durable::Kept for Inner {
    fn shards(&self) -> &[Arc<Shard>] {
        &self.shards
    }

    fn save(&self, shard: &Arc<Shard>) {
        // It is tried again; until then the journal grows.
        let _ = shard.save(|| self.cells_of(shard), false);
    }

    fn try_heal(&self, shard: &Arc<Shard>) -> bool {
        self.heal(shard).is_ok()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

/// Management touches all partitions of an entity, so one that fails stops it (B-096).
fn check_health<'a>(shards: impl IntoIterator<Item = &'a Arc<Shard>>, what: &str) -> Result<()> {
    for shard in shards {
        if let Some(reason) = shard.health().reason() {
            let detail = format!(
                "cannot {what} the queue: {reason}; heal the partition and try again: partition={}",
                shard.id()
            );
            return Err(Error::new(ErrorKind::PartitionUnavailable, detail));
        }
    }
    Ok(())
}
