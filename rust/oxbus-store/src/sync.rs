// SPDX-License-Identifier: Apache-2.0
//! Atomics, mutexes and condition variables: those of `std`, or those of loom in a model check.
//!
//! Modules that loom checks import them from here, so that the source that runs is also the source that loom checks.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Arc, Condvar, Mutex, MutexGuard,
    atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc, Condvar, Mutex, MutexGuard,
    atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

/// Locks `mutex`. Panics if a thread panicked while holding it, which only a bug in this crate causes.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("a thread panicked inside the store")
}

/// Orders a sequentially consistent read-modify-write before the sequentially consistent loads after it.
///
/// The memory model already guarantees that order, so a normal build emits no instruction for it. loom treats
/// sequentially consistent accesses as acquire and release and needs the fence.
#[inline]
pub(crate) fn fence_after_rmw() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}
