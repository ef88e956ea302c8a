// SPDX-License-Identifier: Apache-2.0
//! Counters of what happens to messages. A namespace counts nothing until its metrics are switched on.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use oxbus_model::latency::{Latencies, LatencyHistogram};
use oxbus_store::LockKey;

use super::delivery_times::DeliveryTimes;
use super::{CallKind, Cell};

/// What happened to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meter {
    /// It arrived, or was scheduled.
    Sent,
    /// It was handed to a receiver, or to a reservation.
    Received,
    /// Its receiver completed it.
    Completed,
    /// Its receiver abandoned it.
    Abandoned,
    /// Its receiver deferred it.
    Deferred,
    /// It moved to the dead-letter queue because its receiver, or the destination of a forward, rejected it.
    Rejected,
    /// It moved there because it was delivered too often.
    DeliveriesExhausted,
    /// It moved there because it expired.
    ExpiredToDeadLetters,
    /// It moved there because it had no session id.
    WithoutSession,
    /// It moved there because a rule of a subscription failed.
    RuleFailed,
    /// It expired and was removed.
    ExpiredRemoved,
    /// It was dropped as a duplicate.
    Duplicate,
}

/// Number of meters.
pub const METERS: usize = Meter::Duplicate as usize + 1;

/// The counters of one cell, by [`Meter`].
pub type MeterCounts = [u64; METERS];

/// The counters of one cell, made when the first message is counted.
#[derive(Debug, Default)]
pub(super) struct CellMeters(OnceLock<Box<[AtomicU64; METERS]>>);

/// How long the calls of one shard waited for its journal, and receivers held its messages.
#[derive(Debug, Default)]
pub struct WaitTimes {
    /// Sends.
    pub sends: LatencyHistogram,
    /// Receives and settlements.
    pub others: LatencyHistogram,
    deliveries: DeliveryTimes,
}

impl WaitTimes {
    pub(super) fn of(&self, call: CallKind) -> &LatencyHistogram {
        match call {
            CallKind::Send => &self.sends,
            _ => &self.others,
        }
    }

    /// From a delivery to its settlement, of one message in eight.
    pub fn held(&self) -> Latencies {
        self.deliveries.read()
    }
}

impl Cell {
    /// Counts messages, if metrics are on.
    #[inline]
    pub fn meter(&self, meter: Meter, messages: usize) {
        if self.shard.is_metered() {
            self.count(meter, messages as u64);
        }
    }

    /// Counts deliveries under locks, if metrics are on.
    #[inline]
    pub fn meter_delivered(&self, keys: impl ExactSizeIterator<Item = LockKey>) {
        if let Some(times) = self.shard.wait_times() {
            self.count(Meter::Received, keys.len() as u64);
            times.deliveries.begin(self.place(), keys);
        }
    }

    /// Counts settlements of deliveries, if metrics are on.
    #[inline]
    pub fn meter_settled(&self, meter: Meter, keys: impl IntoIterator<Item = LockKey>) {
        if let Some(times) = self.shard.wait_times() {
            let mut settled = 0;
            times
                .deliveries
                .end(self.place(), keys.into_iter().inspect(|_| settled += 1));
            self.count(meter, settled);
        }
    }

    /// Tells the cells of a shard apart.
    fn place(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    #[cold]
    fn count(&self, meter: Meter, messages: u64) {
        self.meters.0.get_or_init(Box::default)[meter as usize].fetch_add(messages, Ordering::Relaxed);
    }

    /// What has been counted so far.
    pub fn meter_counts(&self) -> MeterCounts {
        let counts = self.meters.0.get();
        counts.map_or([0; METERS], |counts| {
            std::array::from_fn(|meter| counts[meter].load(Ordering::Relaxed))
        })
    }
}
