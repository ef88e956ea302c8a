// SPDX-License-Identifier: Apache-2.0
//! An entity of the model: its messages by sequence number, and what it remembers.

use std::collections::BTreeMap;

use oxbus_model::name::SubQueue;
use oxbus_model::options::QueueSettings;

use super::arrival::Arrival;
use super::message::{Message, MessagePhase};
use super::session::Session;
use super::topic::Rule;

/// What an entity is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A queue.
    Queue,
    /// A topic.
    Topic,
    /// A subscription of that topic.
    Subscription(usize),
}

/// The message that an identity was first seen with.
#[derive(Debug, Clone, Copy)]
pub struct FirstSeen {
    /// When.
    pub since: u64,
    /// At which step.
    pub step: u64,
    /// Its body.
    pub body: u64,
}

/// Messages by number: those of an entity, or of its dead-letter queue.
#[derive(Debug, Clone, Default)]
pub struct Stream {
    /// The messages.
    pub messages: BTreeMap<u64, Message>,
    /// Messages born up to then may come in any order: several receivers had them in their hands or caches.
    pub mixed_until: u64,
}

/// A queue, a topic or a subscription.
#[derive(Debug, Clone)]
pub struct Entity {
    /// Its path.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Its settings.
    pub settings: QueueSettings,
    /// The partition of the namespace that it lives in when it is not partitioned.
    pub home: u16,
    /// Not deleted.
    pub alive: bool,
    /// Its messages; of a topic those that wait for their time.
    pub main: Stream,
    /// Its dead letters.
    pub dead: Stream,
    /// When each identity was first seen (B-219): the key, where the entity is partitioned, and the id.
    pub seen: BTreeMap<(Option<String>, String), FirstSeen>,
    /// Its sessions (B-186).
    pub sessions: BTreeMap<String, Session>,
    /// Its rules, when it is a subscription.
    pub rules: Vec<Rule>,
    /// Messages that came in and whose numbers are not known yet.
    pub arrivals: Vec<Arrival>,
    /// Last number given out, by partition.
    pub last: BTreeMap<u64, u64>,
    /// Numbers that were given to messages that nobody saw. Below none while a message is on its way out.
    pub unseen: i64,
    /// Something went through it and left nothing to be seen: the broker has to find out at the same time.
    pub has_unseen_change: bool,
}

const COUNTER_BITS: u32 = 48;

impl Entity {
    /// An entity without messages.
    pub fn new(name: &str, kind: Kind, settings: QueueSettings, home: u16) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            settings,
            home,
            alive: true,
            main: Stream::default(),
            dead: Stream::default(),
            seen: BTreeMap::new(),
            sessions: BTreeMap::new(),
            rules: Vec::new(),
            arrivals: Vec::new(),
            last: BTreeMap::new(),
            unseen: 0,
            has_unseen_change: false,
        }
    }

    /// Its messages or its dead letters.
    pub fn stream(&self, sub_queue: SubQueue) -> &Stream {
        match sub_queue {
            SubQueue::Main => &self.main,
            SubQueue::DeadLetter => &self.dead,
        }
    }

    /// Its messages or its dead letters, to change them.
    pub fn stream_mut(&mut self, sub_queue: SubQueue) -> &mut Stream {
        match sub_queue {
            SubQueue::Main => &mut self.main,
            SubQueue::DeadLetter => &mut self.dead,
        }
    }

    /// The partition of a sequence number (B-106).
    pub fn partition_of_number(number: u64) -> u64 {
        number >> COUNTER_BITS
    }

    /// Notes that a number was given out: the next of its partition, but for those that nobody saw (B-105).
    ///
    /// # Panics
    /// When it is not.
    pub fn take_number(&mut self, number: u64) {
        let counter = number & ((1 << COUNTER_BITS) - 1);
        let last = self.last.entry(Self::partition_of_number(number)).or_default();
        assert!(counter > *last, "{}: number {number} comes after {last}", self.name);
        let skipped = (counter - *last - 1) as i64;
        assert!(
            skipped <= self.unseen,
            "{}: number {number} leaves a gap of {skipped} after {last}",
            self.name
        );
        self.unseen -= skipped;
        *last = counter;
    }

    /// True when nobody has the message and its time is over: it is not received any more (B-138), and leaves when the
    /// entity finds out (B-251). Dead letters do not expire (B-254).
    pub fn is_overdue(message: &Message, now: u64) -> bool {
        message.is_free() && message.expires_at <= now
    }

    /// Numbers that a receiver may get.
    pub fn ready(&self, sub_queue: SubQueue, now: u64) -> Vec<u64> {
        let is_ready = |message: &Message| {
            message.is_free() && (sub_queue == SubQueue::DeadLetter || !Self::is_overdue(message, now))
        };
        let messages = &self.stream(sub_queue).messages;
        let ready = messages.iter().filter(|(_, message)| is_ready(message));
        ready.map(|(number, _)| *number).collect()
    }

    /// True when a message has to leave that may be there still.
    pub fn has_overdue(&self, now: u64) -> bool {
        self.kind != Kind::Topic
            && self
                .main
                .messages
                .values()
                .any(|message| Self::is_overdue(message, now))
    }

    /// Messages that are deferred, held or not.
    pub fn deferred(&self, sub_queue: SubQueue) -> impl Iterator<Item = u64> {
        let messages = &self.stream(sub_queue).messages;
        let deferred = messages
            .iter()
            .filter(|(_, message)| message.phase == MessagePhase::Deferred);
        deferred.map(|(number, _)| *number)
    }
}
