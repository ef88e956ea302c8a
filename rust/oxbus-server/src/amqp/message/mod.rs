// SPDX-License-Identifier: Apache-2.0
//! Messages as AMQP writes them and as the broker keeps them (behaviour.md 21.4).
//!
//! What the broker has a field for is a field, so that filters, programs in process and HTTP see it. Everything else comes back
//! unchanged (B-428 … B-430), but a decimal: bodies that are not one run of bytes and property values of other types are kept as they were
//! encoded; annotations and properties without a field are in the message's AMQP part.

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
