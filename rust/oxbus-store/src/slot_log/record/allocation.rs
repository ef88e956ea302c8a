// SPDX-License-Identifier: Apache-2.0
//! The allocation of a record: a reference count, a length, and its content.
//!
//! The content is the bytes, or, marked in the length, their location on disk and perhaps a record in memory.

#[cfg(not(loom))]
use std::alloc::dealloc;
use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;

#[cfg(not(loom))]
use super::Record;
#[cfg(not(loom))]
use crate::extent::AtomicExtentLocation;
#[cfg(not(loom))]
use crate::record_memory as memory;
use crate::sync::{AtomicU32, Ordering, fence};

/// Flag in the length of a header: the bytes are on disk.
pub(super) const ON_DISK: u32 = 1 << 31;
/// Flag in the length of a header: [`record_memory`](crate::record_memory()) counts the allocation.
pub(super) const COUNTED: u32 = 1 << 30;
/// Flag in the length of a header with [`ON_DISK`]: the bytes are in memory, too.
pub(super) const IN_MEMORY_TOO: u32 = 1 << 29;
/// Largest record in bytes.
pub const RECORD_BYTES_MAX: usize = (IN_MEMORY_TOO - 1) as usize;
/// The flags in the length of a header.
const FLAGS: u32 = ON_DISK | COUNTED | IN_MEMORY_TOO;
/// Bytes of an allocation before its content.
#[cfg(not(loom))]
pub(crate) const HEADER_BYTES: usize = size_of::<RecordHeader>();
/// More references than memory could hold. Reaching this number means that some code leaks them.
const REFERENCES_MAX: u32 = u32::MAX / 2;

#[repr(C, align(8))]
pub(super) struct RecordHeader {
    references: AtomicU32,
    /// Bytes of the record, with [`FLAGS`].
    pub(super) len: u32,
    /// Under loom a freed record stays allocated and sets this, so that a late read panics.
    #[cfg(loom)]
    freed: std::sync::atomic::AtomicBool,
}

/// A counted reference to an allocation.
pub(super) struct SharedAllocation(pub(super) NonNull<RecordHeader>);

// SAFETY: the shared data is immutable or atomic, so a reference may be used and dropped on any thread.
unsafe impl Send for SharedAllocation {}
// SAFETY: as above, and a shared reference gives only shared access to the bytes.
unsafe impl Sync for SharedAllocation {}

/// The content of an allocation that is marked as on disk.
#[cfg(not(loom))]
#[repr(C)]
pub(super) struct OnDisk {
    pub(super) location: AtomicExtentLocation,
    /// Only there with [`IN_MEMORY_TOO`].
    pub(super) record: Record,
}

/// Bytes of the content of an allocation with these flags in its header, if that is marked as on disk.
#[cfg(not(loom))]
pub(super) fn on_disk_bytes(flags: u32) -> usize {
    if flags & IN_MEMORY_TOO == 0 {
        size_of::<AtomicExtentLocation>()
    } else {
        size_of::<OnDisk>()
    }
}

impl SharedAllocation {
    #[expect(clippy::cast_ptr_alignment, reason = "the layout has the header's alignment")]
    pub(super) fn allocate(len: usize, allocate: impl FnOnce(Layout) -> *mut u8) -> Self {
        let layout = Self::layout(len);
        let len = checked_len(len);
        let start = allocate(layout).cast::<RecordHeader>();
        let Some(header) = NonNull::new(start) else {
            handle_alloc_error(layout)
        };
        #[cfg(not(loom))]
        let counted = memory::add(header.as_ptr().addr(), layout.size());
        #[cfg(loom)]
        let counted = false;
        let initial = RecordHeader {
            references: AtomicU32::new(1),
            len: if counted { len | COUNTED } else { len },
            #[cfg(loom)]
            freed: std::sync::atomic::AtomicBool::new(false),
        };
        // SAFETY: the allocation is new, aligned and large enough for a header.
        unsafe { header.write(initial) };
        Self(header)
    }

    fn layout(len: usize) -> Layout {
        let size = size_of::<RecordHeader>()
            .checked_add(len)
            .expect("a record fits memory");
        Layout::from_size_align(size, align_of::<RecordHeader>()).expect("a record fits memory")
    }

    /// The content of an allocation marked as on disk. It may end after the location.
    #[cfg(not(loom))]
    pub(super) fn on_disk_of(header: NonNull<RecordHeader>) -> *mut OnDisk {
        // SAFETY: the allocation begins with a whole header.
        unsafe { header.add(1).cast::<OnDisk>().as_ptr() }
    }

