// SPDX-License-Identifier: Apache-2.0
//! When memory that others may still read is freed.
//!
//! A thread that follows pointers of the log holds a [`Guard`]. What is unlinked goes to the guard and is freed
//! when every guard of that time is gone. loom does not know crossbeam's epochs: there nothing is ever freed.

#[cfg(not(loom))]
pub(super) use crossbeam_epoch::{Guard, pin};

#[cfg(loom)]
pub(super) struct Guard;

#[cfg(loom)]
pub(super) fn pin() -> Guard {
    Guard
}

/// Frees `unlinked` when nobody can read it any more.
///
/// # Safety
/// `unlinked` comes from `Box::into_raw`, is in no structure a later guard can reach, and is retired once.
#[cfg(not(loom))]
pub(super) unsafe fn retire<T: 'static>(guard: &Guard, unlinked: *mut T) {
    // SAFETY: the caller's promise; the box is freed after all guards that could have read the pointer.
    unsafe { guard.defer_unchecked(move || drop(Box::from_raw(unlinked))) };
}

#[cfg(loom)]
pub(super) unsafe fn retire<T: 'static>(_guard: &Guard, _unlinked: *mut T) {}
