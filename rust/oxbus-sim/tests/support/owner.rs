// SPDX-License-Identifier: Apache-2.0
//! An owner of a namespace in a blob store, which may die at any of its requests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use oxbus_blob::{Fault, MemoryStore};
use oxbus_object::{LaneDisk, LaneDiskOptions, OpenError, Takeover};

/// How often a thread looks whether an owner is dead.
const LOOK_INTERVAL: Duration = Duration::from_micros(200);
/// An owner that died.
const DEAD: u64 = 1;

/// When an owner dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Death {
    /// At which of its next requests.
    pub(crate) request: u64,
    /// True if the store gets that request.
    pub(crate) arrives: bool,
}

/// The life of an owner.
#[derive(Default)]
struct Life {
    /// The requests until its death, and [`DEAD`]; 0 if it lives on.
    left: AtomicU64,
    arrives: AtomicU64,
}

impl Life {
    /// What happens to the next request, unless the owner lives.
    fn fault(&self) -> Option<Fault> {
        let fewer = |left: u64| (left > DEAD).then(|| left - 1);
        match self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer) {
            Ok(2) if self.arrives.load(Ordering::Acquire) == 1 => Some(Fault::AnswerLost),
            Ok(2) => Some(Fault::Lost),
            Err(DEAD) => Some(Fault::Denied),
            _ => None,
        }
    }
}

/// An owner.
pub(crate) struct MortalOwner {
    store: MemoryStore,
    life: Arc<Life>,
    disk: OnceLock<Arc<LaneDisk>>,
}

impl MortalOwner {
    /// An owner whose requests have these faults while it lives: by their number, from 1 on, and their name.
    pub(crate) fn new(store: MemoryStore, mut faults: impl FnMut(u64, &str) -> Fault + Send + 'static) -> Self {
        let life = Arc::new(Life::default());
        let (mut requests, lives) = (0, Arc::clone(&life));
        store.set_faults(move |request, _| {
            requests += 1;
            lives.fault().unwrap_or_else(|| faults(requests, request))
        });
        Self {
            store,
            life,
            disk: OnceLock::new(),
        }
    }

    /// Opens the disk. Does not wait before it repeats a request, and tidies up often.
    pub(crate) fn open(&self, takeover: Takeover) -> Result<Arc<LaneDisk>, OpenError> {
        let options = LaneDiskOptions {
            takeover,
            retry_pause: Duration::ZERO,
            beat_interval: Duration::from_millis(3),
            tidy_interval: Duration::from_millis(2),
            checkpoint_objects: 12,
            ..LaneDiskOptions::default()
        };
        let disk = Arc::new(LaneDisk::open(Arc::new(self.store.clone()), options)?.0);
        Ok(Arc::clone(self.disk.get_or_init(|| disk)))
    }

    /// Does work during which the owner dies, or at whose end. Returns true if it died before the end.
    pub(crate) fn die_during(&self, death: Death, work: impl FnOnce()) -> bool {
        let (ended, end) = sync_channel::<()>(0);
        self.life.arrives.store(u64::from(death.arrives), Ordering::Release);
        self.life.left.store(death.request + DEAD, Ordering::Release);
        let (life, disk) = (&self.life, &self.disk);
        let is_dead = || life.left.load(Ordering::Acquire) == DEAD;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // A dead owner must not wait for a store that does not answer it any more.
                while end.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    if is_dead()
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
        let died = is_dead();
        if let Some(disk) = disk.get() {
            disk.abandon();
        }
        died
    }
}
