// SPDX-License-Identifier: Apache-2.0
//! Encoding and decoding of values (AMQP 1.0, part 1).
//!
//! Invariants
//! - decoded binaries and texts share the input buffer;
//! - decoding recurses at most `AMQP_NESTING_MAX` deep, and creates at most `AMQP_VALUES_MAX` values;
//! - encoded values contain no empty array, because common clients cannot read one.

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
