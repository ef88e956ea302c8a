// SPDX-License-Identifier: Apache-2.0
//! The content of an outgoing message: body, assigned id, and optional properties.
//!
//! Most messages have no optional properties, so these are allocated on demand.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, OnceLock};

use oxbus_model::Timestamp;
use oxbus_model::message::AssignedId;
use oxbus_model::sync::ignore_poison;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::ids;

/// The body of an outgoing message.
pub(super) enum OutgoingBody {
    Bytes(Py<PyBytes>),
    Text(Py<PyString>),
    Null,
}

/// The properties that few messages have.
#[derive(Default)]
pub(super) struct OptionalProperties {
    pub(super) session_id: Option<Py<PyString>>,
    pub(super) message_id: Option<Py<PyString>>,
    pub(super) partition_key: Option<Py<PyString>>,
    pub(super) subject: Option<Py<PyString>>,
    pub(super) correlation_id: Option<Py<PyString>>,
    pub(super) content_type: Option<Py<PyString>>,
    pub(super) to: Option<Py<PyString>>,
    pub(super) reply_to: Option<Py<PyString>>,
    pub(super) reply_to_session_id: Option<Py<PyString>>,
    pub(super) application_properties: Option<Py<PyAny>>,
    pub(super) scheduled_enqueue_time: Option<Timestamp>,
    pub(super) time_to_live_ms: Option<u64>,
    /// Replaces the id that the message was created with.
    pub(super) assigned_id: Option<AssignedId>,
}

impl OptionalProperties {
    pub(super) fn clone_ref(&self, py: Python<'_>) -> Self {
        let text = |text: &Option<Py<PyString>>| text.as_ref().map(|text| text.clone_ref(py));
        Self {
            session_id: text(&self.session_id),
            message_id: text(&self.message_id),
            partition_key: text(&self.partition_key),
            subject: text(&self.subject),
            correlation_id: text(&self.correlation_id),
            content_type: text(&self.content_type),
            to: text(&self.to),
            reply_to: text(&self.reply_to),
            reply_to_session_id: text(&self.reply_to_session_id),
            application_properties: self.application_properties.as_ref().map(|it| it.clone_ref(py)),
            scheduled_enqueue_time: self.scheduled_enqueue_time,
            time_to_live_ms: self.time_to_live_ms,
            assigned_id: self.assigned_id,
        }
    }
}

/// An outgoing message.
pub(super) struct OutgoingMessage {
    pub(super) body: OutgoingBody,
    /// The message id, unless the caller gives one.
    pub(super) assigned_id: AssignedId,
    /// True if the message was sent or added to a batch. It then shows its assigned id.
    pub(super) sent: AtomicBool,
    /// Locked only while no Python code can run.
    pub(super) optional: OnceLock<Box<Mutex<OptionalProperties>>>,
}

impl OutgoingMessage {
    pub(super) fn new(body: OutgoingBody, optional: OnceLock<Box<Mutex<OptionalProperties>>>) -> Self {
        Self {
            body,
            assigned_id: ids::next(),
            sent: AtomicBool::new(false),
            optional,
        }
    }

    /// The optional properties, if any was ever set.
    #[inline]
    pub(super) fn optional(&self) -> Option<MutexGuard<'_, OptionalProperties>> {
        self.optional.get().map(|optional| guard(optional))
    }

    /// The optional properties, to change them.
    pub(super) fn optional_mut(&self) -> MutexGuard<'_, OptionalProperties> {
        guard(self.optional.get_or_init(Box::default))
    }

    /// Sets an optional property. The old value is dropped last, because dropping it may run Python code.
    pub(super) fn set<T>(&self, value: T, field: impl FnOnce(&mut OptionalProperties) -> &mut T) {
        let previous = std::mem::replace(field(&mut self.optional_mut()), value);
        drop(previous);
    }
}

/// A panic leaves the properties consistent: each field is set in one step.
fn guard(optional: &Mutex<OptionalProperties>) -> MutexGuard<'_, OptionalProperties> {
    ignore_poison(optional.lock())
}
