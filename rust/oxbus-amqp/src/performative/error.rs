// SPDX-License-Identifier: Apache-2.0
//! The type `error`, and the conditions of the specification.

use bytestring::ByteString;

use crate::codec::{Map, Symbol, composite};

composite! {
    /// An error. Always encoded with three fields, because common clients read the third unchecked.
    AmqpError = 0x1d "error" {
        /// The condition, for programs.
        condition: Symbol,
        /// The text, for people.
        description: Option<ByteString>,
        /// Further information.
        info: Option<Map>,
    }
}

impl AmqpError {
    /// An error with a text.
    pub fn new(condition: impl Into<Symbol>, description: impl Into<ByteString>) -> Self {
        Self {
            condition: condition.into(),
            description: Some(description.into()),
            info: None,
        }
    }
}

/// The conditions of the specification (AMQP 1.0, part 2, 2.8.15 to 2.8.18).
#[expect(missing_docs, reason = "each name is that of the specification")]
pub mod condition {
    pub const INTERNAL_ERROR: &str = "amqp:internal-error";
    pub const NOT_FOUND: &str = "amqp:not-found";
    pub const UNAUTHORIZED_ACCESS: &str = "amqp:unauthorized-access";
    pub const DECODE_ERROR: &str = "amqp:decode-error";
    pub const RESOURCE_LIMIT_EXCEEDED: &str = "amqp:resource-limit-exceeded";
    pub const NOT_ALLOWED: &str = "amqp:not-allowed";
    pub const INVALID_FIELD: &str = "amqp:invalid-field";
    pub const NOT_IMPLEMENTED: &str = "amqp:not-implemented";
    pub const RESOURCE_LOCKED: &str = "amqp:resource-locked";
    pub const PRECONDITION_FAILED: &str = "amqp:precondition-failed";
    pub const RESOURCE_DELETED: &str = "amqp:resource-deleted";
    pub const ILLEGAL_STATE: &str = "amqp:illegal-state";
    pub const FRAME_SIZE_TOO_SMALL: &str = "amqp:frame-size-too-small";
    pub const CONNECTION_FORCED: &str = "amqp:connection:forced";
    pub const FRAMING_ERROR: &str = "amqp:connection:framing-error";
    pub const UNATTACHED_HANDLE: &str = "amqp:session:unattached-handle";
    pub const HANDLE_IN_USE: &str = "amqp:session:handle-in-use";
    pub const ERRANT_LINK: &str = "amqp:session:errant-link";
    pub const WINDOW_VIOLATION: &str = "amqp:session:window-violation";
    pub const DETACH_FORCED: &str = "amqp:link:detach-forced";
    pub const MESSAGE_SIZE_EXCEEDED: &str = "amqp:link:message-size-exceeded";
    pub const STOLEN: &str = "amqp:link:stolen";
    pub const TRANSACTION_UNKNOWN_ID: &str = "amqp:transaction:unknown-id";
    pub const TRANSACTION_ROLLBACK: &str = "amqp:transaction:rollback";
}
