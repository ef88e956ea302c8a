// SPDX-License-Identifier: Apache-2.0
//! Converts messages between AMQP and the stored form (behaviour.md 21.4).
//!
//! Values for which the broker has a field are stored in that field, visible to filters, in-process clients and HTTP.
//! Everything else except decimals round-trips unchanged (B-428 … B-430). Bodies that are not a single data section
//! and property values of other types are stored in their AMQP encoding. Annotations and properties without a field
//! are stored in the message's AMQP part.
//!
//! A server reads with `read_new` and writes with `write`; a client writes with `write_new` and reads with
//! `read_received`.

mod amqp_part;
mod decimal;
mod ids;
mod incoming;
mod outgoing;
mod properties;
mod received;
pub mod token;
mod values;

pub use incoming::{each_of_batch, read, read_new};
pub use outgoing::{AmqpMessageMetadata, MessageStateAnnotation, write, write_head, write_new};
pub use properties::timespan_value;
pub use received::read_received;
pub use values::{owned_pairs, to_amqp_value, to_owned_value};

use oxbus_model::{Error, ErrorKind};

use crate::codec::DecodeError;

fn malformed(error: DecodeError) -> Error {
    let detail = format!("the message is not well-formed AMQP: {error}");
    Error::new(ErrorKind::InvalidArgument, detail)
}

#[cfg(test)]
mod tests;
