// SPDX-License-Identifier: Apache-2.0
//! Messages that a receiver took from their cells and has not handed out yet (B-125 … B-127).
//!
//! Under the fresh policy they are *cached*: no deadline, no delivery charged, and any other receiver that finds
//! nothing may send them back. Under the faithful policy they are *locked* until their locks end, or, in
//! receive-and-delete mode, gone from the queue (B-126, B-144).
//!
//! Holds always: per partition, numbers rise from front to back, except for messages that came back to their
//! cell while later ones were cached.

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
    /// Others may send messages back: the fresh policy.
    is_recallable: bool,
    /// No prefetch was asked for: what stands here must not overtake a message that comes back.
    preserves_order: bool,
    /// Whole after a panic: a message is in it or not. One that a panic left out of it is held in its cell, as one that was handed out.
    content: Mutex<CacheContent>,
}

#[derive(Debug, Default)]
pub(crate) struct CacheContent {
    pub(crate) messages: VecDeque<CachedMessage>,
    /// When the last message was put in or taken out.
    pub(crate) used_at: Ticks,
    /// Set when the receiver closed: nothing may be put in any more.
    pub(crate) closed: bool,
}

impl ReceiveCache {
    /// An empty cache under a policy.
    pub(crate) fn new(policy: LockPolicy, prefetch: usize) -> Self {
        let is_recallable = policy == LockPolicy::Fresh;
        Self {
            is_recallable,
            preserves_order: is_recallable && prefetch == 0,
            content: Mutex::default(),
        }
    }

    /// The content, for the owner and for those who send messages back.
    pub(crate) fn lock(&self) -> MutexGuard<'_, CacheContent> {
        ignore_poison(self.content.lock())
    }

    /// Takes up to `max` messages from the back, for their return. Nothing comes out under the faithful policy.
    pub(crate) fn recall(&self, max: usize) -> Vec<CachedMessage> {
        if !self.is_recallable {
            return Vec::new();
        }
        let mut content = self.lock();
        let first = content.messages.len().saturating_sub(max);
        content.messages.split_off(first).into()
    }

    /// Takes the messages of a cell, for their return: an earlier one of that cell came back. With a prefetch they stay
    /// (B-145).
    pub(crate) fn recall_cell(&self, index: usize) -> Vec<CachedMessage> {
        if !self.preserves_order {
            return Vec::new();
        }
        let mut content = self.lock();
        if content.messages.iter().all(|cached| cached.index != index) {
            return Vec::new();
        }
        let (recalled, kept): (Vec<_>, Vec<_>) = content.messages.drain(..).partition(|cached| cached.index == index);
        content.messages.extend(kept);
        recalled
    }

    /// Takes what is to go back, and lets nothing in any more.
    pub(crate) fn close(&self) -> Vec<CachedMessage> {
        let mut content = self.lock();
        content.closed = true;
        let messages = std::mem::take(&mut content.messages);
        if self.is_recallable {
            messages.into()
        } else {
            Vec::new()
        }
    }
}

/// Sends unlocked messages back to their places, in sequence order, nothing charged. Returns how many arrived.
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
