// SPDX-License-Identifier: Apache-2.0
//! A namespace in a blob store that loses, repeats and delays requests, and whose owner may die at any of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use oxbus_blob::{Fault, MemoryStore};
use oxbus_object::{LaneDisk, LaneDiskOptions, OpenError, Takeover};

/// An owner takes over at once, does not wait before it repeats a request, and tidies up often.
fn options() -> LaneDiskOptions {
    LaneDiskOptions {
        takeover: Takeover::AtOnce,
        retry_pause: Duration::ZERO,
        beat_interval: Duration::from_millis(3),
        tidy_interval: Duration::from_millis(2),
        checkpoint_objects: 12,
        ..LaneDiskOptions::default()
    }
}

/// How often a thread looks whether an owner is dead.
const LOOK_INTERVAL: Duration = Duration::from_micros(200);
/// An owner that died.
const DEAD: u64 = 1;

/// When an owner dies.
#[derive(Default)]
struct Death {
    /// The requests that the owner sends until then, and [`DEAD`]; 0 if it lives on.
    requests: AtomicU64,
}

/// What becomes of a request of an owner.
enum Sent {
    Alive,
    /// The owner dies while it sends the request.
    Dying,
    Dead,
}

impl Death {
    fn sends(&self) -> Sent {
        let before = self.requests.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
            (left > DEAD).then(|| left - 1)
        });
        match before {
            Ok(2) => Sent::Dying,
            Err(DEAD) => Sent::Dead,
            _ => Sent::Alive,
        }
    }
}

/// A namespace in a store, and its owner.
pub(crate) struct Stored {
    store: MemoryStore,
    death: Arc<Death>,
    disk: OnceLock<Arc<LaneDisk>>,
}

impl Stored {
    pub(crate) fn new() -> Self {
        Self::of(MemoryStore::default())
    }

    /// The next owner of the same namespace. The one before lives on, unless it is dead.
    pub(crate) fn next_owner(&self) -> Self {
        Self::of(self.store.another_client())
    }

    fn of(store: MemoryStore) -> Self {
        let death = Arc::new(Death::default());
        let mut requests = 0u64;
        let mortal = Arc::clone(&death);
        store.set_faults(move |request, _| {
            requests += 1;
            match (mortal.sends(), requests % 2) {
                (Sent::Alive, _) => fault(requests, request),
                (Sent::Dying, 0) => Fault::Lost,
                (Sent::Dying, _) => Fault::AnswerLost,
                (Sent::Dead, _) => Fault::Denied,
            }
        });
        Self {
            store,
            death,
            disk: OnceLock::new(),
        }
    }

    /// Opens the disk, unless the owner dies before it is open.
    pub(crate) fn open(&self) -> Result<Arc<LaneDisk>, OpenError> {
        let disk = Arc::new(LaneDisk::open(Arc::new(self.store.clone()), options())?.0);
        Ok(Arc::clone(self.disk.get_or_init(|| disk)))
    }

    /// Lets the owner die at one of its next requests: what it does fails from there on.
    pub(crate) fn die_during(&self, request: u64, work: impl FnOnce()) {
        let (ended, end) = sync_channel::<()>(0);
        self.death.requests.store(request + DEAD, Ordering::Release);
        let (death, disk) = (&self.death, &self.disk);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // A dead owner must not wait for a store that does not answer it any more.
                while end.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    if death.requests.load(Ordering::Acquire) == DEAD
                        && let Some(disk) = disk.get()
                    {
                        disk.abandon();
                        return;
                    }
                }
            });
            work();
            drop(ended);
        });
        if let Some(disk) = disk.get() {
            disk.abandon();
        }
    }
}

/// What the store does to a request.
fn fault(number: u64, request: &str) -> Fault {
    match (number % 37, request) {
        (7, _) => Fault::Lost,
        (13 | 19, "create" | "swap") => Fault::AnswerLost,
        (23, "create") => Fault::Late,
        (29, "create") => Fault::Twice,
        _ => Fault::None,
    }
}
