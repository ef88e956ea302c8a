// SPDX-License-Identifier: Apache-2.0
//! What a message to send holds: a body, an id for when none is given, and what few messages have.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, OnceLock};

use oxbus_model::Timestamp;
use oxbus_model::message::AssignedId;
use oxbus_model::sync::whole;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::ids;

/// The body of a message to send.
pub(super) enum OutgoingBody {
    Bytes(Py<PyBytes>),
    Text(Py<PyString>),
    Null,
}

/// What few messages have.
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

/// A message to send.
pub(super) struct OutgoingMessage {
    pub(super) body: OutgoingBody,
    /// Its id, if none is given.
    pub(super) assigned_id: AssignedId,
    /// It was sent, or added to a batch: it shows its assigned id.
    pub(super) sent: AtomicBool,
    /// Locked for moments in which no code of Python's can run.
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

    /// What few messages have, if this one has it.
    #[inline]
    pub(super) fn optional(&self) -> Option<MutexGuard<'_, OptionalProperties>> {
        self.optional.get().map(|optional| guard(optional))
    }

    /// The same, to change it.
    pub(super) fn optional_mut(&self) -> MutexGuard<'_, OptionalProperties> {
        guard(self.optional.get_or_init(Box::default))
    }

    /// Changes a detail. The old value is dropped last: that may run code of Python's.
    pub(super) fn set<T>(&self, value: T, field: impl FnOnce(&mut OptionalProperties) -> &mut T) {
        let previous = std::mem::replace(field(&mut self.optional_mut()), value);
        drop(previous);
    }
}

/// Whole after a panic: each field is set in one step.
fn guard(optional: &Mutex<OptionalProperties>) -> MutexGuard<'_, OptionalProperties> {
    whole(optional.lock())
}
