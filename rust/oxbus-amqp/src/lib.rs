// SPDX-License-Identifier: Apache-2.0
//! AMQP 1.0 without sockets and without a clock.
//!
//! - `codec`: encoding and decoding of values;
//! - `performative`: frames, performatives and delivery states;
//! - `message`: the sections of messages;
//! - `record`: messages between AMQP and the model's fields;
//! - `engine`: the server side of a connection as a state machine;
//! - `client`: the client side of a connection as a state machine;
//! - `extension`: what only our server understands.
//!
//! Does not depend on the broker. Limits are in `oxbus_model::caps`.
//! Source: OASIS AMQP 1.0, parts 1 to 5.

pub mod client;
pub mod codec;
mod endpoint;
pub mod engine;
pub mod extension;
pub mod message;
pub mod performative;
pub mod record;

pub use bytestring::ByteString;
pub use client::{ClientEngine, ClientEvent};
pub use engine::{Engine, EngineEvent};
