// SPDX-License-Identifier: Apache-2.0
//! The bytes of one message: shared, immutable, behind one thin pointer; in memory ([`Record`]) or perhaps on disk
//! ([`StoredRecord`]).
//!
//! One allocation holds a reference count, the length and the bytes, so that a slot needs 8 bytes for it
//! and the copies of a fan-out share one body. Of a message on disk it holds the place instead, in 16 bytes.
//!
//! Holds always
//! - the allocation lives while its count is above zero, and each [`Record`] or [`StoredRecord`] is one of the count;
//! - the bytes never change once [`Record::build`] returned;
//! - a [`Record`] is in memory: only a [`StoredRecord`] points to an allocation that says it is on disk, and such a one is a
//!   reference to the extent in its place.

#[cfg(not(loom))]
use std::alloc::dealloc;
use std::alloc::{Layout, alloc, alloc_zeroed, handle_alloc_error};
use std::fmt;
use std::ops::Deref;
use std::ptr::{self, NonNull};
#[cfg(not(loom))]
use std::sync::Arc;

#[cfg(not(loom))]
use crate::disk::DiskFile;
#[cfg(not(loom))]
use crate::extent::{AtomicExtentLocation, ExtentLocation};
#[cfg(not(loom))]
use crate::record_memory as memory;
use crate::sync::{AtomicU32, Ordering, fence};

/// In the length of a header: the bytes are on disk.
const ON_DISK: u32 = 1 << 31;
/// In the length of a header: the allocation is part of [`record_memory`](crate::record_memory).
const COUNTED: u32 = 1 << 30;
/// The bits of a length that say something else.
const FLAGS: u32 = ON_DISK | COUNTED;
/// Bytes before the body that a message without properties has at most.
const SHORT_HEAD: usize = 32;
/// More clones than memory could hold: some code leaks them.
const REFERENCES_MAX: u32 = u32::MAX / 2;

#[repr(C, align(8))]
struct RecordHeader {
    references: AtomicU32,
    /// Bytes of the record, and [`FLAGS`].
    len: u32,
    /// Under loom a freed record stays allocated and remembers it, so that a late reader is caught.
    #[cfg(loom)]
    freed: std::sync::atomic::AtomicBool,
}

/// A counted reference to an allocation.
struct SharedAllocation(NonNull<RecordHeader>);

// SAFETY: what is shared is immutable or atomic, and so is the count: a reference may be used and dropped on any thread.
unsafe impl Send for SharedAllocation {}
// SAFETY: as above; a shared reference only hands out shared bytes.
unsafe impl Sync for SharedAllocation {}

/// The bytes of one message, in memory. A clone shares them.
#[derive(Clone)]
#[repr(transparent)]
pub struct Record(SharedAllocation);

/// The bytes of one message as a store keeps them: in memory, or a place on disk to read them from. A clone shares them.
#[derive(Clone)]
#[repr(transparent)]
pub struct StoredRecord(SharedAllocation);

/// Where the bytes of a message are.
#[cfg(not(loom))]
pub(crate) enum RecordLocation<'a> {
    /// In memory.
    Memory(&'a Record),
    /// In a file, at a position; who holds the file keeps the bytes there.
    Disk(Arc<dyn DiskFile>, u64),
}

impl Record {
    /// A record of `len` bytes, zero until `fill` writes them. At most 1 GiB.
    #[inline]
    pub fn build(len: usize, fill: impl FnOnce(&mut [u8])) -> Self {
        // SAFETY: the layout has the size of a header at least.
        let shared = SharedAllocation::allocate(len, |layout| unsafe { alloc_zeroed(layout) });
        // SAFETY: the allocation has `len` initialised bytes there and nobody else knows it yet.
        fill(unsafe { std::slice::from_raw_parts_mut(SharedAllocation::content_of(shared.0), len) });
        Self(shared)
    }

    /// A record of a head of `head_len` bytes, zero until `fill` writes them, and a copy of `tail`. At most 1 GiB.
    ///
    /// The tail, which may be large, is written once.
    #[inline]
    pub fn with_tail(head_len: usize, fill: impl FnOnce(&mut [u8]), tail: &[u8]) -> Self {
        let len = head_len.checked_add(tail.len()).expect("a record fits memory");
        // SAFETY: the layout has the size of a header at least.
        let shared = SharedAllocation::allocate(len, |layout| unsafe { alloc(layout) });
        let content = SharedAllocation::content_of(shared.0);
        // Most heads are shorter than this, and zeroing as many bytes as the compiler knows takes no call.
        let zeroed = if len >= SHORT_HEAD { SHORT_HEAD } else { 0 };
        // SAFETY: the allocation is fresh, so it does not overlap `tail`, and has room for both behind its header; what is
        // zeroed first is no longer than both.
        unsafe {
            if zeroed > 0 {
                ptr::write_bytes(content, 0, SHORT_HEAD);
            }
            if head_len > zeroed {
                ptr::write_bytes(content.add(zeroed), 0, head_len - zeroed);
            }
            ptr::copy_nonoverlapping(tail.as_ptr(), content.add(head_len), tail.len());
        }
        // SAFETY: `head_len` bytes are initialised there and nobody else knows the allocation yet.
        fill(unsafe { std::slice::from_raw_parts_mut(content, head_len) });
        Self(shared)
    }

