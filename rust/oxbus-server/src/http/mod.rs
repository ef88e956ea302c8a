// SPDX-License-Identifier: Apache-2.0
//! HTTP: messages by the service's seven operations, entities as ATOM, health and metrics.
//!
//! Read in this order: `connection` (what one connection keeps), `route` (what a path means), `messages`, `atom`.
//! Everything wrong is said by `error`, in the form that SDKs read.

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

pub(crate) use connection::serve_http;
pub(crate) use meters::Meters;

/// An answer.
pub(crate) type HttpResponse = hyper::Response<http_body_util::Full<hyper::body::Bytes>>;
