// SPDX-License-Identifier: Apache-2.0
//! Management of entities as ATOM: create, read, update, delete, list (B-456 … B-465).
//!
//! Read in this order: `operations` (the operations), `xml` (parsing and writing), `entry` (responses). `options`,
//! `rules` and `authorization` convert between XML and settings. The broker decides which settings are valid.

mod authorization;
mod description;
mod duration;
mod entry;
mod forwarding;
mod operations;
mod options;
mod page;
mod rules;
mod selected;
mod times;
mod xml;

pub(super) use self::operations::handle;
pub(super) use self::selected::handle_selected;

/// The XML namespace of entries and feeds.
const ATOM: &str = "http://www.w3.org/2005/Atom";
/// The XML namespace of descriptions.
const SERVICE_BUS: &str = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect";
/// The XML namespace of message counts.
const COUNTS: &str = "http://schemas.microsoft.com/netservices/2011/06/servicebus";
/// The XML namespace of the attribute for the type of a filter or action.
const INSTANCE: &str = "http://www.w3.org/2001/XMLSchema-instance";
/// The XML namespace of value types.
const SCHEMA: &str = "http://www.w3.org/2001/XMLSchema";
