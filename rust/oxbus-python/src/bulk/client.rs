// SPDX-License-Identifier: Apache-2.0
//! `BulkClient`.

use std::time::Duration;

use oxbus_arrow::LockTokens;
use oxbus_model::hex::to_hex;
use oxbus_wire::client::Request;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde_json::{Value, json};

use super::connection::BulkConnection;
use super::json::{JsonFields, as_python};
use super::rows::{Download, Upload};
use crate::arrow::{self, ArrowTable, Batches, ColumnNames};
use crate::convert;
use crate::error::{OrRaise, exception, with_cause};

/// Maximum bytes of a JSON answer. No expected answer reaches it.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// A client of a server's bulk routes.
#[pyclass(frozen, module = "oxbus.bulk")]
pub(crate) struct BulkClient {
    pub(super) connection: BulkConnection,
}

impl BulkClient {
    /// Makes a call whose answer is JSON.
    pub(super) fn call(&self, py: Python<'_>, request: &Request, extra: Duration) -> PyResult<Value> {
        let answer = self.connection.run(py, extra, |client, wait| {
            let mut answer = client.call(request, wait)?;
            answer.read_up_to(ANSWER_BYTES_MAX, wait)
        })?;
        parsed(&answer)
    }

    /// Makes a call whose answer is rows. Returns the rows and the start of the next page.
    pub(super) fn call_for_rows(
        &self,
        py: Python<'_>,
        request: &Request,
        extra: Duration,
    ) -> PyResult<(ArrowTable, Option<u64>)> {
        let (rows, next) = self.connection.run(py, extra, |client, wait| {
            let answer = client.call(request, wait)?;
            let next = answer.next().and_then(|next| next.parse().ok());
            Ok((Download::read(answer, wait)?, next))
        })?;
        Ok((rows.table(), next))
    }

    /// Uploads rows in a call whose answer is JSON.
    pub(super) fn upload(&self, data: &Bound<'_, PyAny>, request: &Request) -> PyResult<Value> {
        let mut upload = Upload::new(Batches::of(data)?).or_raise()?;
        let answer = self.connection.run(data.py(), Duration::ZERO, |client, wait| {
            let mut answer = client.stream(request, wait, || upload.next())?;
            answer.read_up_to(ANSWER_BYTES_MAX, wait)
        })?;
        parsed(&answer)
    }
}

fn parsed(answer: &[u8]) -> PyResult<Value> {
    serde_json::from_slice(answer).map_err(|error| {
        let detail = format!("the server's answer cannot be read; is a proxy in between? {error}");
        let exception = exception("ServiceBusConnectionError", &detail, |_| Ok(()));
        with_cause(exception, Some(&error))
    })
}

