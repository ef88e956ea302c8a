// SPDX-License-Identifier: Apache-2.0
//! Counts the bytes of all records in this process, once counting is enabled. The counters are striped by address.
//! Allocations of one thread are near each other, so threads seldom share a counter.

use std::sync::atomic::AtomicBool;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, Ordering};

const STRIPES: usize = 64;
/// Allocators assign runs of this many address bits to one thread.
const RUN_BITS: u32 = 16;

static BYTES: [CachePadded<AtomicU64>; STRIPES] = [const { CachePadded::new(AtomicU64::new(0)) }; STRIPES];

/// Set once and never cleared.
static COUNTS: AtomicBool = AtomicBool::new(false);

/// Enables counting for records allocated later. A process without a memory limit saves two atomic additions per
/// message.
pub fn count_record_memory() {
    COUNTS.store(true, Ordering::Relaxed);
}

#[inline]
fn stripe(address: usize) -> &'static AtomicU64 {
    &BYTES[(address >> RUN_BITS) % STRIPES]
}

/// Counts an allocation at an address, if counting is enabled. Returns whether it was counted. [`sub`] may be called
/// only for a counted allocation.
#[inline]
#[must_use]
pub(crate) fn add(address: usize, bytes: usize) -> bool {
    let counts = COUNTS.load(Ordering::Relaxed);
    if counts {
        stripe(address).fetch_add(bytes as u64, Ordering::Relaxed);
    }
    counts
}

/// Subtracts an allocation that [`add`] counted.
#[inline]
pub(crate) fn sub(address: usize, bytes: usize) {
    stripe(address).fetch_sub(bytes as u64, Ordering::Relaxed);
}

/// Bytes of the records in memory, including records that applications hold. Excludes records allocated before
/// [`count_record_memory`].
pub fn record_memory() -> u64 {
    // No stripe goes below zero: an address is added to and subtracted from the same stripe.
    BYTES.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum()
}
