// SPDX-License-Identifier: Apache-2.0
//! The bytes of one message: shared, immutable, behind one thin pointer.
//!
//! One allocation holds a reference count, the length and the bytes, so that a slot needs 8 bytes for it
//! and the copies of a fan-out share one body.
//!
//! Holds always
//! - the allocation lives while its count is above zero, and each [`Record`] is one of the count;
//! - the bytes never change once [`Record::build`] returned;
//! - the pointer is a multiple of 8: its lowest bit is free for a tag (a later journal location).

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::Deref;
use std::ptr::{self, NonNull};

use crate::sync::{AtomicU32, Ordering, fence};

/// More clones than memory could hold: some code leaks them.
const REFERENCES_MAX: u32 = u32::MAX / 2;

#[repr(C, align(8))]
struct Header {
    references: AtomicU32,
    len: u32,
    /// Under loom a freed record stays allocated and remembers it, so that a late reader is caught.
    #[cfg(loom)]
    freed: std::sync::atomic::AtomicBool,
}

/// The bytes of one message. A clone shares them.
pub struct Record(NonNull<Header>);

// SAFETY: the bytes are immutable and the count is atomic, so a record may be used and dropped on any thread.
unsafe impl Send for Record {}
// SAFETY: as above; a shared record only hands out shared bytes.
unsafe impl Sync for Record {}

impl Record {
    /// A record of `len` bytes, zero until `fill` writes them. At most 4 GiB.
    #[inline]
    pub fn build(len: usize, fill: impl FnOnce(&mut [u8])) -> Self {
        // SAFETY: the layout has the size of a header at least.
        let record = Self::allocate(len, |layout| unsafe { alloc_zeroed(layout) });
        // SAFETY: the allocation has `len` initialised bytes there and nobody else knows it yet.
        fill(unsafe { std::slice::from_raw_parts_mut(Self::bytes_of(record.0), len) });
        record
    }

    /// A record with a copy of `bytes`.
    pub fn from_slice(bytes: &[u8]) -> Self {
        // SAFETY: the layout has the size of a header at least.
        let record = Self::allocate(bytes.len(), |layout| unsafe { alloc(layout) });
        // SAFETY: the allocation is fresh, so it does not overlap `bytes`, and has room for them.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), Self::bytes_of(record.0), bytes.len()) };
        record
    }

    /// The pointer; its reference moves with it. Only [`Record::from_raw`] takes it back.
    pub(crate) fn into_raw(self) -> u64 {
        let raw = self.0.as_ptr().expose_provenance() as u64;
        debug_assert!(raw & 1 == 0, "bit 0 is the tag");
        std::mem::forget(self);
        raw
    }

    /// The record behind a pointer.
    ///
    /// # Safety
    /// `raw` comes from [`Record::into_raw`], and the caller owns the reference that moved with it.
    pub(crate) unsafe fn from_raw(raw: u64) -> Self {
        let header = ptr::with_exposed_provenance_mut::<Header>(raw as usize);
        debug_assert!(!header.is_null(), "a slot in use has a body");
        // SAFETY: `into_raw` never gives null.
        Self(unsafe { NonNull::new_unchecked(header) })
    }

    /// A further reference to the record behind a pointer.
    ///
    /// # Safety
    /// `raw` comes from [`Record::into_raw`], and that reference is not given back during the call.
    pub(crate) unsafe fn clone_raw(raw: u64) -> Self {
        // SAFETY: the caller keeps the reference alive; `ManuallyDrop` leaves it with the slot.
        let kept = std::mem::ManuallyDrop::new(unsafe { Self::from_raw(raw) });
        Self::clone(&kept)
    }

    /// Bytes of the record behind a pointer.
    ///
    /// # Safety
    /// As for [`Record::clone_raw`].
    pub(crate) unsafe fn len_raw(raw: u64) -> usize {
        // SAFETY: the caller keeps the reference alive; `ManuallyDrop` leaves it with the slot.
        std::mem::ManuallyDrop::new(unsafe { Self::from_raw(raw) }).len()
    }

    #[expect(clippy::cast_ptr_alignment, reason = "the layout has the header's alignment")]
    fn allocate(len: usize, allocate: impl FnOnce(Layout) -> *mut u8) -> Self {
        let layout = Self::layout(len);
        let len = u32::try_from(len).expect("a record has at most 4 GiB");
        let start = allocate(layout).cast::<Header>();
        let Some(header) = NonNull::new(start) else {
            handle_alloc_error(layout)
        };
        let filled = Header {
            references: AtomicU32::new(1),
            len,
            #[cfg(loom)]
            freed: std::sync::atomic::AtomicBool::new(false),
        };
        // SAFETY: the allocation is fresh, aligned and large enough for a header.
        unsafe { header.write(filled) };
        Self(header)
    }

    fn layout(len: usize) -> Layout {
        let size = size_of::<Header>().checked_add(len).expect("a record fits memory");
        Layout::from_size_align(size, align_of::<Header>()).expect("a record fits memory")
    }

    fn bytes_of(header: NonNull<Header>) -> *mut u8 {
        // SAFETY: the allocation begins with a whole header.
        unsafe { header.add(1).cast::<u8>().as_ptr() }
    }

    fn header(&self) -> &Header {
        // SAFETY: this record is one of the count, so the allocation lives; headers are only shared.
        let header = unsafe { self.0.as_ref() };
        #[cfg(loom)]
        assert!(
            !header.freed.load(std::sync::atomic::Ordering::Relaxed),
            "a freed record was used"
        );
        header
    }

    #[inline(never)]
    fn free(&mut self) {
        #[cfg(loom)]
        self.header().freed.store(true, std::sync::atomic::Ordering::Relaxed);
        #[cfg(loom)]
        if true {
            return;
        }
        let layout = Self::layout(self.header().len as usize);
        // SAFETY: the last reference is gone, and the layout is the one of `allocate`.
        unsafe { dealloc(self.0.as_ptr().cast(), layout) };
    }
}

impl Clone for Record {
    #[inline]
    fn clone(&self) -> Self {
        // Relaxed: who clones has a reference, so nothing is published by the count alone.
        let before = self.header().references.fetch_add(1, Ordering::Relaxed);
        if before > REFERENCES_MAX {
            std::process::abort();
        }
        Self(self.0)
    }
}

impl Drop for Record {
    #[inline]
    fn drop(&mut self) {
        let references = &self.header().references;
        // A count of one cannot rise again under us: only an owner of a reference clones, and we are the only one.
        if references.load(Ordering::Acquire) != 1 {
            if references.fetch_sub(1, Ordering::Release) != 1 {
                return;
            }
            fence(Ordering::Acquire);
        }
        self.free();
    }
}

impl Deref for Record {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let len = self.header().len as usize;
        // SAFETY: the allocation holds `len` initialised bytes that never change.
        unsafe { std::slice::from_raw_parts(Self::bytes_of(self.0), len) }
    }
}

impl AsRef<[u8]> for Record {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Record {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl Eq for Record {}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Record").field(&self.len()).finish()
    }
}
