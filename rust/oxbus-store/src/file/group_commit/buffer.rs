// SPDX-License-Identifier: Apache-2.0
//! The buffer, until it is let go of. A call that panics with it ends the log.
//!
//! Nobody knows whether such a call left the buffer whole. So nothing of it is written any more, and who waits for an entry
//! learns that nobody knows of it.

use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;

use oxbus_model::sync::ignore_poison;

use super::{Buffer, GroupCommit};
use crate::shard_log::LogFailure;

/// The buffer of a log, held.
pub(in crate::file) struct BufferGuard<'a> {
    /// Let go of first: then the mutex knows whether a panic did it.
    buffer: MutexGuard<'a, Buffer>,
    _watch: BufferPanicGuard<'a>,
}

struct BufferPanicGuard<'a>(&'a GroupCommit);

impl Drop for BufferPanicGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if std::thread::panicking() && self.0.buffer.is_poisoned() {
            // The failure stands for it from here on; to end the log takes the buffer again.
            self.0.buffer.clear_poison();
            self.0.end(LogFailure::Panicked);
        }
    }
}

impl GroupCommit {
    /// Takes the buffer.
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
