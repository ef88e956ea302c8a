// SPDX-License-Identifier: Apache-2.0
//! A histogram of durations that threads fill without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets in microseconds; longer durations are in one more bucket.
pub const LATENCY_BOUNDS_US: [u64; 17] = [
    10,
    25,
    50,
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    100_000,
    500_000,
    2_500_000,
    10_000_000,
    60_000_000,
    300_000_000,
];
const BUCKETS: usize = LATENCY_BOUNDS_US.len() + 1;

/// Counts durations by bucket.
#[derive(Debug, Default)]
pub struct LatencyHistogram {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

/// The durations that a histogram has counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Latencies {
    /// For each bound of [`LATENCY_BOUNDS_US`], the durations up to it.
    pub up_to: [u64; LATENCY_BOUNDS_US.len()],
    /// All durations.
    pub count: u64,
    /// Their sum, in microseconds.
    pub sum_us: u64,
}

impl LatencyHistogram {
    /// Counts a duration.
    pub fn record(&self, duration: Duration) {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = LATENCY_BOUNDS_US.partition_point(|bound| *bound < us);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// What has been counted so far. Durations that other threads count meanwhile may be missing.
    pub fn read(&self) -> Latencies {
        let mut count = 0;
        let mut up_to = [0; LATENCY_BOUNDS_US.len()];
        for (bucket, sum) in self.buckets.iter().zip(&mut up_to) {
            count += bucket.load(Ordering::Relaxed);
            *sum = count;
        }
        count += self.buckets[BUCKETS - 1].load(Ordering::Relaxed);
        Latencies {
            up_to,
            count,
            sum_us: self.sum_us.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_buckets_from_its_bound_on() {
        let histogram = LatencyHistogram::default();
        for us in [10, 11, 400_000_000] {
            histogram.record(Duration::from_micros(us));
        }
        let found = histogram.read();
        assert_eq!(found.up_to[0], 1, "a bound belongs to its bucket");
        assert_eq!(found.up_to[1], 2);
        assert_eq!(found.up_to[LATENCY_BOUNDS_US.len() - 1], 2);
        assert_eq!((found.count, found.sum_us), (3, 400_000_021));
    }
}