/// Converts seconds to whole milliseconds.
pub(super) fn ms(name: &str, seconds: f64) -> PyResult<u64> {
    let wait = convert::duration(name, seconds)?;
    Ok(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
}

/// Reads lock tokens from a table, a column, or a sequence of bytes objects.
fn tokens(value: &Bound<'_, PyAny>) -> PyResult<LockTokens> {
    if let Some(imported) = arrow::import(value)? {
        if matches!(imported.data_type, arrow_schema::DataType::Struct(_)) {
            return oxbus_arrow::lock_tokens(&imported.data_type, &imported.chunks).or_raise();
        }
        let mut found = LockTokens::default();
        for chunk in &imported.chunks {
            found.push_column(chunk).or_raise()?;
        }
        return Ok(found);
    }
    let wrong = || PyValueError::new_err("lock_tokens must be tokens of 16 bytes; take them from column lock_token");
    let mut found = LockTokens::default();
    for token in value.try_iter()? {
        let token = token?;
        let bytes = token.cast::<PyBytes>().map_err(|_| wrong())?;
        found.tokens.push(bytes.as_bytes().try_into().map_err(|_| wrong())?);
    }
    Ok(found)
}

#[pymethods]
impl BulkClient {
    #[new]
    #[pyo3(signature = (connection_string, *, ca_file=None, timeout=60.0))]
    fn new(connection_string: &str, ca_file: Option<std::path::PathBuf>, timeout: f64) -> PyResult<Self> {
        convert::check_timeout(Some(timeout))?;
        let ca_file = ca_file.map(|path| path.to_string_lossy().into_owned());
        let timeout = convert::duration("timeout", timeout)?;
        Ok(Self {
            connection: BulkConnection::new(connection_string, ca_file, timeout).or_raise()?,
        })
    }

    #[getter]
    fn endpoint(&self) -> String {
        self.connection.endpoint()
    }

    /// Passes the answer of a backup to `write`, piece by piece. The answer omits files that the caller has: their names
    /// and fingerprints are in `known`.
    fn _backup(&self, py: Python<'_>, known: Vec<(String, String)>, write: Py<PyAny>) -> PyResult<()> {
        let request = Request::post("backup")
            .with_json(&json!({ "known": known }))
            .repeatable();
        self.connection.run(py, Duration::ZERO, |client, wait| {
            let mut answer = client.call(&request, wait)?;
            while let Some(piece) = answer.next_chunk(wait)? {
                let written = Python::attach(|py| write.call1(py, (PyBytes::new(py, &piece),)));
                if let Err(error) = written {
                    return Ok(Err(error));
                }
            }
            Ok(Ok(()))
        })?
    }

    fn describe<'py>(&self, py: Python<'py>, entity: &str) -> PyResult<Bound<'py, PyAny>> {
        let request = Request::get("describe").with("entity", entity);
        as_python(py, &self.call(py, &request, Duration::ZERO)?)
    }

    fn send<'py>(&self, entity: &str, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let request = Request::post("send").with("entity", entity).with_stream();
        let answer = self.upload(data, &request)?;
        let stored = PyDict::new(data.py());
        for (partition, rows) in answer.object("stored").or_raise()? {
            let partition: u16 = partition.parse().map_err(|_| PyValueError::new_err("partition"))?;
            stored.set_item(partition, rows.as_u64())?;
        }
        Ok(stored)
    }

    #[pyo3(signature = (entity, *, max_message_count, max_wait_time=0.0, receive_mode="peek_lock", columns=None))]
    fn receive(
        &self,
        py: Python<'_>,
        entity: &str,
        max_message_count: i64,
        max_wait_time: f64,
        receive_mode: &str,
        columns: ColumnNames,
    ) -> PyResult<ArrowTable> {
        let wait_ms = ms("max_wait_time", max_wait_time)?;
        let request = Request::post("receive")
            .with("entity", entity)
            .with(
                "max_message_count",
                &count("max_message_count", max_message_count)?.to_string(),
            )
            .with("max_wait_time_ms", &wait_ms.to_string())
            .with("receive_mode", receive_mode);
        let request = with_columns(request, &columns)?;
        Ok(self.call_for_rows(py, &request, Duration::from_millis(wait_ms))?.0)
    }

    #[pyo3(signature = (entity, lock_tokens, outcome, *, reason=None, description=None))]
    fn settle(
        &self,
        entity: &str,
        lock_tokens: &Bound<'_, PyAny>,
        outcome: &str,
        reason: Option<&str>,
        description: Option<&str>,
    ) -> PyResult<Vec<u64>> {
        let tokens = tokens(lock_tokens)?.tokens;
        let request = Request::post("settle").with_json(&json!({
            "entity": entity,
            "lock_tokens": to_hex(tokens.as_flattened()),
            "outcome": outcome,
            "reason": reason,
            "description": description,
        }));
        self.call(lock_tokens.py(), &request, Duration::ZERO)?
            .numbers("lost")
            .or_raise()
    }

    #[pyo3(signature = (entity, partition, from_sequence_number, *, to_sequence_number=None, max_bytes=2_097_152, include_body=true, application_properties="map", columns=None))]
    #[expect(clippy::too_many_arguments, reason = "each is an option by name")]
    fn peek(
        &self,
        py: Python<'_>,
        entity: &str,
        partition: i64,
        from_sequence_number: i64,
        to_sequence_number: Option<i64>,
        max_bytes: i64,
        include_body: bool,
        application_properties: &str,
        columns: ColumnNames,
    ) -> PyResult<(ArrowTable, Option<u64>)> {
        let request = Request::get("peek")
            .with("entity", entity)
            .with("partition", &count("partition", partition)?.to_string())
            .with(
                "from",
                &count("from_sequence_number", from_sequence_number)?.to_string(),
            )
            .with("max_bytes", &count("max_bytes", max_bytes)?.to_string())
            .with("include_body", if include_body { "true" } else { "false" })
            .with("application_properties", application_properties);
        let mut request = with_columns(request, &columns)?;
        if let Some(to) = to_sequence_number {
            request = request.with("to", &count("to_sequence_number", to)?.to_string());
        }
        self.call_for_rows(py, &request, Duration::ZERO)
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.connection.close());
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Option<Py<PyAny>>,
        exc_value: Option<Py<PyAny>>,
        traceback: Option<Py<PyAny>>,
    ) {
        let _ = (exc_type, exc_value, traceback);
        self.close(py);
    }

    fn __repr__(&self) -> String {
        format!("BulkClient(endpoint={:?})", self.connection.endpoint())
    }
}

/// Adds the selected columns to a request for rows.
pub(super) fn with_columns(request: Request, columns: &ColumnNames) -> PyResult<Request> {
    match arrow::selection(columns)?.names() {
        Some(names) => Ok(request.with("columns", &names)),
        None => Ok(request),
    }
}

/// Converts a number that must not be negative.
pub(super) fn count(name: &str, value: i64) -> PyResult<u64> {
    u64::try_from(value).map_err(|_| PyValueError::new_err(format!("{name} cannot be negative: {value}")))
}
