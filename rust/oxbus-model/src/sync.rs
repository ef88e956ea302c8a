// SPDX-License-Identifier: Apache-2.0
//! Locks that go on after a panic.
//!
//! A thread that panics while it has a lock poisons it: what the lock guards may be half changed. These locks
//! continue, and a comment at each gives the reason why its content is consistent: most guard one value that is
//! replaced in one step. The state of a partition has other locks, which take the partition out of service.

use std::sync::{LockResult, TryLockError, TryLockResult};

/// The guard of a lock, or the result of a wait, whose state is whole although a call may have panicked with it.
#[inline]
pub fn ignore_poison<G>(locked: LockResult<G>) -> G {
    match locked {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}

/// The same without a wait; `None` when another thread has it.
#[inline]
pub fn try_ignore_poison<G>(locked: TryLockResult<G>) -> Option<G> {
    match locked {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_lock_goes_on_after_a_panic() {
        let mutex = Mutex::new(1);
        let panicked = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let _guard = mutex.lock();
                panic!("asked for by the test");
            });
            thread.join().is_err()
        });
        assert!(panicked && mutex.is_poisoned());
        assert_eq!(*ignore_poison(mutex.lock()), 1);
        assert_eq!(try_ignore_poison(mutex.try_lock()).as_deref(), Some(&1));
        let held = ignore_poison(mutex.lock());
        assert!(try_ignore_poison(mutex.try_lock()).is_none());
        drop(held);
    }
}
