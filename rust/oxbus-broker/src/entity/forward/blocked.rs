// SPDX-License-Identifier: Apache-2.0
//! Messages that cannot be moved now, by what is in their way.
//!
//! They keep a hold, so that what comes behind them for the same place waits behind them, and a look at the source costs
//! nothing for each of them. They go back to their places, in order, once their obstacle may be gone.

use std::collections::BTreeMap;

use oxbus_model::Ticks;
use oxbus_model::name::SubQueue;
use oxbus_store::{LockKey, Outcome};

use crate::shard::Cell;

/// What is in the way of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Obstacle {
    /// The one cell of the destination that may take it does not take any.
    Cell(usize),
    /// No cell of the destination takes any.
    AllCells,
    /// The destination refuses it, and it is in a dead-letter queue already.
    Rejected(&'static str),
}

impl Obstacle {
    /// Its name in the log.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cell(_) | Self::AllCells => "destination_unavailable",
            Self::Rejected(reason) => reason,
        }
    }
}

/// A message that was put aside.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockedMessage {
    pub(super) key: LockKey,
    /// It is locked; otherwise it is cached, which charges no delivery.
    pub(super) is_locked: bool,
}

type SourceCell = (SubQueue, usize);

/// All that an entity has put aside.
#[derive(Debug, Default)]
pub(super) struct BlockedMessages(BTreeMap<(SourceCell, Obstacle), Vec<BlockedMessage>>);

impl BlockedMessages {
    pub(super) fn insert(&mut self, source: SourceCell, obstacle: Obstacle, blocked: BlockedMessage) {
        self.0.entry((source, obstacle)).or_default().push(blocked);
    }

    /// True when a message of that place waits for that cell of the destination: later ones wait behind it.
    pub(super) fn waits_for(&self, source: SourceCell, to: usize) -> bool {
        !self.0.is_empty() && self.0.contains_key(&(source, Obstacle::Cell(to)))
    }

    /// What is in the way of messages of a place, with the first message of each.
    pub(super) fn obstacles(&self, source: SourceCell) -> Vec<(Obstacle, BlockedMessage)> {
        let here = self.0.iter().filter(|((its, _), _)| *its == source);
        here.filter_map(|((_, obstacle), blocked)| Some((*obstacle, *blocked.first()?)))
            .collect()
    }

    /// Puts messages of a place back where they were.
    pub(super) fn release(&mut self, source: SourceCell, obstacle: Obstacle, cell: &Cell, ticks: Ticks) {
        let Some(all) = self.0.remove(&(source, obstacle)) else {
            return;
        };
        let store = cell.store(source.0);
        let cached: Vec<LockKey> = all
            .iter()
            .filter(|blocked| !blocked.is_locked)
            .map(|blocked| blocked.key)
            .collect();
        store.release_cached(&cached);
        for blocked in all.iter().filter(|blocked| blocked.is_locked) {
            let _ = store.settle(blocked.key, Outcome::Release, ticks);
        }
    }

    /// How many messages of a place were put aside: cached ones, and locked ones.
    pub(super) fn count(&self, source: SourceCell) -> (u64, u64) {
        let here = self.0.iter().filter(|((its, _), _)| *its == source);
        here.flat_map(|(_, blocked)| blocked)
            .fold((0, 0), |(cached, locked), blocked| {
                (
                    cached + u64::from(!blocked.is_locked),
                    locked + u64::from(blocked.is_locked),
                )
            })
    }

    pub(super) fn contains(&self, source: SourceCell) -> bool {
        self.0.keys().any(|(its, _)| *its == source)
    }
}
