// SPDX-License-Identifier: Apache-2.0
//! Messages that a receiver has claimed but not yet delivered (B-125 … B-127).
//!
//! Under the fresh policy they are *cached*: without a deadline and without a counted delivery. Another receiver that
//! finds no message may return them to their cells. Under the faithful policy they are *locked* until their locks
//! expire, or, in receive-and-delete mode, already removed from the queue (B-126, B-144).
//!
//! Invariant: per partition, numbers ascend from front to back, except for messages that returned to their cell while
//! later ones were cached.

use oxbus_store::Wait;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use oxbus_model::Ticks;
use oxbus_model::name::SubQueue;
use oxbus_model::options::LockPolicy;
use oxbus_model::sync::ignore_poison;
use oxbus_store::{ClaimedMessage, LockKey};

use super::Entity;

/// A message in a cache.
#[derive(Debug)]
pub(crate) struct CachedMessage {
    /// Index of its cell.
    pub(crate) index: usize,
    pub(crate) claimed: ClaimedMessage,
}

/// The cache of one receiver.
#[derive(Debug)]
pub struct ReceiveCache {
    /// True under the fresh policy: other receivers may return the messages to their cells.
    others_may_recall: bool,
    /// True under the fresh policy without prefetch: cached messages must not overtake a message that returns to its
    /// cell.
    preserves_order: bool,
    /// This is usable after a panic: at worst a message is missing here and stays claimed in its cell, like a
    /// delivered one.
    content: Mutex<CacheContent>,
}

#[derive(Debug, Default)]
pub(crate) struct CacheContent {
    pub(crate) messages: VecDeque<CachedMessage>,
    /// Time of the last insertion or removal.
    pub(crate) used_at: Ticks,
    /// Set when the receiver closes. No message may be inserted afterwards.
    pub(crate) closed: bool,
}

impl ReceiveCache {
    /// An empty cache.
    pub(crate) fn new(policy: LockPolicy, prefetch: usize) -> Self {
        let others_may_recall = policy == LockPolicy::Fresh;
        Self {
            others_may_recall,
            preserves_order: others_may_recall && prefetch == 0,
            content: Mutex::default(),
        }
    }

    /// The content, for its receiver and for calls that return messages.
    pub(crate) fn lock(&self) -> MutexGuard<'_, CacheContent> {
        ignore_poison(self.content.lock())
    }

    /// True if it has messages that other receivers may return to their cells.
    pub(crate) fn is_recallable(&self) -> bool {
        self.others_may_recall && !self.lock().messages.is_empty()
    }

    /// Removes up to `max` messages from the back, to be returned to their cells. Removes none under the faithful
    /// policy.
    pub(crate) fn recall(&self, max: usize) -> Vec<CachedMessage> {
        if !self.others_may_recall {
            return Vec::new();
        }
        let mut content = self.lock();
        let first = content.messages.len().saturating_sub(max);
        content.messages.split_off(first).into()
    }

    /// Removes the messages of a cell, to be returned to it because an earlier one became ready there. With a prefetch
    /// they stay (B-145).
    pub(crate) fn recall_cell(&self, index: usize) -> Vec<CachedMessage> {
        if !self.preserves_order {
            return Vec::new();
        }
        let mut content = self.lock();
        if content.messages.iter().all(|cached| cached.index != index) {
            return Vec::new();
        }
        let (recalled, others): (Vec<_>, Vec<_>) = content.messages.drain(..).partition(|cached| cached.index == index);
        content.messages.extend(others);
        recalled
    }

    /// Empties and closes the cache. Returns the messages that must return to their cells.
    pub(crate) fn close(&self) -> Vec<CachedMessage> {
        let mut content = self.lock();
        content.closed = true;
        let messages = std::mem::take(&mut content.messages);
        if self.others_may_recall {
            messages.into()
        } else {
            Vec::new()
        }
    }
}

/// Returns cached messages to their cells, in sequence order and without counting a delivery. Returns their number.
pub(crate) fn return_cached(
    entity: &Entity,
    sub_queue: SubQueue,
    mut messages: Vec<CachedMessage>,
    wait: &Wait<'_>,
) -> usize {
    messages.sort_unstable_by_key(|cached| (cached.index, cached.claimed.key.counter));
    let mut returned = 0;
    for run in messages.chunk_by(|a, b| a.index == b.index) {
        let index = run[0].index;
        let Some(cell) = entity.cell(index) else { continue };
        let keys: Vec<LockKey> = run.iter().map(|cached| cached.claimed.key).collect();
        let ready = cell.store(sub_queue).release_cached(&keys);
        if ready > 0 {
            entity.notify(sub_queue, index, ready, wait);
        }
        returned += ready;
    }
    returned
}
