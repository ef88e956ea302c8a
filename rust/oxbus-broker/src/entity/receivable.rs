// SPDX-License-Identifier: Apache-2.0
//! Shared state of the receivers of a main queue or a dead-letter queue: cells with ready messages, waiting receivers,
//! receive caches.
//!
//! The ready mask: a publisher stores its messages, then reads the bit of its cell and sets it if it is clear.
//! A receiver that finds a cell empty clears the bit, then looks at the cell again and sets the bit if it has messages.
//! Each side has a sequentially consistent fence between its write and its read, so one of them sees the other's write.
//!
//! The same holds for `has_cached`: a receiver caches messages, then sets the flag if it is clear. A receiver that looks
//! for cached messages of others clears the flag, then looks, and sets it again if it finds some. So a receive that
//! finds nothing does not visit every other receiver.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, Weak};

use crossbeam_utils::CachePadded;
use oxbus_model::Ticks;
use oxbus_model::sync::ignore_poison;
use oxbus_store::WaitQueue;

use super::receive_cache::ReceiveCache;

/// Shared state of the receivers of one main queue or dead-letter queue.
#[derive(Debug, Default)]
pub struct Receivable {
    ready: CachePadded<AtomicU64>,
    /// Notified when a message becomes ready and when waiting has become pointless.
    pub wait_queue: WaitQueue,
    /// Counts receivers, which selects the cell at which the next one starts.
    rotation: AtomicU64,
    /// Index after that of the cell whose session was last accepted.
    accept_rotation: AtomicUsize,
    /// The tick of the last sweep over locks, schedules and idle caches.
    swept_at: AtomicU64,
    /// This is usable after a panic: at worst the list lacks a receiver, which then keeps its cached messages.
    caches: Mutex<Vec<Weak<ReceiveCache>>>,
    /// False if no cache has messages.
    has_cached: AtomicBool,
}

impl Receivable {
    /// Announces that `messages` became ready in a cell.
    #[inline]
    pub fn notify(&self, index: usize, messages: usize) {
        fence(Ordering::SeqCst);
        self.notify_after_fence(index, messages);
    }

    /// [`Receivable::notify`] after [`append_one`](oxbus_store::MessageStore::append_one), which contains the fence.
    #[inline]
    pub fn notify_after_fence(&self, index: usize, messages: usize) {
        let bit = 1u64 << index;
        if self.ready.load(Ordering::SeqCst) & bit == 0 {
            self.ready.fetch_or(bit, Ordering::SeqCst);
            fence(Ordering::SeqCst);
        }
        self.wait_queue.notify_after_fence(messages);
    }

    /// The cells that may have ready messages, one bit each.
    #[inline]
    pub fn ready(&self) -> u64 {
        self.ready.load(Ordering::Acquire)
    }

    /// Clears the bit of a cell that was found empty; sets it again if `has_ready` finds messages afterwards.
    #[inline]
    pub fn note_empty(&self, index: usize, has_ready: impl FnOnce() -> bool) {
        let bit = 1u64 << index;
        self.ready.fetch_and(!bit, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if has_ready() {
            self.ready.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// A count that selects the cell at which the next receiver starts.
    pub fn next_rotation(&self) -> u64 {
        self.rotation.fetch_add(1, Ordering::Relaxed)
    }

    /// The cell at which the next search for a session starts.
    pub fn accept_rotation(&self) -> usize {
        self.accept_rotation.load(Ordering::Relaxed)
    }

    /// Notes that a session of a cell was accepted, so that the next search starts at the following cell.
    pub fn note_accepted(&self, index: usize) {
        self.accept_rotation.store(index + 1, Ordering::Relaxed);
    }

    /// True if no sweep has run at this tick.
    #[inline]
    pub fn needs_sweep(&self, ticks: Ticks) -> bool {
        self.swept_at.load(Ordering::Acquire) != ticks.0
    }

    /// Makes the next receive sweep, even if this tick was already swept.
    pub fn force_sweep(&self) {
        self.swept_at.store(u64::MAX, Ordering::Release);
    }

    /// Records a sweep at this tick.
    pub fn note_sweep(&self, ticks: Ticks) {
        self.swept_at.store(ticks.0, Ordering::Release);
    }

    /// Registers the cache of a receiver.
    pub fn add_cache(&self, cache: &Arc<ReceiveCache>) {
        let mut caches = ignore_poison(self.caches.lock());
        caches.retain(|known| known.strong_count() > 0);
        caches.push(Arc::downgrade(cache));
    }

    /// Announces that a cache has messages. Waiters that registered before this call are visible to the caller after it.
    pub fn note_cached(&self) {
        fence(Ordering::SeqCst);
        if !self.has_cached.load(Ordering::Relaxed) {
            self.has_cached.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
    }

    /// The caches whose messages another receiver may take.
    pub fn filled_caches(&self) -> Vec<Arc<ReceiveCache>> {
        if !self.has_cached.load(Ordering::Relaxed) {
            return Vec::new();
        }
        self.has_cached.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut caches = self.caches();
        caches.retain(|cache| cache.is_recallable());
        if !caches.is_empty() {
            self.has_cached.store(true, Ordering::Relaxed);
        }
        caches
    }

    /// The caches of all receivers.
    pub fn caches(&self) -> Vec<Arc<ReceiveCache>> {
        ignore_poison(self.caches.lock())
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }
}
