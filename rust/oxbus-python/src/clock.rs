// SPDX-License-Identifier: Apache-2.0
//! `ManualClock`: a clock that tests advance.

use std::sync::{Arc, Mutex};

use oxbus_broker::SystemClock;
use oxbus_model::Clock;
use oxbus_model::sync::ignore_poison;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyWeakrefReference;

use crate::convert;

/// A clock that tests advance.
#[pyclass(frozen, module = "oxbus.testing")]
pub(crate) struct ManualClock {
    clock: Arc<oxbus_broker::ManualClock>,
    /// Weak references to objects whose `renew_due` is called after each move of the clock.
    /// A panic leaves the list consistent: each change is one step.
    followers: Mutex<Vec<Py<PyWeakrefReference>>>,
}

impl ManualClock {
    pub(crate) fn clock(&self) -> Arc<oxbus_broker::ManualClock> {
        Arc::clone(&self.clock)
    }

    fn live_followers<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyAny>> {
        let mut followers = ignore_poison(self.followers.lock());
        let found: Vec<_> = followers
            .iter()
            .map(|it| (it.clone_ref(py), it.bind(py).upgrade()))
            .collect();
        *followers = found
            .iter()
            .filter(|(_, object)| object.is_some())
            .map(|(reference, _)| reference.clone_ref(py))
            .collect();
        found.into_iter().filter_map(|(_, object)| object).collect()
    }
}

#[pymethods]
impl ManualClock {
    #[new]
    #[pyo3(signature = (start=None))]
    fn new(start: Option<Bound<'_, PyAny>>) -> PyResult<Self> {
        let start = match &start {
            Some(start) => convert::timestamp(start)?,
            None => SystemClock::new().now(),
        };
        Ok(Self {
            clock: Arc::new(oxbus_broker::ManualClock::new(start)),
            followers: Mutex::new(Vec::new()),
        })
    }

    fn advance(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        if !(0.0..=1e10).contains(&seconds) {
            return Err(PyValueError::new_err(format!(
                "a clock only moves forward, by at most 1e10 seconds a call: {seconds}"
            )));
        }
        let ms = (seconds * 1000.0).round() as u64;
        py.detach(|| self.clock.advance(ms));
        // Followers run after the waits on this clock were notified, and without a lock: a follower may advance the
        // clock.
        let followers = self.live_followers(py);
        followers
            .iter()
            .try_for_each(|follower| follower.call_method0("renew_due").map(drop))
    }

    /// Calls `renew_due` of an object after each move, in the thread that moves the clock, until the object is
    /// dropped.
    fn _follow(&self, follower: &Bound<'_, PyAny>) -> PyResult<()> {
        let reference = PyWeakrefReference::new(follower)?.unbind();
        let mut followers = ignore_poison(self.followers.lock());
        followers.push(reference);
        Ok(())
    }

    fn now<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::datetime(py, self.clock.now())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("ManualClock({})", self.now(py)?.call_method0("isoformat")?))
    }
}
