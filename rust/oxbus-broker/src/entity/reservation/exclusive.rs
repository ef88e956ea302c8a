// SPDX-License-Identifier: Apache-2.0
//! Exclusive lock of a consumer: one call at a time changes its reservations, and keeps the lock while it waits for the
//! journal.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use oxbus_model::sync::ignore_poison;
use oxbus_model::{Effect, Error, ErrorKind, Result};
use oxbus_store::Wait;

/// Interval at which a waiting call checks whether its wait has ended.
const CANCELLATION_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// A lock held by one call at a time. A wait for it can time out or be cancelled.
#[derive(Debug, Default)]
pub(super) struct ExclusiveLock {
    /// This is a single value, so it is consistent after a panic.
    is_locked: Mutex<bool>,
    released: Condvar,
}

/// Holds the lock until it is dropped.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
pub(super) struct ExclusiveGuard<'a>(&'a ExclusiveLock);

impl ExclusiveLock {
    /// Acquires the lock. Fails if the wait ends first.
    pub(super) fn acquire(&self, wait: &Wait<'_>) -> Result<ExclusiveGuard<'_>> {
        let mut is_locked = self.flag();
        while *is_locked {
            if wait.is_over() {
                let detail = "another call for the consumer waits for a store that does not answer; repeat the call";
                return Err(Error::new(ErrorKind::Timeout, detail).with_effect(Effect::None));
            }
            let woken = self.released.wait_timeout(is_locked, CANCELLATION_CHECK_INTERVAL);
            is_locked = ignore_poison(woken).0;
        }
        *is_locked = true;
        Ok(ExclusiveGuard(self))
    }

    fn flag(&self) -> MutexGuard<'_, bool> {
        ignore_poison(self.is_locked.lock())
    }
}

impl Drop for ExclusiveGuard<'_> {
    fn drop(&mut self) {
        *self.0.flag() = false;
        self.0.released.notify_one();
    }
}
