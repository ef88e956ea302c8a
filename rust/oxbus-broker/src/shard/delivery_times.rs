// SPDX-License-Identifier: Apache-2.0
//! How long receivers hold messages: the time from a delivery to its settlement.
//!
//! One message number in eight is timed, so that a long list costs little. The beginnings are in a table of fixed size;
//! a later one takes the place of an earlier one that was never settled.

use std::sync::Mutex;
use std::time::Instant;

use oxbus_model::latency::{Latencies, LatencyHistogram};
use oxbus_model::sync::ignore_poison;
use oxbus_store::LockKey;

/// Every such message number is timed.
const ONE_IN: u64 = 8;
const PLACES: usize = 4096;

/// Beginnings by place, and the times of the deliveries that ended.
#[derive(Debug)]
pub(super) struct DeliveryTimes {
    /// A panic leaves it consistent: each place is set in one step.
    begun: Mutex<Box<[Option<Begun>]>>,
    held: LatencyHistogram,
}

/// A delivery whose settlement has not been seen.
#[derive(Debug, Clone, Copy)]
struct Begun {
    cell: usize,
    key: LockKey,
    at: Instant,
}

impl Default for DeliveryTimes {
    fn default() -> Self {
        Self {
            begun: Mutex::new(vec![None; PLACES].into()),
            held: LatencyHistogram::default(),
        }
    }
}

fn is_timed(key: &LockKey) -> bool {
    key.counter.0.is_multiple_of(ONE_IN)
}

fn place(cell: usize, key: &LockKey) -> usize {
    ((key.counter.0 / ONE_IN) as usize).wrapping_add(cell >> 4) % PLACES
}

impl DeliveryTimes {
    /// Notes deliveries of a cell.
    pub(super) fn begin(&self, cell: usize, keys: impl Iterator<Item = LockKey>) {
        let mut keys = keys.filter(is_timed).peekable();
        if keys.peek().is_none() {
            return;
        }
        let at = oxbus_system::instant();
        let mut begun = ignore_poison(self.begun.lock());
        for key in keys {
            begun[place(cell, &key)] = Some(Begun { cell, key, at });
        }
    }

    /// Records the time of deliveries that were settled.
    pub(super) fn end(&self, cell: usize, keys: impl Iterator<Item = LockKey>) {
        let mut keys = keys.filter(is_timed).peekable();
        if keys.peek().is_none() {
            return;
        }
        let now = oxbus_system::instant();
        let mut begun = ignore_poison(self.begun.lock());
        for key in keys {
            let found = begun[place(cell, &key)].take_if(|it| it.cell == cell && it.key == key);
            if let Some(begun) = found {
                self.held.record(now.duration_since(begun.at));
            }
        }
    }

    /// The times so far.
    pub(super) fn read(&self) -> Latencies {
        self.held.read()
    }
}
