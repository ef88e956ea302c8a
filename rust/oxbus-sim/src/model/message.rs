// SPDX-License-Identifier: Apache-2.0
//! A message of the model.

/// The content of a message that rules of behaviour.md use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Content {
    /// Its body, a unique number.
    pub body: u64,
    /// Session id.
    pub session: Option<String>,
    /// Partition key.
    pub key: Option<String>,
    /// Message id.
    pub id: Option<String>,
    /// Subject.
    pub subject: Option<String>,
    /// Application property `n`.
    pub n: Option<i64>,
    /// Application property `color`.
    pub color: Option<String>,
    /// Time to live, in milliseconds.
    pub ttl_ms: Option<u64>,
    /// How many times it was forwarded (B-334).
    pub hops: u8,
    /// Its number at the first entity, if it was forwarded or copied (B-113).
    pub first_number: FirstNumber,
    /// The rule that made this copy (B-348).
    pub rule: Option<String>,
    /// Why it was dead-lettered (B-263).
    pub reason: Option<String>,
}

impl Content {
    /// The content with its reason if it is dead-lettered for lack of a session id (B-185).
    #[must_use]
    pub fn dead_lettered_without_session(mut self, dead: bool) -> Self {
        if dead {
            self.reason = Some(super::arrival::WITHOUT_SESSION.to_owned());
        }
        self
    }
}

/// The number of a message at its first entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FirstNumber {
    /// It was not forwarded or copied.
    #[default]
    None,
    /// This known number.
    Known(u64),
    /// A number that was never seen.
    Unseen,
}

/// The phase of a message in its entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessagePhase {
    /// Active.
    Ready,
    /// Deferred until it is fetched by number (B-275).
    Deferred,
    /// Scheduled (B-233).
    Scheduled {
        /// When it is due.
        due: u64,
    },
}

/// A lock on a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageLock {
    /// Its serial number.
    pub id: u64,
    /// The first millisecond at which it no longer holds, or `NEVER` under the lock of a session.
    pub until: u64,
    /// The acceptance of its session.
    pub session: Option<u64>,
}

/// A message in an entity.
#[derive(Debug, Clone)]
pub struct Message {
    /// The content of the message.
    pub content: Content,
    /// Its phase.
    pub phase: MessagePhase,
    /// Delivery count (B-176, B-177).
    pub count: u32,
    /// When it was accepted (B-117).
    pub enqueued_at: u64,
    /// When it expires (B-246), or `NEVER`.
    pub expires_at: u64,
    /// Its lock.
    pub lock: Option<MessageLock>,
    /// The end of its delay if it was abandoned with one (B-468).
    pub delayed_until: Option<u64>,
    /// Its serial number, which rises with each message that the model learns.
    pub born: u64,
    /// True if it may be delivered after later messages, because it was returned or dead-lettered (B-145, B-265).
    pub may_come_late: bool,
}

/// Later than every moment.
pub const NEVER: u64 = u64::MAX;

impl Message {
    /// True if it is active, and neither locked nor delayed.
    pub fn is_free(&self) -> bool {
        self.phase == MessagePhase::Ready && self.lock.is_none() && self.delayed_until.is_none()
    }

    /// True if it is deferred, and neither locked nor delayed.
    pub fn is_fetchable(&self) -> bool {
        self.phase == MessagePhase::Deferred && self.lock.is_none() && self.delayed_until.is_none()
    }

    /// True if it is active and delayed.
    pub fn is_delayed(&self) -> bool {
        self.phase == MessagePhase::Ready && self.delayed_until.is_some()
    }
}
