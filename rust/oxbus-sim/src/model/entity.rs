// SPDX-License-Identifier: Apache-2.0
//! An entity of the model: its messages by sequence number, identities, sessions and rules.

use std::collections::BTreeMap;

use oxbus_model::name::SubQueue;
use oxbus_model::options::QueueSettings;

use super::arrival::Arrival;
use super::message::{Message, MessagePhase};
use super::session::Session;
use super::topic::Rule;

/// The kind of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A queue.
    Queue,
    /// A topic.
    Topic,
    /// A subscription of that topic.
    Subscription(usize),
}

/// The first message with an identity.
#[derive(Debug, Clone, Copy)]
pub struct FirstSeen {
    /// Its time.
    pub since: u64,
    /// Its step.
    pub step: u64,
    /// Its body.
    pub body: u64,
}

/// Messages by number: those of an entity, or of its dead-letter queue.
#[derive(Debug, Clone, Default)]
pub struct Stream {
    /// The messages.
    pub messages: BTreeMap<u64, Message>,
    /// Messages with a serial up to this one may be delivered in any order, because receivers may have had them before
    /// or may have them cached.
    pub unordered_until: u64,
}

/// A queue, a topic or a subscription.
#[derive(Debug, Clone)]
pub struct Entity {
    /// Its path.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Its settings.
    pub settings: QueueSettings,
    /// Its partition of the namespace if it is not partitioned.
    pub home: u16,
    /// False once it is deleted.
    pub alive: bool,
    /// Its messages. A topic has only scheduled ones.
    pub main: Stream,
    /// Its dead letters.
    pub dead: Stream,
    /// The first message of each identity (B-219): the key if the entity is partitioned, and the id.
    pub seen: BTreeMap<(Option<String>, String), FirstSeen>,
    /// Its sessions (B-186).
    pub sessions: BTreeMap<String, Session>,
    /// The rules of a subscription.
    pub rules: Vec<Rule>,
    /// Messages whose numbers are not known yet.
    pub arrivals: Vec<Arrival>,
    /// The last known counter of each partition.
    pub last: BTreeMap<u64, u64>,
    /// How many numbers belong to messages that no browse showed. Negative while a message is leaving.
    pub unseen_numbers: i64,
    /// True if something passed through it without a visible trace, so that the broker must process it at the same
    /// time.
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
            unseen_numbers: 0,
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

    /// Records a number: the next one of its partition, apart from numbers of unseen messages (B-105).
    ///
    /// # Panics
    /// When the number is not allowed.
    pub fn take_number(&mut self, number: u64) {
        let counter = number & ((1 << COUNTER_BITS) - 1);
        let last = self.last.entry(Self::partition_of_number(number)).or_default();
        assert!(counter > *last, "{}: number {number} comes after {last}", self.name);
        let skipped = (counter - *last - 1) as i64;
        assert!(
            skipped <= self.unseen_numbers,
            "{}: number {number} leaves a gap of {skipped} after {last}",
            self.name
        );
        self.unseen_numbers -= skipped;
        *last = counter;
    }

    /// True if the message is expired and unlocked: it is no longer delivered (B-138), and is removed when the entity
    /// processes its expiry (B-251). Dead letters do not expire (B-254).
    pub fn is_overdue(message: &Message, now: u64) -> bool {
        message.is_free() && message.expires_at <= now
    }

    /// The numbers of the messages that a receiver may get.
    pub fn ready(&self, sub_queue: SubQueue, now: u64) -> Vec<u64> {
        let is_ready = |message: &Message| {
            message.is_free() && (sub_queue == SubQueue::DeadLetter || !Self::is_overdue(message, now))
        };
        let messages = &self.stream(sub_queue).messages;
        let ready = messages.iter().filter(|(_, message)| is_ready(message));
        ready.map(|(number, _)| *number).collect()
    }

    /// True if there is an expired message that the broker may have removed.
    pub fn has_overdue(&self, now: u64) -> bool {
        self.kind != Kind::Topic
            && self
                .main
                .messages
                .values()
                .any(|message| Self::is_overdue(message, now))
    }

    /// The numbers of the deferred messages, locked or not.
    pub fn deferred(&self, sub_queue: SubQueue) -> impl Iterator<Item = u64> {
        let messages = &self.stream(sub_queue).messages;
        let deferred = messages
            .iter()
            .filter(|(_, message)| message.phase == MessagePhase::Deferred);
        deferred.map(|(number, _)| *number)
    }
}
