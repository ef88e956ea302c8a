// SPDX-License-Identifier: Apache-2.0
//! `ServiceBusMessage`: an outgoing message, and the base class of received messages.

use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, OnceLock};

use oxbus_model::message::{Body, BodyKind, Fields, MessageId, PropertiesBuilder, check_key_length, key_mismatch};
use oxbus_store::prefetch::RecordHint;
use oxbus_store::{Record, StoredRecord};
use pyo3::exceptions::{PyAttributeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMapping, PyString};

use crate::error::OrRaise;
use crate::outgoing::{OptionalProperties, OutgoingBody, OutgoingMessage};
use crate::unknown_options::{self, UnknownOptions};
use crate::untracked::untracked;
use crate::{body_iterator, convert, ids, imports, properties};

enum MessageContent {
    Outgoing(OutgoingMessage),
    Stored {
        record: Record,
        /// The message that is likely read next: a later one of the same list.
        next: Option<RecordHint>,
    },
}

/// A message.
#[pyclass(subclass, frozen, module = "oxbus")]
pub(crate) struct ServiceBusMessage {
    content: MessageContent,
}

untracked!(ServiceBusMessage);

/// Maximum characters of the body in `repr`.
const REPR_BODY_CHARS: usize = 64;

type OptionalText<'py> = Option<Bound<'py, PyString>>;

impl ServiceBusMessage {
    /// Wraps a stored record, which the broker has read back if it was on disk. Reading its body prefetches `next`.
    pub(crate) fn stored(record: StoredRecord, next: Option<RecordHint>) -> Self {
        let record = Record::try_from(record).expect("the broker returns records in memory");
        Self {
            content: MessageContent::Stored { record, next },
        }
    }

    /// The stored bytes of a received message.
    pub(crate) fn record(&self) -> Option<&Record> {
        match &self.content {
            MessageContent::Stored { record, .. } => Some(record),
            MessageContent::Outgoing(_) => None,
        }
    }

    /// Marks the message as sent. From now on it shows its assigned id.
    #[inline]
    pub(crate) fn set_sent(&self) {
        if let MessageContent::Outgoing(outgoing) = &self.content
            && !outgoing.sent.load(Ordering::Relaxed)
        {
            if !ids::is_of_this_process(outgoing.assigned_id) {
                // The id was created before a fork, and the parent may send the same message.
                outgoing.set(Some(ids::next()), |optional| &mut optional.assigned_id);
            }
            outgoing.sent.store(true, Ordering::Relaxed);
        }
    }

