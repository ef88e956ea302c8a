// SPDX-License-Identifier: Apache-2.0
//! Where a bus keeps its files.

use std::path::PathBuf;
use std::sync::Arc;

use oxbus_broker::durable::StoreOptions;
use oxbus_model::options::Durability;
use oxbus_store::disk::Disk;
use oxbus_store::fault::FaultDisk;

use crate::stored::Stored;

/// The kinds of places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlaceKind {
    Memory,
    Directory,
    Store,
}

impl PlaceKind {
    /// Simulations to run at once on each processor: those of a store wait for threads of its disk.
    pub(crate) fn threads_per_processor(self) -> usize {
        if self == Self::Store { 3 } else { 1 }
    }
}

/// A place.
pub(crate) enum Place {
    Memory,
    Directory(FaultDisk),
    Store(Stored),
}

impl Place {
    pub(crate) fn new(kind: PlaceKind) -> Self {
        match kind {
            PlaceKind::Memory => Self::Memory,
            PlaceKind::Directory => Self::Directory(FaultDisk::new()),
            PlaceKind::Store => Self::Store(Stored::new()),
        }
    }

    /// What is left after the process was killed.
    pub(crate) fn after_kill(&self) -> Self {
        match self {
            Self::Memory => Self::Memory,
            Self::Directory(disk) => Self::Directory(disk.after_kill()),
            // An owner that is not dead lives on, as one that is paused: it is taken over.
            Self::Store(stored) => Self::Store(stored.next_owner()),
        }
    }

    /// Prepares a place that was closed for its next owner.
    pub(crate) fn next_owner(&mut self) {
        if let Self::Store(stored) = self {
            *stored = stored.next_owner();
        }
    }

    /// The store, if the place is one.
    pub(crate) fn stored(&self) -> Option<&Stored> {
        match self {
            Self::Store(stored) => Some(stored),
            _ => None,
        }
    }

    /// The options of a namespace there.
    pub(crate) fn options(&self) -> Option<StoreOptions> {
        match self {
            Self::Memory => None,
            Self::Directory(disk) => Some(Self::on(Arc::new(disk.clone()))),
            Self::Store(stored) => Some(Self::on(stored.open().expect("the store answers in the end"))),
        }
    }

    /// The options of a namespace on a disk.
    pub(crate) fn on(disk: Arc<dyn Disk>) -> StoreOptions {
        StoreOptions {
            path: PathBuf::from("memory:///bus"),
            durability: Durability::Os,
            owned: None,
            disk: Some(disk),
            segment_bytes: Some((16 << 10, 64 << 10)),
        }
    }
}
