// SPDX-License-Identifier: Apache-2.0
//! The bytes of one message: shared, immutable, behind one thin pointer. A [`Record`] is in memory, a [`StoredRecord`]
//! in memory or on disk.
//!
//! One allocation contains a reference count, the length and the bytes, so a slot needs 8 bytes for it and the copies
//! of a fan-out share one body. For a message on disk, the allocation contains the location instead of the bytes, and a
//! [`Record`] beside it if the bytes are in memory, too.
//!
//! Invariants
//! - the allocation lives while its count is above zero, and each [`Record`] or [`StoredRecord`] counts as one;
//! - the bytes do not change after [`Record::build`] returns;
//! - a [`Record`] is in memory. Only a [`StoredRecord`] points to an allocation marked as on disk, and that allocation
//!   keeps a reference to the extent of its location.

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

/// Flag in the length of a header: the bytes are on disk.
const ON_DISK: u32 = 1 << 31;
/// Flag in the length of a header: [`record_memory`](crate::record_memory()) counts the allocation.
const COUNTED: u32 = 1 << 30;
/// Flag in the length of a header with [`ON_DISK`]: the bytes are in memory, too.
const IN_MEMORY_TOO: u32 = 1 << 29;
/// Largest record in bytes.
pub const RECORD_BYTES_MAX: usize = (IN_MEMORY_TOO - 1) as usize;
/// The flags in the length of a header.
const FLAGS: u32 = ON_DISK | COUNTED | IN_MEMORY_TOO;
/// Bytes of an allocation before its content.
#[cfg(not(loom))]
pub(crate) const HEADER_BYTES: usize = size_of::<RecordHeader>();
/// Largest size of the head of a message without properties.
const SHORT_HEAD: usize = 32;
/// More references than memory could hold. Reaching this number means that some code leaks them.
const REFERENCES_MAX: u32 = u32::MAX / 2;

#[repr(C, align(8))]
struct RecordHeader {
    references: AtomicU32,
    /// Bytes of the record, with [`FLAGS`].
    len: u32,
    /// Under loom a freed record stays allocated and sets this, so that a late read panics.
    #[cfg(loom)]
    freed: std::sync::atomic::AtomicBool,
}

/// A counted reference to an allocation.
struct SharedAllocation(NonNull<RecordHeader>);

// SAFETY: the shared data is immutable or atomic, so a reference may be used and dropped on any thread.
unsafe impl Send for SharedAllocation {}
// SAFETY: as above, and a shared reference gives only shared access to the bytes.
unsafe impl Sync for SharedAllocation {}

/// The bytes of one message, in memory. A clone shares them.
#[derive(Clone)]
#[repr(transparent)]
pub struct Record(SharedAllocation);

/// The bytes of one message in a store: in memory, or a location on disk. A clone shares them.
#[derive(Clone)]
#[repr(transparent)]
pub struct StoredRecord(SharedAllocation);

/// Location of the bytes of a message.
#[cfg(not(loom))]
pub(crate) enum RecordLocation<'a> {
    /// In memory.
    Memory(&'a Record),
    /// In a file, at a position. The bytes stay there while the file is referenced.
    Disk(Arc<dyn DiskFile>, u64),
}

impl Record {
    /// A record of `len` bytes, less than 512 MiB. The bytes are zero until `fill` writes them.
    #[inline]
    pub fn build(len: usize, fill: impl FnOnce(&mut [u8])) -> Self {
        // SAFETY: the layout has at least the size of a header.
        let shared = SharedAllocation::allocate(len, |layout| unsafe { alloc_zeroed(layout) });
        // SAFETY: the allocation has `len` initialised bytes there and no other reference yet.
        fill(unsafe { std::slice::from_raw_parts_mut(SharedAllocation::content_of(shared.0), len) });
        Self(shared)
    }

