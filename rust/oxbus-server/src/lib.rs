// SPDX-License-Identifier: Apache-2.0
//! Servers over a namespace.
//!
//! `BusServer` is for SDKs: AMQP and HTTP on each of its ports (`front`, `amqp`, `http`), with the rights that shared access
//! signatures give (`sas`). `BulkServer` is the bulk plane: Arrow streams over HTTP, for programs that move many messages at
//! a time (`server`, `limits`, `connections`, `bulk`).
//! Knows no Python. Handlers run on the threads of a runtime of the server's own; whatever may wait for a store runs on
//! threads for that (`work`).

mod accept;
mod amqp;
mod auth;
mod bulk;
mod connections;
mod front;
mod http;
mod life;
mod limits;
mod options;
mod running;
pub mod sas;
mod server;
mod status;
mod taken;
mod tls;
mod wait;
mod work;

pub use front::{BusOptions, BusServer, BusTls, Ports};
pub use limits::Limits;
pub use options::{ServerOptions, TlsFiles};
pub use oxbus_wire::Key;
pub use server::BulkServer;
