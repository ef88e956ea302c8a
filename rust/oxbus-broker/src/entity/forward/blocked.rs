// SPDX-License-Identifier: Apache-2.0
//! Messages that cannot be forwarded at present, by obstacle.
//!
//! They stay claimed, so the next claim at the source does not visit them again. Later messages for the same
//! destination cell wait behind them. Once their obstacle may be gone, they return to their source cell in order.

use std::collections::BTreeMap;

use oxbus_model::Ticks;
use oxbus_model::name::SubQueue;
use oxbus_store::{LockKey, Outcome};

use crate::shard::Cell;

/// Why a message cannot be forwarded at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Obstacle {
    /// The only destination cell that the message may go to does not accept messages.
    Cell(usize),
    /// No cell of the destination accepts messages.
    AllCells,
    /// The destination rejects the message, or its record cannot be read. It is not dead-lettered, because it is
    /// already in a dead-letter queue, or unreadable.
    Rejected(&'static str),
}

impl Obstacle {
    /// The reason in log events.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cell(_) | Self::AllCells => "destination_unavailable",
            Self::Rejected(reason) => reason,
        }
    }
}

/// A message that cannot be forwarded at present.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockedMessage {
    pub(super) key: LockKey,
    /// True if the message is locked. If false, it is cached, and its release counts no delivery.
    pub(super) is_locked: bool,
}

type SourceCell = (SubQueue, usize);

/// All blocked messages of an entity.
#[derive(Debug, Default)]
pub(super) struct BlockedMessages(BTreeMap<(SourceCell, Obstacle), Vec<BlockedMessage>>);

impl BlockedMessages {
    pub(super) fn insert(&mut self, source: SourceCell, obstacle: Obstacle, blocked: BlockedMessage) {
        self.0.entry((source, obstacle)).or_default().push(blocked);
    }

    /// True if a message of a source cell is blocked by a destination cell, so that later ones must wait behind it.
    pub(super) fn waits_for(&self, source: SourceCell, to: usize) -> bool {
        !self.0.is_empty() && self.0.contains_key(&(source, Obstacle::Cell(to)))
    }

    /// The obstacles of a source cell, each with the first message that it blocks.
    pub(super) fn obstacles(&self, source: SourceCell) -> Vec<(Obstacle, BlockedMessage)> {
        let of_source = self.0.iter().filter(|((from, _), _)| *from == source);
        of_source
            .filter_map(|((_, obstacle), blocked)| Some((*obstacle, *blocked.first()?)))
            .collect()
    }

    /// Releases the messages of a source cell that an obstacle blocked.
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

    /// Numbers of cached and of locked blocked messages of a source cell.
    pub(super) fn count(&self, source: SourceCell) -> (u64, u64) {
        let of_source = self.0.iter().filter(|((from, _), _)| *from == source);
        of_source
            .flat_map(|(_, blocked)| blocked)
            .fold((0, 0), |(cached, locked), blocked| {
                (
                    cached + u64::from(!blocked.is_locked),
                    locked + u64::from(blocked.is_locked),
                )
            })
    }

    pub(super) fn contains(&self, source: SourceCell) -> bool {
        self.0.keys().any(|(from, _)| *from == source)
    }
}