    /// Runs `run` with the fields of the message.
    pub(crate) fn with_fields<R>(
        &self,
        py: Python<'_>,
        run: impl FnOnce(&Fields<'_>) -> oxbus_model::Result<R>,
    ) -> PyResult<R> {
        let outgoing = match &self.content {
            MessageContent::Stored { record, .. } => {
                return Fields::decode(record).and_then(|fields| run(&fields)).or_raise();
            }
            MessageContent::Outgoing(outgoing) => outgoing,
        };
        let mut fields = Fields {
            message_id: Some(MessageId::Assigned(outgoing.assigned_id)),
            ..Fields::default()
        };
        fields.body = match &outgoing.body {
            OutgoingBody::Bytes(bytes) => Body::Data(bytes.as_bytes(py)),
            OutgoingBody::Text(text) => Body::Data(text.to_str(py)?.as_bytes()),
            OutgoingBody::Null => Body::Null,
        };
        if outgoing.optional.get().is_none() {
            return run(&fields).or_raise();
        }
        // Copied, because the code below may run Python code and must not hold a lock then.
        let Some(optional) = outgoing.optional().map(|optional| optional.clone_ref(py)) else {
            return run(&fields).or_raise();
        };
        let mapping = optional.application_properties.as_ref();
        let encoded: Option<PropertiesBuilder> = mapping
            .map(|mapping| properties::encode(mapping.bind(py)))
            .transpose()?;
        macro_rules! set {
            ($($name:ident),*) => { $(if let Some(text) = &optional.$name { fields.$name = Some(text.to_str(py)?); })* };
        }
        set!(
            session_id,
            partition_key,
            subject,
            correlation_id,
            content_type,
            to,
            reply_to,
            reply_to_session_id
        );
        if let Some(id) = &optional.message_id {
            fields.message_id = Some(MessageId::Given(id.to_str(py)?));
        } else if let Some(id) = optional.assigned_id {
            fields.message_id = Some(MessageId::Assigned(id));
        }
        fields.time_to_live_ms = optional.time_to_live_ms;
        fields.scheduled_enqueue_time = optional.scheduled_enqueue_time;
        fields.application_properties = encoded.as_ref().map(PropertiesBuilder::properties);
        run(&fields).or_raise()
    }

    /// The outgoing message. Fails for a received message, which cannot be changed.
    fn outgoing(&self) -> PyResult<&OutgoingMessage> {
        match &self.content {
            MessageContent::Outgoing(outgoing) => Ok(outgoing),
            MessageContent::Stored { .. } => Err(PyAttributeError::new_err(
                "a received message cannot be changed; make a new ServiceBusMessage from its body",
            )),
        }
    }

    /// Reads a text property of an outgoing or a stored message.
    fn text<'py>(
        &self,
        py: Python<'py>,
        outgoing: impl FnOnce(&OptionalProperties) -> &Option<Py<PyString>>,
        stored: impl for<'a> FnOnce(&Fields<'a>) -> Option<&'a str>,
    ) -> PyResult<OptionalText<'py>> {
        match &self.content {
            MessageContent::Outgoing(message) => Ok(message
                .optional()
                .and_then(|optional| outgoing(&optional).as_ref().map(|text| text.bind(py).clone()))),
            MessageContent::Stored { record, .. } => {
                Ok(stored(&Fields::decode(record).or_raise()?).map(|text| PyString::new(py, text)))
            }
        }
    }

    /// The body as one `bytes`, and `None` for a null body. Prefetches the message that is likely read next.
    fn bytes<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        match &self.content {
            MessageContent::Outgoing(outgoing) => match &outgoing.body {
                OutgoingBody::Bytes(bytes) => Ok(Some(bytes.bind(py).clone())),
                OutgoingBody::Text(text) => Ok(Some(PyBytes::new(py, text.to_str(py)?.as_bytes()))),
                OutgoingBody::Null => Ok(None),
            },
            MessageContent::Stored { record, next } => {
                if let Some(next) = next {
                    next.prefetch(record.len());
                }
                Ok(match Fields::body_of(record).or_raise()? {
                    Body::Data(bytes) => Some(PyBytes::new(py, bytes)),
                    body @ Body::Sections(_) => Some(PyBytes::new(py, &body.data())),
                    Body::Null => None,
                })
            }
        }
    }

    fn fields_of_stored<R>(&self, read: impl FnOnce(&Fields<'_>) -> R) -> PyResult<Option<R>> {
        self.record()
            .map(|record| Ok(read(&Fields::decode(record).or_raise()?)))
            .transpose()
    }
}

fn checked(name: &str, text: OptionalText<'_>) -> PyResult<Option<Py<PyString>>> {
    if let Some(text) = &text {
        check_key_length(name, Some(text.to_str()?)).or_raise()?;
    }
    Ok(text.map(Bound::unbind))
}

fn check_keys(py: Python<'_>, session_id: Option<&Py<PyString>>, partition_key: Option<&Py<PyString>>) -> PyResult<()> {
    if let (Some(session_id), Some(key)) = (session_id, partition_key) {
        let (session_id, key) = (session_id.to_str(py)?, key.to_str(py)?);
        if session_id != key {
            return Err(key_mismatch(session_id, key)).or_raise();
        }
    }
    Ok(())
}

