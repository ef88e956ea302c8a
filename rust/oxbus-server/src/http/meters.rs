// SPDX-License-Identifier: Apache-2.0
//! The counters of a server, shown by `metrics`.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use oxbus_broker::SystemClock;
use oxbus_broker::metrics::{Family, Labels};
use oxbus_model::Clock;
use oxbus_model::latency::LatencyHistogram;
use oxbus_model::sync::ignore_poison;

use crate::console::Refusals;

/// A protocol of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Amqp,
    Http,
}

/// A broker call of a client over AMQP, or a request over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Send,
    Receive,
    Settle,
    /// Opening a link, waiting for a session, requests of `$management` and transactions.
    Manage,
    Http,
}

const OPERATIONS: [(Operation, &str); 5] = [
    (Operation::Send, "send"),
    (Operation::Receive, "receive"),
    (Operation::Settle, "settle"),
    (Operation::Manage, "manage"),
    (Operation::Http, "http"),
];

/// Counts since the server started.
#[derive(Default)]
pub(crate) struct Meters {
    /// By protocol: all connections, and the open ones.
    connections: [(AtomicU64, AtomicI64); 2],
    links: AtomicI64,
    http_requests: AtomicU64,
    http_refused: AtomicU64,
    tokens: AtomicU64,
    operations: [LatencyHistogram; OPERATIONS.len()],
    /// By protocol and condition. Conditions are those of the server, so there are few. An entry is set in one step, so
    /// it is consistent after a panic.
    refusals: Mutex<BTreeMap<(&'static str, String), u64>>,
    /// The latest of them with their texts, for the console.
    latest: Refusals,
}

/// An open connection; it is counted until dropped.
pub(crate) struct CountedConnection<'a>(&'a AtomicI64);

impl Drop for CountedConnection<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn increment(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn label(name: &'static str, value: &str) -> Labels {
    vec![(name, value.to_owned().into())]
}

impl Meters {
    /// Counts a connection whose protocol has been detected.
    pub(crate) fn count_connection(&self, protocol: Protocol) -> CountedConnection<'_> {
        let (all, open) = &self.connections[protocol as usize];
        increment(all);
        open.fetch_add(1, Ordering::Relaxed);
        CountedConnection(open)
    }

    /// Counts links that a client attached, or detached if negative.
    pub(crate) fn count_links(&self, links: i64) {
        self.links.fetch_add(links, Ordering::Relaxed);
    }

    /// Counts a finished HTTP request.
    pub(crate) fn count_response(&self, status: hyper::StatusCode, detail: &str, took: Duration) {
        increment(&self.http_requests);
        self.count_operation(Operation::Http, took);
        if status.is_client_error() || status.is_server_error() {
            increment(&self.http_refused);
            self.count_refusal("http", status.as_str(), detail);
        }
    }

    /// Counts an accepted token.
    pub(crate) fn count_token(&self) {
        increment(&self.tokens);
    }

    /// Counts a link, a token or a request that was refused.
    pub(crate) fn count_refusal(&self, what: &'static str, reason: &str, detail: &str) {
        self.latest.add(what, reason, detail, SystemClock::new().now());
        let mut refusals = ignore_poison(self.refusals.lock());
        *refusals.entry((what, reason.to_owned())).or_default() += 1;
    }

    /// The refusals of the last hour.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.latest
    }

    /// Counts a finished call.
    pub(crate) fn count_operation(&self, operation: Operation, took: Duration) {
        self.operations[operation as usize].record(took);
    }

    /// What was counted, as metrics.
    pub(crate) fn families(&self) -> Vec<Family> {
        let by_protocol = || ["amqp", "http"].into_iter().zip(&self.connections);
        let all = by_protocol().map(|(name, (all, _))| (label("protocol", name), read(all)));
        let open =
            by_protocol().map(|(name, (_, open))| (label("protocol", name), open.load(Ordering::Relaxed) as f64));
        let (requests, refused) = (read(&self.http_requests), read(&self.http_refused));
        let refusals = ignore_poison(self.refusals.lock());
        let refusals = refusals.iter().map(|((what, reason), count)| {
            let labels = vec![("what", (*what).into()), ("reason", reason.clone().into())];
            (labels, *count)
        });
        let operations = OPERATIONS.iter().map(|(operation, name)| {
            let found = self.operations[*operation as usize].read();
            (label("operation", name), found)
        });
        vec![
            Family::counter(
                "oxbus_connections",
                "Connections since the start, by protocol",
                all.collect(),
            ),
            Family::gauge(
                "oxbus_open_connections",
                "Open connections, by protocol",
                open.collect(),
            ),
            Family::gauge(
                "oxbus_open_links",
                "Links that AMQP clients have attached",
                vec![(Vec::new(), self.links.load(Ordering::Relaxed) as f64)],
            ),
            Family::counter(
                "oxbus_http_requests",
                "HTTP requests since the start, by outcome",
                vec![
                    (label("outcome", "done"), requests - refused.min(requests)),
                    (label("outcome", "refused"), refused),
                ],
            ),
            Family::counter(
                "oxbus_tokens",
                "Tokens that AMQP clients put and the server accepted",
                vec![(Vec::new(), read(&self.tokens))],
            ),
            Family::counter(
                "oxbus_refusals",
                "Refused links, tokens and HTTP requests, by AMQP condition or HTTP status",
                refusals.collect(),
            ),
            Family::histogram(
                "oxbus_operation_seconds",
                "Time of broker calls for AMQP clients, and of HTTP requests with their waits",
                operations.collect(),
            ),
        ]
    }
}
