// SPDX-License-Identifier: Apache-2.0
//! AMQP 1.0 without sockets and without a clock.
//!
//! - `codec`: values to bytes and back;
//! - `performative`: what frames say, and the states of deliveries;
//! - `message`: where the sections of a message are, and those that a broker reads and writes;
//! - `engine`: a server's half of a connection: bytes in, events out, commands in, bytes out.
//!
//! Knows no broker. Limits are in `oxbus_model::caps`.
//! Source: OASIS AMQP 1.0, parts 1 to 5.

pub mod codec;
pub mod engine;
pub mod message;
pub mod performative;

pub use bytestring::ByteString;
pub use engine::{Engine, EngineEvent};
