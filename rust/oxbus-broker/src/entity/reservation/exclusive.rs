// SPDX-License-Identifier: Apache-2.0
//! Whose turn it is: one call at a time changes what a consumer has, and waits for the journal in its turn.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use oxbus_model::sync::ignore_poison;
use oxbus_model::{Effect, Error, ErrorKind, Result};
use oxbus_store::Wait;

/// Between two looks whether to leave.
const CANCELLATION_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Taken by one call at a time.
#[derive(Debug, Default)]
pub(super) struct ExclusiveLock {
    /// One value, set in one step: it is whole after a panic.
    is_locked: Mutex<bool>,
    released: Condvar,
}

/// The turn, until it is dropped.
#[derive(Debug)]
#[must_use = "the turn is over when it is dropped"]
pub(super) struct ExclusiveGuard<'a>(&'a ExclusiveLock);

impl ExclusiveLock {
    /// Takes the turn; waits for whoever has it, unless the caller is to leave.
    pub(super) fn acquire(&self, wait: &Wait<'_>) -> Result<ExclusiveGuard<'_>> {
        let mut is_locked = self.flag();
        while *is_locked {
            if wait.is_over() {
                let detail =
                    "another call for the consumer waits for a store that does not answer; make the call again";
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
