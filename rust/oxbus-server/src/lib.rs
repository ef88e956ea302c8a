// SPDX-License-Identifier: Apache-2.0
//! Servers over a namespace. The bulk plane: Arrow streams over HTTP, for programs that move many messages at a time.
//!
//! Read in this order: `server` (its life), `limits` and `connections` (what a client may cost), `bulk` (the routes).
//! Knows no Python. Handlers run on the threads of a runtime of the server's own; whatever may wait for a store runs on
//! threads for that (`work`).

mod auth;
mod bulk;
mod connections;
mod limits;
mod options;
mod server;
mod status;
mod tls;
mod work;

pub use limits::Limits;
pub use options::{ServerOptions, TlsFiles};
pub use oxbus_wire::Key;
pub use server::BulkServer;
