// SPDX-License-Identifier: Apache-2.0
//! `GET /metrics`: the metrics of the namespace and of the server, in the `OpenMetrics` text format or, for a client
//! that does not ask for it, in that of Prometheus.

use std::fmt;

use http_body_util::Full;
use hyper::Response;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use oxbus_broker::metrics::{Family, Samples};
use oxbus_model::latency::LATENCY_BOUNDS_US;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::HttpResponse;
use super::error::{Area, HttpError};
use crate::blocking::run_blocking;
use crate::front::Context;

/// The values of one scrape.
#[derive(Debug)]
struct Scrape(Vec<Family>);

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for Family { name, help, samples } in &self.0 {
            match samples {
                Samples::Counter(samples) => {
                    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
                    for (labels, value) in samples {
                        ConstCounter::new(*value).encode(family.encode_family(&labels.as_slice())?)?;
                    }
                }
                Samples::Gauge(samples) => {
                    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
                    for (labels, value) in samples {
                        ConstGauge::new(*value).encode(family.encode_family(&labels.as_slice())?)?;
                    }
                }
                Samples::Histogram(samples) => {
                    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
                    for (labels, found) in samples {
                        // The encoder takes the count of each bucket alone, and adds them up.
                        let mut below = 0;
                        let bounds = LATENCY_BOUNDS_US.map(|us| us as f64 / 1e6);
                        let alone = found.up_to.map(|up_to| up_to - std::mem::replace(&mut below, up_to));
                        let last = [(f64::MAX, found.count - below)];
                        let buckets: Vec<(f64, u64)> = bounds.into_iter().zip(alone).chain(last).collect();
                        let labels = labels.as_slice();
                        let mut encoder = family.encode_family(&labels)?;
                        encoder.encode_histogram::<prometheus_client::encoding::NoLabelSet>(
                            found.sum_us as f64 / 1e6,
                            found.count,
                            &buckets,
                            None,
                        )?;
                    }
                }
            }
        }
        Ok(())
    }
}

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The text in Prometheus's own format: it names counters as their samples are named, and has no line for the end.
fn for_prometheus(text: &str, counters: &[&str]) -> String {
    let mut lines = String::with_capacity(text.len());
    for line in text.lines().filter(|line| *line != "# EOF") {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(what), Some(name), Some(rest)) if counters.contains(&name) => {
                lines.extend(["# ", what, " ", name, "_total ", rest]);
            }
            _ => lines.push_str(line),
        }
        lines.push('\n');
    }
    lines
}

/// The response with all metrics, in the format that the client accepts.
pub(super) async fn metrics(context: &Context, headers: &HeaderMap) -> Result<HttpResponse, HttpError> {
    let context = context.clone();
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let is_open = accepted.is_some_and(|accepted| accepted.contains("application/openmetrics-text"));
    let text = run_blocking(move |wait| {
        let mut families = context.meters().families();
        families.extend(context.namespace().metrics(wait)?);
        let mut registry = Registry::default();
        let counters = families.iter().filter(|it| matches!(it.samples, Samples::Counter(_)));
        let counters: Vec<&str> = counters.map(|it| it.name).collect();
        registry.register_collector(Box::new(Scrape(families)));
        let mut text = String::new();
        encode(&mut text, &registry).expect("writing to a string cannot fail");
        Ok(if is_open {
            text
        } else {
            for_prometheus(&text, &counters)
        })
    });
    let text = text.await.map_err(|error| HttpError::of(Area::Entities, &error))?;
    let mut response = Response::new(Full::from(text));
    let kind = HeaderValue::from_static(if is_open { OPEN_METRICS } else { PROMETHEUS });
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}
