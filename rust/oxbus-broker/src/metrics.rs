// SPDX-License-Identifier: Apache-2.0
//! Metric families: what a scrape of a namespace or of a server consists of.
//!
//! Names follow Prometheus: a base unit at the end, and counters without `_total`, which their text format adds.

use std::borrow::Cow;

use oxbus_model::latency::Latencies;

/// Labels of a sample: name and value.
pub type Labels = Vec<(&'static str, Cow<'static, str>)>;

/// All samples of one name.
#[derive(Debug, Clone)]
pub struct Family {
    /// Its name, with the unit at the end.
    pub name: &'static str,
    /// A description.
    pub help: &'static str,
    /// The samples.
    pub samples: Samples,
}

/// Samples of one type.
#[derive(Debug, Clone)]
pub enum Samples {
    /// Values that only grow until the process ends.
    Counter(Vec<(Labels, u64)>),
    /// Values at the time of the scrape.
    Gauge(Vec<(Labels, f64)>),
    /// Durations.
    Histogram(Vec<(Labels, Latencies)>),
}

impl Family {
    /// A counter.
    pub fn counter(name: &'static str, help: &'static str, samples: Vec<(Labels, u64)>) -> Self {
        let samples = Samples::Counter(samples);
        Self { name, help, samples }
    }

    /// A gauge.
    pub fn gauge(name: &'static str, help: &'static str, samples: Vec<(Labels, f64)>) -> Self {
        let samples = Samples::Gauge(samples);
        Self { name, help, samples }
    }

    /// A histogram of durations, in seconds.
    pub fn histogram(name: &'static str, help: &'static str, samples: Vec<(Labels, Latencies)>) -> Self {
        let samples = Samples::Histogram(samples);
        Self { name, help, samples }
    }
}
