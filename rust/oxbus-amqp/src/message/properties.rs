// SPDX-License-Identifier: Apache-2.0
//! The properties of a message.

use bytes::Bytes;
use bytestring::ByteString;

use super::AmqpMessageId;
use crate::codec::{AmqpTimestamp, AmqpValue, Symbol, composite};

composite! {
    /// Properties that the sender sets; brokers never change them.
    Properties = 0x73 "properties" {
        /// Its name.
        message_id: Option<AmqpMessageId>,
        /// The user that sent the message.
        user_id: Option<Bytes>,
        /// Where it goes; mostly a string.
        to: Option<AmqpValue>,
        /// The subject of the message.
        subject: Option<ByteString>,
        /// Where answers go; mostly a string.
        reply_to: Option<AmqpValue>,
        /// The id of the exchange or message that this one belongs to.
        correlation_id: Option<AmqpMessageId>,
        /// The type of its body.
        content_type: Option<Symbol>,
        /// How its body is packed.
        content_encoding: Option<Symbol>,
        /// When it expires.
        absolute_expiry_time: Option<AmqpTimestamp>,
        /// When it was made.
        creation_time: Option<AmqpTimestamp>,
        /// Its session.
        group_id: Option<ByteString>,
        /// Its place in the session.
        group_sequence: Option<u32>,
        /// The session of answers.
        reply_to_group_id: Option<ByteString>,
    }
}

impl Properties {
    /// No property set.
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
