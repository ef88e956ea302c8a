// SPDX-License-Identifier: Apache-2.0
//! State that all entities of a namespace share: the clock, secrets, the memory limit and the entities by name.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock, RwLockReadGuard, Weak};
use std::time::Duration;

use oxbus_model::caps::ATTACHED_RETENTION_MS;
use oxbus_model::name::EntityName;
use oxbus_model::options::{Durability, LockPolicy, PeekPolicy};
use oxbus_model::sync::ignore_poison;
use oxbus_model::tier::ServicePlan;
use oxbus_model::{Clock, Error, ErrorKind, IdentityKey, PartitionId, Result, Timestamp, TokenKey};
use oxbus_store::disk::{Lease, TakenOver};

use super::{Entity, EntityChange, EntityMap};
use crate::clock::Randomness;
use crate::memory::{MemoryBudget, MemoryQuota};
use crate::shard::Cell;
use crate::shard::journal::EntityId;
use crate::write::UnconfirmedEntry;

/// Fences an unconfirmed entry of a partition, so that it never counts.
type EntryFence = Box<dyn Fn(PartitionId, UnconfirmedEntry) -> Result<()> + Send + Sync>;

/// State that all entities of a namespace share.
pub struct Core {
    clock: Arc<dyn Clock>,
    randomness: Randomness,
    token_key: TokenKey,
    /// The lease of a namespace in a store. Set before the first entity exists.
    lease: OnceLock<Arc<dyn Lease>>,
    /// Set once, before the first entity exists.
    identity_key: OnceLock<IdentityKey>,
    lock_policy: LockPolicy,
    peek_policy: PeekPolicy,
    plan: ServicePlan,
    /// The memory limit of a namespace in memory, if it has one.
    quota: Option<MemoryQuota>,
    /// The memory limit of a namespace in a directory.
    pub(crate) memory: Arc<MemoryBudget>,
    round_robin_starts: AtomicU64,
    /// Bytes of all stages.
    staged_bytes: AtomicU64,
    /// Time of the oldest decided commit that is not yet published; the maximum if all are published.
    unpublished_since: AtomicU64,
    durable: bool,
    /// The durability of calls that do not name one.
    durability: Durability,
    /// True if other processes may use the entities. This process then does not see all uses.
    shared: AtomicBool,
    /// True if calls may wait for a store: always in a directory, and in memory once a test makes a store hang.
    can_wait: AtomicBool,
    /// True once a test makes a disk fail or hang.
    has_disk_faults: AtomicBool,
    fences: OnceLock<EntryFence>,
    open: AtomicBool,
    /// This is usable after a panic: an insertion or removal does not panic, and the catalog is written before it.
    entities: RwLock<EntityMap>,
    /// Held by the call that changes entities. Calls that look entities up do not wait for it.
    entity_changes: Mutex<()>,
}

impl Core {
    pub(crate) fn new(
        (clock, randomness): (Arc<dyn Clock>, Randomness),
        (lock_policy, peek_policy): (LockPolicy, PeekPolicy),
        plan: ServicePlan,
        (memory_limit_bytes, keep_bodies_on_disk): (Option<u64>, bool),
        durability: Option<Durability>,
    ) -> Result<Self> {
        Ok(Self {
            token_key: TokenKey(randomness.bytes()?),
            clock,
            randomness,
            lease: OnceLock::new(),
            identity_key: OnceLock::new(),
            lock_policy,
            peek_policy,
            plan,
            quota: memory_limit_bytes.map(MemoryQuota::new),
            memory: Arc::new(MemoryBudget::new(memory_limit_bytes).with_bodies_on_disk(keep_bodies_on_disk)),
            round_robin_starts: AtomicU64::new(0),
            staged_bytes: AtomicU64::new(0),
            unpublished_since: AtomicU64::new(u64::MAX),
            durable: durability.is_some(),
            durability: durability.unwrap_or(Durability::Memory),
            shared: AtomicBool::new(false),
            can_wait: AtomicBool::new(durability.is_some()),
            has_disk_faults: AtomicBool::new(false),
            fences: OnceLock::new(),
            open: AtomicBool::new(true),
            entities: RwLock::default(),
            entity_changes: Mutex::default(),
        })
    }

