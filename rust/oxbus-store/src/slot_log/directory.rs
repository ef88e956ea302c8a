// SPDX-License-Identifier: Apache-2.0
//! The directory: a ring of pointers to segments, indexed by segment number.
//!
//! Readers take no mutex. Adding or unlinking a segment, once per 256 messages, takes the mutex `edit`.
//!
//! Invariants
//! - the window `head .. end` fits into the ring, so no two of its segments share an entry;
//! - a null entry of a visible segment means that the segment no longer contains any message;
//! - a segment is unlinked once, after all its slots are finished and visible;
//! - a replaced ring is not written again. It may point to segments that were unlinked later; its readers have guards
//!   from before the replacement, so those segments are not freed yet.

use super::epoch::{self, EpochGuard};
use super::segment::SlotSegment;
use crate::sync::{AtomicPtr, AtomicU64, AtomicUsize, Mutex, Ordering, lock};

const RING_MIN: usize = 2;

#[derive(Debug)]
struct SegmentRing {
    mask: u64,
    entries: Box<[AtomicPtr<SlotSegment>]>,
}

/// The segments of one log.
#[derive(Debug)]
pub(super) struct Directory {
    ring: AtomicPtr<SegmentRing>,
    head: AtomicU64,
    bytes: AtomicUsize,
    /// The number after that of the last segment ever added. Adding, unlinking and replacing need this mutex.
    edit: Mutex<u64>,
}

impl SegmentRing {
    fn new(len: usize) -> Self {
        Self {
            mask: len as u64 - 1,
            entries: (0..len).map(|_| AtomicPtr::new(std::ptr::null_mut())).collect(),
        }
    }

    #[inline]
    fn entry(&self, number: u64) -> &AtomicPtr<SlotSegment> {
        &self.entries[(number & self.mask) as usize]
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.entries.len() * size_of::<AtomicPtr<SlotSegment>>()
    }
}

impl Directory {
    /// A directory without segments, which needs no memory.
    pub(super) fn new() -> Self {
        Self::starting_at(0)
    }

    /// An empty directory whose segments start at number `head`.
    pub(super) fn starting_at(head: u64) -> Self {
        Self {
            ring: AtomicPtr::new(std::ptr::null_mut()),
            head: AtomicU64::new(head),
            bytes: AtomicUsize::new(0),
            edit: Mutex::new(head),
        }
    }

    /// The number below which there are no segments.
    pub(super) fn head(&self) -> u64 {
        self.head.load(Ordering::Acquire)
    }

