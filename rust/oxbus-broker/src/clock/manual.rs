// SPDX-License-Identifier: Apache-2.0
//! A clock that tests advance by hand, so that locks, expiry and schedules need no sleeping.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use oxbus_model::sync::ignore_poison;
use oxbus_model::{Clock, Moment, Ticks, Timestamp};

/// A callback for each advance.
type Listener = Weak<dyn Fn() + Send + Sync>;

/// Wall time and ticks that move together, only by [`ManualClock::advance`].
#[derive(Default)]
pub struct ManualClock {
    start: u64,
    elapsed_ms: AtomicU64,
    /// Valid after a panic: each change is one call of `Vec`.
    listeners: Mutex<Vec<Listener>>,
}

impl ManualClock {
    /// A clock whose wall time is `start`.
    pub fn new(start: Timestamp) -> Self {
        Self {
            start: start.0,
            ..Self::default()
        }
    }

    /// Advances the clock and calls the listeners.
    pub fn advance(&self, ms: u64) {
        self.elapsed_ms.fetch_add(ms, Ordering::SeqCst);
        let live: Vec<Arc<dyn Fn() + Send + Sync>> = {
            let mut listeners = ignore_poison(self.listeners.lock());
            listeners.retain(|listener| listener.strong_count() > 0);
            listeners.iter().filter_map(Weak::upgrade).collect()
        };
        for wake in live {
            wake();
        }
    }

    /// Calls `wake` at each advance while the caller keeps it alive.
    pub fn on_advance(&self, wake: &Arc<dyn Fn() + Send + Sync>) {
        ignore_poison(self.listeners.lock()).push(Arc::downgrade(wake));
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
