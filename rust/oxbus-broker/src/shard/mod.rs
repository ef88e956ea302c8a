// SPDX-License-Identifier: Apache-2.0
//! A shard: one broker over one store. Shard *i* holds partition *i* of every partitioned entity of a namespace.
//!
//! Claim, settle and append go straight to the lock-free stores of the cells. The shard's mutex guards what
//! is sparse or must move in one step: dead-letter queues and schedules. In a durable namespace what happened goes to the
//! shard's journal, and nothing is acknowledged before it is there: `append` (what comes in), `settle` (what goes),
//! `attempts` (what is handed out),
//! `reserved` (what consumers have), `refusal` (the errors of entries that the journal did not take), `snapshot` (all of it, now and then).
//!
//! Holds always
//! - the mutex is never held across a wake-up, a wait for a commit, or a call out of the stores and the journal's append;
//! - order of the mutexes: units of work, the shard's, then the journal's order;
//! - an event is journaled after its effect is in the stores, except that messages come in the other way round: number,
//!   event, commit, then the store. So a snapshot that waits for reserved numbers knows every event before it.

mod activation;
mod append;
mod arrived;
mod attempts;
mod cell;
mod dead_letter;
mod fan_out;
mod health;
mod history;
pub mod journal;
mod promise;
mod refusal;
mod reserved;
mod schedule;
mod sessions;
mod settle;
mod sinks;
mod snapshot;
mod spill;
mod unit;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use oxbus_model::options::Durability;
use oxbus_model::{PartitionId, Result};
use oxbus_store::OrderedStore;

use crate::memory::Memory;
pub use append::{Arrival, Late, Refusal};
pub use attempts::LEAVING;
pub use cell::{Cell, Ended, Features, Rules};
pub use dead_letter::DeadLetters;
pub use fan_out::{Fan, FanOut};
pub use health::{Fault, Health, Injected};
pub use history::{Admission, History};
use journal::{Intent, Journal, Pending};
pub use refusal::Deed;
pub use reserved::{RESERVED, Reserved};
pub use schedule::Schedule;
pub use sessions::{Accepted, SessionEnd, SessionError, SessionInfo, SessionLost, Sessions, State, Take};
pub use settle::SettleError;
pub use snapshot::{CellHandle, snapshot_bytes};
pub(crate) use spill::offset_in;
pub use unit::{Ending, Held, StateChange, Unit, UnitError};

/// One partition of a namespace.
#[derive(Debug)]
pub struct Shard {
    id: PartitionId,
    health: Health,
    cells: Mutex<Vec<Option<CellState>>>,
    /// `None` in memory, and when the store could not be opened.
    journal: Option<Journal>,
    /// Held by whoever writes a snapshot.
    saving: Mutex<()>,
    /// No snapshot is written any more.
    closed: AtomicBool,
    /// Shared by units of work that are written and have not had their effect; a snapshot takes it alone for a moment.
    units: RwLock<()>,
    /// What sinks of staged sends committed last.
    sinks: Mutex<BTreeMap<String, Intent>>,
    /// Whether what comes in stays on disk.
    memory: Arc<Memory>,
    /// Some cell has messages in `buried`.
    has_buried: AtomicBool,
}

/// The part of a cell that the shard's mutex guards.
#[derive(Debug, Default)]
pub struct CellState {
    /// Messages of the dead-letter queue, under the numbers they had (B-265).
    pub dead_letters: OrderedStore,
    /// Scheduled messages by due time.
    pub schedule: Schedule,
    /// Messages of the dead-letter queue that leave memory once they are synced.
    buried: Vec<spill::Buried>,
}

/// Names the state of one cell inside its shard.
#[derive(Debug, Clone, Copy)]
pub struct CellNo(usize);

impl Shard {
    /// An empty shard in memory.
    pub fn in_memory(id: PartitionId) -> Self {
        Self::new(id, None, Health::default())
    }

    /// A shard with a journal.
    pub fn durable(id: PartitionId, journal: Journal, memory: Arc<Memory>) -> Self {
        Self {
            memory,
            ..Self::new(id, Some(journal), Health::default())
        }
    }

    /// A shard whose store could not be opened.
    pub fn stopped(id: PartitionId, fault: Fault, reason: String) -> Self {
        Self::new(id, None, Health::stopped(fault, reason))
    }

    fn new(id: PartitionId, journal: Option<Journal>, health: Health) -> Self {
        Self {
            id,
            health,
            cells: Mutex::default(),
            journal,
            saving: Mutex::default(),
            closed: AtomicBool::new(false),
            units: RwLock::default(),
            sinks: Mutex::default(),
            memory: Arc::default(),
            has_buried: AtomicBool::new(false),
        }
    }

    /// Which partition it holds.
    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// Whether it works.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Notes that somebody waited for the store as long as anybody does: from now on nobody does.
    pub fn give_up_waiting(&self) {
        self.health.give_up_waiting(self.journal.is_some());
    }

    /// Lets no snapshot be written from now on: the cells are about to go, and the directory may get another owner. Waits
    /// for one that is being written, unless the store is out of service: that one gives up before it counts.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        if self.health.serves() {
            let _saved = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
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
    pub(crate) fn wait_until(&self, pending: &Pending, durability: Durability, deed: Deed) -> Result<()> {
        pending.wait(durability).map_err(|error| {
            // Under the order no other log takes the place: who learns late that one failed leaves the next in service.
            let order = self.journal.as_ref().map(Journal::order);
            if order.is_none_or(|order| pending.is_of(&order)) {
                self.note_failure(&error);
            }
            self.refusal(&error, deed)
        })
    }

    fn guard(&self) -> MutexGuard<'_, Vec<Option<CellState>>> {
        // A panic inside the guard leaves maps that are whole, if not current: every step below is one map call.
        self.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_cell(&self, state: CellState) -> CellNo {
        let mut cells = self.guard();
        let free = cells.iter().position(Option::is_none).unwrap_or_else(|| {
            cells.push(None);
            cells.len() - 1
        });
        cells[free] = Some(state);
        CellNo(free)
    }

    fn remove_cell(&self, no: CellNo) {
        let state = self.guard()[no.0].take();
        // Dropped outside the guard: it may hold many messages.
        drop(state);
    }

    /// Runs one step on the guarded state of a cell.
    fn with<R>(&self, no: CellNo, step: impl FnOnce(&mut CellState) -> R) -> R {
        let mut cells = self.guard();
        step(
            cells[no.0]
                .as_mut()
                .expect("a cell removes its state only when it is dropped"),
        )
    }
}
