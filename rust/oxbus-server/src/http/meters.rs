// SPDX-License-Identifier: Apache-2.0
//! The counters of a server, shown by `metrics`.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the server started.
#[derive(Default)]
pub(crate) struct Meters {
    amqp_connections: AtomicU64,
    http_connections: AtomicU64,
    http_requests: AtomicU64,
    http_refused: AtomicU64,
}

/// The values of all counters at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MeterValues {
    pub(crate) amqp_connections: u64,
    pub(crate) http_connections: u64,
    pub(crate) http_requests: u64,
    pub(crate) http_refused: u64,
}

fn increment(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Meters {
    /// Counts a connection whose protocol has been detected.
    pub(crate) fn count_connection(&self, is_amqp: bool) {
        increment(if is_amqp {
            &self.amqp_connections
        } else {
            &self.http_connections
        });
    }

    /// Counts a finished HTTP request.
    pub(crate) fn count_response(&self, is_error: bool) {
        increment(&self.http_requests);
        if is_error {
            increment(&self.http_refused);
        }
    }

    pub(crate) fn read(&self) -> MeterValues {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        MeterValues {
            amqp_connections: of(&self.amqp_connections),
            http_connections: of(&self.http_connections),
            http_requests: of(&self.http_requests),
            http_refused: of(&self.http_refused),
        }
    }
}