    /// The namespace's clock.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Source of ids, salts and secrets.
    pub(crate) fn randomness(&self) -> &Randomness {
        &self.randomness
    }

    /// The secret of the lock tokens.
    pub fn token_key(&self) -> &TokenKey {
        &self.token_key
    }

    /// The hash key of message identities.
    pub fn identity_key(&self) -> &IdentityKey {
        // Without a directory no identity outlives the process, so the token key of the process is sufficient.
        self.identity_key.get_or_init(|| IdentityKey(self.token_key.0))
    }

    /// The lease of a namespace that another process may take over.
    #[inline]
    pub(super) fn lease(&self) -> Option<&dyn Lease> {
        self.lease.get().map(|lease| &**lease)
    }

    /// True if the namespace is in a store: only there another process may take it over.
    pub(crate) fn is_in_store(&self) -> bool {
        self.lease().is_some()
    }

    /// True if another process took the namespace over.
    pub(crate) fn is_taken_over(&self) -> bool {
        let ended = |lease: &dyn Lease| lease.wait(Duration::ZERO).err();
        self.lease()
            .and_then(ended)
            .is_some_and(|error| TakenOver::is_cause_of(&error))
    }

    /// Sets the lease, if the namespace has one.
    pub(crate) fn set_lease(&self, lease: Option<Arc<dyn Lease>>) {
        if let Some(lease) = lease {
            let _ = self.lease.set(lease);
        }
    }

    /// Sets the identity key that the directory stores.
    pub(crate) fn set_identity_key(&self, key: IdentityKey) {
        let _ = self.identity_key.set(key);
    }

    /// Lock policy of receivers that do not set one.
    pub fn lock_policy(&self) -> LockPolicy {
        self.lock_policy
    }

    /// Tier and edition of the namespace.
    pub fn plan(&self) -> ServicePlan {
        self.plan
    }

    /// Where a browse without a sequence number starts.
    pub fn peek_policy(&self) -> PeekPolicy {
        self.peek_policy
    }

    /// A count that selects the partition at which the next sender starts its round robin.
    pub fn next_round_robin_start(&self) -> u64 {
        self.round_robin_starts.fetch_add(1, Ordering::Relaxed)
    }

    /// Bytes of all stages; in a namespace in memory they count towards the memory limit.
    pub(crate) fn staged_bytes(&self) -> &AtomicU64 {
        &self.staged_bytes
    }

    /// Sets the time of the oldest decided commit that is not yet published, or `None` if all are published.
    pub(crate) fn set_unpublished_since(&self, at: Option<Timestamp>) {
        self.unpublished_since
            .store(at.map_or(u64::MAX, |at| at.0), Ordering::SeqCst);
    }

    /// How long partitions remember attached stages, in milliseconds: seven days, plus the age at `now` of the oldest
    /// commit that is not yet published.
    pub(crate) fn attached_window_ms(&self, now: Timestamp) -> u64 {
        ATTACHED_RETENTION_MS + now.0.saturating_sub(self.unpublished_since.load(Ordering::SeqCst))
    }

    /// True if messages are kept in a directory.
    #[inline]
    pub fn is_durable(&self) -> bool {
        self.durable
    }

    /// Records that other processes own partitions of the namespace.
    pub(crate) fn mark_shared(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    /// True if other processes own partitions of the namespace.
    pub fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }

    /// True if calls may wait for a store.
    #[inline]
    pub fn may_wait(&self) -> bool {
        self.can_wait.load(Ordering::Relaxed)
    }

    /// True if a call at a durability, or at the default one, does not wait for a disk: it only writes, or not even that.
    /// The first calls of a partition are an exception: they wait until its numbers are synced.
    pub(crate) fn answers_at_once(&self, durability: Option<Durability>) -> bool {
        let only_writes = || durability.unwrap_or(self.durability) == Durability::Os;
        !self.may_wait() || (only_writes() && !self.has_disk_faults.load(Ordering::Relaxed))
    }

