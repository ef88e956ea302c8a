// SPDX-License-Identifier: Apache-2.0
//! `ServiceBusReceivedMessage`: a received, deferred or peeked message.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use oxbus_amqp::record::MessageStateAnnotation;
use oxbus_broker::client::{BrowseItem, Delivery, SettleKey};
use oxbus_broker::entity::Entity;
use oxbus_broker::{Receiver, record};
use oxbus_client::SettleHandle;
use oxbus_model::message::{Fields, Value};
use oxbus_model::options::ReceiveMode;
use oxbus_model::sync::ignore_poison;
use oxbus_model::{Error, ErrorKind, SequenceNumber, Timestamp};
use oxbus_store::prefetch::RecordHint;
use oxbus_store::{LockKey, MessagePhase};
use pyo3::prelude::*;
use pyo3::pyclass_init::PyClassInitializer;
use pyo3::types::PyString;

use crate::error::{OrRaise, raise};
use crate::message::ServiceBusMessage;
use crate::remote::{RemoteHandle, RemoteMessage, RemoteReceiver};
use crate::shared_receiver::SharedReceiver;
use crate::transport::ReceiverTransport;
use crate::{convert, imports, properties};

/// How the message was obtained, which decides whether it can be settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageAccess {
    Locked,
    /// Received in `RECEIVE_AND_DELETE` mode.
    Deleted,
    Peeked,
}

/// A received message.
#[pyclass(extends = ServiceBusMessage, frozen, module = "oxbus")]
pub(crate) struct ServiceBusReceivedMessage {
    receiver: Py<SharedReceiver>,
    settle_key: SettleKey,
    /// What settles a message from a server.
    remote: Option<Box<RemoteHandle>>,
    access: MessageAccess,
    state: u8,
    delivery_count: u32,
    enqueued_at: Timestamp,
    expires_at: Timestamp,
    /// The end of the lock in milliseconds since 1970, and 0 if the message has no lock. A renewal changes it.
    locked_until: AtomicU64,
    settled: AtomicBool,
    /// True while a transaction that settles the message is being committed.
    committing: AtomicBool,
    /// A panic leaves it consistent: it is set in one step.
    auto_renew_error: Mutex<Option<Py<PyAny>>>,
}

const ACTIVE: u8 = 0;
const DEFERRED: u8 = 1;
const SCHEDULED: u8 = 2;

