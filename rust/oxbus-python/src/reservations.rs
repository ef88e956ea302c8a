// SPDX-License-Identifier: Apache-2.0
//! `_Reservations`: reservations of an entity of an open namespace.

use oxbus_broker::client::{
    self, ReservationInfo, ReservationPlan, ReservationStatus, ReserveOptions, ReservedSession, SessionStates,
    Settlement, StartPosition,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::arrow::{ArrowTable, reserved_table};
use crate::error::OrRaise;
use crate::fork::ProcessLocal;
use crate::{convert, receiving, waiting};

/// The reservations of an entity, or of its dead-letter queue.
#[pyclass(frozen, module = "oxbus", name = "_Reservations")]
pub(crate) struct Reservations(ProcessLocal<client::Reservations>);

impl Reservations {
    pub(crate) fn new(reservations: ProcessLocal<client::Reservations>) -> Self {
        Self(reservations)
    }
}

fn plan_dict<'py>(py: Python<'py>, plan: &ReservationPlan) -> PyResult<Bound<'py, PyDict>> {
    let partitions = PyList::empty(py);
    for part in &plan.partitions {
        let dict = PyDict::new(py);
        dict.set_item("partition", part.partition)?;
        let ranges: Vec<[u64; 2]> = part.ranges.iter().map(|(first, last)| [*first, *last]).collect();
        dict.set_item("ranges", ranges)?;
        dict.set_item("messages", part.messages)?;
        dict.set_item("bytes", part.bytes)?;
        partitions.append(dict)?;
    }
    let dict = PyDict::new(py);
    dict.set_item("id", &plan.id)?;
    dict.set_item("n", plan.n)?;
    dict.set_item("partitions", partitions)?;
    dict.set_item("messages", plan.messages())?;
    dict.set_item("attempt", plan.attempt)?;
    dict.set_item("missing", plan.missing)?;
    Ok(dict)
}

fn info_dict<'py>(py: Python<'py>, info: &ReservationInfo) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("consumer", &info.consumer)?;
    dict.set_item("n", info.n)?;
    dict.set_item("epoch", info.epoch)?;
    dict.set_item("done", info.done)?;
    dict.set_item("messages", info.messages)?;
    let state = match info.standing {
        ReservationStatus::Live => "live",
        ReservationStatus::Expired => "lapsed",
    };
    dict.set_item("state", state)?;
    let expires_at = info.expires_at.map(|time| convert::datetime(py, time)).transpose()?;
    dict.set_item("expires_at", expires_at)?;
    Ok(dict)
}

fn start_of(start: &str) -> PyResult<StartPosition> {
    match start {
        "earliest" => Ok(StartPosition::Earliest),
        "latest" => Ok(StartPosition::Latest),
        other => Err(PyValueError::new_err(format!(
            "unknown start; use `earliest` or `latest`: `{other}`"
        ))),
    }
}

fn settlement<'a>(outcome: &str, reason: Option<&'a str>, description: Option<&'a str>) -> PyResult<Settlement<'a>> {
    match outcome {
        "complete" => Ok(Settlement::Complete),
        "abandon" => Ok(Settlement::Abandon(&[])),
        "defer" => Ok(Settlement::Defer(&[])),
        "dead_letter" => Ok(Settlement::DeadLetter {
            reason,
            description,
            changes: &[],
        }),
        other => Err(PyValueError::new_err(format!(
            "unknown outcome; use `complete`, `abandon`, `defer` or `dead_letter`: `{other}`"
        ))),
    }
}

