// SPDX-License-Identifier: Apache-2.0
//! A shard: one broker over one store. Shard *i* holds partition *i* of every partitioned entity of a namespace.
//!
//! Claims, settlements and appends go straight to the lock-free stores of the cells. The shard's mutex guards
//! dead-letter queues, schedules and delays, which are sparse or change together with a store. This module holds the
//! state of a shard and of its cells. In a durable namespace `crate::write` changes the state together with the journal, and
//! `snapshot` writes the whole state from time to time.
//!
//! Invariants
//! - a call that panics while it holds a lock of the shard takes the shard out of service until the next open
//!   (`guarded`);
//! - the mutex is never held across a notification, a wait for a commit, or a call other than into the stores and the
//!   append to the journal;
//! - mutex order: the snapshot barrier, the shard's mutex, the append guard;
//! - an event is journaled after its effect is in the stores, except for arriving messages and atomic writes
//!   (transactions, receive-and-delete, fetches by number). These get a number, are journaled and committed, and
//!   change the stores last. So a snapshot that waits for reserved numbers and for the barrier has the effect of every
//!   earlier event.

mod activation;
mod call_error;
mod cell;
mod dead_letter;
mod delays;
mod delivery_times;
mod fault;
pub mod guarded;
pub(crate) mod health;
pub(crate) mod high_water_mark;
mod history;
pub mod journal;
mod meters;
mod origins;
mod reserved;
mod schedule;
pub(crate) mod sessions;
mod sinks;
mod snapshot;
pub(crate) mod spill;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use oxbus_log::event;
use oxbus_model::options::Durability;
use oxbus_model::sync::ignore_poison;
use oxbus_model::{Error, PartitionId, Result};
use oxbus_store::shard_log::AppendError;
use oxbus_store::suspended::run_now;
use oxbus_store::{OrderedStore, Wait};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};
use std::time::Instant;

use crate::memory::MemoryBudget;
pub use call_error::CallKind;
pub use cell::{Cell, CellFeatures, DeliveryPolicy, ReadyCounts};
pub use dead_letter::DeadLetters;
pub use delays::{Delay, Delays};
pub use fault::{InjectedFault, PartitionFault};
use guarded::{BarrierGuard, Guarded, SnapshotBarrier, StateGuard};
pub use health::{FaultReason, ShardHealth};
pub use history::{Admission, History};
use journal::{Intent, Journal, PendingEntry};
pub use meters::{METERS, Meter, MeterCounts, WaitTimes};
pub use reserved::{REMOVAL_LOCK, RESERVATION_LOCK, ReservedMessage};
pub use schedule::Schedule;
pub(crate) use sessions::SessionSearch;
pub use sessions::{AcceptedSession, SessionEnd, SessionInfo, SessionLost, SessionReceive, SessionState, Sessions};
pub use snapshot::{CellHandle, snapshot_bytes};
pub(crate) use spill::offset_in;

/// One partition of a namespace.
#[derive(Debug)]
pub struct Shard {
    id: PartitionId,
    health: ShardHealth,
    cells: Guarded<Vec<Option<CellState>>>,
    /// `None` for a shard in memory, and if the store could not be opened.
    journal: Option<Journal>,
    /// Held while a snapshot is written. A panic leaves nothing to repair: an incomplete snapshot is discarded.
    snapshot_mutex: Mutex<()>,
    /// True once no more snapshots are written.
    closed: AtomicBool,
    /// Shared by writes that are journaled but have not taken effect; a snapshot locks it exclusively for a moment.
    snapshot_barrier: SnapshotBarrier,
    /// The latest intent of each sink.
    sinks: Guarded<BTreeMap<String, Intent>>,
    /// Decides whether arriving messages are spilled.
    pub(crate) memory: Arc<MemoryBudget>,
    /// True if a cell has `unspilled` dead letters.
    pub(crate) has_unspilled: AtomicBool,
    /// Set once metrics are on.
    wait_times: OnceLock<Box<WaitTimes>>,
}

