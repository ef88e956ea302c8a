// SPDX-License-Identifier: Apache-2.0
//! The reservation methods of `BulkClient`.

use std::collections::BTreeMap;
use std::time::Duration;

use oxbus_model::hex::to_hex;
use oxbus_wire::client::Request;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use serde_json::{Value, json};

use super::client::{BulkClient, count, ms, with_columns};
use super::json::{JsonFields, as_python};
use crate::arrow::{ArrowTable, ColumnNames};
use crate::error::OrRaise;

impl BulkClient {
    /// Makes an idempotent call, which the client may repeat.
    fn call_repeatable<'py>(
        &self,
        py: Python<'py>,
        path: &str,
        body: &Value,
        extra: Duration,
    ) -> PyResult<Bound<'py, PyAny>> {
        let request = Request::post(path).with_json(body).repeatable();
        as_python(py, &self.call(py, &request, extra)?)
    }
}

#[pymethods]
impl BulkClient {
    #[pyo3(signature = (entity, consumer, start="earliest"))]
    fn acquire<'py>(&self, py: Python<'py>, entity: &str, consumer: &str, start: &str) -> PyResult<Bound<'py, PyAny>> {
        let body = json!({ "entity": entity, "consumer": consumer, "start": start });
        self.call_repeatable(py, "reservations/acquire", &body, Duration::ZERO)
    }

    #[pyo3(signature = (
        entity, consumer, epoch, n, *, max_messages, max_bytes, lock_duration, max_wait_time=0.0, upto=None,
        max_sessions=None, attempts=0,
    ))]
    #[expect(clippy::too_many_arguments, reason = "each is an option by name")]
    fn reserve<'py>(
        &self,
        py: Python<'py>,
        entity: &str,
        consumer: &str,
        epoch: u64,
        n: u64,
        max_messages: i64,
        max_bytes: i64,
        lock_duration: f64,
        max_wait_time: f64,
        upto: Option<Vec<u64>>,
        max_sessions: Option<i64>,
        attempts: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let wait_ms = ms("max_wait_time", max_wait_time)?;
        let body = json!({
            "entity": entity,
            "consumer": consumer,
            "epoch": epoch,
            "n": n,
            "max_messages": count("max_messages", max_messages)?,
            "max_bytes": count("max_bytes", max_bytes)?,
            "lock_ms": ms("lock_duration", lock_duration)?,
            "max_wait_time_ms": wait_ms,
            "upto": upto,
            "attempts": attempts,
            "max_sessions": max_sessions.map(|sessions| count("max_sessions", sessions)).transpose()?,
        });
        self.call_repeatable(py, "reservations/reserve", &body, Duration::from_millis(wait_ms))
    }

    #[pyo3(signature = (entity, consumer, epoch, n, *, lock_duration))]
    fn plan<'py>(
        &self,
        py: Python<'py>,
        entity: &str,
        consumer: &str,
        epoch: u64,
        n: u64,
        lock_duration: f64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let lock_ms = ms("lock_duration", lock_duration)?;
        let body = json!({ "entity": entity, "consumer": consumer, "epoch": epoch, "n": n, "lock_ms": lock_ms });
        self.call_repeatable(py, "reservations/plan", &body, Duration::ZERO)
    }

    #[pyo3(signature = (
        entity, reservation_id, epoch, partition, lo, hi, *, max_bytes=2_097_152, include_body=true, application_properties="map",
        columns=None,
    ))]
    #[expect(clippy::too_many_arguments, reason = "each is an option by name")]
    fn read(
        &self,
        py: Python<'_>,
        entity: &str,
        reservation_id: &str,
        epoch: u64,
        partition: u16,
        lo: u64,
        hi: u64,
        max_bytes: i64,
        include_body: bool,
        application_properties: &str,
        columns: ColumnNames,
    ) -> PyResult<(ArrowTable, Option<u64>)> {
        let request = Request::get("reservations/read")
            .with("entity", entity)
            .with("id", reservation_id)
            .with("epoch", &epoch.to_string())
            .with("partition", &partition.to_string())
            .with("lo", &lo.to_string())
            .with("hi", &hi.to_string())
            .with("max_bytes", &count("max_bytes", max_bytes)?.to_string())
            .with("include_body", if include_body { "true" } else { "false" })
            .with("application_properties", application_properties);
        let request = with_columns(request, &columns)?;
        self.call_for_rows(py, &request, Duration::ZERO)
    }

    #[pyo3(signature = (entity, consumer, epoch, *, lock_duration))]
    fn renew(&self, py: Python<'_>, entity: &str, consumer: &str, epoch: u64, lock_duration: f64) -> PyResult<()> {
        let lock_ms = ms("lock_duration", lock_duration)?;
        let body = json!({ "entity": entity, "consumer": consumer, "epoch": epoch, "lock_ms": lock_ms });
        self.call_repeatable(py, "reservations/renew", &body, Duration::ZERO)?;
        Ok(())
    }

    fn complete<'py>(
        &self,
        py: Python<'py>,
        entity: &str,
        consumer: &str,
        epoch: u64,
        n: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let body = json!({ "entity": entity, "consumer": consumer, "epoch": epoch, "n": n });
        self.call_repeatable(py, "reservations/complete", &body, Duration::ZERO)
    }

    #[pyo3(signature = (entity, reservation_id, epoch, partition, *, max_bytes=8_388_608))]
    fn reserved_sessions<'py>(
        &self,
        py: Python<'py>,
        entity: &str,
        reservation_id: &str,
        epoch: u64,
        partition: u16,
        max_bytes: i64,
    ) -> PyResult<Vec<(String, Option<Bound<'py, PyBytes>>)>> {
        let mut sessions = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let mut request = Request::get("reservations/sessions")
                .with("entity", entity)
                .with("id", reservation_id)
                .with("epoch", &epoch.to_string())
                .with("partition", &partition.to_string())
                .with("max_bytes", &count("max_bytes", max_bytes)?.to_string());
            if let Some(after) = &after {
                request = request.with("after", after);
            }
            let answer = self.call(py, &request, Duration::ZERO)?;
            for session in answer.list("sessions").or_raise()? {
                let id = session.text("id").or_raise()?;
                let state = session.hex("state").or_raise()?;
                after = Some(id.to_owned());
                sessions.push((id.to_owned(), state.map(|state| PyBytes::new(py, &state))));
            }
            if !answer.boolean("has_more").or_raise()? {
                return Ok(sessions);
            }
        }
    }

    #[pyo3(signature = (
        entity, reservation_id, epoch, sequence_numbers, outcome, *, reason=None, description=None, session_states=None,
    ))]
    #[expect(clippy::too_many_arguments, reason = "each is an option by name")]
    fn settle_reserved(
        &self,
        py: Python<'_>,
        entity: &str,
        reservation_id: &str,
        epoch: u64,
        sequence_numbers: Vec<u64>,
        outcome: &str,
        reason: Option<&str>,
        description: Option<&str>,
        session_states: Option<BTreeMap<u64, Option<Vec<u8>>>>,
    ) -> PyResult<u64> {
        let states = session_states.unwrap_or_default().into_iter();
        let states: BTreeMap<String, Option<String>> = states
            .map(|(number, state)| (number.to_string(), state.map(|state| to_hex(&state))))
            .collect();
        let request = Request::post("reservations/settle").with_json(&json!({
            "entity": entity,
            "id": reservation_id,
            "epoch": epoch,
            "sequence_numbers": sequence_numbers,
            "session_states": states,
            "outcome": outcome,
            "reason": reason,
            "description": description,
        }));
        self.call(py, &request, Duration::ZERO)?.number("settled").or_raise()
    }

    fn reservations<'py>(&self, py: Python<'py>, entity: &str) -> PyResult<Bound<'py, PyList>> {
        let request = Request::get("reservations").with("entity", entity);
        let answer = self.call(py, &request, Duration::ZERO)?;
        Ok(as_python(py, answer.field("reservations").or_raise()?)?.cast_into()?)
    }

    fn cancel_reservation(&self, py: Python<'_>, entity: &str, consumer: &str) -> PyResult<u64> {
        let body = json!({ "entity": entity, "consumer": consumer });
        let request = Request::post("reservations/cancel").with_json(&body);
        self.call(py, &request, Duration::ZERO)?.number("cancelled").or_raise()
    }
}