    /// Records that a test makes a disk fail or hang.
    pub(crate) fn note_disk_fault(&self) {
        self.has_disk_faults.store(true, Ordering::SeqCst);
    }

    /// Records that calls may wait for a store after this call.
    pub(crate) fn enable_waits(&self) {
        self.can_wait.store(true, Ordering::SeqCst);
    }

    /// Sets the function that fences unconfirmed entries.
    pub(crate) fn set_fences(&self, fences: EntryFence) {
        let _ = self.fences.set(fences);
    }

    /// Fences an unconfirmed entry of a partition: it never counts, even if its store writes it later.
    pub(crate) fn fence(&self, partition: PartitionId, entry: UnconfirmedEntry) -> Result<()> {
        // Without a directory no entry is written late.
        self.fences.get().map_or(Ok(()), |fence| fence(partition, entry))
    }

    /// Fails if the namespace was closed.
    pub fn check_open(&self) -> Result<()> {
        if self.open.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Closed,
            "the namespace was closed; open it again and make new handles",
        ))
    }

    /// Fails if a send of `bytes` would exceed the memory limit.
    pub fn check_memory(&self, bytes: usize) -> Result<()> {
        let bytes = bytes as u64;
        if self.durable {
            return self.memory.check(bytes, || self.sum_of_cells(Cell::overhead_bytes));
        }
        self.quota.as_ref().map_or(Ok(()), |quota| {
            quota.check(bytes, || self.sum_of_cells(Cell::stored_bytes))
        })
    }

    fn sum_of_cells(&self, bytes: impl Fn(&Cell) -> u64) -> u64 {
        let entities: Vec<Arc<Entity>> = self.entities().values().cloned().collect();
        // Expired identities must not count.
        for entity in &entities {
            entity.forget_expired_identities();
        }
        let cells = entities.iter().flat_map(|entity| entity.cells());
        let stored: u64 = cells.map(|(_, cell)| bytes(cell)).sum();
        let staged = if self.durable {
            0
        } else {
            self.staged_bytes.load(Ordering::Relaxed)
        };
        stored + staged
    }

    /// A handle that wakes all waiting calls without keeping the namespace alive.
    pub(crate) fn wake_handle(self: &Arc<Self>) -> WakeHandle {
        WakeHandle(Arc::downgrade(self))
    }

    /// Makes every later call fail. Returns false if the namespace was already closed.
    pub(crate) fn mark_closed(&self) -> bool {
        self.open.swap(false, Ordering::SeqCst)
    }

    fn wake_all(&self) {
        let entities: Vec<Arc<Entity>> = self.entities().values().cloned().collect();
        for entity in &entities {
            entity.wake_all();
        }
    }

    /// The entity with this path, if it exists.
    pub(crate) fn entity(&self, path: &str) -> Option<Arc<Entity>> {
        self.entities().get(&EntityName::key_of(path)).cloned()
    }

    /// The entity with this id, if it still exists.
    pub(crate) fn entity_by_id(&self, id: EntityId) -> Option<Arc<Entity>> {
        self.entities().by_id(id).cloned()
    }

    pub(crate) fn entities(&self) -> RwLockReadGuard<'_, EntityMap> {
        ignore_poison(self.entities.read())
    }

    /// Begins a change of entities. It waits for the change before it.
    pub(crate) fn change_entities(&self) -> EntityChange<'_> {
        EntityChange::begin(&self.entity_changes, &self.entities)
    }
}

/// Wakes all waiting calls of a namespace without keeping it alive.
pub struct WakeHandle(Weak<Core>);

impl WakeHandle {
    /// False once the namespace is dropped.
    pub fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Makes every waiting call look again.
    pub fn wake_all(&self) {
        if let Some(core) = self.0.upgrade() {
            core.wake_all();
        }
    }
}
