// SPDX-License-Identifier: Apache-2.0
//! Atomics, mutexes and condition variables: from std, or from loom in a model check.
//!
//! Every module of this crate imports them from here, so that the same source is run and model checked.

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

/// Locks `mutex`. Code under a mutex of this crate panics only by a bug that makes the store unusable anyway.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("a thread panicked inside the store")
}

/// Orders a sequentially consistent read-modify-write before the sequentially consistent loads after it.
///
/// The memory model already guarantees that order, so this does nothing in a normal build. loom treats sequentially
/// consistent accesses as acquire and release and needs the fence.
#[inline]
pub(crate) fn fence_after_rmw() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}
