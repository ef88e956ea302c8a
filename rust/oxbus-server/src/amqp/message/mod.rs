// SPDX-License-Identifier: Apache-2.0
//! Converts messages between AMQP and the stored form (behaviour.md 21.4).
//!
//! Values for which the broker has a field are stored in that field, visible to filters, in-process clients and HTTP.
//! Everything else except decimals round-trips unchanged (B-428 … B-430). Bodies that are not a single data section
//! and property values of other types are stored in their AMQP encoding. Annotations and properties without a field
//! are stored in the message's AMQP part.

mod amqp_part;
mod decimal;
mod ids;
mod incoming;
mod outgoing;
mod properties;

pub(super) use incoming::{each_of_batch, read_new};
pub(super) use outgoing::{AmqpMessageMetadata, MessageStateAnnotation, write, write_head};
pub(super) use properties::timespan_value;

use oxbus_amqp::codec::DecodeError;
use oxbus_model::{Error, ErrorKind};

fn malformed(error: DecodeError) -> Error {
    let detail = format!("the message is not well-formed AMQP: {error}");
    Error::new(ErrorKind::InvalidArgument, detail)
}

#[cfg(test)]
mod tests;
