// SPDX-License-Identifier: Apache-2.0
//! A shard: one broker over one store. Shard *i* holds partition *i* of every partitioned entity of a namespace.
//!
//! Claim, settle and append go straight to the lock-free stores of the cells. The shard's mutex guards what
//! is sparse or must move in one step: dead-letter queues and schedules.
//!
//! Holds always
//! - the mutex is never held across a wake-up, a wait, or a call out of the stores.

mod cell;
mod dead_letter;
mod health;
pub mod journal;
mod schedule;

use std::sync::{Mutex, MutexGuard, PoisonError};

use oxbus_model::PartitionId;
use oxbus_store::OrderedStore;

pub use cell::{Cell, Ended};
pub use dead_letter::DeadLetters;
pub use health::{Fault, Health};
pub use schedule::Schedule;

/// One partition of a namespace.
#[derive(Debug)]
pub struct Shard {
    id: PartitionId,
    health: Health,
    cells: Mutex<Vec<Option<CellState>>>,
}

/// The part of a cell that the shard's mutex guards.
#[derive(Debug, Default)]
pub struct CellState {
    /// Messages of the dead-letter queue, under the numbers they had (B-265).
    pub dead_letters: OrderedStore,
    /// Scheduled messages by due time.
    pub schedule: Schedule,
}

/// Names the state of one cell inside its shard.
#[derive(Debug, Clone, Copy)]
pub struct CellNo(usize);

impl Shard {
    /// An empty shard.
    pub fn new(id: PartitionId) -> Self {
        Self {
            id,
            health: Health::default(),
            cells: Mutex::default(),
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

    fn guard(&self) -> MutexGuard<'_, Vec<Option<CellState>>> {
        // A panic inside the guard leaves maps that are whole, if not current: every step below is one map call.
        self.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_cell(&self) -> CellNo {
        let mut cells = self.guard();
        let free = cells.iter().position(Option::is_none).unwrap_or_else(|| {
            cells.push(None);
            cells.len() - 1
        });
        cells[free] = Some(CellState::default());
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
