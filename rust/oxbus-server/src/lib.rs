// SPDX-License-Identifier: Apache-2.0
//! The server of a namespace: AMQP, HTTP and the bulk routes on each of its ports.
//!
//! `front` accepts connections and detects their protocol. `amqp`, `http` and `bulk` implement the protocols. `sas`
//! checks access with shared access signatures. This crate does not depend on Python. Handlers run on the threads of
//! the server's own runtime. Calls that may wait for a store run on its blocking threads (`blocking`).

mod accept;
mod amqp;
mod blocking;
mod bulk;
mod console;
mod front;
mod http;
mod pending;
pub mod sas;
mod spans;
mod wait;

pub use blocking::run_call;
pub use bulk::BulkLimits;
pub use console::ConsoleOptions;
pub use front::{BusOptions, BusServer, BusTls, Ports, TlsFiles};
pub use spans::FinishedSpan;
