// SPDX-License-Identifier: Apache-2.0
//! Shard state behind a lock. A call that panics while it holds the lock takes the shard out of service.
//!
//! The panic may have left the state inconsistent, so no later call may use it, and no snapshot may preserve it. The
//! journal is consistent, because it contains an entry whole or not at all. The next open rebuilds the state from it.
//! A shard in memory cannot be reopened and stays out of service.
//!
//! A thread that waits for the lock during the panic still gets it, because it checked the health earlier.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use oxbus_model::sync::ignore_poison;
use oxbus_store::Wait;
use oxbus_store::suspended::{Wakers, until};

use super::ShardHealth;

/// State of a shard or of a cell.
#[derive(Debug, Default)]
pub struct Guarded<T>(Mutex<T>);

/// The locked state.
#[derive(Debug)]
pub struct StateGuard<'a, T> {
    /// Dropped first, so that a panic has poisoned the mutex before `watch` checks it.
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
        // A mutex that is both locked and unlocked during an unwind is not poisoned.
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

    /// Locks the state. `health` is that of its shard.
    #[inline]
    pub fn lock<'a>(&'a self, health: &'a ShardHealth) -> StateGuard<'a, T> {
        self.guard(ignore_poison(self.0.lock()), health)
    }

    /// Locks without waiting; `None` if another thread holds the lock.
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
    /// A clone of the state. A panic during the clone does no harm, because nothing changes.
    pub fn get_cloned(&self) -> T {
        ignore_poison(self.0.lock()).clone()
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
    /// Unlocks until `condition` is notified, for at most `longest`.
    #[must_use]
    pub fn wait_timeout(self, condition: &Condvar, longest: Duration) -> Self {
        let Self { state, watch } = self;
        let (state, _) = ignore_poison(condition.wait_timeout(state, longest));
        Self { state, watch }
    }
}

/// How long new writes wait for a snapshot that waits for others.
const IDLE_WAIT: Duration = Duration::from_secs(1);

/// Writes that change a shard in several steps share it. A snapshot, which must not see half a write, waits until none
/// is in progress. A write may end on another thread than it began on, as a suspended call does.
#[derive(Debug, Default)]
pub struct SnapshotBarrier {
    /// Consistent after a panic: each field changes in one step.
    state: Mutex<BarrierState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct BarrierState {
    writes: usize,
    /// True while a snapshot waits for the writes, or keeps new ones from beginning.
    is_closed: bool,
    /// Suspended calls to wake when it opens.
    suspended: Wakers,
}

/// A write in progress. It ends when this guard is dropped.
#[derive(Debug)]
pub struct BarrierGuard<'a> {
    barrier: &'a SnapshotBarrier,
    health: &'a ShardHealth,
    /// True if the thread was already panicking: a write during an unwind completes normally.
    was_panicking: bool,
}

/// No write is in progress, and none begins before this guard is dropped.
#[derive(Debug)]
pub struct IdleGuard<'a>(&'a SnapshotBarrier);

impl SnapshotBarrier {
    /// Begins a write. `health` is that of its shard.
    pub fn enter<'a>(&'a self, health: &'a ShardHealth) -> BarrierGuard<'a> {
        self.when(|state| !state.is_closed).writes += 1;
        BarrierGuard {
            barrier: self,
            health,
            was_panicking: std::thread::panicking(),
        }
    }

    /// Suspends a call while a snapshot keeps writes from beginning. It may find another one when it goes on.
    pub async fn until_open(&self, wait: &Wait<'_>) {
        until(wait, |waker| {
            let mut state = ignore_poison(self.state.lock());
            if state.is_closed {
                state.suspended.add(waker);
            }
            !state.is_closed
        })
        .await;
    }

    /// Waits until no write is in progress and blocks new ones until the guard is dropped. After each second of the
    /// wait it lets those go on that wait to begin: their threads may be needed for a suspended write to end.
    pub fn wait_until_idle(&self) -> IdleGuard<'_> {
        loop {
            let mut state = self.when(|state| !state.is_closed);
            state.is_closed = true;
            let writes = |state: &mut BarrierState| state.writes > 0;
            let (state, _) = ignore_poison(self.changed.wait_timeout_while(state, IDLE_WAIT, writes));
            let idle = IdleGuard(self);
            if state.writes == 0 {
                return idle;
            }
            drop(state);
            drop(idle);
            std::thread::yield_now();
        }
    }

    /// The state, once `condition` holds.
    fn when(&self, condition: impl Fn(&BarrierState) -> bool) -> MutexGuard<'_, BarrierState> {
        let state = ignore_poison(self.state.lock());
        ignore_poison(self.changed.wait_while(state, |state| !condition(state)))
    }

    fn change(&self, change: impl FnOnce(&mut BarrierState)) {
        let mut state = ignore_poison(self.state.lock());
        change(&mut state);
        let opened = if state.is_closed {
            Wakers::default()
        } else {
            std::mem::take(&mut state.suspended)
        };
        drop(state);
        self.changed.notify_all();
        opened.wake();
    }
}