    /// A record of less than 512 MiB: a head of `head_len` bytes, which are zero until `fill` writes them, and a copy of
    /// `tail`.
    ///
    /// Writes the tail, which may be large, only once, because it is not zeroed first.
    #[inline]
    pub fn with_tail(head_len: usize, fill: impl FnOnce(&mut [u8]), tail: &[u8]) -> Self {
        let len = head_len.checked_add(tail.len()).expect("a record fits memory");
        // SAFETY: the layout has at least the size of a header.
        let shared = SharedAllocation::allocate(len, |layout| unsafe { alloc(layout) });
        let content = SharedAllocation::content_of(shared.0);
        // Most heads are shorter than this, and zeroing a constant number of bytes needs no call.
        let zeroed = if len >= SHORT_HEAD { SHORT_HEAD } else { 0 };
        // SAFETY: the allocation is new, so it does not overlap `tail`, and has room for both after its header. The
        // number of bytes zeroed first does not exceed their total length.
        unsafe {
            if zeroed > 0 {
                ptr::write_bytes(content, 0, SHORT_HEAD);
            }
            if head_len > zeroed {
                ptr::write_bytes(content.add(zeroed), 0, head_len - zeroed);
            }
            ptr::copy_nonoverlapping(tail.as_ptr(), content.add(head_len), tail.len());
        }
        // SAFETY: `head_len` bytes are initialised there, and the allocation has no other reference yet.
        fill(unsafe { std::slice::from_raw_parts_mut(content, head_len) });
        Self(shared)
    }

    /// A record of a head of known length and a tail, each copied once.
    #[inline]
    pub fn of_parts<const HEAD: usize>(head: [u8; HEAD], tail: &[u8]) -> Self {
        let len = HEAD.checked_add(tail.len()).expect("a record fits memory");
        // SAFETY: the layout has at least the size of a header.
        let shared = SharedAllocation::allocate(len, |layout| unsafe { alloc(layout) });
        let content = SharedAllocation::content_of(shared.0);
        // SAFETY: the allocation is new, so it overlaps neither part, and has room for both after its header.
        unsafe {
            ptr::copy_nonoverlapping(head.as_ptr(), content, HEAD);
            ptr::copy_nonoverlapping(tail.as_ptr(), content.add(HEAD), tail.len());
        }
        Self(shared)
    }

    /// True if both share one allocation.
    #[cfg(not(loom))]
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.0 == other.0.0
    }

    /// A record with a copy of `bytes`.
    pub fn from_slice(bytes: &[u8]) -> Self {
        // SAFETY: the layout has at least the size of a header.
        let shared = SharedAllocation::allocate(bytes.len(), |layout| unsafe { alloc(layout) });
        // SAFETY: the allocation is new, so it does not overlap `bytes`, and has room for them.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), SharedAllocation::content_of(shared.0), bytes.len()) };
        Self(shared)
    }
}

/// The content of an allocation that is marked as on disk.
#[cfg(not(loom))]
#[repr(C)]
struct OnDisk {
    location: AtomicExtentLocation,
    /// Only there with [`IN_MEMORY_TOO`].
    record: Record,
}

/// Bytes of the content of an allocation with these flags in its header, if that is marked as on disk.
#[cfg(not(loom))]
fn on_disk_bytes(flags: u32) -> usize {
    if flags & IN_MEMORY_TOO == 0 {
        size_of::<AtomicExtentLocation>()
    } else {
        size_of::<OnDisk>()
    }
}

impl StoredRecord {
    /// A record of `len` bytes that is on disk at `location`.
    #[cfg(not(loom))]
    pub fn on_disk(len: usize, location: ExtentLocation) -> Self {
        Self::with_location(len, location, None)
    }

    /// A record in memory whose bytes are also on disk at `location`.
    #[cfg(not(loom))]
    pub fn in_both(record: Record, location: ExtentLocation) -> Self {
        Self::with_location(record.len(), location, Some(record))
    }

