// SPDX-License-Identifier: Apache-2.0
//! The guard of the buffer: a panic while it is held ends the log.
//!
//! The buffer may be inconsistent after that panic, so nothing more of it is written, and the outcome of its entries
//! is unknown.

use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;

use oxbus_model::sync::ignore_poison;

use super::{Buffer, GroupCommit};
use crate::shard_log::LogFailure;

/// The locked buffer of a log.
pub(in crate::file) struct BufferGuard<'a> {
    /// Dropped first, so that the mutex is poisoned when `_watch` checks it.
    buffer: MutexGuard<'a, Buffer>,
    _watch: BufferPanicGuard<'a>,
}

struct BufferPanicGuard<'a>(&'a GroupCommit);

impl Drop for BufferPanicGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if std::thread::panicking() && self.0.buffer.is_poisoned() {
            // From here on the recorded failure replaces the poisoning. `end` locks the buffer again.
            self.0.buffer.clear_poison();
            self.0.end(LogFailure::Panicked);
        }
    }
}

impl GroupCommit {
    /// Locks the buffer.
    #[inline]
    pub(in crate::file) fn buffer(&self) -> BufferGuard<'_> {
        BufferGuard {
            buffer: ignore_poison(self.buffer.lock()),
            _watch: BufferPanicGuard(self),
        }
    }
}

impl Deref for BufferGuard<'_> {
    type Target = Buffer;

    #[inline]
    fn deref(&self) -> &Buffer {
        &self.buffer
    }
}

impl DerefMut for BufferGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Buffer {
        &mut self.buffer
    }
}
