// SPDX-License-Identifier: Apache-2.0
//! Sends, schedules and their cancellation.

use oxbus_broker::Sender;
use oxbus_model::{Result, SequenceNumber};
use oxbus_store::Wait;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::{deadline_of, suspending};
use crate::error::OrRaise;
use crate::pending_call::PendingCall;
use crate::sender::{ServiceBusSender, durability_of, refuse_durability, remote_batch};
use crate::transport::{NamespaceTransport, SenderTransport};
use crate::waiting::default_deadline;
use crate::{arrow, convert, transaction};

/// Starts a send.
pub(crate) fn start_sending(
    sender: &Bound<'_, ServiceBusSender>,
    messages: &Bound<'_, PyAny>,
    timeout: Option<f64>,
    durability: Option<&str>,
    transaction: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<PendingCall>> {
    if !transaction::is_outside(transaction) {
        return Ok(None);
    }
    if !sender.get().namespace.get()?.is_remote() {
        return start_sending_to_store(sender, messages, timeout, durability);
    }
    let SenderTransport::Remote(remote) = sender.get().open()? else {
        return Ok(None);
    };
    convert::check_timeout(timeout)?;
    refuse_durability(durability)?;
    let call = remote.sending(remote_batch(messages, None)?, None, timeout)?;
    Ok(Some(PendingCall::on_server(call, |_, ()| Ok(()))))
}

fn start_sending_to_store(
    sender: &Bound<'_, ServiceBusSender>,
    messages: &Bound<'_, PyAny>,
    timeout: Option<f64>,
    durability: Option<&str>,
) -> PyResult<Option<PendingCall>> {
    let Some(local) = in_store(sender)? else {
        return Ok(None);
    };
    let deadline = deadline_of(timeout)?;
    let durability = durability_of(local, durability)?;
    let batch = ServiceBusSender::collect_any(messages)?;
    let sender = sender.clone().unbind();
    let call = suspending(deadline, async move |wait: &Wait<'_>| {
        opened(&sender).send_batch_async(batch, durability, wait).await
    });
    PendingCall::in_store(call, |py, sent| sent.map(|_| py.None()).or_raise()).map(Some)
}

/// The sender, if it is one of this process in a store, and its first call was made.
fn in_store<'a>(sender: &'a Bound<'_, ServiceBusSender>) -> PyResult<Option<&'a Sender>> {
    match sender.get().namespace.get()? {
        NamespaceTransport::Local(namespace) if namespace.is_in_store() => sender.get().opened(),
        _ => Ok(None),
    }
}

/// The sender of a call that was started.
fn opened(sender: &Py<ServiceBusSender>) -> &Sender {
    let local = sender.get().opened_in_same_process();
    local.expect("a forked child has no threads of its parent")
}

#[pymethods]
impl ServiceBusSender {
    /// Starts `schedule_messages`.
    #[pyo3(signature = (messages, schedule_time_utc, *, timeout=60.0, transaction=None))]
    fn _scheduling(
        slf: &Bound<'_, Self>,
        messages: &Bound<'_, PyAny>,
        schedule_time_utc: &Bound<'_, PyAny>,
        timeout: Option<f64>,
        transaction: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<PendingCall>> {
        if !transaction::is_outside(transaction) || in_store(slf)?.is_none() {
            return Ok(None);
        }
        let deadline = deadline_of(timeout)?;
        let due = convert::timestamp(schedule_time_utc)?;
        let mut batch = Self::collect_any(messages)?;
        batch.schedule_all(due).or_raise()?;
        let sender = slf.clone().unbind();
        let call = suspending(deadline, async move |wait: &Wait<'_>| {
            opened(&sender).send_batch_async(batch, None, wait).await
        });
        let finish = |py: Python<'_>, numbers: Result<Vec<SequenceNumber>>| {
            let numbers = numbers.or_raise()?.into_iter().map(|number| number.0);
            PyList::new(py, numbers)?.into_py_any(py)
        };
        PendingCall::in_store(call, finish).map(Some)
    }

    /// Starts `cancel_scheduled_messages`.
    #[pyo3(signature = (sequence_numbers, *, timeout=60.0))]
    fn _cancelling(
        slf: &Bound<'_, Self>,
        sequence_numbers: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Option<PendingCall>> {
        if !transaction::is_outside(None) || in_store(slf)?.is_none() {
            return Ok(None);
        }
        let deadline = deadline_of(timeout)?;
        let numbers = convert::sequence_numbers(sequence_numbers)?;
        let sender = slf.clone().unbind();
        let call = suspending(deadline, async move |wait: &Wait<'_>| {
            opened(&sender).cancel_scheduled_async(&numbers, wait).await
        });
        PendingCall::in_store(call, |py, cancelled| cancelled.map(|()| py.None()).or_raise()).map(Some)
    }

    /// Starts `send_arrow`.
    fn _sending_rows(slf: &Bound<'_, Self>, data: &Bound<'_, PyAny>) -> PyResult<Option<PendingCall>> {
        if !transaction::is_outside(None) || in_store(slf)?.is_none() {
            return Ok(None);
        }
        let chunks = arrow::read(data)?;
        let sender = slf.clone().unbind();
        let call = suspending(default_deadline(), async move |wait: &Wait<'_>| {
            Ok(arrow::encode(opened(&sender), &chunks)?.send_async(wait).await)
        });
        PendingCall::in_store(call, |py, sent| arrow::finish_send(py, sent)?.into_py_any(py)).map(Some)
    }
}
