// SPDX-License-Identifier: Apache-2.0
//! Tests of the client against a server of this workspace on loopback, in this process.

mod driving;
mod faults;
mod management;
mod opening;
mod receiving;
mod sending;
mod server;
mod sessions;
mod settling;
mod transactions;
