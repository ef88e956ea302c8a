// SPDX-License-Identifier: Apache-2.0
//! A message of the model.

/// What a message carries, as far as a rule speaks of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Content {
    /// Its body: a number that no other message has.
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
    /// Milliseconds it lives.
    pub ttl_ms: Option<u64>,
    /// Times it was forwarded (B-334).
    pub hops: u8,
    /// Number at its first point of submission, where it has one (B-113).
    pub first_number: FirstNumber,
    /// The rule that made this copy (B-348).
    pub rule: Option<String>,
    /// Why it was dead-lettered (B-263).
    pub reason: Option<String>,
}

impl Content {
    /// The same with a reason, when it is buried because it cannot be received by session (B-185).
    #[must_use]
    pub fn dead_lettered_without_session(mut self, dead: bool) -> Self {
        if dead {
            self.reason = Some(super::arrival::WITHOUT_SESSION.to_owned());
        }
        self
    }
}

/// The number at the first point of submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FirstNumber {
    /// It was not handed on.
    #[default]
    None,
    /// This one.
    Is(u64),
    /// One that nobody saw.
    Unseen,
}

/// Where a message is in its entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessagePhase {
    /// In the flow.
    Ready,
    /// Set aside until it is fetched by number (B-275).
    Deferred,
    /// Waiting for its time (B-233).
    Scheduled {
        /// When it is due.
        due: u64,
    },
}

/// A lock on a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageLock {
    /// No other lock has this number.
    pub id: u64,
    /// First millisecond at which it no longer lock_ids; never, under the lock of a session.
    pub until: u64,
    /// The acceptance of the session that it is under.
    pub session: Option<u64>,
}

/// A message in an entity.
#[derive(Debug, Clone)]
pub struct Message {
    /// What it carries.
    pub content: Content,
    /// Where it is.
    pub phase: MessagePhase,
    /// Deliveries charged (B-176, B-177).
    pub count: u32,
    /// When it was accepted (B-117).
    pub enqueued_at: u64,
    /// When it expires (B-246); never for most.
    pub expires_at: u64,
    /// Who has it.
    pub lock: Option<MessageLock>,
    /// Rises with each message that the model learns of.
    pub born: u64,
    /// It was given back once, so it may come after later ones (B-145).
    pub returned: bool,
}

/// Later than every moment.
pub const NEVER: u64 = u64::MAX;

impl Message {
    /// In the flow, and nobody has it.
    pub fn is_free(&self) -> bool {
        self.phase == MessagePhase::Ready && self.lock.is_none()
    }
}
