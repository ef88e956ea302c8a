// SPDX-License-Identifier: Apache-2.0
//! Epoch-based reclamation of memory that other threads may still read.
//!
//! A thread that follows pointers of the log holds an [`EpochGuard`]. Unlinked memory is freed after every guard that
//! existed at the time of unlinking is dropped. loom does not support crossbeam's epochs, so under loom nothing is
//! freed.

#[cfg(not(loom))]
pub(super) use crossbeam_epoch::{Guard as EpochGuard, pin};

#[cfg(loom)]
pub(super) struct EpochGuard;

#[cfg(loom)]
pub(super) fn pin() -> EpochGuard {
    EpochGuard
}

/// Frees `unlinked` once no thread can read it.
///
/// # Safety
/// `unlinked` comes from `Box::into_raw`, is in no structure that a later guard can reach, and is retired once.
#[cfg(not(loom))]
pub(super) unsafe fn retire<T: 'static>(guard: &EpochGuard, unlinked: *mut T) {
    // SAFETY: the caller guarantees the conditions. The box is freed after every guard under which the pointer could
    // be read.
    unsafe { guard.defer_unchecked(move || drop(Box::from_raw(unlinked))) };
}

#[cfg(loom)]
pub(super) unsafe fn retire<T: 'static>(_guard: &EpochGuard, _unlinked: *mut T) {}