    /// True when both share one allocation.
    #[cfg(not(loom))]
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.0 == other.0.0
    }

    /// A record with a copy of `bytes`.
    pub fn from_slice(bytes: &[u8]) -> Self {
        // SAFETY: the layout has the size of a header at least.
        let shared = SharedAllocation::allocate(bytes.len(), |layout| unsafe { alloc(layout) });
        // SAFETY: the allocation is fresh, so it does not overlap `bytes`, and has room for them.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), SharedAllocation::content_of(shared.0), bytes.len()) };
        Self(shared)
    }
}

impl StoredRecord {
    /// A record of `len` bytes that can be read back from `place`.
    #[cfg(not(loom))]
    pub fn on_disk(len: usize, place: ExtentLocation) -> Self {
        let fill = |layout| {
            // SAFETY: the layout has the size of a header at least.
            unsafe { alloc_zeroed(layout) }
        };
        let mut shared = SharedAllocation::allocate(size_of::<AtomicExtentLocation>(), fill);
        // SAFETY: the allocation is fresh, aligned to 8 like its content, and has room for a place.
        unsafe { SharedAllocation::location_of(shared.0).write(place.into()) };
        // SAFETY: nobody else knows the allocation yet.
        let header = unsafe { shared.0.as_mut() };
        header.len = header.len & COUNTED | ON_DISK | checked_len(len);
        Self(shared)
    }

    /// Bytes of the record, wherever they are.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True without bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The record, when it is in memory.
    #[inline]
    pub fn in_memory(&self) -> Option<&Record> {
        // SAFETY: `Record` and `StoredRecord` are laid out as one `SharedAllocation`, and this one is in memory.
        (!self.0.is_on_disk()).then(|| unsafe { &*ptr::from_ref(self).cast::<Record>() })
    }

    /// The record, read from disk if it is there. An error means that it could not be read, or is not what was written.
    #[cfg(not(loom))]
    pub fn load(&self) -> std::io::Result<Record> {
        match (self.in_memory(), self.extent_location()) {
            (Some(record), _) => Ok(record.clone()),
            (None, Some(placed)) => {
                let mut read = Ok(());
                let record = Record::build(self.len(), |bytes| read = placed.read(bytes));
                read.map(|()| record)
            }
            (None, None) => unreachable!("a record is in memory or on disk"),
        }
    }

    /// Where its bytes are now.
    #[cfg(not(loom))]
    pub(crate) fn location(&self) -> RecordLocation<'_> {
        match (self.in_memory(), self.extent_location()) {
            (Some(record), _) => RecordLocation::Memory(record),
            (None, Some(placed)) => {
                let (file, position) = placed.file();
                RecordLocation::Disk(file, position)
            }
            (None, None) => unreachable!("a record is in memory or on disk"),
        }
    }

    /// Reads it from another place from now on, if it is on disk. The same bytes must be there.
    #[cfg(not(loom))]
    pub fn move_to(&self, place: ExtentLocation) {
        if let Some(placed) = self.extent_location() {
            placed.replace(place);
        }
    }

    #[cfg(not(loom))]
    fn extent_location(&self) -> Option<&AtomicExtentLocation> {
        // SAFETY: the content of an allocation that is on disk is a place, and lives as long as this reference.
        self.0
            .is_on_disk()
            .then(|| unsafe { &*SharedAllocation::location_of(self.0.0) })
    }

    /// The pointer; its reference moves with it. Only [`StoredRecord::from_raw`] takes it back.
    pub(crate) fn into_raw(self) -> u64 {
        let raw = self.0.0.as_ptr().expose_provenance() as u64;
        std::mem::forget(self);
        raw
    }

    /// The record behind a pointer.
    ///
    /// # Safety
    /// `raw` comes from [`StoredRecord::into_raw`], and the caller owns the reference that moved with it.
    pub(crate) unsafe fn from_raw(raw: u64) -> Self {
        let header = ptr::with_exposed_provenance_mut::<RecordHeader>(raw as usize);
        debug_assert!(!header.is_null(), "a slot in use has a body");
        // SAFETY: `into_raw` never gives null.
        Self(SharedAllocation(unsafe { NonNull::new_unchecked(header) }))
    }

    /// A further reference to the record behind a pointer.
    ///
    /// # Safety
    /// `raw` comes from [`StoredRecord::into_raw`], and that reference is not given back during the call.
    pub(crate) unsafe fn clone_raw(raw: u64) -> Self {
        // SAFETY: the caller keeps the reference alive; `ManuallyDrop` leaves it with the slot.
        let kept = std::mem::ManuallyDrop::new(unsafe { Self::from_raw(raw) });
        Self::clone(&kept)
    }

    /// Bytes of the record behind a pointer.
    ///
    /// # Safety
    /// As for [`StoredRecord::clone_raw`].
    pub(crate) unsafe fn len_raw(raw: u64) -> usize {
        // SAFETY: the caller keeps the reference alive; `ManuallyDrop` leaves it with the slot.
        std::mem::ManuallyDrop::new(unsafe { Self::from_raw(raw) }).len()
    }
}

