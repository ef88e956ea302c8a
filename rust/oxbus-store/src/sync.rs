// SPDX-License-Identifier: Apache-2.0
//! Atomics, mutexes and conditions: those of std, or loom's when the build is a model check.
//!
//! Every module of this crate takes them from here, so that one source is both run and checked.

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

/// Locks `mutex`. Nothing under a mutex of this crate panics, short of a bug that ends the store anyway.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("a thread panicked inside the store")
}

/// Orders a sequentially consistent read-modify-write before the sequentially consistent loads after it.
///
/// The language already promises that order, so this is nothing in a normal build.
/// loom treats sequentially consistent accesses as acquire and release and needs the fence.
#[inline]
pub(crate) fn fence_after_rmw() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}