    #[inline]
    pub(super) fn is_on_disk(&self) -> bool {
        self.header().len & ON_DISK != 0
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        (self.header().len & !FLAGS) as usize
    }

    pub(super) fn content_of(header: NonNull<RecordHeader>) -> *mut u8 {
        // SAFETY: the allocation begins with a whole header.
        unsafe { header.add(1).cast::<u8>().as_ptr() }
    }

    pub(super) fn header(&self) -> &RecordHeader {
        // SAFETY: this reference is counted, so the allocation lives, and headers are only borrowed as shared.
        let header = unsafe { self.0.as_ref() };
        #[cfg(loom)]
        assert!(
            !header.freed.load(std::sync::atomic::Ordering::Relaxed),
            "a record was read after it was freed"
        );
        header
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        debug_assert!(!self.is_on_disk(), "a record is in memory");
        // SAFETY: the allocation of a record in memory contains `len` initialised bytes that do not change.
        unsafe { std::slice::from_raw_parts(Self::content_of(self.0), self.len()) }
    }

    /// Marks the allocation as freed, so that a late read panics.
    #[cfg(loom)]
    fn free(header: NonNull<RecordHeader>) {
        // SAFETY: under loom, a freed record stays allocated.
        let header = unsafe { header.as_ref() };
        header.freed.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    /// The record in memory of an allocation marked as on disk, if it has one.
    #[cfg(not(loom))]
    #[inline]
    pub(super) fn record_beside_location(&self) -> Option<&Record> {
        let is_there = self.header().len & IN_MEMORY_TOO != 0;
        // SAFETY: with the flag, the content has a record, which lives as long as this reference.
        is_there.then(|| unsafe { &(*Self::on_disk_of(self.0)).record })
    }

    #[cfg(loom)]
    pub(super) fn record_beside_location(&self) -> Option<&super::Record> {
        None
    }

    /// Drops the content of an allocation marked as on disk, and returns its bytes.
    #[cfg(not(loom))]
    #[cold]
    fn drop_on_disk(header: NonNull<RecordHeader>, flags: u32) -> usize {
        let content = Self::on_disk_of(header);
        // SAFETY: the last reference is gone, so no thread reads the location, and it is dropped once.
        unsafe { (&raw mut (*content).location).drop_in_place() };
        if flags & IN_MEMORY_TOO != 0 {
            // SAFETY: as above, and with the flag there is a record.
            unsafe { (&raw mut (*content).record).drop_in_place() };
        }
        on_disk_bytes(flags)
    }

    /// Frees an allocation whose last reference is gone. Takes the pointer itself, so that callers keep theirs in a
    /// register.
    #[cfg(not(loom))]
    #[inline(never)]
    fn free(header: NonNull<RecordHeader>) {
        // SAFETY: the last reference is gone, and only this call frees the allocation.
        let len = unsafe { header.as_ref() }.len;
        let content_len = if len & ON_DISK == 0 {
            (len & !FLAGS) as usize
        } else {
            Self::drop_on_disk(header, len)
        };
        let layout = Self::layout(content_len);
        if len & COUNTED != 0 {
            memory::sub(header.as_ptr().addr(), layout.size());
        }
        // SAFETY: as above, and the layout is the one that `allocate` used.
        unsafe { dealloc(header.as_ptr().cast(), layout) };
    }
}

/// `len` as a header stores it, without flags.
#[inline]
pub(super) fn checked_len(len: usize) -> u32 {
    let len = u32::try_from(len).ok().filter(|len| len & FLAGS == 0);
    len.expect("a record has less than 512 MiB")
}

impl Clone for SharedAllocation {
    #[inline]
    fn clone(&self) -> Self {
        // Relaxed: the caller has a reference, so the count alone publishes nothing.
        let before = self.header().references.fetch_add(1, Ordering::Relaxed);
        if before > REFERENCES_MAX {
            std::process::abort();
        }
        Self(self.0)
    }
}

impl Drop for SharedAllocation {
    #[inline]
    fn drop(&mut self) {
        let references = &self.header().references;
        // A count of one cannot rise, because only an owner of a reference can clone it, and this is the only owner.
        if references.load(Ordering::Acquire) != 1 {
            if references.fetch_sub(1, Ordering::Release) != 1 {
                return;
            }
            fence(Ordering::Acquire);
        }
        Self::free(self.0);
    }
}
