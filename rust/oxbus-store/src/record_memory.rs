// SPDX-License-Identifier: Apache-2.0
//! Bytes of all records of this process, in counters that threads seldom share: allocations of one thread are near each
//! other.

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, Ordering};

const STRIPES: usize = 64;
/// Allocators hand runs of this many address bits to one thread.
const RUN_BITS: u32 = 16;

static BYTES: [CachePadded<AtomicU64>; STRIPES] = [const { CachePadded::new(AtomicU64::new(0)) }; STRIPES];

#[inline]
fn stripe(address: usize) -> &'static AtomicU64 {
    &BYTES[(address >> RUN_BITS) % STRIPES]
}

/// Counts an allocation at an address.
#[inline]
pub(crate) fn add(address: usize, bytes: usize) {
    stripe(address).fetch_add(bytes as u64, Ordering::Relaxed);
}

/// Counts that it ended.
#[inline]
pub(crate) fn sub(address: usize, bytes: usize) {
    stripe(address).fetch_sub(bytes as u64, Ordering::Relaxed);
}

/// Bytes that all records of this process take in memory, those in the hands of its users included.
pub fn record_memory() -> u64 {
    // No stripe goes below zero: what is freed was added to the same one.
    BYTES.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum()
}
