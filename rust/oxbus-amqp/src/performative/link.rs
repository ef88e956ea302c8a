// SPDX-License-Identifier: Apache-2.0
//! Attach and detach.

use bytes::BytesMut;
use bytestring::ByteString;

use super::{AmqpError, Source, Target};
use crate::codec::{DecodeError, Field, Map, Reader, Symbol, composite};

/// The role of an endpoint of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Sends messages.
    Sender,
    /// Receives messages.
    Receiver,
}

impl Role {
    /// The role of the other side.
    #[must_use]
    pub fn inverted(self) -> Self {
        match self {
            Self::Sender => Self::Receiver,
            Self::Receiver => Self::Sender,
        }
    }
}

impl Field for Role {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(if bool::decode(reader)? {
            Self::Receiver
        } else {
            Self::Sender
        })
    }

    fn encode(&self, out: &mut BytesMut) {
        (*self == Self::Receiver).encode(out);
    }
}

/// Defines an enum that is encoded as a number, with a default for its absence.
macro_rules! choice {
    ($(#[$about:meta])* $name:ident $field:literal { $($(#[$choice_about:meta])* $choice:ident = $number:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub enum $name {
            $($(#[$choice_about])* $choice,)*
        }

        impl Field for $name {
            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                match u8::decode(reader)? {
                    $($number => Ok(Self::$choice),)*
                    value => Err(DecodeError::UnknownChoice { field: $field, value: value.into() }),
                }
            }

            fn absent(_: &'static str) -> Result<Self, DecodeError> {
                Ok(Self::default())
            }

            fn encode(&self, out: &mut BytesMut) {
                match self {
                    $(Self::$choice => $number,)*
                }
                .encode(out);
            }
        }
    };
}

choice! {
    /// When a sender settles.
    SenderSettleMode "snd-settle-mode" {
        /// After the outcome.
        Unsettled = 0u8,
        /// When it sends.
        Settled = 1u8,
        /// Either.
        #[default]
        Mixed = 2u8,
    }
}

choice! {
    /// When a receiver settles.
    ReceiverSettleMode "rcv-settle-mode" {
        /// Spontaneously, when it knows the outcome.
        #[default]
        First = 0u8,
        /// After the sender has settled.
        Second = 1u8,
    }
}

composite! {
    /// Attaches a link.
    Attach = 0x12 "attach" {
        /// Its name, the same on both sides.
        name: ByteString,
        /// The writer's number of the link.
        handle: u32,
        /// The role of the writer.
        role: Role,
        /// When the sender settles.
        snd_settle_mode: SenderSettleMode,
        /// When the receiver settles.
        rcv_settle_mode: ReceiverSettleMode,
        /// The source. An answer to a receiver without a source rejects the attach.
        source: Option<Box<Source>>,
        /// The target. An answer to a sender without a target rejects the attach.
        target: Option<Box<Target>>,
        /// Unsettled deliveries of a resumed link. Resuming is not supported (B-412).
        unsettled: Option<Map>,
        /// True if `unsettled` is incomplete.
        incomplete_unsettled: bool,
        /// Initial delivery count of the sender.
        initial_delivery_count: Option<u32>,
        /// Maximum message size, in bytes. Absent or zero means unlimited.
        max_message_size: Option<u64>,
        /// Capabilities that it offers.
        offered_capabilities: Vec<Symbol>,
        /// Capabilities that it requests.
        desired_capabilities: Vec<Symbol>,
        /// Further properties.
        properties: Option<Map>,
    }
}

composite! {
    /// Detaches a link.
    Detach = 0x16 "detach" {
        /// The writer's number of the link.
        handle: u32,
        /// True if the link is closed.
        closed: bool,
        /// The error, if there is one.
        error: Option<AmqpError>,
    }
}
