// SPDX-License-Identifier: Apache-2.0
//! Reading bodies that somebody may remove at the same time: the reader pays.
//!
//! A browser counts itself in, then reads states and bodies, and clones what it wants. Whoever takes a body out of
//! its slot changes the slot first (state, or body when it is replaced) and reads the count after. When the count is
//! zero it owns the body outright. When not, it leaves one reference in `retired`, freed when nobody browses.
//!
//! Why no browser meets a freed body: both sides put a sequentially consistent step between their write and their
//! read. Either the browser sees the changed slot and leaves the body alone, or the remover sees the browser and keeps
//! a reference. `retired` is emptied only under its mutex while the count reads zero: a browser that comes later
//! counts itself in after that read, so it sees the changes of everything that was in the list.
//!
//! Claimers and settlers own the slot they read and need none of this.

use super::record::StoredRecord;
use crate::sync::{AtomicU32, AtomicUsize, Mutex, Ordering, fence, fence_after_rmw, lock};

#[derive(Debug)]
pub(super) struct Browsers {
    active: AtomicU32,
    /// Length of `retired`.
    retired_len: AtomicUsize,
    retired: Mutex<Vec<StoredRecord>>,
}

/// A browser that counted itself in.
#[derive(Debug)]
pub(super) struct BrowseGuard<'a>(&'a Browsers);

/// How a slot was changed before its body left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyRemoval {
    /// By a sequentially consistent compare-and-swap.
    Swapped,
    /// By a plain store.
    Stored,
}

impl Browsers {
    pub(super) fn new() -> Self {
        Self {
            active: AtomicU32::new(0),
            retired_len: AtomicUsize::new(0),
            retired: Mutex::new(Vec::new()),
        }
    }

    /// Counts a browser in, until the result is dropped.
    pub(super) fn enter(&self) -> BrowseGuard<'_> {
        self.active.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        BrowseGuard(self)
    }

    /// Call it after a body left its slot, before its reference may be dropped.
    #[inline]
    pub(super) fn retain_if_browsed<'r>(&self, records: impl Iterator<Item = &'r StoredRecord>, removal: BodyRemoval) {
        match removal {
            BodyRemoval::Swapped => fence_after_rmw(),
            BodyRemoval::Stored => fence(Ordering::SeqCst),
        }
        if self.active.load(Ordering::SeqCst) != 0 {
            self.retain(records.cloned().collect());
        }
    }

    #[cold]
    fn retain(&self, records: Vec<StoredRecord>) {
        let mut retired = lock(&self.retired);
        retired.extend(records);
        self.retired_len.store(retired.len(), Ordering::SeqCst);
        self.free_unless_browsed(retired);
    }

    fn free_unless_browsed(&self, mut retired: crate::sync::MutexGuard<'_, Vec<StoredRecord>>) {
        fence(Ordering::SeqCst);
        if self.active.load(Ordering::SeqCst) == 0 {
            let freed = std::mem::take(&mut *retired);
            self.retired_len.store(0, Ordering::SeqCst);
            drop(retired);
            drop(freed);
        }
    }
}

impl Drop for BrowseGuard<'_> {
    fn drop(&mut self) {
        let last = self.0.active.fetch_sub(1, Ordering::SeqCst) == 1;
        fence_after_rmw();
        if last && self.0.retired_len.load(Ordering::SeqCst) > 0 {
            self.0.free_unless_browsed(lock(&self.0.retired));
        }
    }
}
