// SPDX-License-Identifier: Apache-2.0
//! `BulkClient`, which calls the bulk routes of a server.

mod calls;
mod client;
mod link;
mod reserved;
mod rows;
mod staged;

pub(crate) use client::BulkClient;