impl ServiceBusReceivedMessage {
    /// Creates the Python object of a delivered message. Reading its body prefetches `next`.
    pub(crate) fn of_delivery<'py>(
        py: Python<'py>,
        receiver: &Py<SharedReceiver>,
        delivery: Delivery,
        next: Option<RecordHint>,
    ) -> PyResult<Bound<'py, Self>> {
        let Delivery {
            index,
            claimed,
            locked_until,
        } = delivery;
        let mode = match receiver.get().receiver()? {
            ReceiverTransport::Local(receiver) => receiver.mode(),
            ReceiverTransport::Remote(remote) => remote.mode(),
        };
        let message = Self {
            settle_key: SettleKey {
                index,
                key: claimed.key,
            },
            remote: None,
            access: if mode == ReceiveMode::PeekLock {
                MessageAccess::Locked
            } else {
                MessageAccess::Deleted
            },
            state: if claimed.deferred { DEFERRED } else { ACTIVE },
            delivery_count: claimed.delivery_count,
            enqueued_at: claimed.enqueued_at,
            expires_at: claimed.expires_at,
            locked_until: AtomicU64::new(locked_until.map_or(0, |time| time.0)),
            settled: AtomicBool::new(false),
            committing: AtomicBool::new(false),
            auto_renew_error: Mutex::new(None),
            receiver: receiver.clone_ref(py),
        };
        Bound::new(
            py,
            PyClassInitializer::from(ServiceBusMessage::stored(claimed.record, next)).add_subclass(message),
        )
    }

    /// Creates the Python object of a peeked message.
    pub(crate) fn of_browsed<'py>(
        py: Python<'py>,
        receiver: &Py<SharedReceiver>,
        browsed: BrowseItem,
    ) -> PyResult<Bound<'py, Self>> {
        let BrowseItem { index, message } = browsed;
        let shown = Self {
            settle_key: SettleKey {
                index,
                key: LockKey {
                    counter: message.counter,
                    generation: 0,
                },
            },
            remote: None,
            access: MessageAccess::Peeked,
            state: match message.phase {
                MessagePhase::Deferred | MessagePhase::DeferredLocked => DEFERRED,
                MessagePhase::Scheduled => SCHEDULED,
                MessagePhase::Ready | MessagePhase::Cached | MessagePhase::Locked => ACTIVE,
            },
            delivery_count: message.delivery_count,
            enqueued_at: message.enqueued_at,
            expires_at: message.expires_at,
            locked_until: AtomicU64::new(0),
            settled: AtomicBool::new(false),
            committing: AtomicBool::new(false),
            auto_renew_error: Mutex::new(None),
            receiver: receiver.clone_ref(py),
        };
        Bound::new(
            py,
            PyClassInitializer::from(ServiceBusMessage::stored(message.record, None)).add_subclass(shown),
        )
    }

    /// Creates the Python object of a message that a server delivered.
    pub(crate) fn of_remote<'py>(
        py: Python<'py>,
        receiver: &Py<SharedReceiver>,
        message: RemoteMessage,
    ) -> PyResult<Bound<'py, Self>> {
        let access = match message.handle.lock_token() {
            Some(_) => MessageAccess::Locked,
            None => MessageAccess::Deleted,
        };
        Self::of_server(py, receiver, message, access)
    }

    /// Creates the Python object of a message that a server showed.
    pub(crate) fn of_peeked<'py>(
        py: Python<'py>,
        receiver: &Py<SharedReceiver>,
        message: RemoteMessage,
    ) -> PyResult<Bound<'py, Self>> {
        Self::of_server(py, receiver, message, MessageAccess::Peeked)
    }

    fn of_server<'py>(
        py: Python<'py>,
        receiver: &Py<SharedReceiver>,
        message: RemoteMessage,
        access: MessageAccess,
    ) -> PyResult<Bound<'py, Self>> {
        let metadata = message.metadata;
        let received = Self {
            settle_key: SettleKey {
                index: usize::from(metadata.number.partition().0),
                key: LockKey {
                    counter: metadata.number.counter(),
                    generation: 0,
                },
            },
            remote: Some(Box::new(message.remote_handle())),
            access,
            state: match metadata.state {
                MessageStateAnnotation::Active => ACTIVE,
                MessageStateAnnotation::Deferred => DEFERRED,
                MessageStateAnnotation::Scheduled => SCHEDULED,
            },
            delivery_count: metadata.delivery_count,
            enqueued_at: metadata.enqueued_at,
            expires_at: metadata.expires_at,
            locked_until: AtomicU64::new(metadata.locked_until.map_or(0, |time| time.0)),
            settled: AtomicBool::new(false),
            committing: AtomicBool::new(false),
            auto_renew_error: Mutex::new(None),
            receiver: receiver.clone_ref(py),
        };
        let stored = ServiceBusMessage::stored(message.record.into(), None);
        Bound::new(py, PyClassInitializer::from(stored).add_subclass(received))
    }

    /// The key with which `receiver` settles this message. Fails if it cannot settle it.
    pub(crate) fn settle_key(&self, receiver: &Receiver) -> PyResult<SettleKey> {
        self.check_locked()?;
        let ReceiverTransport::Local(shared) = self.receiver.get().receiver()? else {
            return Err(of_another_entity("that of a server", receiver.entity().name().as_str()));
        };
        let is_of_other = shared.sub_queue() != receiver.sub_queue() || receiver.is_of_transfer();
        if !Arc::ptr_eq(shared.entity(), receiver.entity()) || is_of_other {
            return Err(of_another_entity(
                shared.entity().name().as_str(),
                receiver.entity().name().as_str(),
            ));
        }
        Ok(self.settle_key)
    }

    /// The handle with which `receiver` settles this message. Fails if it cannot settle it.
    pub(crate) fn settle_handle(&self, receiver: &RemoteReceiver) -> PyResult<SettleHandle> {
        self.check_locked()?;
        match (&self.remote, self.receiver.get().receiver()?) {
            (Some(remote), ReceiverTransport::Remote(shared)) if shared.is_of_same_entity(receiver) => {
                Ok(remote.settle)
            }
            (_, ReceiverTransport::Remote(shared)) => Err(of_another_entity(shared.path(), receiver.path())),
            (_, ReceiverTransport::Local(shared)) => {
                Err(of_another_entity(shared.entity().name().as_str(), receiver.path()))
            }
        }
    }

    /// Fails if the message cannot be settled, or was settled before.
    fn check_locked(&self) -> PyResult<()> {
        match self.access {
            MessageAccess::Locked => {}
            MessageAccess::Deleted => {
                let detail = "a message received in RECEIVE_AND_DELETE mode is already deleted and cannot be settled; use PEEK_LOCK";
                return Err(raise(&Error::new(ErrorKind::InvalidArgument, detail)));
            }
            MessageAccess::Peeked => {
                let detail = "a peeked message has no lock and cannot be settled; receive it first";
                return Err(raise(&Error::new(ErrorKind::InvalidArgument, detail)));
            }
        }
        if self.settled.load(Ordering::Acquire) {
            let detail = format!(
                "this message was settled before; receive the next one: sequence_number={}",
                self.number()
            );
            return Err(raise(&Error::new(ErrorKind::MessageAlreadySettled, detail)));
        }
        Ok(())
    }

    /// The settlement handle of a message from a server, while it is locked and not settled.
    pub(crate) fn settle_handle_if_locked(&self) -> Option<SettleHandle> {
        let remote = self.remote.as_ref()?;
        self.is_locked().then_some(remote.settle)
    }

    /// The settlement key, while the message is locked and not settled.
    pub(crate) fn settle_key_if_locked(&self) -> Option<SettleKey> {
        self.is_locked().then_some(self.settle_key)
    }

    /// True until the message is settled, even after the lock expired.
    fn is_locked(&self) -> bool {
        self.access == MessageAccess::Locked && !self.settled.load(Ordering::Acquire)
    }

    /// Records whether a transaction that settles the message is being committed.
    pub(crate) fn set_committing(&self, on: bool) {
        self.committing.store(on, Ordering::Release);
    }

    /// Marks the message as settled.
    pub(crate) fn set_settled(&self) {
        self.settled.store(true, Ordering::Release);
    }

    /// Records the new end of the lock.
    pub(crate) fn set_locked_until(&self, time: Timestamp) {
        self.locked_until.store(time.0, Ordering::Release);
    }

    pub(crate) fn number(&self) -> SequenceNumber {
        Entity::sequence_number(self.settle_key.index, self.settle_key.key.counter)
    }

    fn text<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Option<Bound<'py, PyString>>> {
        let base = slf.as_super().get();
        let Some(record) = base.record() else { return Ok(None) };
        let fields = Fields::decode(record).or_raise()?;
        Ok(
            match fields
                .application_properties
                .and_then(|properties| properties.get(name))
            {
                Some(Value::Text(text)) => Some(PyString::new(slf.py(), text)),
                _ => None,
            },
        )
    }
}

