// SPDX-License-Identifier: Apache-2.0
//! `ManualClock`: time moved by hand.

use std::sync::Arc;

use oxbus_model::{Clock, Timestamp};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::convert;

/// What a clock shows when nobody says: 2025-01-01T00:00:00Z.
const START: Timestamp = Timestamp(1_735_689_600_000);

/// A clock moved by hand.
#[pyclass(frozen, module = "oxbus.testing")]
pub(crate) struct ManualClock {
    clock: Arc<oxbus_broker::ManualClock>,
}

impl ManualClock {
    pub(crate) fn clock(&self) -> Arc<oxbus_broker::ManualClock> {
        Arc::clone(&self.clock)
    }
}

#[pymethods]
impl ManualClock {
    #[new]
    #[pyo3(signature = (start=None))]
    fn new(start: Option<Bound<'_, PyAny>>) -> PyResult<Self> {
        let start = start.as_ref().map_or(Ok(START), convert::timestamp)?;
        Ok(Self {
            clock: Arc::new(oxbus_broker::ManualClock::new(start)),
        })
    }

    fn advance(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        if !(0.0..=1e10).contains(&seconds) {
            return Err(PyValueError::new_err(format!(
                "a clock moves forward only, by at most 1e10 seconds: {seconds}"
            )));
        }
        let ms = (seconds * 1000.0).round() as u64;
        py.detach(|| self.clock.advance(ms));
        Ok(())
    }

    fn now<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::datetime(py, self.clock.now())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("ManualClock({})", self.now(py)?.call_method0("isoformat")?))
    }
}