impl From<Record> for StoredRecord {
    #[inline]
    fn from(record: Record) -> Self {
        Self(record.0)
    }
}

impl TryFrom<StoredRecord> for Record {
    type Error = StoredRecord;

    /// The record, when it is in memory.
    #[inline]
    fn try_from(stored: StoredRecord) -> Result<Self, StoredRecord> {
        if stored.0.is_on_disk() {
            Err(stored)
        } else {
            Ok(Self(stored.0))
        }
    }
}

impl SharedAllocation {
    #[expect(clippy::cast_ptr_alignment, reason = "the layout has the header's alignment")]
    fn allocate(len: usize, allocate: impl FnOnce(Layout) -> *mut u8) -> Self {
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
        let filled = RecordHeader {
            references: AtomicU32::new(1),
            len: if counted { len | COUNTED } else { len },
            #[cfg(loom)]
            freed: std::sync::atomic::AtomicBool::new(false),
        };
        // SAFETY: the allocation is fresh, aligned and large enough for a header.
        unsafe { header.write(filled) };
        Self(header)
    }

    fn layout(len: usize) -> Layout {
        let size = size_of::<RecordHeader>()
            .checked_add(len)
            .expect("a record fits memory");
        Layout::from_size_align(size, align_of::<RecordHeader>()).expect("a record fits memory")
    }

    /// The content of an allocation that is on disk.
    #[cfg(not(loom))]
    fn location_of(header: NonNull<RecordHeader>) -> *mut AtomicExtentLocation {
        // SAFETY: the allocation begins with a whole header.
        unsafe { header.add(1).cast::<AtomicExtentLocation>().as_ptr() }
    }

    #[inline]
    fn is_on_disk(&self) -> bool {
        self.header().len & ON_DISK != 0
    }

    #[inline]
    fn len(&self) -> usize {
        (self.header().len & !FLAGS) as usize
    }

    fn content_of(header: NonNull<RecordHeader>) -> *mut u8 {
        // SAFETY: the allocation begins with a whole header.
        unsafe { header.add(1).cast::<u8>().as_ptr() }
    }

    fn header(&self) -> &RecordHeader {
        // SAFETY: this record is one of the count, so the allocation lives; headers are only shared.
        let header = unsafe { self.0.as_ref() };
        #[cfg(loom)]
        assert!(
            !header.freed.load(std::sync::atomic::Ordering::Relaxed),
            "a freed record was used"
        );
        header
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        debug_assert!(!self.is_on_disk(), "a record is in memory");
        // SAFETY: the allocation of a record in memory holds `len` initialised bytes that never change.
        unsafe { std::slice::from_raw_parts(Self::content_of(self.0), self.len()) }
    }

    /// Marks the allocation, so that a late reader is caught.
    #[cfg(loom)]
    fn free(&mut self) {
        self.header().freed.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    #[cfg(not(loom))]
    #[inline(never)]
    fn free(&mut self) {
        let content_len = if self.is_on_disk() {
            // SAFETY: the content is a location that nobody reads any more, and it is dropped once.
            unsafe { Self::location_of(self.0).drop_in_place() };
            size_of::<AtomicExtentLocation>()
        } else {
            self.len()
        };
        let layout = Self::layout(content_len);
        if self.header().len & COUNTED != 0 {
            memory::sub(self.0.as_ptr().addr(), layout.size());
        }
        // SAFETY: the last reference is gone, and the layout is the one of `allocate`.
        unsafe { dealloc(self.0.as_ptr().cast(), layout) };
    }
}

/// The length of a record as a header has it.
#[inline]
fn checked_len(len: usize) -> u32 {
    let len = u32::try_from(len).ok().filter(|len| len & FLAGS == 0);
    len.expect("a record has at most 1 GiB")
}

impl Clone for SharedAllocation {
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

impl Drop for SharedAllocation {
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
        self.0.bytes()
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

impl fmt::Debug for StoredRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let where_from = if self.0.is_on_disk() { "on disk" } else { "in memory" };
        f.debug_tuple("Stored").field(&self.len()).field(&where_from).finish()
    }
}

/// Equal bytes in memory; on disk the very same.
impl PartialEq for StoredRecord {
    fn eq(&self, other: &Self) -> bool {
        match (self.in_memory(), other.in_memory()) {
            (Some(one), Some(another)) => one == another,
            _ => self.0.0 == other.0.0,
        }
    }
}

impl Eq for StoredRecord {}
