// SPDX-License-Identifier: Apache-2.0
//! When memory that others may still read is freed.
//!
//! A thread that follows pointers of the log holds a [`Guard`]. What is unlinked goes to the guard and is freed
//! when every guard of that time is gone. loom does not know crossbeam's epochs: there nothing is ever freed.

#[cfg(not(loom))]
pub(crate) use crossbeam_epoch::Guard;

/// Keeps readable what can be reached now. Every call on a log takes a guard; while a thread holds one, its further ones
/// cost next to nothing, so a caller that makes many calls in a row may hold one around them. Not for long: memory that
/// is unlinked meanwhile is not freed.
#[cfg(not(loom))]
#[inline]
pub fn pin() -> Guard {
    crossbeam_epoch::pin()
}

/// Nothing to hold.
#[cfg(loom)]
#[derive(Debug)]
pub struct Guard;

/// The same under loom, where nothing is freed.
#[cfg(loom)]
pub fn pin() -> Guard {
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
