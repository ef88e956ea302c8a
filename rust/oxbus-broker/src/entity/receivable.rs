// SPDX-License-Identifier: Apache-2.0
//! What receivers of one message stream share: which cells are ready, who waits, who has a cache.
//!
//! A queue has two streams: itself and its dead-letter queue.
//!
//! The ready mask: a publisher stores its messages, then looks at the bit of its cell, and sets it when it is clear;
//! a receiver that finds a cell empty clears the bit, then looks at the cell again, and sets it when there is something.
//! Between store and look stands a sequentially consistent fence on both sides, so one of the two sees the other.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, Weak};

use crossbeam_utils::CachePadded;
use oxbus_model::Ticks;
use oxbus_model::sync::ignore_poison;
use oxbus_store::WaitQueue;

use super::receive_cache::ReceiveCache;

/// The shared side of a message stream.
#[derive(Debug, Default)]
pub struct Receivable {
    ready: CachePadded<AtomicU64>,
    /// Notified when a message becomes ready and when something makes waiting pointless.
    pub wait_queue: WaitQueue,
    /// Where the next receiver begins its first round.
    rotation: AtomicU64,
    /// The cell behind the one whose session was accepted last.
    accept_rotation: AtomicUsize,
    /// The tick of the last sweep over locks, schedules and idle caches.
    swept_at: AtomicU64,
    /// Whole after a panic: a receiver that is not in the list keeps what it has.
    caches: Mutex<Vec<Weak<ReceiveCache>>>,
}

impl Receivable {
    /// Announces `messages` ready in the cell with that index.
    #[inline]
    pub fn notify(&self, index: usize, messages: usize) {
        fence(Ordering::SeqCst);
        self.notify_after_fence(index, messages);
    }

    /// The same for what [`append_one`](oxbus_store::MessageStore::append_one) has just stored, which needs no fence.
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

    /// Notes that the cell with that index was found empty, unless `has_ready` says otherwise afterwards.
    #[inline]
    pub fn note_empty(&self, index: usize, has_ready: impl FnOnce() -> bool) {
        let bit = 1u64 << index;
        self.ready.fetch_and(!bit, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if has_ready() {
            self.ready.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// The cell at which the next receiver begins.
    pub fn next_rotation(&self) -> u64 {
        self.rotation.fetch_add(1, Ordering::Relaxed)
    }

    /// The cell at which who wants a session begins.
    pub fn accept_rotation(&self) -> usize {
        self.accept_rotation.load(Ordering::Relaxed)
    }

    /// Notes that a session of the cell with that index was accepted: the next one comes from another one, if it can.
    pub fn note_accepted(&self, index: usize) {
        self.accept_rotation.store(index + 1, Ordering::Relaxed);
    }

    /// True when nobody has swept at this tick yet.
    #[inline]
    pub fn needs_sweep(&self, ticks: Ticks) -> bool {
        self.swept_at.load(Ordering::Acquire) != ticks.0
    }

    /// Has the next receive sweep, whenever that was done last.
    pub fn force_sweep(&self) {
        self.swept_at.store(u64::MAX, Ordering::Release);
    }

    /// Notes that a sweep at this tick is done.
    pub fn note_sweep(&self, ticks: Ticks) {
        self.swept_at.store(ticks.0, Ordering::Release);
    }

    /// Makes a cache known to the other receivers.
    pub fn add_cache(&self, cache: &Arc<ReceiveCache>) {
        let mut caches = ignore_poison(self.caches.lock());
        caches.retain(|known| known.strong_count() > 0);
        caches.push(Arc::downgrade(cache));
    }

    /// The caches of all receivers.
    pub fn caches(&self) -> Vec<Arc<ReceiveCache>> {
        ignore_poison(self.caches.lock())
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }
}
