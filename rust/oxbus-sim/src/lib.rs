// SPDX-License-Identifier: Apache-2.0
//! The reference model: a namespace as plain lists of messages, written from docs/behaviour.md and not from the broker.
//!
//! `tests/namespace` runs it beside the broker. `tests/durable` makes the disk or the store fail at every call.

pub mod model;

pub use model::World;