fn time_to_live_ms(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    // The SDK also accepts whole seconds as a number.
    let ms = match value.extract::<i64>() {
        Ok(seconds) => seconds.saturating_mul(1000),
        Err(_) => convert::timedelta_ms(value)?,
    };
    u64::try_from(ms).ok().filter(|ms| *ms > 0).ok_or_else(|| {
        PyValueError::new_err("time_to_live must be greater than 0; leave it out for a message that never expires")
    })
}

fn mapping(value: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    if value.cast::<PyMapping>().is_ok() {
        return Ok(value.unbind());
    }
    Err(PyTypeError::new_err(format!(
        "application_properties must be a dict or None: {}",
        value.get_type().name()?
    )))
}

macro_rules! text_property {
    ($($name:ident, $set:ident, $check:expr;)*) => {
        #[pymethods]
        impl ServiceBusMessage {
            $(
                #[getter]
                fn $name<'py>(&self, py: Python<'py>) -> PyResult<OptionalText<'py>> {
                    self.text(py, |optional| &optional.$name, |fields| fields.$name)
                }

                #[setter]
                fn $set(&self, py: Python<'_>, value: OptionalText<'_>) -> PyResult<()> {
                    let check: fn(&str, OptionalText<'_>) -> PyResult<Option<Py<PyString>>> = $check;
                    let value = check(stringify!($name), value)?;
                    let outgoing = self.outgoing()?;
                    // The values are checked on a copy, without a lock. The send checks the final values again.
                    let mut next = outgoing.optional().map(|optional| optional.clone_ref(py)).unwrap_or_default();
                    next.$name = value.as_ref().map(|value| value.clone_ref(py));
                    check_keys(py, next.session_id.as_ref(), next.partition_key.as_ref())?;
                    outgoing.set(value, |optional| &mut optional.$name);
                    Ok(())
                }
            )*
        }
    };
}

text_property! {
    session_id, set_session_id, checked;
    partition_key, set_partition_key, checked;
    reply_to_session_id, set_reply_to_session_id, checked;
    subject, set_subject, |_, text| Ok(text.map(Bound::unbind));
    correlation_id, set_correlation_id, |_, text| Ok(text.map(Bound::unbind));
    content_type, set_content_type, |_, text| Ok(text.map(Bound::unbind));
    to, set_to, |_, text| Ok(text.map(Bound::unbind));
    reply_to, set_reply_to, |_, text| Ok(text.map(Bound::unbind));
}

