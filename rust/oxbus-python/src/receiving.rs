// SPDX-License-Identifier: Apache-2.0
//! Blocking waits of Python threads for messages, a session or a reservation.

use oxbus_broker::Receiver;
use oxbus_broker::client::{Acceptor, Deliveries, ReservationPlan, Reservations, ReserveOptions};
use oxbus_broker::clock::Deadline;
use oxbus_store::Wait;
use pyo3::prelude::*;

use crate::blocking::INLINE_MESSAGES_MAX;
use crate::error::OrRaise;
use crate::waiting::wait_until_notified;

/// Receives up to `max` messages into an empty list, waiting for the first until `deadline`. The list stays empty if
/// the wait times out.
pub(crate) fn receive(
    py: Python<'_>,
    receiver: &Receiver,
    max: usize,
    out: &mut Deliveries,
    deadline: impl FnOnce() -> PyResult<Deadline>,
) -> PyResult<()> {
    // A receive that finds messages at once is faster than detaching from the interpreter.
    if max <= INLINE_MESSAGES_MAX && !receiver.entity().may_wait() {
        receiver.receive_into(max, out, &Wait::FOREVER).or_raise()?;
        if !out.is_empty() {
            return Ok(());
        }
    }
    let received = wait_until_notified(
        py,
        deadline()?,
        || false,
        |options| receiver.receive_until(max, options, &Wait::FOREVER),
    )?;
    if let Some(deliveries) = received {
        *out = deliveries;
    }
    Ok(())
}

/// Waits for a session until `deadline` or until `is_closed`. Returns `None` if the wait ended without one.
pub(crate) fn accept(
    py: Python<'_>,
    acceptor: &Acceptor,
    deadline: Deadline,
    is_closed: impl Fn() -> bool + Sync,
) -> PyResult<Option<Receiver>> {
    wait_until_notified(py, deadline, is_closed, |options| {
        acceptor.accept_until(options, &Wait::FOREVER)
    })
}

/// Reserves messages, waiting up to `options.wait` for the first. The plan is empty if the wait times out.
pub(crate) fn reserve(
    py: Python<'_>,
    reservations: &Reservations,
    consumer: &str,
    number: (u64, u64),
    options: &ReserveOptions,
) -> PyResult<ReservationPlan> {
    let deadline = Deadline::after(Some(options.wait));
    let found = wait_until_notified(
        py,
        deadline,
        || false,
        |until| reservations.reserve_until(consumer, number, options, until, &Wait::FOREVER),
    )?;
    Ok(found.unwrap_or_else(|| reservations.empty_plan(number.0, number.1)))
}
