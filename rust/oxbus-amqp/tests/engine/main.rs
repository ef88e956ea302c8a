// SPDX-License-Identifier: Apache-2.0
//! The engine, driven by a client that is played by the test. Scenes follow what clients in use do and need.

#[path = "../support/application.rs"]
pub mod application;
#[path = "../support/client.rs"]
mod client;

mod handshake;
mod idle_timeout;
mod limits;
mod links;
mod receiving;
mod sending;
mod settlement;
mod splits;
