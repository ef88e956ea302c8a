// SPDX-License-Identifier: Apache-2.0
//! A shard: one broker over one store. Shard *i* holds partition *i* of every partitioned entity of a namespace.
//!
//! Claim, settle and append go straight to the lock-free stores of the cells. The shard's mutex guards what
//! is sparse or must move in one step: dead-letter queues and schedules. This is the state of a shard and of its cells. What
//! changes it in a durable namespace goes through `crate::write`, the journal first or second; `snapshot` writes all of it
//! down, now and then.
//!
//! Holds always
//! - a call that panics while it has a lock of the shard takes it out of service until the next open (`guarded`);
//! - the mutex is never held across a wake-up, a wait for a commit, or a call out of the stores and the journal's append;
//! - order of the mutexes: units of work, the shard's, then the journal's order;
//! - an event is journaled after its effect is in the stores, except for what comes in, and for what a unit does
//!   (transactions, receive-and-delete, fetches by number): number, event, commit, then the store. So a snapshot that waits
//!   for reserved numbers and for units knows every event before it.

mod activation;
mod call_error;
mod cell;
mod dead_letter;
mod fault;
pub mod guarded;
pub(crate) mod health;
pub(crate) mod high_water_mark;
mod history;
pub mod journal;
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
use oxbus_model::sync::whole;
use oxbus_model::{Error, PartitionId, Result};
use oxbus_store::shard_log::AppendError;
use oxbus_store::{OrderedStore, Wait};
use std::sync::{Arc, Mutex};

use crate::clock::Stopwatch;
use crate::memory::MemoryBudget;
pub use call_error::CallKind;
pub use cell::{Cell, CellFeatures, ReadyCounts, Rules};
pub use dead_letter::DeadLetters;
pub use fault::{InjectedFault, PartitionFault};
use guarded::{BarrierGuard, Guarded, SnapshotBarrier, StateGuard};
pub use health::{FaultReason, ShardHealth};
pub use history::{Admission, History};
use journal::{Intent, Journal, PendingEntry};
pub use reserved::{REMOVAL_LOCK, RESERVATION_LOCK, ReservedMessage};
pub use schedule::Schedule;
pub use sessions::{AcceptedSession, SessionEnd, SessionInfo, SessionLost, SessionReceive, SessionState, Sessions};
pub use snapshot::{CellHandle, snapshot_bytes};
pub(crate) use spill::offset_in;

/// One partition of a namespace.
#[derive(Debug)]
pub struct Shard {
    id: PartitionId,
    health: ShardHealth,
    cells: Guarded<Vec<Option<CellState>>>,
    /// `None` in memory, and when the store could not be opened.
    journal: Option<Journal>,
    /// Held by whoever writes a snapshot. After a panic nothing is amiss: a snapshot that was not written to its end is not kept.
    snapshot_mutex: Mutex<()>,
    /// No snapshot is written any more.
    closed: AtomicBool,
    /// Shared by units of work that are written and have not had their effect; a snapshot takes it alone for a moment.
    snapshot_barrier: SnapshotBarrier,
    /// What sinks of staged sends committed last.
    sinks: Guarded<BTreeMap<String, Intent>>,
    /// Whether what comes in stays on disk.
    pub(crate) memory: Arc<MemoryBudget>,
    /// Some cell has messages in `unspilled`.
    pub(crate) has_unspilled: AtomicBool,
}

/// The part of a cell that the shard's mutex guards.
#[derive(Debug, Default)]
pub struct CellState {
    /// Messages of the dead-letter queue, under the numbers they had (B-265).
    pub dead_letters: OrderedStore,
    /// Scheduled messages by due time.
    pub schedule: Schedule,
    /// Messages of the dead-letter queue that leave memory once they are synced.
    pub(crate) unspilled: Vec<spill::UnspilledDeadLetter>,
}

