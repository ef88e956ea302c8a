// SPDX-License-Identifier: Apache-2.0
//! `MetricFamily` and `MetricHistogram`: the metrics of a namespace.

use oxbus_broker::metrics::{Family, Labels, Samples};
use oxbus_model::latency::{LATENCY_BOUNDS_US, Latencies};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// All samples of one metric.
#[pyclass(frozen, get_all, module = "oxbus")]
pub(crate) struct MetricFamily {
    name: &'static str,
    help: &'static str,
    kind: &'static str,
    /// Pairs of labels and value.
    samples: Py<PyList>,
}

#[pymethods]
impl MetricFamily {
    fn __repr__(&self, py: Python<'_>) -> String {
        format!(
            "MetricFamily(name={:?}, kind={:?}, {} samples)",
            self.name,
            self.kind,
            self.samples.bind(py).len()
        )
    }
}

/// Durations in seconds, counted by bucket.
#[pyclass(frozen, get_all, module = "oxbus")]
pub(crate) struct MetricHistogram {
    /// Upper bounds, and the durations up to each; the last bound is infinite.
    buckets: Vec<(f64, u64)>,
    count: u64,
    sum: f64,
}

#[pymethods]
impl MetricHistogram {
    fn __repr__(&self) -> String {
        format!("MetricHistogram(count={}, sum={})", self.count, self.sum)
    }
}

impl From<Latencies> for MetricHistogram {
    fn from(found: Latencies) -> Self {
        let bounds = LATENCY_BOUNDS_US.map(|us| us as f64 / 1e6);
        let last = (f64::INFINITY, found.count);
        Self {
            buckets: bounds.into_iter().zip(found.up_to).chain([last]).collect(),
            count: found.count,
            sum: found.sum_us as f64 / 1e6,
        }
    }
}

fn labels<'py>(py: Python<'py>, labels: &Labels) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in labels {
        dict.set_item(name, &**value)?;
    }
    Ok(dict)
}

fn list<'py, V, P: IntoPyObject<'py>>(
    py: Python<'py>,
    samples: Vec<(Labels, V)>,
    value: impl Fn(V) -> P,
) -> PyResult<Py<PyList>> {
    let list = PyList::empty(py);
    for (names, found) in samples {
        list.append((labels(py, &names)?, value(found)))?;
    }
    Ok(list.unbind())
}

/// The families as Python objects.
pub(crate) fn families(py: Python<'_>, families: Vec<Family>) -> PyResult<Vec<MetricFamily>> {
    let converted = families.into_iter().map(|Family { name, help, samples }| {
        let (kind, samples) = match samples {
            Samples::Counter(samples) => ("counter", list(py, samples, |value| value as f64)?),
            Samples::Gauge(samples) => ("gauge", list(py, samples, |value| value)?),
            Samples::Histogram(samples) => ("histogram", list(py, samples, MetricHistogram::from)?),
        };
        Ok(MetricFamily {
            name,
            help,
            kind,
            samples,
        })
    });
    converted.collect()
}
