// SPDX-License-Identifier: Apache-2.0
//! Values to bytes and back (AMQP 1.0, part 1).
//!
//! Invariants:
//! - what is decoded shares the bytes it came in: binaries and texts are not copied;
//! - no input makes a decode recurse deeper than `AMQP_NESTING_MAX`, or hold more than `AMQP_VALUES_MAX` values;
//! - what is encoded never has an empty array: clients in use cannot read one.

mod array;
pub mod code;
mod composite;
mod error;
mod field;
mod map;
mod reader;
mod tag;
mod text;
mod value;
mod writer;

pub use array::Array;
pub use composite::descriptor_code;
pub(crate) use composite::{ListFields, composite};
pub use error::DecodeError;
pub use field::Field;
pub use map::{Entries, Map};
pub use reader::Reader;
pub use tag::Tag;
pub use text::{AmqpTimestamp, Symbol, Uuid};
pub use value::AmqpValue;
pub(crate) use writer::Compound;
