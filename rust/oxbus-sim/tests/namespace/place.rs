// SPDX-License-Identifier: Apache-2.0
//! Where a bus keeps its files.

use std::path::PathBuf;
use std::sync::Arc;

use oxbus_blob::{Fault, MemoryStore};
use oxbus_broker::durable::StoreOptions;
use oxbus_model::options::Durability;
use oxbus_object::{LaneDisk, LaneDiskOptions, Takeover};
use oxbus_store::disk::Disk;
use oxbus_store::fault::FaultDisk;

/// The kinds of places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlaceKind {
    Memory,
    Directory,
    Store,
}

/// A place.
pub(crate) enum Place {
    Memory,
    Directory(FaultDisk),
    Store(MemoryStore),
}

impl Place {
    pub(crate) fn new(kind: PlaceKind) -> Self {
        match kind {
            PlaceKind::Memory => Self::Memory,
            PlaceKind::Directory => Self::Directory(FaultDisk::new()),
            PlaceKind::Store => Self::Store(MemoryStore::default()),
        }
    }

    /// What is left after the process was killed.
    pub(crate) fn after_kill(&self) -> Self {
        match self {
            Self::Memory => Self::Memory,
            Self::Directory(disk) => Self::Directory(disk.after_kill()),
            // The owner before lives on, as one that is paused: it is taken over.
            Self::Store(store) => Self::Store(store.another_client()),
        }
    }

    /// The options of a namespace there.
    pub(crate) fn options(&self) -> Option<StoreOptions> {
        let disk: Arc<dyn Disk> = match self {
            Self::Memory => return None,
            Self::Directory(disk) => Arc::new(disk.clone()),
            Self::Store(store) => Arc::new(owned(store)),
        };
        Some(StoreOptions {
            path: PathBuf::from("memory:///bus"),
            durability: Durability::Os,
            owned: None,
            disk: Some(disk),
            segment_bytes: Some((16 << 10, 64 << 10)),
        })
    }
}

/// The disk of a new owner, some of whose requests the store loses or repeats.
fn owned(store: &MemoryStore) -> LaneDisk {
    let options = LaneDiskOptions {
        takeover: Takeover::AtOnce,
        ..LaneDiskOptions::default()
    };
    let mut requests = 0u64;
    store.set_faults(move |request, _| {
        requests += 1;
        match (requests % 37, request) {
            (7, _) => Fault::Lost,
            (13 | 19, "create" | "swap") => Fault::AnswerLost,
            (23, "create") => Fault::Late,
            (29, "create") => Fault::Twice,
            _ => Fault::None,
        }
    });
    let opened = LaneDisk::open(Arc::new(store.clone()), options);
    opened.expect("the store answers in the end").0
}