    /// Bytes of the ring and the segments.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The segment, unless it was never added or has been unlinked.
    #[inline]
    pub(super) fn get<'g>(&self, number: u64, _guard: &'g EpochGuard) -> Option<&'g SlotSegment> {
        let mut ring = self.ring.load(Ordering::Acquire);
        while !ring.is_null() {
            // SAFETY: rings are freed through the guard's epoch, and the pointer was read under the guard.
            let found = unsafe { &*ring }.entry(number).load(Ordering::Acquire);
            if !found.is_null() {
                // SAFETY: segments are freed through the guard's epoch after leaving the ring.
                let segment: &'g SlotSegment = unsafe { &*found };
                if segment.number == number {
                    return Some(segment);
                }
            }
            // A segment that was added after a replacement is only in the new ring.
            let newer = self.ring.load(Ordering::Acquire);
            if newer == ring {
                return None;
            }
            ring = newer;
        }
        None
    }

    /// The segment, which is added if it is missing. It must contain a reserved slot that is not yet visible.
    #[inline]
    pub(super) fn get_or_add<'g>(&self, number: u64, guard: &'g EpochGuard) -> &'g SlotSegment {
        match self.get(number, guard) {
            Some(segment) => segment,
            None => self.add(number, guard),
        }
    }

    #[cold]
    fn add<'g>(&self, number: u64, guard: &'g EpochGuard) -> &'g SlotSegment {
        let mut end = lock(&self.edit);
        if let Some(segment) = self.get(number, guard) {
            return segment;
        }
        *end = (*end).max(number + 1);
        let window = usize::try_from(*end - self.head()).expect("the window fits the address space");
        let ring = self.ring.load(Ordering::Relaxed);
        // SAFETY: only a replacement frees the current ring, and it needs the mutex, which this thread holds.
        if ring.is_null() || window > unsafe { &*ring }.entries.len() {
            self.replace_ring(window.next_power_of_two().max(RING_MIN), guard);
        }
        let segment = Box::new(SlotSegment::new(number));
        self.bytes.fetch_add(segment.bytes(), Ordering::Relaxed);
        let segment = Box::into_raw(segment);
        // SAFETY: as above; `replace_ring` left a ring.
        unsafe { &*self.ring.load(Ordering::Relaxed) }
            .entry(number)
            .store(segment, Ordering::Release);
        // SAFETY: a segment is unlinked only when its slots are finished, and the caller's slot is not. The guard
        // protects it from then on.
        unsafe { &*segment }
    }

    /// Unlinks a segment whose slots are all finished. `visible_segment` is the segment with the first index that is
    /// not visible.
    #[cold]
    pub(super) fn unlink(&self, segment: &SlotSegment, visible_segment: u64, guard: &EpochGuard) {
        debug_assert!(
            segment.unfinished() == 0 && segment.number < visible_segment,
            "only a finished segment is unlinked"
        );
        let end = lock(&self.edit);
        let ring_pointer = self.ring.load(Ordering::Relaxed);
        // SAFETY: a segment was added, so there is a ring, and replacing it needs the mutex, which this thread holds.
        let ring = unsafe { &*ring_pointer };
        let entry = ring.entry(segment.number);
        let found = entry.load(Ordering::Relaxed);
        if !std::ptr::eq(found, segment) {
            return;
        }
        entry.store(std::ptr::null_mut(), Ordering::Release);
        self.bytes.fetch_sub(segment.bytes(), Ordering::Relaxed);
        let mut head = self.head();
        while head < visible_segment && ring.entry(head).load(Ordering::Relaxed).is_null() {
            head += 1;
        }
        self.head.store(head, Ordering::Release);
        let window = usize::try_from(end.saturating_sub(head)).expect("the window fits the address space");
        if ring.entries.len() > 64 && window < ring.entries.len() / 8 {
            self.replace_ring(ring.entries.len() / 4, guard);
        }
        // SAFETY: it came from `Box::into_raw` in `add`, the ring that later guards read no longer points to it, and
        // the comparison above makes this the only retirement.
        unsafe { epoch::retire(guard, found) };
    }

    /// Copies the window into a new ring of `len` entries. The caller holds the mutex `edit`.
    fn replace_ring(&self, len: usize, guard: &EpochGuard) {
        let ring = SegmentRing::new(len);
        self.bytes.fetch_add(ring.bytes(), Ordering::Relaxed);
        let old = self.ring.load(Ordering::Relaxed);
        if !old.is_null() {
            // SAFETY: only a replacement frees the current ring, and this call is it.
            let old = unsafe { &*old };
            for entry in &old.entries {
                let segment = entry.load(Ordering::Relaxed);
                if !segment.is_null() {
                    // SAFETY: the current ring points to live segments only.
                    ring.entry(unsafe { &*segment }.number)
                        .store(segment, Ordering::Relaxed);
                }
            }
            self.bytes.fetch_sub(old.bytes(), Ordering::Relaxed);
        }
        self.ring.store(Box::into_raw(Box::new(ring)), Ordering::Release);
        if !old.is_null() {
            // SAFETY: it came from `Box::into_raw` here, later guards read the new ring, and it is replaced once.
            unsafe { epoch::retire(guard, old) };
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let ring = self.ring.load(Ordering::Acquire);
        if ring.is_null() {
            return;
        }
        // SAFETY: no other thread can reach the directory, and the current ring is freed only here.
        let ring = unsafe { Box::from_raw(ring) };
        for entry in &ring.entries {
            let segment = entry.load(Ordering::Acquire);
            if !segment.is_null() {
                // SAFETY: the current ring points to live segments only, to each once.
                drop(unsafe { Box::from_raw(segment) });
            }
        }
    }
}
