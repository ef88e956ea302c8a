// SPDX-License-Identifier: Apache-2.0
//! Loads memory into the processor's cache before it is read.
//!
//! A prefetch is a hint. It reads nothing that the program can see and cannot fault, so its address may be stale.
#![expect(unsafe_code, reason = "the processor's prefetch instruction has no safe form")]

use crate::slot_log::record::{HEADER_BYTES, StoredRecord};

/// Bytes that the processor loads at once.
const CACHE_LINE_BYTES: usize = 64;
/// Most bytes of a record that are prefetched. The processor itself prefetches the rest of a longer one, since its
/// lines are read one after the other.
const PREFETCHED_BYTES_MAX: usize = 4096;

/// Where a record was in memory. It keeps nothing alive.
#[derive(Debug, Clone, Copy)]
pub struct RecordHint(usize);

impl RecordHint {
    /// The present memory of `record`, which is not read for it.
    #[inline]
    pub fn of(record: &StoredRecord) -> Self {
        Self(record.address())
    }

    /// Prefetches the first `len` bytes of the record, or of what has its memory now.
    #[inline]
    pub fn prefetch(self, len: usize) {
        let end = self.0 + HEADER_BYTES + len.min(PREFETCHED_BYTES_MAX);
        // Lines, not bytes: a record may begin in the middle of one.
        for line in (self.0 & !(CACHE_LINE_BYTES - 1)..end).step_by(CACHE_LINE_BYTES) {
            prefetch_line(line);
        }
    }
}

/// Prefetches three lines from an address: the header, the fields and a short body of a record.
#[inline]
pub(crate) fn prefetch_short_record(address: u64) {
    let address = address as usize;
    prefetch_line(address);
    prefetch_line(address.wrapping_add(CACHE_LINE_BYTES));
    prefetch_line(address.wrapping_add(2 * CACHE_LINE_BYTES));
}

/// Prefetches the line of an address into the cache that is next to the core.
#[inline]
pub fn prefetch_line(address: usize) {
    // SAFETY: the instruction cannot fault, whatever the address.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address));
    }
    // SAFETY: as above; the instruction changes no register, no flag and no memory.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}
