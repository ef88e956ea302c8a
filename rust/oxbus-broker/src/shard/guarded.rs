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

use super::ShardHealth;

/// State of a shard, or of a cell of it.
#[derive(Debug, Default)]
pub struct Guarded<T>(Mutex<T>);

/// The state, until it is dropped.
#[derive(Debug)]
pub struct StateGuard<'a, T> {
    /// Let go of first: then the mutex knows whether a panic did it.
    state: MutexGuard<'a, T>,
    watch: PanicWatch<'a, T>,
}

#[derive(Debug)]
struct PanicWatch<'a, T> {
    mutex: &'a Mutex<T>,
    health: &'a ShardHealth,
}

impl<T> Drop for PanicWatch<'_, T> {
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
    pub fn lock<'a>(&'a self, health: &'a ShardHealth) -> StateGuard<'a, T> {
        self.guard(whole(self.0.lock()), health)
    }

    /// The same without a wait; `None` when another thread has it.
    pub fn try_lock<'a>(&'a self, health: &'a ShardHealth) -> Option<StateGuard<'a, T>> {
        match self.0.try_lock() {
            Ok(state) => Some(self.guard(state, health)),
            Err(TryLockError::Poisoned(state)) => Some(self.guard(state.into_inner(), health)),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    #[inline]
    fn guard<'a>(&'a self, state: MutexGuard<'a, T>, health: &'a ShardHealth) -> StateGuard<'a, T> {
        let mutex = &self.0;
        StateGuard {
            state,
            watch: PanicWatch { mutex, health },
        }
    }
}

impl<T: Clone> Guarded<T> {
    /// A copy of the state. Nothing is changed, so a panic on the way does no harm.
    pub fn get_cloned(&self) -> T {
        whole(self.0.lock()).clone()
    }
}

impl<T> Deref for StateGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.state
    }
}

impl<T> DerefMut for StateGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.state
    }
}

impl<T> StateGuard<'_, T> {
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
pub struct SnapshotBarrier(RwLock<()>);

/// Somebody is between two steps, until it is dropped.
#[derive(Debug)]
pub struct BarrierGuard<'a> {
    _shared: RwLockReadGuard<'a, ()>,
    health: &'a ShardHealth,
    /// The thread panicked before it came here: what is done while it unwinds is done to the end.
    was_panicking: bool,
}

impl SnapshotBarrier {
    /// Begins to change the shard whose health that is.
    pub fn enter<'a>(&'a self, health: &'a ShardHealth) -> BarrierGuard<'a> {
        BarrierGuard {
            _shared: whole(self.0.read()),
            health,
            was_panicking: std::thread::panicking(),
        }
    }

    /// Waits until nobody is between two steps. It guards no state of its own.
    pub fn wait_until_idle(&self) -> RwLockWriteGuard<'_, ()> {
        whole(self.0.write())
    }
}

impl Drop for BarrierGuard<'_> {
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
    use crate::shard::PartitionFault;

    #[test]
    fn a_panic_with_the_state_takes_the_shard_out_of_service() {
        let (health, guarded) = (ShardHealth::in_memory(PartitionId(0)), Guarded::new(1));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            *guarded.lock(&health) += 1;
            assert_eq!(health.fault(), None);
            let _guard = guarded.lock(&health);
            panic!("asked for by the test");
        }));
        assert!(panicked.is_err());
        assert_eq!(health.fault(), Some(PartitionFault::Panicked));
        assert_eq!(
            (guarded.get_cloned(), *guarded.lock(&health)),
            (2, 2),
            "nobody waits for ever"
        );
        assert!(guarded.try_lock(&health).is_some());
    }

    #[test]
    fn a_panic_between_two_steps_takes_the_shard_out_of_service() {
        let (health, barrier) = (ShardHealth::in_memory(PartitionId(0)), SnapshotBarrier::default());
        drop(barrier.enter(&health));
        assert_eq!(health.fault(), None);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _entered = barrier.enter(&health);
            panic!("asked for by the test");
        }));
        assert!(panicked.is_err());
        assert_eq!(health.fault(), Some(PartitionFault::Panicked));
        drop(barrier.wait_until_idle());
    }

    #[test]
    fn what_is_done_to_the_end_while_a_thread_unwinds_does_no_harm() {
        struct Leaves<'a>(&'a Guarded<u32>, &'a SnapshotBarrier, &'a ShardHealth);
        impl Drop for Leaves<'_> {
            fn drop(&mut self) {
                let _entered = self.1.enter(self.2);
                *self.0.lock(self.2) += 1;
            }
        }
        let (health, guarded, barrier) = (
            ShardHealth::in_memory(PartitionId(0)),
            Guarded::new(0),
            SnapshotBarrier::default(),
        );
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _leaves = Leaves(&guarded, &barrier, &health);
            panic!("asked for by the test");
        }));
        assert!(panicked.is_err());
        assert_eq!((guarded.get_cloned(), health.fault()), (1, None));
    }

    #[test]
    fn a_shard_that_a_panic_took_out_of_service_stays_so() {
        let health = ShardHealth::in_memory(PartitionId(0));
        health.fail_panicked();
        health.heal();
        health.fail(PartitionFault::Failed, String::new());
        health.inject(PartitionFault::Busy, 0);
        assert_eq!(health.fault(), Some(PartitionFault::Panicked));
        assert!(!health.serves());
    }
}
