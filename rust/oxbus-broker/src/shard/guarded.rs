// SPDX-License-Identifier: Apache-2.0
//! State of a shard behind a lock. A call that panics while it has the lock takes the shard out of service.
//!
//! Nobody knows whether such a call left the state whole, and no later call may build on it: not one that answers from it,
//! and not a snapshot, which would outlast it. The journal is whole, because an entry stands in it or does not. So the next
//! open makes the state anew. In memory there is no next open, and the shard stays out of service.
//!
//! A thread that waits for the lock when that happens gets it. It was past its look at the health, and cannot tell.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::Duration;

use oxbus_model::sync::whole;

use super::Health;

/// State of a shard, or of a cell of it.
#[derive(Debug, Default)]
pub struct Guarded<T>(Mutex<T>);

/// The state, until it is dropped.
#[derive(Debug)]
pub struct Guard<'a, T> {
    /// Let go of first: then the mutex knows whether a panic did it.
    state: MutexGuard<'a, T>,
    watch: Watch<'a, T>,
}

#[derive(Debug)]
struct Watch<'a, T> {
    mutex: &'a Mutex<T>,
    health: &'a Health,
}

impl<T> Drop for Watch<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // A mutex that is taken while the thread panics already, and let go of, is not poisoned by that.
        if std::thread::panicking() && self.mutex.is_poisoned() {
            self.health.fail_panicked();
        }
    }
}

impl<T> Guarded<T> {
    /// Guards a state.
    pub fn new(state: T) -> Self {
        Self(Mutex::new(state))
    }

    /// Takes the state of the shard whose health that is.
    #[inline]
    pub fn lock<'a>(&'a self, health: &'a Health) -> Guard<'a, T> {
        self.guard(whole(self.0.lock()), health)
    }

    /// The same without a wait; `None` when another thread has it.
    pub fn try_lock<'a>(&'a self, health: &'a Health) -> Option<Guard<'a, T>> {
        match self.0.try_lock() {
            Ok(state) => Some(self.guard(state, health)),
            Err(TryLockError::Poisoned(state)) => Some(self.guard(state.into_inner(), health)),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    #[inline]
    fn guard<'a>(&'a self, state: MutexGuard<'a, T>, health: &'a Health) -> Guard<'a, T> {
        let mutex = &self.0;
        Guard {
            state,
            watch: Watch { mutex, health },
        }
    }
}

impl<T: Clone> Guarded<T> {
    /// A copy of the state. Nothing is changed, so a panic on the way does no harm.
    pub fn look(&self) -> T {
        whole(self.0.lock()).clone()
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.state
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.state
    }
}

impl<T> Guard<'_, T> {
    /// Lets go of the state until a condition is notified, or for so long.
    #[must_use]
    pub fn wait_timeout(self, condition: &Condvar, longest: Duration) -> Self {
        let Self { state, watch } = self;
        let (state, _) = whole(condition.wait_timeout(state, longest));
        Self { state, watch }
    }
}

/// A lock that many share who change a shard in more than one step, and one takes alone who may not look in between.
#[derive(Debug, Default)]
pub struct Steps(RwLock<()>);

/// Somebody is between two steps, until it is dropped.
#[derive(Debug)]
pub struct Between<'a> {
    _shared: RwLockReadGuard<'a, ()>,
    health: &'a Health,
    /// The thread panicked before it came here: what is done while it unwinds is done to the end.
    was_panicking: bool,
}

impl Steps {
    /// Begins to change the shard whose health that is.
    pub fn begin<'a>(&'a self, health: &'a Health) -> Between<'a> {
        Between {
            _shared: whole(self.0.read()),
            health,
            was_panicking: std::thread::panicking(),
        }
    }

    /// Waits until nobody is between two steps. It guards no state of its own.
    pub fn none(&self) -> RwLockWriteGuard<'_, ()> {
        whole(self.0.write())
    }
}

impl Drop for Between<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.was_panicking {
            self.health.fail_panicked();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use oxbus_model::PartitionId;

    use super::*;
    use crate::shard::Fault;

    #[test]
    fn a_panic_with_the_state_takes_the_shard_out_of_service() {
        let (health, guarded) = (Health::in_memory(PartitionId(0)), Guarded::new(1));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            *guarded.lock(&health) += 1;
            assert_eq!(health.fault(), None);
            let _guard = guarded.lock(&health);
            panic!("asked for by the test");
        }));
        assert!(panicked.is_err());
        assert_eq!(health.fault(), Some(Fault::Panicked));
        assert_eq!(
            (guarded.look(), *guarded.lock(&health)),
            (2, 2),
            "nobody waits for ever"
        );
        assert!(guarded.try_lock(&health).is_some());
    }

    #[test]
    fn a_panic_between_two_steps_takes_the_shard_out_of_service() {
        let (health, steps) = (Health::in_memory(PartitionId(0)), Steps::default());
        drop(steps.begin(&health));
        assert_eq!(health.fault(), None);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _between = steps.begin(&health);
            panic!("asked for by the test");
        }));
        assert!(panicked.is_err());
        assert_eq!(health.fault(), Some(Fault::Panicked));
        drop(steps.none());
    }

    #[test]
    fn what_is_done_to_the_end_while_a_thread_unwinds_does_no_harm() {
        struct Leaves<'a>(&'a Guarded<u32>, &'a Steps, &'a Health);
        impl Drop for Leaves<'_> {
            fn drop(&mut self) {
                let _between = self.1.begin(self.2);
                *self.0.lock(self.2) += 1;
            }
        }
        let (health, guarded, steps) = (Health::in_memory(PartitionId(0)), Guarded::new(0), Steps::default());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _leaves = Leaves(&guarded, &steps, &health);
            panic!("asked for by the test");
        }));
        assert!(panicked.is_err());
        assert_eq!((guarded.look(), health.fault()), (1, None));
    }

    #[test]
    fn a_shard_that_a_panic_took_out_of_service_stays_so() {
        let health = Health::in_memory(PartitionId(0));
        health.fail_panicked();
        health.heal();
        health.fail(Fault::Failed, String::new());
        health.inject(Fault::Busy, 0);
        assert_eq!(health.fault(), Some(Fault::Panicked));
        assert!(!health.serves());
    }
}
