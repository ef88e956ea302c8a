// SPDX-License-Identifier: Apache-2.0
//! Entities as ATOM: create, read, update, delete, list (B-456 … B-465).
//!
//! Read in this order: `calls` (what a request does), `xml` (what comes in), `entry` (what goes out); `options`, `rules` and
//! `authorization` turn one into the other. What is allowed is the broker's business: this is its wire.

mod authorization;
mod description;
mod duration;
mod entry;
mod forwarding;
mod operations;
mod options;
mod page;
mod rules;
mod times;
mod xml;

pub(super) use self::operations::handle;

/// Namespace of entries and feeds.
const ATOM: &str = "http://www.w3.org/2005/Atom";
/// Namespace of descriptions.
const SERVICE_BUS: &str = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect";
/// Namespace of the details of counts.
const COUNTS: &str = "http://schemas.microsoft.com/netservices/2011/06/servicebus";
/// Namespace of the attribute that says which kind of filter or action it is.
const INSTANCE: &str = "http://www.w3.org/2001/XMLSchema-instance";
/// Namespace of the types of values.
const SCHEMA: &str = "http://www.w3.org/2001/XMLSchema";
