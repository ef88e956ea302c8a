// SPDX-License-Identifier: Apache-2.0
//! The sections of messages (AMQP 1.0, part 3, 3.2).
//!
//! A message stays encoded: `Sections` locates its sections without decoding them. The server decodes some sections,
//! and writes new ones before the stored bytes.

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
