// SPDX-License-Identifier: Apache-2.0
//! Waits for calls over the network: detached from the interpreter, until a signal or the exit of the interpreter.

use std::future::Future;

use oxbus_client::{ClientError, Deadline, Result, block_on_until};
use oxbus_model::{Effect, Error, ErrorKind, Timestamp};
use pyo3::prelude::*;

use super::error::raise;
use crate::{convert, waiting};

/// The deadline of a call with a time limit of so many seconds. `None` sets no limit.
pub(super) fn deadline(name: &str, seconds: Option<f64>) -> PyResult<Deadline> {
    let limit = seconds.map(|seconds| convert::duration(name, seconds)).transpose()?;
    Ok(Deadline::after(limit))
}

/// Waits for a call.
pub(super) fn run<T: Send>(py: Python<'_>, call: impl Future<Output = Result<T>> + Send) -> PyResult<T> {
    let (done, signal) = waiting::run_network_call(py, |slice, is_cancelled| {
        block_on_until(call, Some(slice), || if is_cancelled() { Err(ended()) } else { Ok(()) })
    })?;
    match (done, signal) {
        (Err(_), Some(signal)) => Err(signal),
        // A signal does not discard a result.
        (done, _) => done.map_err(|error| raise(&error)),
    }
}

fn ended() -> ClientError {
    let detail = "the wait ended because the interpreter exits";
    Error::new(ErrorKind::Timeout, detail)
        .with_effect(Effect::Unknown)
        .into()
}

/// The wall clock, which the expiry of tokens and locks follows.
pub(super) fn now() -> Timestamp {
    use oxbus_model::Clock;
    oxbus_broker::SystemClock::new().now()
}
