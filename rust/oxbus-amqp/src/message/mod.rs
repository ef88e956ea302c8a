// SPDX-License-Identifier: Apache-2.0
//! Where the sections of a message are, and those that a broker reads and writes (AMQP 1.0, part 3, 3.2).
//!
//! A message stays the bytes it came in: sections are found, not decoded, and a broker puts new ones in front of what
//! it keeps. Bodies are never read here.

mod annotations;
mod body;
mod header;
mod id;
mod properties;
mod sections;

pub use annotations::{
    entries, put_application_properties, put_delivery_annotations, put_message_annotations, read_map,
};
pub use body::{data, put_data, put_value_body, read_value_body, value_body};
pub use header::Header;
pub use id::AmqpMessageId;
pub use properties::Properties;
pub use sections::{AmqpBodyKind, MESSAGE_FORMAT_BATCH, MESSAGE_FORMAT_DEFAULT, Sections, section};