impl Drop for IdleGuard<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.is_closed = false);
    }
}

impl Drop for BarrierGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.was_panicking {
            self.health.fail_panicked();
        }
        self.barrier.change(|state| state.writes -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Wake, Waker};

    use oxbus_model::PartitionId;
    use oxbus_store::suspended::SuspendedCall;

    use super::*;
    use crate::shard::PartitionFault;

    #[test]
    fn a_panic_while_locked_takes_the_shard_out_of_service() {
        let (health, guarded) = (ShardHealth::in_memory(PartitionId(0)), Guarded::new(1));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            *guarded.lock(&health) += 1;
            assert_eq!(health.fault(), None);
            let _guard = guarded.lock(&health);
            panic!("injected by the test");
        }));
        assert!(panicked.is_err());
        assert_eq!(health.fault(), Some(PartitionFault::Panicked));
        assert_eq!(
            (guarded.get_cloned(), *guarded.lock(&health)),
            (2, 2),
            "no later lock blocks"
        );
        assert!(guarded.try_lock(&health).is_some());
    }

    #[test]
    fn a_panic_during_a_write_takes_the_shard_out_of_service() {
        let (health, barrier) = (ShardHealth::in_memory(PartitionId(0)), SnapshotBarrier::default());
        drop(barrier.enter(&health));
        assert_eq!(health.fault(), None);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _entered = barrier.enter(&health);
            panic!("injected by the test");
        }));
        assert!(panicked.is_err());
        assert_eq!(health.fault(), Some(PartitionFault::Panicked));
        drop(barrier.wait_until_idle());
    }

    #[test]
    fn a_write_that_waits_for_a_snapshot_goes_on_if_another_takes_long() {
        let (health, barrier) = (ShardHealth::in_memory(PartitionId(0)), SnapshotBarrier::default());
        let long = barrier.enter(&health);
        std::thread::scope(|scope| {
            let snapshot = scope.spawn(|| drop(barrier.wait_until_idle()));
            while !ignore_poison(barrier.state.lock()).is_closed {
                std::thread::yield_now();
            }
            // The long one may end only after it.
            drop(barrier.enter(&health));
            drop(long);
            snapshot.join().expect("no panic");
        });
    }

    #[test]
    fn a_suspended_call_waits_for_a_snapshot_without_a_thread() {
        let barrier = Arc::new(SnapshotBarrier::default());
        let snapshot = barrier.wait_until_idle();
        let until_open = {
            let barrier = Arc::clone(&barrier);
            async move { barrier.until_open(&Wait::FOREVER.suspending()).await }
        };
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&woken));
        let call = SuspendedCall::new(until_open).go_on(&waker);
        let call = call.expect_err("a snapshot is written");
        assert!(!woken.0.load(Ordering::SeqCst));
        drop(snapshot);
        assert!(woken.0.load(Ordering::SeqCst));
        call.go_on(&waker).expect("the snapshot has ended");
    }

    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_write_that_completes_during_an_unwind_does_no_harm() {
        struct WriteOnDrop<'a>(&'a Guarded<u32>, &'a SnapshotBarrier, &'a ShardHealth);
        impl Drop for WriteOnDrop<'_> {
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
            let _write = WriteOnDrop(&guarded, &barrier, &health);
            panic!("injected by the test");
        }));
        assert!(panicked.is_err());
        assert_eq!((guarded.get_cloned(), health.fault()), (1, None));
    }

    #[test]
    fn a_panicked_shard_stays_out_of_service() {
        let health = ShardHealth::in_memory(PartitionId(0));
        health.fail_panicked();
        health.heal();
        health.fail(PartitionFault::Failed, String::new());
        health.inject(PartitionFault::Busy, 0);
        assert_eq!(health.fault(), Some(PartitionFault::Panicked));
        assert!(!health.serves());
    }
}
