// SPDX-License-Identifier: Apache-2.0
//! Bytes of the records of this process, counted from the moment somebody wants to know, in counters that threads seldom
//! share: allocations of one thread are near each other.

use std::sync::atomic::AtomicBool;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, Ordering};

const STRIPES: usize = 64;
/// Allocators hand runs of this many address bits to one thread.
const RUN_BITS: u32 = 16;

static BYTES: [CachePadded<AtomicU64>; STRIPES] = [const { CachePadded::new(AtomicU64::new(0)) }; STRIPES];

/// Set once, and never cleared.
static COUNTS: AtomicBool = AtomicBool::new(false);

/// Has records counted from now on. A process without a memory limit saves two atomic additions per message.
pub fn count_record_memory() {
    COUNTS.store(true, Ordering::Relaxed);
}

#[inline]
fn stripe(address: usize) -> &'static AtomicU64 {
    &BYTES[(address >> RUN_BITS) % STRIPES]
}

/// Counts an allocation at an address, if records are counted. What is counted has to be subtracted.
#[inline]
#[must_use]
pub(crate) fn add(address: usize, bytes: usize) -> bool {
    let counts = COUNTS.load(Ordering::Relaxed);
    if counts {
        stripe(address).fetch_add(bytes as u64, Ordering::Relaxed);
    }
    counts
}

/// Counts that an allocation ended that [`add`] counted.
#[inline]
pub(crate) fn sub(address: usize, bytes: usize) {
    stripe(address).fetch_sub(bytes as u64, Ordering::Relaxed);
}

/// Bytes that the records of this process take in memory, those in the hands of its users included; without those made
/// before [`count_record_memory`].
pub fn record_memory() -> u64 {
    // No stripe goes below zero: what is freed was added to the same one.
    BYTES.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum()
}
