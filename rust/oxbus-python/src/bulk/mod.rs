// SPDX-License-Identifier: Apache-2.0
//! The bulk plane: `BulkServer`, which serves a namespace, and `BulkClient`, which calls such a server.

mod calls;
mod client;
mod link;
mod reserved;
mod rows;
mod server;
mod staged;

pub(crate) use client::BulkClient;
pub(crate) use server::{BulkServer, Wishes};
