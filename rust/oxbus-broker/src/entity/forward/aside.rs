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
    Nowhere,
    /// The destination refuses it, and it is in a dead-letter queue already.
    Refused(&'static str),
}

impl Obstacle {
    /// Its name in the log.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cell(_) | Self::Nowhere => "destination_unavailable",
            Self::Refused(reason) => reason,
        }
    }
}

/// A message that was put aside.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    pub(super) key: LockKey,
    /// It is locked; otherwise it is cached, which charges no delivery.
    pub(super) is_locked: bool,
}

type Place = (SubQueue, usize);

/// All that an entity has put aside.
#[derive(Debug, Default)]
pub(super) struct Aside(BTreeMap<(Place, Obstacle), Vec<Kept>>);

impl Aside {
    pub(super) fn put(&mut self, place: Place, obstacle: Obstacle, kept: Kept) {
        self.0.entry((place, obstacle)).or_default().push(kept);
    }

    /// True when a message of that place waits for that cell of the destination: later ones wait behind it.
    pub(super) fn waits_for(&self, place: Place, to: usize) -> bool {
        !self.0.is_empty() && self.0.contains_key(&(place, Obstacle::Cell(to)))
    }

    /// What is in the way of messages of a place, with the first message of each.
    pub(super) fn of(&self, place: Place) -> Vec<(Obstacle, Kept)> {
        let here = self.0.iter().filter(|((its, _), _)| *its == place);
        here.filter_map(|((_, obstacle), kept)| Some((*obstacle, *kept.first()?)))
            .collect()
    }

    /// Puts messages of a place back where they were.
    pub(super) fn release(&mut self, place: Place, obstacle: Obstacle, cell: &Cell, ticks: Ticks) {
        let Some(all) = self.0.remove(&(place, obstacle)) else {
            return;
        };
        let store = cell.store(place.0);
        let cached: Vec<LockKey> = all.iter().filter(|kept| !kept.is_locked).map(|kept| kept.key).collect();
        store.release_cached(&cached);
        for kept in all.iter().filter(|kept| kept.is_locked) {
            let _ = store.settle(kept.key, Outcome::Release, ticks);
        }
    }

    /// How many messages of a place were put aside: cached ones, and locked ones.
    pub(super) fn count(&self, place: Place) -> (u64, u64) {
        let here = self.0.iter().filter(|((its, _), _)| *its == place);
        here.flat_map(|(_, kept)| kept).fold((0, 0), |(cached, locked), kept| {
            (cached + u64::from(!kept.is_locked), locked + u64::from(kept.is_locked))
        })
    }

    pub(super) fn has(&self, place: Place) -> bool {
        self.0.keys().any(|(its, _)| *its == place)
    }
}