/// Names the state of one cell inside its shard.
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
        }
    }

    /// Which partition it holds.
    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// Whether it works.
    pub fn health(&self) -> &ShardHealth {
        &self.health
    }

    /// Notes that somebody waited for the store as long as anybody does: from now on nobody does.
    pub fn mark_unresponsive(&self) {
        self.health.mark_unresponsive(self.journal.is_some());
    }

    /// Lets no snapshot be written from now on: the cells are about to go, and the directory may get another owner. Waits
    /// for one that is being written, unless the store is out of service: that one gives up before it counts.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        if self.health.serves() {
            let _saved = whole(self.snapshot_mutex.lock());
        }
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Its journal, in a durable namespace.
    #[inline]
    pub fn journal(&self) -> Option<&Journal> {
        self.journal.as_ref()
    }

    /// What a call that asks for `asked` gets.
    pub fn durability(&self, asked: Option<Durability>) -> Durability {
        match &self.journal {
            None => Durability::Memory,
            Some(journal) => asked.unwrap_or(journal.durability()),
        }
    }

    /// Waits until an entry has reached a level.
    pub(crate) fn wait_until(
        &self,
        pending: &PendingEntry,
        durability: Durability,
        call: CallKind,
        wait: &Wait<'_>,
    ) -> Result<()> {
        self.timed(call, || pending.wait(durability, wait))
            .map_err(|error| self.entry_failed(pending, &error, call))
    }

    /// Runs a wait for the journal; one that is slow is logged.
    #[inline]
    pub(crate) fn timed<R>(&self, call: CallKind, wait: impl FnOnce() -> R) -> R {
        let slow_ms = self.journal.as_ref().map_or(0, Journal::slow_call_ms);
        if slow_ms == 0 || !oxbus_log::is_on() {
            return wait();
        }
        let began = Stopwatch::start();
        let done = wait();
        let ms = began.ms();
        if ms >= slow_ms {
            event!(CALL_SLOW, partition = self.id.0, call = call.name(), ms);
        }
        done
    }

    /// The error of an entry that did not reach its level. A store that failed is out of service.
    pub(crate) fn entry_failed(&self, pending: &PendingEntry, error: &AppendError, call: CallKind) -> Error {
        // Under the order no other log takes the place: who learns late that one failed leaves the next in service.
        let append_guard = self
            .journal
            .as_ref()
            .map(|journal| journal.lock_for_append(&self.health));
        if append_guard.is_none_or(|append_guard| pending.belongs_to(&append_guard)) {
            self.report_failure(error);
        }
        self.call_error(error, call)
    }

    /// Waits until all entries so far, whoever wrote them, are as safe as a call asks.
    pub(crate) fn await_all(&self, durability: Durability, call: CallKind, wait: &Wait<'_>) -> Result<()> {
        let Some(last) = self.last_pending() else {
            return Ok(());
        };
        self.wait_until(&last, durability, call, wait)
    }

    /// The last entry that was appended, to be waited for; `None` without a journal.
    pub(crate) fn last_pending(&self) -> Option<PendingEntry> {
        Some(self.journal.as_ref()?.last())
    }

    /// Keeps snapshots from looking while a write is journaled and has not had its effect.
    pub(crate) fn hold_off_snapshots(&self) -> BarrierGuard<'_> {
        self.snapshot_barrier.enter(&self.health)
    }

    fn lock_cells(&self) -> StateGuard<'_, Vec<Option<CellState>>> {
        self.cells.lock(&self.health)
    }

    /// Panics in the middle of a step.
    #[cfg(test)]
    pub(crate) fn panic_while_locked(&self) {
        let _cells = self.lock_cells();
        panic!("asked for by the test");
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
        // Dropped outside the guard: it may hold many messages.
        drop(state);
    }

    /// Runs one step on the guarded state of a cell.
    pub(crate) fn with_cell_state<R>(&self, no: CellStateId, step: impl FnOnce(&mut CellState) -> R) -> R {
        let mut cells = self.lock_cells();
        step(
            cells[no.0]
                .as_mut()
                .expect("a cell removes its state only when it is dropped"),
        )
    }
}