/// The part of a cell that the shard's mutex guards.
#[derive(Debug, Default)]
pub struct CellState {
    /// The dead-letter queue. Messages keep their numbers (B-265).
    pub dead_letters: OrderedStore,
    /// Scheduled messages by due time.
    pub schedule: Schedule,
    /// Messages that were abandoned with a delay.
    pub(crate) delays: Delays,
    /// Dead letters to spill once they are synced.
    pub(crate) unspilled: Vec<spill::UnspilledDeadLetter>,
}

/// Identifies the state of one cell in its shard.
#[derive(Debug, Clone, Copy)]
pub struct CellStateId(usize);

impl Shard {
    /// An empty shard in memory.
    pub fn in_memory(id: PartitionId) -> Self {
        Self::new(id, None, ShardHealth::in_memory(id))
    }

    /// A shard with a journal.
    pub fn durable(id: PartitionId, journal: Journal, memory: Arc<MemoryBudget>) -> Self {
        Self {
            memory,
            ..Self::new(id, Some(journal), ShardHealth::durable(id))
        }
    }

    /// A shard whose store could not be opened.
    pub fn stopped(id: PartitionId, fault: PartitionFault, reason: FaultReason) -> Self {
        Self::new(id, None, ShardHealth::stopped(id, fault, reason))
    }

    fn new(id: PartitionId, journal: Option<Journal>, health: ShardHealth) -> Self {
        Self {
            id,
            health,
            cells: Guarded::default(),
            journal,
            snapshot_mutex: Mutex::default(),
            closed: AtomicBool::new(false),
            snapshot_barrier: SnapshotBarrier::default(),
            sinks: Guarded::default(),
            memory: Arc::default(),
            has_unspilled: AtomicBool::new(false),
            wait_times: OnceLock::new(),
        }
    }

    /// Its partition.
    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// Its health.
    pub fn health(&self) -> &ShardHealth {
        &self.health
    }

    /// Marks the store unresponsive after a wait reached the limit. Later calls do not wait.
    pub fn mark_unresponsive(&self) {
        self.health.mark_unresponsive(self.journal.is_some());
    }

