// SPDX-License-Identifier: Apache-2.0
//! Attach and detach.

use bytes::BytesMut;
use bytestring::ByteString;

use super::{AmqpError, Source, Target};
use crate::codec::{DecodeError, Field, Map, Reader, Symbol, composite};

/// Which end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The end that sends messages.
    Sender,
    /// The end that receives them.
    Receiver,
}

impl Role {
    /// The end on the other side.
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

/// A number that stands for a choice, with what its absence means.
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
    /// When a sender settles its deliveries.
    SenderSettleMode "snd-settle-mode" {
        /// It waits for an outcome.
        Unsettled = 0u8,
        /// It settles when it sends.
        Settled = 1u8,
        /// Either.
        #[default]
        Mixed = 2u8,
    }
}

choice! {
    /// When a receiver settles its deliveries.
    ReceiverSettleMode "rcv-settle-mode" {
        /// It settles when it knows the outcome.
        #[default]
        First = 0u8,
        /// It settles when the sender has settled.
        Second = 1u8,
    }
}

composite! {
    /// Attaches a link.
    Attach = 0x12 "attach" {
        /// Its name, the same on both sides.
        name: ByteString,
        /// Its number on the side that writes this.
        handle: u32,
        /// Which end writes this.
        role: Role,
        /// When the sender settles its deliveries.
        snd_settle_mode: SenderSettleMode,
        /// When the receiver settles its deliveries.
        rcv_settle_mode: ReceiverSettleMode,
        /// Where messages come from; absent in an answer to a receiver means refused.
        source: Option<Box<Source>>,
        /// Where messages go; absent in an answer to a sender means refused.
        target: Option<Box<Target>>,
        /// Deliveries that a link that is taken up again has open. Never taken up here (B-412).
        unsettled: Option<Map>,
        /// True if `unsettled` is incomplete.
        incomplete_unsettled: bool,
        /// The initial value of the sender's delivery count.
        initial_delivery_count: Option<u32>,
        /// Bytes of a message that this side takes; absent or zero means any.
        max_message_size: Option<u64>,
        /// Capabilities that the peer supports.
        offered_capabilities: Vec<Symbol>,
        /// Capabilities that the peer wants the other side to use.
        desired_capabilities: Vec<Symbol>,
        /// More about it.
        properties: Option<Map>,
    }
}

composite! {
    /// Detaches a link.
    Detach = 0x16 "detach" {
        /// Its number on the side that writes this.
        handle: u32,
        /// True if the link is closed for good.
        closed: bool,
        /// Why, when something went wrong.
        error: Option<AmqpError>,
    }
}
