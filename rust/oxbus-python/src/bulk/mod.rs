// SPDX-License-Identifier: Apache-2.0
//! `BulkClient`, the client of a server's bulk routes.

mod client;
mod connection;
mod json;
mod reservations;
mod rows;
mod stages;

pub(crate) use client::BulkClient;
