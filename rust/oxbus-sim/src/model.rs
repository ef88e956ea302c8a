// SPDX-License-Identifier: Apache-2.0
//! Messages as a list.

use std::collections::BTreeMap;

/// Where a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Waiting for a receiver.
    Ready,
    /// Locked until that time; `deferred` when it goes back to deferred.
    Locked {
        /// First millisecond at which the lock no longer holds.
        until: u64,
        /// It was fetched by number.
        deferred: bool,
    },
    /// Deferred and not locked.
    Deferred,
    /// In the dead-letter queue.
    DeadLettered,
}

/// A message of the model.
#[derive(Debug, Clone)]
pub struct Message {
    /// What it carries.
    pub body: u64,
    /// Where it is.
    pub state: State,
    /// Deliveries charged (B-176, B-177).
    pub delivery_count: u32,
}

/// A queue.
#[derive(Debug, Default)]
pub struct Model {
    /// Messages by sequence number.
    pub messages: BTreeMap<u64, Message>,
    /// Numbers given per partition: gap-free (B-105).
    last_counter: BTreeMap<u64, u64>,
    now: u64,
    lock_duration_ms: u64,
    max_delivery_count: u32,
}

/// Low bits of a sequence number.
const COUNTER_MASK: u64 = (1 << 48) - 1;

impl Model {
    /// An empty queue.
    pub fn new(lock_duration_ms: u64, max_delivery_count: u32) -> Self {
        Self {
            lock_duration_ms,
            max_delivery_count,
            ..Self::default()
        }
    }

    /// Notes an accepted message.
    ///
    /// # Panics
    /// When its number is not the next of its partition.
    pub fn sent(&mut self, number: u64, body: u64) {
        let last = self.last_counter.entry(number & !COUNTER_MASK).or_default();
        assert_eq!(number & COUNTER_MASK, *last + 1, "numbers of a partition have no gap");
        *last += 1;
        self.messages.insert(
            number,
            Message {
                body,
                state: State::Ready,
                delivery_count: 0,
            },
        );
    }

    /// Moves time; locks end at their deadline.
    pub fn advance(&mut self, ms: u64) {
        self.now += ms;
        let (now, max) = (self.now, self.max_delivery_count);
        for message in self.messages.values_mut() {
            if let State::Locked { until, deferred } = message.state
                && until <= now
            {
                message.end_delivery(deferred, max);
            }
        }
    }

    /// Numbers that a receiver could get now.
    pub fn ready(&self) -> impl Iterator<Item = u64> {
        self.in_state(|state| state == State::Ready)
    }

    /// Numbers in a state.
    pub fn in_state(&self, is: impl Fn(State) -> bool) -> impl Iterator<Item = u64> {
        self.messages
            .iter()
            .filter(move |(_, message)| is(message.state))
            .map(|(number, _)| *number)
    }

    /// Notes a delivery.
    ///
    /// # Panics
    /// When the message was not ready, or came with another body or delivery count.
    pub fn received(&mut self, number: u64, body: u64, delivery_count: u32) {
        let until = self.now + self.lock_duration_ms;
        let message = self.messages.get_mut(&number).expect("only what was sent is received");
        assert_eq!(message.state, State::Ready, "only ready messages are received");
        assert_eq!(
            (message.body, message.delivery_count),
            (body, delivery_count),
            "a message comes as it is stored"
        );
        message.state = State::Locked { until, deferred: false };
    }

    /// Fetches deferred messages: true when all can be had.
    pub fn fetch_deferred(&mut self, numbers: &[u64]) -> bool {
        let all = numbers
            .iter()
            .all(|number| self.messages.get(number).is_some_and(|it| it.state == State::Deferred));
        let distinct = numbers.iter().collect::<std::collections::BTreeSet<_>>().len() == numbers.len();
        if all && distinct {
            let until = self.now + self.lock_duration_ms;
            for number in numbers {
                let message = self.messages.get_mut(number).expect("just looked up");
                message.delivery_count += 1;
                message.state = State::Locked { until, deferred: true };
            }
        }
        all && distinct
    }

    fn locked(&mut self, number: u64) -> Option<(&mut Message, bool)> {
        let message = self.messages.get_mut(&number)?;
        match message.state {
            State::Locked { deferred, .. } => Some((message, deferred)),
            _ => None,
        }
    }

    /// Completes; false when there is no lock.
    pub fn complete(&mut self, number: u64) -> bool {
        self.locked(number).is_some() && self.messages.remove(&number).is_some()
    }

    /// Abandons; false when there is no lock.
    pub fn abandon(&mut self, number: u64) -> bool {
        let max = self.max_delivery_count;
        self.locked(number)
            .map(|(message, deferred)| message.end_delivery(deferred, max))
            .is_some()
    }

    /// Defers; false when there is no lock.
    pub fn defer(&mut self, number: u64) -> bool {
        self.locked(number)
            .map(|(message, _)| message.state = State::Deferred)
            .is_some()
    }

    /// Dead-letters; false when there is no lock.
    pub fn dead_letter(&mut self, number: u64) -> bool {
        self.locked(number)
            .map(|(message, _)| message.state = State::DeadLettered)
            .is_some()
    }

    /// Renews; false when there is no lock.
    pub fn renew(&mut self, number: u64) -> bool {
        let until = self.now + self.lock_duration_ms;
        self.locked(number)
            .map(|(message, deferred)| message.state = State::Locked { until, deferred })
            .is_some()
    }
}

impl Message {
    /// A delivery that ended without a settlement (B-163, B-157, B-178, B-282).
    fn end_delivery(&mut self, deferred: bool, max: u32) {
        if !deferred {
            self.delivery_count += 1;
        }
        self.state = match (self.delivery_count >= max, deferred) {
            (true, _) => State::DeadLettered,
            (false, true) => State::Deferred,
            (false, false) => State::Ready,
        };
    }
}
