// SPDX-License-Identifier: Apache-2.0
//! When memory that others may still read is freed.
//!
//! A thread that follows pointers of the log holds a [`EpochGuard`]. What is unlinked goes to the guard and is freed
//! when every guard of that time is gone. loom does not know crossbeam's epochs: there nothing is ever freed.

#[cfg(not(loom))]
pub(super) use crossbeam_epoch::{Guard as EpochGuard, pin};

#[cfg(loom)]
pub(super) struct EpochGuard;

#[cfg(loom)]
pub(super) fn pin() -> EpochGuard {
    EpochGuard
}

/// Frees `unlinked` when nobody can read it any more.
///
/// # Safety
/// `unlinked` comes from `Box::into_raw`, is in no structure a later guard can reach, and is retired once.
#[cfg(not(loom))]
pub(super) unsafe fn retire<T: 'static>(guard: &EpochGuard, unlinked: *mut T) {
    // SAFETY: the caller's promise; the box is freed after all guards that could have read the pointer.
    unsafe { guard.defer_unchecked(move || drop(Box::from_raw(unlinked))) };
}

#[cfg(loom)]
pub(super) unsafe fn retire<T: 'static>(_guard: &EpochGuard, _unlinked: *mut T) {}
