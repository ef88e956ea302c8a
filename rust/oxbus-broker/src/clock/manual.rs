// SPDX-License-Identifier: Apache-2.0
//! A clock that is moved by hand: tests of locks, expiry and schedules without sleeping.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use oxbus_model::sync::whole;
use oxbus_model::{Clock, Moment, Ticks, Timestamp};

/// What is woken when the clock moves.
type Listener = Weak<dyn Fn() + Send + Sync>;

/// Wall time and ticks that move together, only when told.
#[derive(Default)]
pub struct ManualClock {
    start: u64,
    elapsed_ms: AtomicU64,
    /// Whole after a panic: who is in the list is called, who is not is not.
    listeners: Mutex<Vec<Listener>>,
}

impl ManualClock {
    /// A clock that shows `start`.
    pub fn new(start: Timestamp) -> Self {
        Self {
            start: start.0,
            ..Self::default()
        }
    }

    /// Moves the clock and wakes everyone who waits under it.
    pub fn advance(&self, ms: u64) {
        self.elapsed_ms.fetch_add(ms, Ordering::SeqCst);
        let live: Vec<Arc<dyn Fn() + Send + Sync>> = {
            let mut listeners = whole(self.listeners.lock());
            listeners.retain(|listener| listener.strong_count() > 0);
            listeners.iter().filter_map(Weak::upgrade).collect()
        };
        for wake in live {
            wake();
        }
    }

    /// Calls `wake` at each move, for as long as the caller keeps it.
    pub fn on_advance(&self, wake: &Arc<dyn Fn() + Send + Sync>) {
        whole(self.listeners.lock()).push(Arc::downgrade(wake));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.moment().now
    }

    fn ticks(&self) -> Ticks {
        self.moment().ticks
    }

    fn moment(&self) -> Moment {
        let elapsed_ms = self.elapsed_ms.load(Ordering::SeqCst);
        Moment {
            now: Timestamp(self.start).plus_ms(elapsed_ms),
            ticks: Ticks((1 << 32) + elapsed_ms),
        }
    }

    fn is_real_time(&self) -> bool {
        false
    }
}
