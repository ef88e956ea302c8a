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
mod allocation;
mod stored;

use std::alloc::{alloc, alloc_zeroed};
use std::fmt;
use std::ops::Deref;
use std::ptr;

use allocation::SharedAllocation;

#[cfg(not(loom))]
pub(crate) use allocation::HEADER_BYTES;
pub use allocation::RECORD_BYTES_MAX;
#[cfg(not(loom))]
pub(crate) use stored::RecordLocation;
pub use stored::StoredRecord;

/// Largest size of the head of a message without properties.
const SHORT_HEAD: usize = 32;

/// The bytes of one message, in memory. A clone shares them.
#[derive(Clone)]
#[repr(transparent)]
pub struct Record(SharedAllocation);

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
