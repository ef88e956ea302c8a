// SPDX-License-Identifier: Apache-2.0
//! The server of a namespace: AMQP, HTTP and the bulk routes on each of its ports.
//!
//! `front` accepts connections and finds out what they speak, `amqp`, `http` and `bulk` speak it, and `sas` says who may do
//! what with the rights that shared access signatures give.
//! Knows no Python. Handlers run on the threads of a runtime of the server's own; whatever may wait for a store runs on
//! threads for that (`work`).

mod accept;
mod amqp;
mod blocking;
mod bulk;
mod front;
mod http;
mod pending;
pub mod sas;
mod time_to_live;
mod wait;

pub use bulk::BulkLimits;
pub use front::{BusOptions, BusServer, BusTls, Ports, TlsFiles};
