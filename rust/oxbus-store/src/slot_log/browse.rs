// SPDX-License-Identifier: Apache-2.0
//! Reading bodies that other threads may remove at the same time. The reader bears the cost.
//!
//! A browser increments `active`, then reads states and bodies, and clones the bodies that it needs. A remover, which
//! takes a body out of its slot, first changes the slot (the state, or the body if it is replaced) and then reads
//! `active`. If `active` is zero, it may drop the body. Otherwise it also puts a reference into `retired`, which is
//! emptied when no browser is active.
//!
//! No browser reads a freed body, because both sides have a sequentially consistent step between their write and their
//! read. Either the browser sees the changed slot and does not touch the body, or the remover sees the browser and
//! keeps a reference. `retired` is emptied only under its mutex while `active` reads zero. A later browser increments
//! `active` after that read, so it sees the slots of all those bodies changed.
//!
//! Claims and settlements read only slots that they own and do not need this.

use super::record::StoredRecord;
use crate::sync::{AtomicU32, AtomicUsize, Mutex, Ordering, fence, fence_after_rmw, lock};

/// The active browsers, and the bodies retained for them.
#[derive(Debug)]
pub(super) struct Browsers {
    active: AtomicU32,
    /// Length of `retired`, which can be read without its mutex.
    retired_len: AtomicUsize,
    retired: Mutex<Vec<StoredRecord>>,
}

/// An active browser, until it is dropped.
#[derive(Debug)]
pub(super) struct BrowseGuard<'a>(&'a Browsers);

/// How the remover changed the slot.
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

    /// Starts browsing, until the result is dropped.
    pub(super) fn enter(&self) -> BrowseGuard<'_> {
        self.active.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        BrowseGuard(self)
    }

    /// Keeps references to `records` while a browser may read them. Call it after changing the slots and before
    /// dropping the records.
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
