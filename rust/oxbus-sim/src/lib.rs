// SPDX-License-Identifier: Apache-2.0
//! The reference model: a queue as a plain list of messages, written from docs/behaviour.md and not from the broker.
//!
//! It says which results are right rather than which one comes: fan-in may serve partitions in any fair order, so
//! the model checks each message that the broker hands out and takes note of it.

pub mod model;

pub use model::{Model, State};