    /// Stops snapshots, because the cells are about to be dropped and the directory may get another owner. Waits for a
    /// snapshot in progress to end, unless the store is out of service. An incomplete snapshot is discarded.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        if self.health.serves() {
            let _saved = ignore_poison(self.snapshot_mutex.lock());
        }
    }

    /// Holds off snapshots and heals until the result is dropped; `None` while one runs.
    pub(crate) fn try_hold_snapshots(&self) -> Option<MutexGuard<'_, ()>> {
        match self.snapshot_mutex.try_lock() {
            Ok(held) => Some(held),
            Err(TryLockError::Poisoned(held)) => Some(held.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Its journal, if it has one.
    #[inline]
    pub fn journal(&self) -> Option<&Journal> {
        self.journal.as_ref()
    }

    /// The durability of a call: `asked`, or the default of the namespace.
    pub fn durability(&self, asked: Option<Durability>) -> Durability {
        match &self.journal {
            None => Durability::Memory,
            Some(journal) => asked.unwrap_or(journal.durability()),
        }
    }

    /// Waits until an entry has the given durability.
    pub(crate) fn wait_until(
        &self,
        pending: &PendingEntry,
        durability: Durability,
        call: CallKind,
        wait: &Wait<'_>,
    ) -> Result<()> {
        let began = self.wait_begins();
        let waited = pending.wait(durability, wait);
        self.wait_ended(call, began);
        waited.map_err(|error| self.entry_failed(pending, &error, call))
    }

    /// The time at which a wait for the journal begins, if waits are timed.
    #[inline]
    pub(crate) fn wait_begins(&self) -> Option<Instant> {
        let is_timed = self.slow_call_ms() > 0 || self.is_metered();
        is_timed.then(oxbus_system::instant)
    }

    /// Records a wait for the journal, and logs it if it was slow.
    #[inline]
    pub(crate) fn wait_ended(&self, call: CallKind, began: Option<Instant>) {
        let Some(began) = began else { return };
        let elapsed = began.elapsed();
        if let Some(times) = self.wait_times() {
            times.of(call).record(elapsed);
        }
        let (ms, slow_ms) = (elapsed.as_millis() as u64, self.slow_call_ms());
        if slow_ms > 0 && ms >= slow_ms {
            event!(CALL_SLOW, partition = self.id.0, call = call.name(), ms);
        }
    }

    /// Waits of at least this many milliseconds are logged; 0 if none is.
    fn slow_call_ms(&self) -> u64 {
        let slow_ms = self.journal.as_ref().map_or(0, Journal::slow_call_ms);
        if oxbus_log::is_on() { slow_ms } else { 0 }
    }

    /// Starts to count what happens to messages, and how long calls wait.
    pub(crate) fn switch_metrics_on(&self) {
        self.wait_times.get_or_init(Box::default);
    }

    /// True once metrics are on.
    #[inline]
    pub fn is_metered(&self) -> bool {
        self.wait_times.get().is_some()
    }

    /// How long calls waited for the journal; `None` while metrics are off.
    #[inline]
    pub fn wait_times(&self) -> Option<&WaitTimes> {
        self.wait_times.get().map(|times| &**times)
    }

    /// The error of an entry that did not reach its level. Takes the shard out of service if the store failed.
    pub(crate) fn entry_failed(&self, pending: &PendingEntry, error: &AppendError, call: CallKind) -> Error {
        // The append guard keeps the log from being replaced. An error of an earlier log leaves the current one in
        // service.
        let append_guard = self
            .journal
            .as_ref()
            .map(|journal| journal.lock_for_append(&self.health));
        if append_guard.is_none_or(|append_guard| pending.belongs_to(&append_guard)) {
            self.report_failure(error);
        }
        self.call_error(error, call)
    }

    /// Waits until all entries so far have the given durability.
    pub(crate) fn await_all(&self, durability: Durability, call: CallKind, wait: &Wait<'_>) -> Result<()> {
        run_now(self.await_all_async(durability, call, wait))
    }

    /// [`Shard::await_all`] for a call that may be suspended.
    pub(crate) async fn await_all_async(&self, durability: Durability, call: CallKind, wait: &Wait<'_>) -> Result<()> {
        let Some(last) = self.last_pending() else {
            return Ok(());
        };
        last.until_committed(wait).await;
        self.wait_until(&last, durability, call, wait)
    }

    /// The last appended entry; `None` without a journal.
    pub(crate) fn last_pending(&self) -> Option<PendingEntry> {
        Some(self.journal.as_ref()?.last_entry())
    }

    /// Blocks snapshots while a write is journaled and has not taken effect.
    pub(crate) fn hold_off_snapshots(&self) -> BarrierGuard<'_> {
        self.snapshot_barrier.enter(&self.health)
    }

    /// Suspends a call while a snapshot keeps writes from beginning that hold it off.
    pub(crate) async fn until_snapshot_ended(&self, wait: &Wait<'_>) {
        self.snapshot_barrier.until_open(wait).await;
    }

    fn lock_cells(&self) -> StateGuard<'_, Vec<Option<CellState>>> {
        self.cells.lock(&self.health)
    }

    /// Panics while it holds the lock.
    #[cfg(test)]
    pub(crate) fn panic_while_locked(&self) {
        let _cells = self.lock_cells();
        panic!("injected by the test");
    }

    fn add_cell(&self, state: CellState) -> CellStateId {
        let mut cells = self.lock_cells();
        let free = cells.iter().position(Option::is_none).unwrap_or_else(|| {
            cells.push(None);
            cells.len() - 1
        });
        cells[free] = Some(state);
        CellStateId(free)
    }

    fn remove_cell(&self, no: CellStateId) {
        let state = self.lock_cells()[no.0].take();
        // Dropped without the lock, because it may hold many messages.
        drop(state);
    }

    /// Runs `step` on the state of a cell under the shard's mutex.
    pub(crate) fn with_cell_state<R>(&self, no: CellStateId, step: impl FnOnce(&mut CellState) -> R) -> R {
        let mut cells = self.lock_cells();
        step(cells[no.0].as_mut().expect("only dropping the cell removes its state"))
    }
}
