// SPDX-License-Identifier: Apache-2.0
//! `GET /metrics`: counters in the Prometheus text format.
//!
//! Message counts are those of entity management. Labels name the entity.

use std::fmt;

use http_body_util::Full;
use hyper::Response;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use oxbus_broker::entity::PartitionCounts;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::HttpResponse;
use super::error::{Area, HttpError};
use crate::blocking::run_blocking;
use crate::front::Context;

/// A metric family of an entity's messages: name, help, value.
type Family = (&'static str, &'static str, fn(&PartitionCounts) -> u64);

const FAMILIES: [Family; 7] = [
    (
        "oxbus_active_messages",
        "Messages that can be received or are locked",
        |it| it.active,
    ),
    ("oxbus_locked_messages", "Locked messages", |it| it.locked),
    ("oxbus_scheduled_messages", "Messages that are not due yet", |it| {
        it.scheduled
    }),
    (
        "oxbus_deferred_messages",
        "Messages that are fetched by number only",
        |it| it.deferred,
    ),
    (
        "oxbus_dead_letter_messages",
        "Messages in the dead-letter queue",
        |it| it.dead_letter,
    ),
    (
        "oxbus_transfer_messages",
        "Messages on their way to another entity",
        |it| it.transfer,
    ),
    ("oxbus_size_bytes", "Bytes of all messages", |it| it.size_bytes),
];

/// The values of one scrape.
struct MetricsSnapshot {
    context: Context,
    /// The name, kind and counts of each entity.
    entities: Vec<(String, &'static str, PartitionCounts)>,
}

impl fmt::Debug for MetricsSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shown({} entities)", self.entities.len())
    }
}

impl Collector for MetricsSnapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counted = self.context.meters().read();
        for (name, help, protocol_counts) in [
            (
                "oxbus_connections",
                "Connections since the start, by protocol",
                [("amqp", counted.amqp_connections), ("http", counted.http_connections)],
            ),
            (
                "oxbus_http_requests",
                "HTTP requests since the start, by outcome",
                [
                    (
                        "done",
                        counted.http_requests - counted.http_refused.min(counted.http_requests),
                    ),
                    ("refused", counted.http_refused),
                ],
            ),
        ] {
            let counter = ConstCounter::new(0u64);
            let label = if name == "oxbus_connections" {
                "protocol"
            } else {
                "outcome"
            };
            let mut family = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
            for (value, count) in protocol_counts {
                ConstCounter::new(count).encode(family.encode_family(&[(label, value)])?)?;
            }
        }
        let parts = self.context.namespace().partition_health();
        let mut health = encoder.encode_descriptor(
            "oxbus_partition_healthy",
            "1 while a partition serves, 0 while it is out of service",
            None,
            ConstGauge::new(0i64).metric_type(),
        )?;
        for part in parts {
            let labels = [("partition", part.partition.to_string())];
            ConstGauge::new(i64::from(part.reason.is_none())).encode(health.encode_family(&labels)?)?;
        }
        for (name, help, number) in FAMILIES {
            let mut family = encoder.encode_descriptor(name, help, None, ConstGauge::new(0i64).metric_type())?;
            for (entity, kind, counts) in &self.entities {
                let labels = [("entity", entity.as_str()), ("kind", *kind)];
                let number = i64::try_from(number(counts)).unwrap_or(i64::MAX);
                ConstGauge::new(number).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

/// The response with all metrics.
pub(super) async fn metrics(context: &Context) -> Result<HttpResponse, HttpError> {
    let context = context.clone();
    let text = run_blocking(move |wait| {
        let found = context.namespace().list_entities()?;
        let entities = found
            .iter()
            .map(|entity| {
                (
                    entity.name().as_str().to_owned(),
                    entity.kind().name(),
                    entity.counts(wait).total,
                )
            })
            .collect();
        let mut registry = Registry::default();
        registry.register_collector(Box::new(MetricsSnapshot { context, entities }));
        let mut text = String::new();
        encode(&mut text, &registry).expect("writing to a string cannot fail");
        Ok(text)
    });
    let text = text.await.map_err(|error| HttpError::of(Area::Entities, &error))?;
    let mut response = Response::new(Full::from(text));
    let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}
