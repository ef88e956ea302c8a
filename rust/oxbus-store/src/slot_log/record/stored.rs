// SPDX-License-Identifier: Apache-2.0
//! The record of a message in a store: its bytes are in memory, on disk, or both.

#[cfg(not(loom))]
use std::alloc::alloc_zeroed;
use std::fmt;
use std::ptr::{self, NonNull};
#[cfg(not(loom))]
use std::sync::Arc;

use super::Record;
#[cfg(not(loom))]
use super::allocation::{COUNTED, IN_MEMORY_TOO, ON_DISK, checked_len, on_disk_bytes};
use super::allocation::{RecordHeader, SharedAllocation};
#[cfg(not(loom))]
use crate::disk::DiskFile;
#[cfg(not(loom))]
use crate::extent::{AtomicExtentLocation, ExtentLocation};

/// The bytes of one message in a store: in memory, or a location on disk. A clone shares them.
#[derive(Clone)]
#[repr(transparent)]
pub struct StoredRecord(pub(super) SharedAllocation);

/// Location of the bytes of a message.
#[cfg(not(loom))]
pub(crate) enum RecordLocation<'a> {
    /// In memory.
    Memory(&'a Record),
    /// In a file, at a position. The bytes stay there while the file is referenced.
    Disk(Arc<dyn DiskFile>, u64),
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
        if !self.0.is_on_disk() {
            // SAFETY: `Record` and `StoredRecord` have the layout of `SharedAllocation`, and this one is in memory.
            return Some(unsafe { &*ptr::from_ref(self).cast::<Record>() });
        }
        self.0.record_beside_location()
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
        if !stored.0.is_on_disk() {
            return Ok(Self(stored.0));
        }
        stored.in_memory().cloned().ok_or(stored)
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