#[pymethods]
impl ServiceBusMessage {
    #[new]
    #[pyo3(signature = (
        body, *, application_properties=None, session_id=None, message_id=None, scheduled_enqueue_time_utc=None, time_to_live=None,
        content_type=None, correlation_id=None, subject=None, partition_key=None, to=None, reply_to=None, reply_to_session_id=None,
        **unknown,
    ), text_signature = "(body, *, application_properties=None, session_id=None, message_id=None, \
        scheduled_enqueue_time_utc=None, time_to_live=None, content_type=None, correlation_id=None, subject=None, \
        partition_key=None, to=None, reply_to=None, reply_to_session_id=None)")]
    #[expect(clippy::too_many_arguments, reason = "the SDK's signature")]
    fn new(
        py: Python<'_>,
        body: Bound<'_, PyAny>,
        application_properties: Option<Bound<'_, PyAny>>,
        session_id: OptionalText<'_>,
        message_id: OptionalText<'_>,
        scheduled_enqueue_time_utc: Option<Bound<'_, PyAny>>,
        time_to_live: Option<Bound<'_, PyAny>>,
        content_type: OptionalText<'_>,
        correlation_id: OptionalText<'_>,
        subject: OptionalText<'_>,
        partition_key: OptionalText<'_>,
        to: OptionalText<'_>,
        reply_to: OptionalText<'_>,
        reply_to_session_id: OptionalText<'_>,
        unknown: Option<UnknownOptions<'_, '_>>,
    ) -> PyResult<Self> {
        unknown_options::refuse::<Self>(py, "", unknown)?;
        let body = match body.cast_into::<PyBytes>() {
            Ok(bytes) => OutgoingBody::Bytes(bytes.unbind()),
            Err(error) => match error.into_inner().cast_into::<PyString>() {
                Ok(text) => OutgoingBody::Text(text.unbind()),
                Err(error) => {
                    let other = error.into_inner();
                    if !other.is_none() {
                        let detail = format!(
                            "the body of a message must be str, bytes or None: {}",
                            other.get_type().name()?
                        );
                        return Err(PyTypeError::new_err(detail));
                    }
                    OutgoingBody::Null
                }
            },
        };
        let texts = [
            &session_id,
            &message_id,
            &content_type,
            &correlation_id,
            &subject,
            &partition_key,
            &to,
            &reply_to,
            &reply_to_session_id,
        ];
        let plain = texts.iter().all(|text| text.is_none())
            && application_properties.is_none()
            && scheduled_enqueue_time_utc.is_none()
            && time_to_live.is_none();
        if plain {
            return Ok(Self {
                content: MessageContent::Outgoing(OutgoingMessage::new(body, OnceLock::new())),
            });
        }
        let optional = OptionalProperties {
            session_id: checked("session_id", session_id)?,
            message_id: checked("message_id", message_id)?,
            partition_key: checked("partition_key", partition_key)?,
            subject: subject.map(Bound::unbind),
            correlation_id: correlation_id.map(Bound::unbind),
            content_type: content_type.map(Bound::unbind),
            to: to.map(Bound::unbind),
            reply_to: reply_to.map(Bound::unbind),
            reply_to_session_id: checked("reply_to_session_id", reply_to_session_id)?,
            application_properties: application_properties.map(mapping).transpose()?,
            scheduled_enqueue_time: scheduled_enqueue_time_utc
                .as_ref()
                .map(convert::timestamp)
                .transpose()?,
            time_to_live_ms: time_to_live.as_ref().map(time_to_live_ms).transpose()?,
            assigned_id: None,
        };
        check_keys(py, optional.session_id.as_ref(), optional.partition_key.as_ref())?;
        let optional = OnceLock::from(Box::new(Mutex::new(optional)));
        Ok(Self {
            content: MessageContent::Outgoing(OutgoingMessage::new(body, optional)),
        })
    }

    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.bytes(py)? {
            Some(bytes) => body_iterator::new(bytes).map(Some),
            None => Ok(None),
        }
    }

    #[getter]
    fn body_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let kind = match &self.content {
            MessageContent::Outgoing(outgoing) if matches!(outgoing.body, OutgoingBody::Null) => BodyKind::Value,
            MessageContent::Outgoing(_) => BodyKind::Data,
            MessageContent::Stored { record, .. } => Fields::decode(record).or_raise()?.body.kind(),
        };
        imports::body_type(py)?.getattr(match kind {
            BodyKind::Data => "DATA",
            BodyKind::Sequence => "SEQUENCE",
            BodyKind::Value => "VALUE",
        })
    }

    #[getter]
    fn application_properties<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match &self.content {
            MessageContent::Outgoing(outgoing) => Ok(outgoing.optional().and_then(|optional| {
                let mapping = optional.application_properties.as_ref();
                mapping.map(|mapping| mapping.bind(py).clone())
            })),
            MessageContent::Stored { record, .. } => {
                let fields = Fields::decode(record).or_raise()?;
                fields
                    .application_properties
                    .map(|it| Ok(properties::decode(py, it)?.into_any()))
                    .transpose()
            }
        }
    }

    #[setter]
    fn set_application_properties(&self, value: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        let value = value.map(mapping).transpose()?;
        self.outgoing()?
            .set(value, |optional| &mut optional.application_properties);
        Ok(())
    }

    #[getter]
    fn message_id<'py>(&self, py: Python<'py>) -> PyResult<OptionalText<'py>> {
        if let MessageContent::Outgoing(outgoing) = &self.content {
            let (given, other) = outgoing.optional().map_or((None, None), |optional| {
                let given = optional.message_id.as_ref();
                (given.map(|given| given.bind(py).clone()), optional.assigned_id)
            });
            if given.is_some() {
                return Ok(given);
            }
            let id = other.unwrap_or(outgoing.assigned_id);
            let sent = outgoing.sent.load(Ordering::Relaxed);
            return Ok(sent.then(|| PyString::new(py, &MessageId::Assigned(id).to_string())));
        }
        let id = self.fields_of_stored(|fields| fields.message_id.map(|id| PyString::new(py, &id.to_string())))?;
        Ok(id.flatten())
    }

    #[setter]
    fn set_message_id(&self, value: OptionalText<'_>) -> PyResult<()> {
        let value = checked("message_id", value)?;
        let outgoing = self.outgoing()?;
        outgoing.sent.store(false, Ordering::Relaxed);
        outgoing.set(Some(ids::next()), |optional| &mut optional.assigned_id);
        outgoing.set(value, |optional| &mut optional.message_id);
        Ok(())
    }

    #[getter]
    fn scheduled_enqueue_time_utc<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let time = match &self.content {
            MessageContent::Outgoing(outgoing) => {
                outgoing.optional().and_then(|optional| optional.scheduled_enqueue_time)
            }
            MessageContent::Stored { .. } => self.fields_of_stored(|fields| fields.scheduled_enqueue_time)?.flatten(),
        };
        time.map(|time| convert::datetime(py, time)).transpose()
    }

    #[setter]
    fn set_scheduled_enqueue_time_utc(&self, value: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        let value = value.as_ref().map(convert::timestamp).transpose()?;
        self.outgoing()?
            .set(value, |optional| &mut optional.scheduled_enqueue_time);
        Ok(())
    }

    #[getter]
    fn time_to_live<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let ms = match &self.content {
            MessageContent::Outgoing(outgoing) => outgoing.optional().and_then(|optional| optional.time_to_live_ms),
            MessageContent::Stored { .. } => self.fields_of_stored(|fields| fields.time_to_live_ms)?.flatten(),
        };
        ms.map(|ms| convert::timedelta(py, ms)).transpose()
    }

    #[setter]
    fn set_time_to_live(&self, value: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        let value = value.as_ref().map(time_to_live_ms).transpose()?;
        self.outgoing()?.set(value, |optional| &mut optional.time_to_live_ms);
        Ok(())
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(self.bytes(py)?.unwrap_or_else(|| PyBytes::new(py, b"")))
    }

    fn __str__(&self, py: Python<'_>) -> PyResult<String> {
        self.with_fields(py, |fields| match fields.body {
            Body::Null => Ok("None".to_owned()),
            body => Ok(String::from_utf8_lossy(&body.data()).into_owned()),
        })
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let name = slf.get_type().name()?;
        // A long body is cut, so that the other properties are still shown.
        let body = slf.str()?.to_string();
        let start: String = body.chars().take(REPR_BODY_CHARS).collect();
        let cut = if start.len() < body.len() { "…" } else { "" };
        let mut shown = format!("{name}(body={}{cut}", PyString::new(slf.py(), &start).repr()?);
        let mut names = vec![
            "message_id",
            "session_id",
            "partition_key",
            "subject",
            "correlation_id",
            "content_type",
        ];
        names.extend([
            "to",
            "reply_to",
            "reply_to_session_id",
            "time_to_live",
            "scheduled_enqueue_time_utc",
            "application_properties",
        ]);
        if slf.hasattr("sequence_number")? {
            names.extend([
                "sequence_number",
                "delivery_count",
                "enqueued_time_utc",
                "locked_until_utc",
            ]);
        }
        for name in names {
            let value = slf.getattr(name)?;
            if !value.is_none() {
                write!(shown, ", {name}={}", value.repr()?).expect("writing to a string does not fail");
            }
        }
        // As in the SDK, `repr` has at most 1,024 characters.
        let mut shown: String = shown.chars().take(1_023).collect();
        shown.push(')');
        Ok(shown)
    }
}
