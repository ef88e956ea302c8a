// SPDX-License-Identifier: Apache-2.0
//! Tests of the client half: against the server half in memory, and against frames written by hand.

#[path = "../support/caller.rs"]
pub mod caller;
#[path = "../support/frames.rs"]
pub mod frames;

mod cuts;
mod handshake;
mod idle_timeout;
mod links;
mod pair;
mod random_commands;
mod receiving;
mod script;
mod sending;
mod settlement;
