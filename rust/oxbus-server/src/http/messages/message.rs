// SPDX-License-Identifier: Apache-2.0
//! A message to send, with owned values.

use oxbus_model::message::NewId;
use oxbus_model::message::{Body, Fields, MessageId, PropertiesBuilder, Value};
use oxbus_model::rules::OwnedValue;
use oxbus_model::{Result, Timestamp};

/// A message from headers or from an item of a batch.
#[derive(Debug, Default)]
pub(super) struct HttpMessage {
    pub(super) message_id: Option<String>,
    pub(super) session_id: Option<String>,
    pub(super) partition_key: Option<String>,
    pub(super) subject: Option<String>,
    pub(super) correlation_id: Option<String>,
    pub(super) content_type: Option<String>,
    pub(super) to: Option<String>,
    pub(super) reply_to: Option<String>,
    pub(super) reply_to_session_id: Option<String>,
    pub(super) time_to_live_ms: Option<u64>,
    pub(super) scheduled: Option<Timestamp>,
    pub(super) properties: Vec<(String, OwnedValue)>,
}

impl HttpMessage {
    /// Sets a property. Replaces an earlier value of the same name.
    pub(super) fn set(&mut self, name: String, value: OwnedValue) {
        match self.properties.iter_mut().find(|(existing, _)| *existing == name) {
            Some(existing) => existing.1 = value,
            None => self.properties.push((name, value)),
        }
    }

    /// Calls `take` with the message as borrowed fields.
    pub(super) fn with<R>(&self, body: &[u8], new_id: NewId, take: impl FnOnce(&Fields<'_>) -> Result<R>) -> Result<R> {
        let mut properties = PropertiesBuilder::default();
        for (name, value) in &self.properties {
            properties.push(name, Value::from(value));
        }
        let message_id = match &self.message_id {
            Some(id) => MessageId::Given(id),
            None => MessageId::Assigned(new_id(1)),
        };
        take(&Fields {
            body: Body::Data(body),
            message_id: Some(message_id),
            session_id: self.session_id.as_deref(),
            partition_key: self.partition_key.as_deref(),
            subject: self.subject.as_deref(),
            correlation_id: self.correlation_id.as_deref(),
            content_type: self.content_type.as_deref(),
            to: self.to.as_deref(),
            reply_to: self.reply_to.as_deref(),
            reply_to_session_id: self.reply_to_session_id.as_deref(),
            time_to_live_ms: self.time_to_live_ms,
            scheduled_enqueue_time: self.scheduled,
            application_properties: (!self.properties.is_empty()).then(|| properties.properties()),
            ..Fields::default()
        })
    }
}
