// SPDX-License-Identifier: Apache-2.0
//! Python objects, looked up once.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

macro_rules! once {
    ($(#[$doc:meta])* $name:ident, $module:literal, $attribute:literal) => {
        $(#[$doc])*
        pub(crate) fn $name(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
            static CELL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
            let found = CELL.get_or_try_init(py, || PyResult::Ok(py.import($module)?.getattr($attribute)?.unbind()))?;
            Ok(found.bind(py))
        }
    };
}

once!(
    /// `datetime.datetime`.
    datetime, "datetime", "datetime"
);
once!(
    /// `datetime.timedelta`.
    timedelta, "datetime", "timedelta"
);
once!(
    /// `datetime.timezone`.
    timezone, "datetime", "timezone"
);
once!(
    /// `uuid.UUID`.
    uuid, "uuid", "UUID"
);
once!(
    /// `oxbus._enums.ServiceBusMessageState`.
    message_state, "oxbus._enums", "ServiceBusMessageState"
);
once!(
    /// `oxbus._enums.AmqpMessageBodyType`.
    body_type, "oxbus._enums", "AmqpMessageBodyType"
);
once!(
    /// `oxbus._options.unknown_option_of`.
    unknown_option_of, "oxbus._options", "unknown_option_of"
);
once!(
    /// `oxbus._transaction.current`.
    current_transaction, "oxbus._transaction", "current"
);
once!(
    /// `oxbus._transaction.TransactionScopes`.
    transaction_class, "oxbus._transaction", "TransactionScopes"
);
once!(
    /// `oxbus._configuration.read_configuration`.
    read_configuration, "oxbus._configuration", "read_configuration"
);
once!(
    /// `threading.get_ident`.
    thread_ident, "threading", "get_ident"
);
once!(
    /// `threading._active`: the threads known to Python, by ident.
    active_threads, "threading", "_active"
);

/// The main thread.
pub(crate) fn main_thread(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    // Not cached: after a fork another thread is the main thread.
    py.import("threading")?.getattr("_main_thread")
}

/// `oxbus.exceptions`.
pub(crate) fn exceptions(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import("oxbus.exceptions")
}