fn of_another_entity(its: &str, this: &str) -> PyErr {
    let detail = format!(
        "the message belongs to another entity; settle it with a receiver of its own queue: its queue=`{its}` this queue=`{this}`"
    );
    raise(&Error::new(ErrorKind::MessageLockLost, detail))
}

#[pymethods]
impl ServiceBusReceivedMessage {
    #[getter]
    fn sequence_number(&self) -> u64 {
        self.number().0
    }

    #[getter]
    fn partition_id(&self) -> PyResult<Option<u16>> {
        Ok(match (&self.remote, self.receiver.get().receiver()?) {
            (None, ReceiverTransport::Local(receiver)) => receiver
                .entity()
                .visible_partition(self.settle_key.index)
                .map(|partition| partition.0),
            (remote, _) => remote.as_ref().and_then(|remote| remote.partition),
        })
    }

    /// `None` for a message sent directly to its queue: no earlier entity numbered it (B-115).
    #[getter]
    fn enqueued_sequence_number(slf: &Bound<'_, Self>) -> PyResult<Option<u64>> {
        let Some(record) = slf.as_super().get().record() else {
            return Ok(None);
        };
        let number = Fields::decode(record).or_raise()?.enqueued_number;
        Ok(number.map(|number| number.0))
    }

    #[getter]
    fn enqueued_time_utc<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::datetime(py, self.enqueued_at)
    }

    #[getter]
    fn expires_at_utc<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        (self.expires_at != Timestamp::NEVER)
            .then(|| convert::datetime(py, self.expires_at))
            .transpose()
    }

    #[getter]
    fn delivery_count(&self) -> u32 {
        self.delivery_count
    }

    #[getter]
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        imports::message_state(py)?.call1((self.state,))
    }

    #[getter]
    fn lock_token<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if !self.is_locked() {
            return Ok(None);
        }
        // The 16 bytes are a .NET GUID, as on the wire (B-150).
        let token = match (&self.remote, self.receiver.get().receiver()?) {
            (None, ReceiverTransport::Local(receiver)) => Some(receiver.token(self.settle_key)),
            (remote, _) => remote.as_ref().and_then(|remote| remote.settle.lock_token()),
        };
        token
            .map(|token| properties::uuid(py, "bytes_le", &token.0))
            .transpose()
    }

    #[getter]
    fn locked_until_utc<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let until = self.locked_until.load(Ordering::Acquire);
        (until > 0 && self.is_locked())
            .then(|| convert::datetime(py, Timestamp(until)))
            .transpose()
    }

    #[getter]
    fn dead_letter_reason<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyString>>> {
        Self::text(slf, record::DEAD_LETTER_REASON)
    }

    #[getter]
    fn dead_letter_error_description<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyString>>> {
        Self::text(slf, record::DEAD_LETTER_DESCRIPTION)
    }

    /// Set only on messages forwarded out of a dead-letter queue (B-264).
    #[getter]
    fn dead_letter_source(slf: &Bound<'_, Self>) -> PyResult<Option<String>> {
        let Some(record) = slf.as_super().get().record() else {
            return Ok(None);
        };
        let source = Fields::decode(record).or_raise()?.dead_letter_source;
        Ok(source.map(ToOwned::to_owned))
    }

    /// True if the lock has expired. False for a message without a lock, as in the SDK.
    #[getter]
    fn _lock_expired(&self) -> PyResult<bool> {
        let (session_id, now) = match self.receiver.get().receiver()? {
            ReceiverTransport::Local(receiver) => (receiver.session_id(), receiver.entity().now()),
            ReceiverTransport::Remote(remote) => (remote.session_id(), remote.now()),
        };
        if session_id.is_some() {
            return Err(pyo3::exceptions::PyTypeError::new_err(
                "Session messages do not expire. Please use the Session expiry instead.",
            ));
        }
        Ok(self.is_locked() && self.locked_until.load(Ordering::Acquire) <= now.0)
    }

    #[getter]
    fn _settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }

    /// True while a commit settles it. Afterwards it is settled, or locked as before.
    #[getter]
    fn _committing(&self) -> bool {
        self.committing.load(Ordering::Acquire)
    }

    #[getter]
    fn auto_renew_error(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        ignore_poison(self.auto_renew_error.lock())
            .as_ref()
            .map(|error| error.clone_ref(py))
    }

    #[setter]
    fn set_auto_renew_error(&self, value: Option<Py<PyAny>>) {
        *ignore_poison(self.auto_renew_error.lock()) = value;
    }
}
