// SPDX-License-Identifier: Apache-2.0
//! The input and the output of rules.

use oxbus_model::message::Fields;
use oxbus_model::{SequenceNumber, Timestamp};
use oxbus_store::Record;

/// The message as rules see it: its properties, not its body (B-352).
#[derive(Debug, Clone, Copy)]
pub struct RuleInput<'a> {
    /// The fields that the sender set. Filters do not read the body, but actions copy it.
    pub fields: &'a Fields<'a>,
    /// When the topic accepted it.
    pub enqueued_at: Timestamp,
    /// Its sequence number in the topic, if it has one.
    pub enqueued_number: Option<SequenceNumber>,
    /// When it expires, or [`Timestamp::NEVER`].
    pub expires_at: Timestamp,
    /// Its size, in bytes.
    pub size_bytes: usize,
    /// Its delivery count.
    pub delivery_count: u32,
}

/// The failure of a rule, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleFailure {
    /// The filter could not be evaluated (B-358).
    Filter(String),
    /// The filter selected the message, but the action failed (B-381).
    Action(String),
}

/// The copy that a subscription gets.
#[derive(Debug, Clone)]
pub enum MessageCopy {
    /// The message as it was sent (B-347).
    AsSent,
    /// The message as changed by an action (B-348).
    Changed(Record),
    /// The message as it was sent, for the dead-letter queue if the subscription is so configured (B-358, B-381).
    Failed(RuleFailure),
}

/// A copy and the subscription that gets it.
#[derive(Debug, Clone)]
pub struct Selection {
    /// Position of the subscription in [`TopicRules::compile`](super::TopicRules::compile).
    pub subscription: usize,
    /// The copy.
    pub copy: MessageCopy,
}
