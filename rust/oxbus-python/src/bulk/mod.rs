// SPDX-License-Identifier: Apache-2.0
//! `BulkClient`, which calls the bulk routes of a server.

mod client;
mod connection;
mod json;
mod reservations;
mod rows;
mod stages;

pub(crate) use client::BulkClient;
