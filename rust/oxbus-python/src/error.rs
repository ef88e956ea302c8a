// SPDX-License-Identifier: Apache-2.0
//! Maps error kinds to Python exceptions in one table. The source of an error becomes the cause of the exception.

use std::error::Error as StdError;
use std::io;

use oxbus_model::{Effect, Error, ErrorKind, SequenceNumber};
use pyo3::exceptions::{PyException, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

use crate::imports;

/// The class in `oxbus.exceptions`, and `None` for the built-in `ValueError` and `OSError`.
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

/// The AMQP condition, where it differs from the default of the class.
fn condition(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::NotSupported => Some("amqp:not-implemented"),
        ErrorKind::TransactionOver => Some("amqp:transaction:unknown-id"),
        ErrorKind::TransactionTimeout => Some("amqp:transaction:timeout"),
        _ => None,
    }
}

/// The exception for an error, with its cause.
pub(crate) fn raise(error: &Error) -> PyErr {
    with_cause(exception_of(error), error.source())
}

fn exception_of(error: &Error) -> PyErr {
    let Some(class) = class_name(error.kind()) else {
        let detail = error.detail().to_owned();
        let built_in = match error.kind() {
            ErrorKind::Storage => PyOSError::new_err(detail),
            _ => PyValueError::new_err(detail),
        };
        return with_effect(built_in, error);
    };
    exception_with(class, error.detail(), error.effect(), error.numbers(), |keywords| {
        if let Some(condition) = condition(error.kind()) {
            keywords.set_item("condition", condition)?;
        }
        Ok(())
    })
}

/// Sets the cause of an exception, if there is one.
pub(crate) fn with_cause(exception: PyErr, source: Option<&(dyn StdError + 'static)>) -> PyErr {
    if let Some(source) = source {
        let cause = with_cause(exception_of_source(source), source.source());
        Python::attach(|py| exception.set_cause(py, Some(cause)));
    }
    exception
}

/// The exception for a source error: an `OSError` for an I/O error, with the errno if there is one.
fn exception_of_source(error: &(dyn StdError + 'static)) -> PyErr {
    let text = error.to_string();
    let Some(system) = error.downcast_ref::<io::Error>() else {
        return PyException::new_err(text);
    };
    match system.raw_os_error() {
        // Python shows the errno itself.
        Some(errno) => {
            let end = format!(" (os error {errno})");
            let text = text.trim_end_matches(&end).to_owned();
            if oxbus_system::ERRORS_OF_WINDOWS {
                // Python finds the errno itself.
                PyOSError::new_err((0, text, None::<String>, errno))
            } else {
                PyOSError::new_err((errno, text))
            }
        }
        None => PyOSError::new_err(text),
    }
}

/// Sets the effect of a partly executed call as attributes of a built-in exception.
fn with_effect(exception: PyErr, error: &Error) -> PyErr {
    let Some(effect) = error.effect() else {
        return exception;
    };
    let set = Python::attach(|py| {
        let numbers: Vec<u64> = error.numbers().iter().map(|number| number.0).collect();
        exception.value(py).setattr("effect", effect.name())?;
        exception.value(py).setattr("sequence_numbers", numbers)
    });
    set.map_or_else(|error| error, |()| exception)
}

/// Creates an exception of `oxbus.exceptions` for a call that failed before its work began.
pub(crate) fn exception(
    class: &'static str,
    text: &str,
    extend: impl FnOnce(&Bound<'_, PyDict>) -> PyResult<()>,
) -> PyErr {
    exception_with(class, text, None, &[], extend)
}

/// Creates an exception of `oxbus.exceptions` with the effect of the call and the messages for which it did not
/// complete.
pub(crate) fn exception_with(
    class: &'static str,
    text: &str,
    effect: Option<Effect>,
    numbers: &[SequenceNumber],
    extend: impl FnOnce(&Bound<'_, PyDict>) -> PyResult<()>,
) -> PyErr {
    Python::attach(|py| {
        let build = || {
            let class = imports::exceptions(py)?.getattr(class)?;
            let keywords = Vec::<(&str, Py<PyAny>)>::new().into_py_dict(py)?;
            if let Some(effect) = effect {
                keywords.set_item("effect", effect.name())?;
            }
            if !numbers.is_empty() {
                let numbers: Vec<u64> = numbers.iter().map(|number| number.0).collect();
                keywords.set_item("sequence_numbers", numbers)?;
            }
            extend(&keywords)?;
            Ok(PyErr::from_value(class.call((text,), Some(&keywords))?))
        };
        build().unwrap_or_else(|error: PyErr| error)
    })
}

/// Converts results of this workspace to `PyResult`.
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
