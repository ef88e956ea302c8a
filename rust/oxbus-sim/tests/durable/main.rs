// SPDX-License-Identifier: Apache-2.0
//! A durable namespace whose disk or store fails at every call of a script with every fault.
//!
//! The script records the attempted and the acknowledged operations. The next namespace on what is left must have the
//! effects of all acknowledged operations, and of no operation that was not attempted.

mod apart;
mod deposed;
mod files;
#[path = "../support/owner.rs"]
mod owner;
mod script;
mod store;
