// SPDX-License-Identifier: Apache-2.0
//! Tests of the engine with a simulated client, which behaves like common clients.

#[path = "../support/application.rs"]
pub mod application;
#[path = "../support/client.rs"]
mod client;
#[path = "../support/frames.rs"]
pub mod frames;

mod handshake;
mod idle_timeout;
mod limits;
mod links;
mod receiving;
mod sending;
mod settlement;
mod splits;
