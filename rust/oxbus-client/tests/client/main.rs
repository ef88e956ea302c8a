// SPDX-License-Identifier: Apache-2.0
//! Tests of the client against a server of this workspace on loopback, in this process.

mod cancelling;
mod driving;
mod every_byte;
mod faults;
mod management;
mod opening;
mod proxy;
mod receiving;
mod sending;
mod server;
mod sessions;
mod settling;
mod transactions;
