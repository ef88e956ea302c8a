// SPDX-License-Identifier: Apache-2.0
//! From error kind to Python exception: one table.

use oxbus_model::{Error, ErrorKind};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

use crate::imports;

/// The class in `oxbus.exceptions`; `None` for the built-in `ValueError` and `OSError`.
pub(crate) fn class_name(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::MessageLockLost => "MessageLockLostError",
        ErrorKind::SessionLockLost => "SessionLockLostError",
        ErrorKind::SessionCannotBeLocked => "SessionCannotBeLockedError",
        ErrorKind::MessageNotFound => "MessageNotFoundError",
        ErrorKind::MessageAlreadySettled => "MessageAlreadySettled",
        ErrorKind::EntityNotFound => "MessagingEntityNotFoundError",
        ErrorKind::EntityAlreadyExists => "MessagingEntityAlreadyExistsError",
        ErrorKind::EntityDisabled => "MessagingEntityDisabledError",
        ErrorKind::MessageSizeExceeded => "MessageSizeExceededError",
        ErrorKind::QuotaExceeded => "ServiceBusQuotaExceededError",
        ErrorKind::ServerBusy => "ServiceBusServerBusyError",
        ErrorKind::PartitionUnavailable => "PartitionUnavailableError",
        ErrorKind::Timeout | ErrorKind::TransactionTimeout => "OperationTimeoutError",
        ErrorKind::TransactionOver | ErrorKind::InvalidOperation | ErrorKind::NotSupported => "InvalidOperationError",
        ErrorKind::InvalidRule => "InvalidRuleError",
        ErrorKind::KeyMismatch => "PartitionKeyMismatchError",
        ErrorKind::NamespaceInUse => "NamespaceInUseError",
        ErrorKind::Corrupt => "StoreCorruptError",
        ErrorKind::ReservationFenced => "ReservationFencedError",
        ErrorKind::CheckpointBehind => "CheckpointBehindError",
        ErrorKind::Forked => "ForkedProcessError",
        ErrorKind::InvalidArgument | ErrorKind::Closed | ErrorKind::Storage => return None,
        _ => "ServiceBusError",
    })
}

/// The AMQP condition where it is not the class's own.
fn condition(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::NotSupported => Some("amqp:not-implemented"),
        ErrorKind::TransactionOver => Some("amqp:transaction:unknown-id"),
        ErrorKind::TransactionTimeout => Some("amqp:transaction:timeout"),
        _ => None,
    }
}

/// The exception of an error.
pub(crate) fn raise(error: &Error) -> PyErr {
    raise_with(error, |_| Ok(()))
}

/// The exception of an error, with further keyword arguments.
pub(crate) fn raise_with(error: &Error, extend: impl FnOnce(&Bound<'_, PyDict>) -> PyResult<()>) -> PyErr {
    let Some(class) = class_name(error.kind()) else {
        let detail = error.detail().to_owned();
        return match error.kind() {
            ErrorKind::Storage => PyOSError::new_err(detail),
            _ => PyValueError::new_err(detail),
        };
    };
    named(class, error.detail(), |keywords| {
        if let Some(condition) = condition(error.kind()) {
            keywords.set_item("condition", condition)?;
        }
        extend(keywords)
    })
}

/// An exception of `oxbus.exceptions` by name.
pub(crate) fn named(class: &'static str, text: &str, extend: impl FnOnce(&Bound<'_, PyDict>) -> PyResult<()>) -> PyErr {
    Python::attach(|py| {
        let build = || {
            let class = imports::exceptions(py)?.getattr(class)?;
            let keywords = Vec::<(&str, Py<PyAny>)>::new().into_py_dict(py)?;
            extend(&keywords)?;
            Ok(PyErr::from_value(class.call((text,), Some(&keywords))?))
        };
        build().unwrap_or_else(|error: PyErr| error)
    })
}

/// Maps this workspace's results to Python's.
pub(crate) trait OrRaise<T> {
    /// The value, or the exception.
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for oxbus_model::Result<T> {
    #[inline]
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| raise(&error))
    }
}
