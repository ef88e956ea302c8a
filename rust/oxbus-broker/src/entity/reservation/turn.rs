// SPDX-License-Identifier: Apache-2.0
//! Whose turn it is: one call at a time changes what a consumer has, and waits for the journal in its turn.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use oxbus_model::sync::whole;
use oxbus_model::{Effect, Error, ErrorKind, Result};
use oxbus_store::Wait;

/// Between two looks whether to leave.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Taken by one call at a time.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// One value, set in one step: it is whole after a panic.
    is_taken: Mutex<bool>,
    given_back: Condvar,
}

/// The turn, until it is dropped.
#[derive(Debug)]
#[must_use = "the turn is over when it is dropped"]
pub(super) struct Taken<'a>(&'a Turn);

impl Turn {
    /// Takes the turn; waits for whoever has it, unless the caller is to leave.
    pub(super) fn take(&self, wait: &Wait<'_>) -> Result<Taken<'_>> {
        let mut is_taken = self.guard();
        while *is_taken {
            if wait.is_over() {
                let detail =
                    "another call for the consumer waits for a store that does not answer; make the call again";
                return Err(Error::new(ErrorKind::Timeout, detail).with_effect(Effect::None));
            }
            let woken = self.given_back.wait_timeout(is_taken, LOOK_AGAIN);
            is_taken = whole(woken).0;
        }
        *is_taken = true;
        Ok(Taken(self))
    }

    fn guard(&self) -> MutexGuard<'_, bool> {
        whole(self.is_taken.lock())
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.0.guard() = false;
        self.0.given_back.notify_one();
    }
}
