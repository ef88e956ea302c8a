// SPDX-License-Identifier: Apache-2.0
//! HTTP: the service's seven operations on messages, entities as ATOM, health and metrics.
//!
//! Read in this order: `connection` (the state of a connection), `route` (the meaning of a path), `messages`, `atom`.
//! `error` turns every error into the response that SDKs expect.

mod access;
mod api_version;
mod atom;
mod body;
mod connection;
mod error;
mod health;
mod messages;
mod meters;
mod metrics;
mod query;
mod route;
mod spans;

pub(crate) use connection::serve_http;
pub(crate) use meters::{Meters, Operation, Protocol as MeteredProtocol};

/// A response.
pub(crate) type HttpResponse = hyper::Response<http_body_util::Full<hyper::body::Bytes>>;
