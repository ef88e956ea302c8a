// SPDX-License-Identifier: Apache-2.0
//! The message as a rule sees it, and what a rule makes of it.

use oxbus_model::message::Fields;
use oxbus_model::{SequenceNumber, Timestamp};
use oxbus_store::Record;

/// The message as a filter sees it: its properties, never its body (B-352).
#[derive(Debug, Clone, Copy)]
pub struct RuleInput<'a> {
    /// What the sender said. The body is there for the copies of actions; no filter looks at it.
    pub fields: &'a Fields<'a>,
    /// When the topic accept it.
    pub enqueued_at: Timestamp,
    /// Its number in the topic, when it has one.
    pub enqueued_number: Option<SequenceNumber>,
    /// When it expires; [`Timestamp::NEVER`] when it does not.
    pub expires_at: Timestamp,
    /// Its size, in bytes.
    pub size_bytes: usize,
    /// Times it was handed out and came back.
    pub delivery_count: u32,
}

/// What kept a rule from a result, in words for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleFailure {
    /// The filter could not be evaluated (B-358).
    Filter(String),
    /// The filter selected the message, and the action failed (B-381).
    Action(String),
}

/// The copy that a subscription gets.
#[derive(Debug, Clone)]
pub enum MessageCopy {
    /// The message as it was sent (B-347).
    AsSent,
    /// The message as an action left it (B-348).
    Changed(Record),
    /// The message as it was sent, for the dead-letter queue of a subscription that wants such copies (B-358, B-381).
    Failed(RuleFailure),
}

/// A copy, and the subscription that gets it.
#[derive(Debug, Clone)]
pub struct Selection {
    /// Position of the subscription among those of [`TopicRules::compile`](super::TopicRules::compile).
    pub subscription: usize,
    /// The copy.
    pub copy: MessageCopy,
}
