// SPDX-License-Identifier: Apache-2.0
//! The properties of a message.

use bytes::Bytes;
use bytestring::ByteString;

use super::AmqpMessageId;
use crate::codec::{AmqpTimestamp, AmqpValue, Symbol, composite};

composite! {
    /// The properties section, which brokers never change.
    Properties = 0x73 "properties" {
        /// Message id.
        message_id: Option<AmqpMessageId>,
        /// The user who sent it.
        user_id: Option<Bytes>,
        /// Destination, usually a string.
        to: Option<AmqpValue>,
        /// Subject.
        subject: Option<ByteString>,
        /// Address for replies, usually a string.
        reply_to: Option<AmqpValue>,
        /// Correlation id.
        correlation_id: Option<AmqpMessageId>,
        /// Content type.
        content_type: Option<Symbol>,
        /// Content encoding.
        content_encoding: Option<Symbol>,
        /// Expiry time.
        absolute_expiry_time: Option<AmqpTimestamp>,
        /// Creation time.
        creation_time: Option<AmqpTimestamp>,
        /// Session id.
        group_id: Option<ByteString>,
        /// Position in the session.
        group_sequence: Option<u32>,
        /// Session id for replies.
        reply_to_group_id: Option<ByteString>,
    }
}

impl Properties {
    /// No properties.
    pub const NONE: Self = Self {
        message_id: None,
        user_id: None,
        to: None,
        subject: None,
        reply_to: None,
        correlation_id: None,
        content_type: None,
        content_encoding: None,
        absolute_expiry_time: None,
        creation_time: None,
        group_id: None,
        group_sequence: None,
        reply_to_group_id: None,
    };
}
