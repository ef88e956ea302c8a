// SPDX-License-Identifier: Apache-2.0
//! Appends in two steps, as a journal needs them: reserve numbers, then publish or abandon them.

use oxbus_model::{Counter, Timestamp};

use super::MutexLog;
use super::state::BLOCK;
use oxbus_model::sync::ignore_poison;
use oxbus_store::entry::StoreEntry;
use oxbus_store::{MessagePhase, NewMessage, NumberedStore, RestoredMessage};

impl NumberedStore for MutexLog {
    fn restore(next: Counter, messages: impl Iterator<Item = RestoredMessage>) -> Self {
        let log = Self::new();
        let mut state = ignore_poison(log.0.lock());
        let mut messages = messages.peekable();
        let tail = next.0 - 1;
        // Slots begin at the block of the first message.
        let first = messages.peek().map_or(tail, |first| first.message.counter.0 - 1);
        state.tail = first / BLOCK * BLOCK;
        state.base = state.tail / BLOCK;
        state.ready_from = state.base;
        let mut restored = messages.next();
        while state.tail < tail {
            let index = state.take_index();
            match restored.take_if(|it| it.message.counter.0 == index + 1) {
                Some(it) => {
                    let message = it.message;
                    let entry = StoreEntry::new(message.record, message.enqueued_at, message.expires_at, it.phase);
                    state.fill(
                        index,
                        StoreEntry {
                            delivery_count: message.delivery_count,
                            generation: it.generation,
                            ..entry
                        },
                    );
                    restored = messages.next();
                }
                None => state.abandon_index(index),
            }
        }
        drop(state);
        log
    }

    fn next(&self) -> Counter {
        Counter(ignore_poison(self.0.lock()).tail + 1)
    }

    fn is_decided(&self, before: Counter) -> bool {
        let state = ignore_poison(self.0.lock());
        state.reserved.first().is_none_or(|first| first + 1 >= before.0)
    }

    fn reserve(&self, count: usize) -> Counter {
        let mut state = ignore_poison(self.0.lock());
        let first = state.tail;
        for _ in 0..count {
            let index = state.take_index();
            state.reserved.insert(index);
        }
        Counter(first + 1)
    }

    fn publish(&self, first: Counter, batch: &mut Vec<NewMessage>, enqueued_at: Timestamp) {
        let mut state = ignore_poison(self.0.lock());
        for (index, message) in (first.0 - 1..).zip(batch.drain(..)) {
            state.reserved.remove(&index);
            let entry = StoreEntry::new(message.record, enqueued_at, message.expires_at, MessagePhase::Ready);
            state.fill(index, entry);
        }
    }

    fn publish_scheduled(&self, counter: Counter, message: NewMessage, enqueued_at: Timestamp) {
        let mut state = ignore_poison(self.0.lock());
        let index = counter.0 - 1;
        state.reserved.remove(&index);
        let entry = StoreEntry::new(message.record, enqueued_at, message.expires_at, MessagePhase::Scheduled);
        state.fill(index, entry);
    }

    fn give_up(&self, first: Counter, count: usize) {
        let mut state = ignore_poison(self.0.lock());
        for index in first.0 - 1..first.0 - 1 + count as u64 {
            state.reserved.remove(&index);
            state.abandon_index(index);
        }
    }
}