#[pymethods]
impl Reservations {
    #[pyo3(signature = (consumer, start="earliest"))]
    fn acquire<'py>(&self, py: Python<'py>, consumer: &str, start: &str) -> PyResult<Bound<'py, PyDict>> {
        let (reservations, start) = (self.0.get()?, start_of(start)?);
        let acquired = waiting::run_detached(py, |wait| reservations.acquire(consumer, start, wait))?.or_raise()?;
        let dict = PyDict::new(py);
        dict.set_item("epoch", acquired.epoch)?;
        dict.set_item("done", acquired.done)?;
        Ok(dict)
    }

    #[pyo3(signature = (
        consumer, epoch, n, *, max_messages, max_bytes, lock_duration, max_wait_time=0.0, upto=None, max_sessions=None,
        attempts=0,
    ))]
    #[expect(clippy::too_many_arguments, reason = "each is an option by name")]
    fn reserve<'py>(
        &self,
        py: Python<'py>,
        consumer: &str,
        epoch: u64,
        n: u64,
        max_messages: usize,
        max_bytes: u64,
        lock_duration: f64,
        max_wait_time: f64,
        upto: Option<Vec<u64>>,
        max_sessions: Option<usize>,
        attempts: u64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let options = ReserveOptions {
            messages: max_messages,
            bytes: max_bytes,
            sessions: max_sessions,
            upto,
            lock: convert::duration("lock_duration", lock_duration)?,
            wait: convert::duration("max_wait_time", max_wait_time)?,
            attempts,
        };
        plan_dict(
            py,
            &receiving::reserve(py, self.0.get()?, consumer, (epoch, n), &options)?,
        )
    }

    #[pyo3(signature = (consumer, epoch, n, *, lock_duration))]
    fn plan<'py>(
        &self,
        py: Python<'py>,
        consumer: &str,
        epoch: u64,
        n: u64,
        lock_duration: f64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let reservations = self.0.get()?;
        let lock = convert::duration("lock_duration", lock_duration)?;
        let plan = waiting::run_detached(py, |wait| reservations.plan(consumer, epoch, n, lock, wait))?;
        plan_dict(py, &plan.or_raise()?)
    }

    #[pyo3(signature = (reservation_id, epoch, partition, lo, hi, *, max_bytes=2_097_152, include_body=true))]
    #[expect(clippy::too_many_arguments, reason = "each is an option of the call")]
    fn read(
        &self,
        py: Python<'_>,
        reservation_id: &str,
        epoch: u64,
        partition: u16,
        lo: u64,
        hi: u64,
        max_bytes: usize,
        include_body: bool,
    ) -> PyResult<(ArrowTable, Option<u64>)> {
        let reservations = self.0.get()?;
        let page = waiting::run_detached(py, |wait| {
            reservations.read((reservation_id, epoch), partition, lo, hi, max_bytes, wait)
        })?;
        let page = page.or_raise()?;
        let table = reserved_table(reservations.entity(), &page.messages, include_body)?;
        Ok((table, page.next))
    }

    #[pyo3(signature = (consumer, epoch, *, lock_duration))]
    fn renew(&self, py: Python<'_>, consumer: &str, epoch: u64, lock_duration: f64) -> PyResult<()> {
        let reservations = self.0.get()?;
        let lock = convert::duration("lock_duration", lock_duration)?;
        waiting::run_detached(py, |wait| reservations.renew(consumer, epoch, lock, wait))?.or_raise()?;
        Ok(())
    }

    fn complete<'py>(&self, py: Python<'py>, consumer: &str, epoch: u64, n: u64) -> PyResult<Bound<'py, PyDict>> {
        let reservations = self.0.get()?;
        let completed =
            waiting::run_detached(py, |wait| reservations.complete_up_to(consumer, epoch, n, wait))?.or_raise()?;
        let dict = PyDict::new(py);
        dict.set_item("completed", completed.completed)?;
        dict.set_item("late", completed.late)?;
        Ok(dict)
    }

    #[pyo3(signature = (reservation_id, epoch, partition, *, max_bytes=8_388_608))]
    fn reserved_sessions<'py>(
        &self,
        py: Python<'py>,
        reservation_id: &str,
        epoch: u64,
        partition: u16,
        max_bytes: usize,
    ) -> PyResult<Vec<(String, Option<Bound<'py, PyBytes>>)>> {
        let reservations = self.0.get()?;
        let mut sessions: Vec<ReservedSession> = Vec::new();
        let id = (reservation_id, epoch);
        loop {
            let after = sessions.last().map(|session| session.id.to_string());
            let page = waiting::run_detached(py, |wait| {
                reservations.sessions(id, partition, after.as_deref(), max_bytes, wait)
            })?
            .or_raise()?;
            sessions.extend(page.sessions);
            if !page.has_more {
                break;
            }
        }
        let state_of = |session: &ReservedSession| session.state.as_ref().map(|state| PyBytes::new(py, state));
        Ok(sessions
            .iter()
            .map(|session| (session.id.to_string(), state_of(session)))
            .collect())
    }

    #[pyo3(signature = (
        reservation_id, epoch, sequence_numbers, outcome, *, reason=None, description=None, session_states=None,
    ))]
    #[expect(clippy::too_many_arguments, reason = "each is an option of the call")]
    fn settle_reserved(
        &self,
        py: Python<'_>,
        reservation_id: &str,
        epoch: u64,
        sequence_numbers: Vec<u64>,
        outcome: &str,
        reason: Option<&str>,
        description: Option<&str>,
        session_states: Option<SessionStates>,
    ) -> PyResult<u64> {
        let reservations = self.0.get()?;
        if outcome == "release" {
            return waiting::run_detached(py, |wait| {
                reservations.release(reservation_id, epoch, &sequence_numbers, wait)
            })?
            .or_raise();
        }
        let how = settlement(outcome, reason, description)?;
        waiting::run_detached(py, |wait| match session_states.filter(|states| !states.is_empty()) {
            Some(states) => {
                reservations.settle_with_states(reservation_id, epoch, (&sequence_numbers, &states), how, wait)
            }
            None => reservations.settle(reservation_id, epoch, &sequence_numbers, how, wait),
        })?
        .or_raise()
    }

    fn reservations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let reservations = self.0.get()?;
        let infos = waiting::run_detached(py, |wait| reservations.list(wait))?;
        let dicts = infos.iter().map(|info| info_dict(py, info));
        PyList::new(py, dicts.collect::<PyResult<Vec<_>>>()?)
    }

    fn cancel_reservation(&self, py: Python<'_>, consumer: &str) -> PyResult<u64> {
        let reservations = self.0.get()?;
        waiting::run_detached(py, |wait| reservations.cancel(consumer, wait))?.or_raise()
    }

    fn ends(&self) -> PyResult<Vec<u64>> {
        self.0.get()?.ends().or_raise()
    }
}