    #[cfg(not(loom))]
    fn with_location(len: usize, location: ExtentLocation, record: Option<Record>) -> Self {
        let flags = ON_DISK | if record.is_some() { IN_MEMORY_TOO } else { 0 };
        let fill = |layout| {
            // SAFETY: the layout has at least the size of a header.
            unsafe { alloc_zeroed(layout) }
        };
        let mut shared = SharedAllocation::allocate(on_disk_bytes(flags), fill);
        let content = SharedAllocation::on_disk_of(shared.0);
        // SAFETY: the allocation is new, aligned to 8 like its content, and has room for a location.
        unsafe { (&raw mut (*content).location).write(location.into()) };
        if let Some(record) = record {
            // SAFETY: with the flag, there is room for a record after the location.
            unsafe { (&raw mut (*content).record).write(record) };
        }
        // SAFETY: the allocation has no other reference yet.
        let header = unsafe { shared.0.as_mut() };
        header.len = header.len & COUNTED | flags | checked_len(len);
        Self(shared)
    }

    /// Bytes of the record, in memory or on disk.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Address of the allocation.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn address(&self) -> usize {
        self.0.0.as_ptr().addr()
    }

    /// True if the record has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The record, if it is in memory.
    #[inline]
    pub fn in_memory(&self) -> Option<&Record> {
        if self.0.is_on_disk() {
            return self.copy_in_memory();
        }
        // SAFETY: `Record` and `StoredRecord` have the layout of `SharedAllocation`, and this one is in memory.
        Some(unsafe { &*ptr::from_ref(self).cast::<Record>() })
    }

    /// The bytes of a record on disk that are in memory, too.
    #[cfg(not(loom))]
    #[cold]
    fn copy_in_memory(&self) -> Option<&Record> {
        let is_there = self.0.header().len & IN_MEMORY_TOO != 0;
        // SAFETY: with the flag, the content has a record, which lives as long as this reference.
        is_there.then(|| unsafe { &(*SharedAllocation::on_disk_of(self.0.0)).record })
    }

    #[cfg(loom)]
    fn copy_in_memory(&self) -> Option<&Record> {
        None
    }

    /// The record, read from disk if it is spilled. An error means that the read failed or the bytes are corrupt.
    #[cfg(not(loom))]
    pub fn load(&self) -> std::io::Result<Record> {
        match (self.in_memory(), self.extent_location()) {
            (Some(record), _) => Ok(record.clone()),
            (None, Some(location)) => {
                let mut read = Ok(());
                let record = Record::build(self.len(), |bytes| read = location.read(bytes));
                read.map(|()| record)
            }
            (None, None) => unreachable!("a record is in memory or on disk"),
        }
    }

    /// Location of its bytes at this moment.
    #[cfg(not(loom))]
    pub(crate) fn location(&self) -> RecordLocation<'_> {
        match (self.in_memory(), self.extent_location()) {
            (Some(record), _) => RecordLocation::Memory(record),
            (None, Some(location)) => {
                let (file, position) = location.file();
                RecordLocation::Disk(file, position)
            }
            (None, None) => unreachable!("a record is in memory or on disk"),
        }
    }

    /// Changes the location of its bytes, if it is on disk. The new location must contain the same bytes.
    #[cfg(not(loom))]
    pub fn move_to(&self, location: ExtentLocation) {
        if let Some(current) = self.extent_location() {
            current.replace(location);
        }
    }

    #[cfg(not(loom))]
    fn extent_location(&self) -> Option<&AtomicExtentLocation> {
        // SAFETY: the content of an allocation marked as on disk is a location, which lives as long as this reference.
        self.0
            .is_on_disk()
            .then(|| unsafe { &(*SharedAllocation::on_disk_of(self.0.0)).location })
    }

    /// The number of the file that has the bytes, and where they begin in it; `None` unless they are on a disk that
    /// shares bytes.
    #[cfg(not(loom))]
    pub(crate) fn shared_place(&self) -> Option<(u64, u64)> {
        let (file, position) = self.extent_location()?.file();
        Some((file.number()?, position))
    }

    /// The pointer, which owns the reference. Only [`StoredRecord::from_raw`] gives the reference back.
    pub(crate) fn into_raw(self) -> u64 {
        let raw = self.0.0.as_ptr().expose_provenance() as u64;
        std::mem::forget(self);
        raw
    }

    /// The record behind a pointer.
    ///
    /// # Safety
    /// `raw` comes from [`StoredRecord::into_raw`], and the caller owns its reference.
    pub(crate) unsafe fn from_raw(raw: u64) -> Self {
        let header = ptr::with_exposed_provenance_mut::<RecordHeader>(raw as usize);
        debug_assert!(!header.is_null(), "a slot in use has a body");
        // SAFETY: `into_raw` does not return null.
        Self(SharedAllocation(unsafe { NonNull::new_unchecked(header) }))
    }

    /// Another reference to the record behind a pointer.
    ///
    /// # Safety
    /// `raw` comes from [`StoredRecord::into_raw`], and its reference is not dropped during the call.
    pub(crate) unsafe fn clone_raw(raw: u64) -> Self {
        // SAFETY: the caller keeps the reference alive; `ManuallyDrop` does not drop it.
        let original = std::mem::ManuallyDrop::new(unsafe { Self::from_raw(raw) });
        Self::clone(&original)
    }

    /// Bytes of the record behind a pointer.
    ///
    /// # Safety
    /// As for [`StoredRecord::clone_raw`].
    pub(crate) unsafe fn len_raw(raw: u64) -> usize {
        // SAFETY: the caller keeps the reference alive; `ManuallyDrop` does not drop it.
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

    /// The record, if it is in memory.
    #[inline]
    fn try_from(stored: StoredRecord) -> Result<Self, StoredRecord> {
        match stored.in_memory() {
            Some(record) if stored.0.is_on_disk() => Ok(record.clone()),
            Some(_) => Ok(Self(stored.0)),
            None => Err(stored),
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
    fn on_disk_of(header: NonNull<RecordHeader>) -> *mut OnDisk {
        // SAFETY: the allocation begins with a whole header.
        unsafe { header.add(1).cast::<OnDisk>().as_ptr() }
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
    fn bytes(&self) -> &[u8] {
        debug_assert!(!self.is_on_disk(), "a record is in memory");
        // SAFETY: the allocation of a record in memory contains `len` initialised bytes that do not change.
        unsafe { std::slice::from_raw_parts(Self::content_of(self.0), self.len()) }
    }

    /// Marks the allocation as freed, so that a late read panics.
    #[cfg(loom)]
    fn free(&mut self) {
        self.header().freed.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    #[cfg(not(loom))]
    #[inline(never)]
    fn free(&mut self) {
        let content_len = if self.is_on_disk() {
            let content = Self::on_disk_of(self.0);
            // SAFETY: the last reference is gone, so no thread reads the location, and it is dropped once.
            unsafe { (&raw mut (*content).location).drop_in_place() };
            let flags = self.header().len & FLAGS;
            if flags & IN_MEMORY_TOO != 0 {
                // SAFETY: as above, and with the flag there is a record.
                unsafe { (&raw mut (*content).record).drop_in_place() };
            }
            on_disk_bytes(flags)
        } else {
            self.len()
        };
        let layout = Self::layout(content_len);
        if self.header().len & COUNTED != 0 {
            memory::sub(self.0.as_ptr().addr(), layout.size());
        }
        // SAFETY: the last reference is gone, and the layout is the one that `allocate` used.
        unsafe { dealloc(self.0.as_ptr().cast(), layout) };
    }
}

/// `len` as a header stores it, without flags.
#[inline]
fn checked_len(len: usize) -> u32 {
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
        let location = match self.in_memory() {
            Some(_) if self.0.is_on_disk() => "in memory and on disk",
            Some(_) => "in memory",
            None => "on disk",
        };
        f.debug_tuple("Stored").field(&self.len()).field(&location).finish()
    }
}

/// Records in memory are equal if their bytes are equal. Records on disk are equal only if they share the allocation.
impl PartialEq for StoredRecord {
    fn eq(&self, other: &Self) -> bool {
        match (self.in_memory(), other.in_memory()) {
            (Some(one), Some(another)) => one == another,
            _ => self.0.0 == other.0.0,
        }
    }
}

impl Eq for StoredRecord {}
