// SPDX-License-Identifier: Apache-2.0
//! Use of locks after a panic.
//!
//! A thread that panics while it holds a lock poisons the lock, because a change of its data may be incomplete. A user
//! of the lock may ignore this if the data stays consistent, for example if each change replaces one value. A comment
//! at the lock gives the reason. The state of a partition must not be used after a panic: the broker's `Guarded` takes
//! the partition out of service.

use std::sync::{LockResult, TryLockError, TryLockResult};

/// The guard of a lock, or the result of a wait, poisoned or not. The data must be consistent after any panic.
#[inline]
pub fn ignore_poison<G>(locked: LockResult<G>) -> G {
    match locked {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}

/// The guard from a `try_lock`, poisoned or not. Returns `None` if another thread has the lock.
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
    fn a_poisoned_lock_stays_usable() {
        let mutex = Mutex::new(1);
        let panicked = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let _guard = mutex.lock();
                panic!("expected by the test");
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
