// SPDX-License-Identifier: Apache-2.0
//! A namespace in a blob store that loses, repeats and delays requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use oxbus_blob::{Fault, MemoryStore};
use oxbus_object::{LaneDisk, Takeover};

use crate::owner::{Death, MortalOwner};

/// What happened in all simulations so far.
#[derive(Debug, Default)]
pub(crate) struct Happened {
    /// Owners that died at a request.
    pub(crate) deaths: AtomicU64,
    /// Owners that died between two requests.
    pub(crate) abandons: AtomicU64,
    /// Requests that the store did not answer as it should.
    pub(crate) faults: AtomicU64,
}

pub(crate) static HAPPENED: Happened = Happened {
    deaths: AtomicU64::new(0),
    abandons: AtomicU64::new(0),
    faults: AtomicU64::new(0),
};

fn count(what: &AtomicU64) {
    what.fetch_add(1, Ordering::Relaxed);
}

/// An owner of the namespace.
pub(crate) struct Stored {
    store: MemoryStore,
    owner: MortalOwner,
}

impl Stored {
    pub(crate) fn new() -> Self {
        Self::of(MemoryStore::default())
    }

    /// The next owner. The one before lives on, unless it is dead.
    pub(crate) fn next_owner(&self) -> Self {
        Self::of(self.store.another_client())
    }

    fn of(store: MemoryStore) -> Self {
        Self {
            owner: MortalOwner::new(store.clone(), fault),
            store,
        }
    }

    /// Opens the disk, unless the owner dies before it is open.
    pub(crate) fn open(&self) -> Option<Arc<LaneDisk>> {
        self.owner.open(Takeover::AtOnce).ok()
    }

    /// Does work during which the owner dies.
    pub(crate) fn die_during(&self, death: Death, work: impl FnOnce()) {
        let died = self.owner.die_during(death, work);
        count(if died { &HAPPENED.deaths } else { &HAPPENED.abandons });
    }
}

/// What the store does to a request.
fn fault(number: u64, request: &str) -> Fault {
    let fault = match (number % 37, request) {
        (7, _) => Fault::Lost,
        (13 | 19, "create" | "swap") => Fault::AnswerLost,
        (23, "create") => Fault::Late,
        (29, "create") => Fault::Twice,
        _ => Fault::None,
    };
    if fault != Fault::None {
        count(&HAPPENED.faults);
    }
    fault
}
