// SPDX-License-Identifier: Apache-2.0
//! The decoded properties of a message, shared by all rules.

use std::cell::OnceCell;

use oxbus_model::message::{AssignedId, Fields, MessageId, Properties, Value};
use oxbus_model::{SequenceNumber, Timestamp};
use smallvec::SmallVec;

use super::operand::Operand;
use super::system_property::SystemProperty;
use super::{RuleInput, property_name};

/// Number of application properties that fit without an allocation.
const PROPERTIES_INLINE: usize = 8;

/// Names and values.
pub(super) type PropertyEntries<'a> = SmallVec<[(&'a str, Value<'a>); PROPERTIES_INLINE]>;

/// The properties of one message.
#[derive(Debug)]
pub(super) struct MessageView<'a> {
    fields: &'a Fields<'a>,
    /// The text of an id that the client library assigned.
    assigned_id: Option<[u8; AssignedId::LEN * 2]>,
    enqueued_at: Timestamp,
    enqueued_number: Option<SequenceNumber>,
    expires_at: Timestamp,
    size_bytes: usize,
    delivery_count: u32,
    /// Application properties in the order of the message, decoded on first use.
    properties: OnceCell<PropertyEntries<'a>>,
}

impl<'a> MessageView<'a> {
    /// A view of a message.
    pub(super) fn of(input: &RuleInput<'a>) -> Self {
        Self {
            fields: input.fields,
            assigned_id: assigned_id(input.fields),
            enqueued_at: input.enqueued_at,
            enqueued_number: input.enqueued_number,
            expires_at: input.expires_at,
            size_bytes: input.size_bytes,
            delivery_count: input.delivery_count,
            properties: OnceCell::new(),
        }
    }

    /// Returns the same message with other fields and application properties.
    pub(super) fn changed<'b>(&self, fields: &'b Fields<'b>, properties: PropertyEntries<'b>) -> MessageView<'b> {
        MessageView {
            fields,
            assigned_id: assigned_id(fields),
            properties: OnceCell::from(properties),
            enqueued_at: self.enqueued_at,
            enqueued_number: self.enqueued_number,
            expires_at: self.expires_at,
            size_bytes: self.size_bytes,
            delivery_count: self.delivery_count,
        }
    }

    /// The message id as text.
    pub(super) fn message_id(&self) -> Option<&str> {
        match &self.assigned_id {
            Some(digits) => std::str::from_utf8(digits).ok(),
            None => self.fields.given_id(),
        }
    }

    /// The fields as they were sent.
    pub(super) fn fields(&self) -> &'a Fields<'a> {
        self.fields
    }

    /// Application properties, in the order of the message.
    #[inline]
    pub(super) fn properties(&self) -> &[(&'a str, Value<'a>)] {
        self.properties.get_or_init(|| {
            let properties = self.fields.application_properties.into_iter();
            properties.flat_map(Properties::iter).collect()
        })
    }

    /// Returns an application property, or `None` if it is missing. If several names differ only in case, returns the
    /// first.
    #[inline]
    pub(super) fn user(&self, name: &str) -> Option<Value<'a>> {
        self.properties()
            .iter()
            .find_map(|&(known, value)| property_name::same(known, name).then_some(value))
    }

    /// Returns a system property, or null if it is not set or has no meaning for a message that arrives at a topic.
    pub(super) fn system(&self, property: SystemProperty) -> Operand<'_> {
        let fields = self.fields;
        let number = || match self.enqueued_number {
            Some(number) => Operand::Int(number.0 as i64),
            None => Operand::Null,
        };
        match property {
            SystemProperty::ContentType => Operand::of_text(fields.content_type),
            SystemProperty::CorrelationId => Operand::of_text(fields.correlation_id),
            SystemProperty::Label | SystemProperty::Subject => Operand::of_text(fields.subject),
            SystemProperty::MessageId => Operand::of_text(self.message_id()),
            SystemProperty::PartitionKey => Operand::of_text(fields.partition_key),
            SystemProperty::ReplyTo => Operand::of_text(fields.reply_to),
            SystemProperty::ReplyToSessionId => Operand::of_text(fields.reply_to_session_id),
            SystemProperty::SessionId => Operand::of_text(fields.session_id),
            SystemProperty::To => Operand::of_text(fields.to),
            SystemProperty::DeliveryCount => Operand::Int(self.delivery_count.into()),
            SystemProperty::EnqueuedSequenceNumber | SystemProperty::SequenceNumber => number(),
            SystemProperty::EnqueuedTimeUtc => Operand::of_time(self.enqueued_at),
            SystemProperty::ExpiresAtUtc if self.expires_at == Timestamp::NEVER => Operand::Null,
            SystemProperty::ExpiresAtUtc => Operand::of_time(self.expires_at),
            SystemProperty::ScheduledEnqueueTimeUtc => {
                fields.scheduled_enqueue_time.map_or(Operand::Null, Operand::of_time)
            }
            SystemProperty::Size => Operand::Int(self.size_bytes as i64),
            // The state is active, because rules never see scheduled or deferred messages.
            SystemProperty::State => Operand::Int(0),
            SystemProperty::TimeToLive => fields
                .time_to_live_ms
                .map_or(Operand::Null, |ms| Operand::Int(i64::try_from(ms).unwrap_or(i64::MAX))),
            SystemProperty::DeadLetterSource
            | SystemProperty::LockToken
            | SystemProperty::LockedUntilUtc
            | SystemProperty::ViaPartitionKey => Operand::Null,
        }
    }
}

fn assigned_id(fields: &Fields<'_>) -> Option<[u8; AssignedId::LEN * 2]> {
    match fields.message_id {
        Some(MessageId::Assigned(id)) => Some(id.hex()),
        _ => None,
    }
}
