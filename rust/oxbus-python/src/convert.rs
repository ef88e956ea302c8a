// SPDX-License-Identifier: Apache-2.0
//! Times, durations and numbers: conversion between Python and the model.

use std::time::Duration;

use oxbus_broker::clock::Deadline;
use oxbus_model::caps::ABANDON_DELAY_MS_MAX;
use oxbus_model::options::in_range;
use oxbus_model::timespan::UNITS_PER_SECOND;
use oxbus_model::{SequenceNumber, Timestamp};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::error::OrRaise;
use crate::imports;

const UNITS_PER_MICROSECOND: i64 = 10;

/// `datetime.timezone.utc`.
fn utc(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    imports::timezone(py)?.getattr("utc")
}

/// An aware datetime in UTC.
pub(crate) fn datetime(py: Python<'_>, time: Timestamp) -> PyResult<Bound<'_, PyAny>> {
    let whole = imports::datetime(py)?.call_method1("fromtimestamp", ((time.0 / 1000) as i64, utc(py)?))?;
    let ms = time.0 % 1000;
    if ms == 0 {
        Ok(whole)
    } else {
        whole.call_method1("__add__", (timedelta(py, ms)?,))
    }
}

/// A timedelta of milliseconds.
pub(crate) fn timedelta(py: Python<'_>, ms: u64) -> PyResult<Bound<'_, PyAny>> {
    const MS_PER_DAY: u64 = 86_400_000;
    imports::timedelta(py)?.call1((ms / MS_PER_DAY, 0, 0, ms % MS_PER_DAY))
}

/// Milliseconds since 1970 of a datetime. A naive datetime counts as UTC.
pub(crate) fn datetime_ms(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    let py = value.py();
    if !value.is_instance(imports::datetime(py)?)? {
        return Err(PyTypeError::new_err(format!(
            "expected a datetime, got {}",
            value.get_type().name()?
        )));
    }
    let aware = if value.getattr("tzinfo")?.is_none() {
        let keywords = pyo3::types::PyDict::new(py);
        keywords.set_item("tzinfo", utc(py)?)?;
        value.call_method("replace", (), Some(&keywords))?
    } else {
        value.clone()
    };
    let epoch = imports::datetime(py)?.call1((1970, 1, 1, 0, 0, 0, 0, utc(py)?))?;
    timedelta_ms(&aware.call_method1("__sub__", (epoch,))?)
}

/// Milliseconds of a timedelta, rounded down.
pub(crate) fn timedelta_ms(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    let py = value.py();
    if !value.is_instance(imports::timedelta(py)?)? {
        return Err(PyTypeError::new_err(format!(
            "expected a timedelta, got {}",
            value.get_type().name()?
        )));
    }
    let part = |name: &str| value.getattr(name)?.extract::<i64>();
    Ok(part("days")? * 86_400_000 + part("seconds")? * 1000 + part("microseconds")?.div_euclid(1000))
}

/// A timedelta in the units of a [timespan](oxbus_model::timespan).
pub(crate) fn timedelta_units(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    let part = |name: &str| value.getattr(name)?.extract::<i64>();
    let seconds = part("days")? * 86_400 + part("seconds")?;
    let fraction = part("microseconds")? * UNITS_PER_MICROSECOND;
    let units = seconds.checked_mul(UNITS_PER_SECOND);
    units.and_then(|units| units.checked_add(fraction)).ok_or_else(|| {
        PyValueError::new_err(format!(
            "a property has a timedelta that is too long; use at most 10,675,199 days: {value}"
        ))
    })
}

/// A timedelta from timespan units, rounded down to microseconds.
pub(crate) fn timedelta_of_units(py: Python<'_>, units: i64) -> PyResult<Bound<'_, PyAny>> {
    let (seconds, rest) = (units.div_euclid(UNITS_PER_SECOND), units.rem_euclid(UNITS_PER_SECOND));
    imports::timedelta(py)?.call1((0, seconds, rest / UNITS_PER_MICROSECOND))
}

/// A datetime in the range of the model.
pub(crate) fn timestamp(value: &Bound<'_, PyAny>) -> PyResult<Timestamp> {
    let ms = datetime_ms(value)?;
    u64::try_from(ms)
        .ok()
        .filter(|ms| *ms < Timestamp::NEVER.0)
        .map(Timestamp)
        .ok_or_else(|| PyValueError::new_err("the time is out of range; use a time after 1970-01-01"))
}

/// A number of seconds. Converting an int to a float is slow in Python, so a small int is read directly.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seconds(pub(crate) f64);

impl<'a, 'py> FromPyObject<'a, 'py> for Seconds {
    type Error = PyErr;

    #[inline]
    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if value.is_exact_instance_of::<PyInt>()
            && let Ok(whole) = value.extract::<i32>()
        {
            return Ok(Self(whole.into()));
        }
        value.extract().map(Self)
    }
}

/// The deadline of a wait of `seconds`. `None` waits forever.
pub(crate) fn deadline(name: &str, seconds: Option<f64>) -> PyResult<Deadline> {
    Ok(Deadline::after(
        seconds.map(|seconds| duration(name, seconds)).transpose()?,
    ))
}

/// A duration in seconds, at least 0.
pub(crate) fn duration(name: &str, seconds: f64) -> PyResult<Duration> {
    if seconds.is_nan() || seconds < 0.0 {
        return Err(PyValueError::new_err(format!(
            "{name} cannot be negative; use 0 for no wait: {seconds}"
        )));
    }
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// The delay of an abandoned message in milliseconds, rounded up: seconds or a timedelta; 0 without one.
pub(crate) fn delay_ms(value: Option<&Bound<'_, PyAny>>) -> PyResult<u64> {
    let Some(value) = value else { return Ok(0) };
    let seconds = if value.is_instance(imports::timedelta(value.py())?)? {
        value.call_method0("total_seconds")?.extract::<f64>()?
    } else {
        value.extract().map_err(|_| {
            let name = value
                .get_type()
                .name()
                .map_or_else(|_| "?".to_owned(), |name| name.to_string());
            PyTypeError::new_err(format!("delay must be a number of seconds or a timedelta, not {name}"))
        })?
    };
    if seconds.is_nan() || seconds < 0.0 {
        return Err(PyValueError::new_err(format!(
            "delay cannot be negative; use 0 for no delay: {seconds}"
        )));
    }
    // A float below 2^53 counts milliseconds exactly; larger ones are out of range, and the cast saturates.
    let ms = (seconds * 1000.0).ceil() as u64;
    in_range("delay", ms, 0, ABANDON_DELAY_MS_MAX, "milliseconds").or_raise()?;
    Ok(ms)
}

/// Rejects a timeout of 0 or less, as the SDK does.
pub(crate) fn check_timeout(timeout: Option<f64>) -> PyResult<()> {
    match timeout {
        Some(seconds) if seconds.is_nan() || seconds <= 0.0 => Err(PyValueError::new_err(format!(
            "timeout must be greater than 0; leave it out for the default: {seconds}"
        ))),
        _ => Ok(()),
    }
}

/// Reads one sequence number or an iterable of them.
pub(crate) fn sequence_numbers(value: &Bound<'_, PyAny>) -> PyResult<Vec<SequenceNumber>> {
    let number = |value: &Bound<'_, PyAny>| {
        let number = value.cast::<PyInt>().map_err(|_| {
            PyTypeError::new_err(
                "sequence_numbers must be an int or an iterable of ints; use the sequence_number of messages",
            )
        })?;
        number.extract().map(SequenceNumber).map_err(|_| {
            PyValueError::new_err(format!(
                "a sequence number is between 0 and 2**64 - 1; use the sequence_number of a message: {number}"
            ))
        })
    };
    if value.cast::<PyInt>().is_ok() {
        return Ok(vec![number(value)?]);
    }
    value.try_iter()?.map(|item| number(&item?)).collect()
}
