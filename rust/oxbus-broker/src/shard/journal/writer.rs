// SPDX-License-Identifier: Apache-2.0
//! The log of a shard as its cells write it: in one order, with what is not there yet to wait for.
//!
//! Numbers of messages are given out and written under one mutex, so the order of the journal is the order of the
//! numbers. Nobody waits for a sync under it; an append may write a full buffer, or make the next file.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oxbus_model::caps::SNAPSHOT_JOURNAL_BYTES;
use oxbus_model::options::Durability;
use oxbus_store::extent::Place;
use oxbus_store::shard_log::{AppendError, Level, Lsn, Room, ShardLog};

use crate::shard::Late;

/// The journal of a shard.
pub struct Journal {
    log: Mutex<Arc<dyn ShardLog>>,
    /// What a caller gets that asks for nothing.
    durability: Durability,
    /// Bytes of entries since the last snapshot.
    unsaved_bytes: AtomicU64,
    /// Bytes of the last snapshot; 0 before the first one of this process.
    snapshot_bytes: AtomicU64,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal")
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

/// The right to append, and with it the order of numbers.
pub struct Order<'a> {
    journal: &'a Journal,
    log: MutexGuard<'a, Arc<dyn ShardLog>>,
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending")
            .field("lsn", &self.lsn)
            .finish_non_exhaustive()
    }
}

/// An entry that is on its way.
#[derive(Clone)]
#[must_use = "nothing may be acknowledged before it has reached its level"]
pub struct Pending {
    log: Arc<dyn ShardLog>,
    /// Its number.
    pub lsn: Lsn,
    /// Where its bytes can be read back once they are written.
    pub place: Option<Place>,
}

impl Pending {
    /// True when it is on its way to the log that is in use.
    pub fn is_of(&self, order: &Order<'_>) -> bool {
        Arc::ptr_eq(&self.log, &order.log)
    }
}

impl Journal {
    /// A journal over a log that holds so many bytes which no snapshot covers.
    pub fn new(log: Arc<dyn ShardLog>, durability: Durability, unsaved_bytes: u64) -> Self {
        Self {
            log: Mutex::new(log),
            durability,
            unsaved_bytes: AtomicU64::new(unsaved_bytes),
            snapshot_bytes: AtomicU64::new(0),
        }
    }

    /// What a caller gets that asks for nothing.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Bytes of entries since the last snapshot.
    pub fn unsaved_bytes(&self) -> u64 {
        self.unsaved_bytes.load(Ordering::Relaxed)
    }

    /// True when enough was written since the last snapshot for another one: as much as that one has, so that each byte
    /// is written twice at most; when it `is_old`, a sixteenth.
    pub fn wants_snapshot(&self, is_old: bool) -> bool {
        let (unsaved, last) = (self.unsaved_bytes(), self.snapshot_bytes.load(Ordering::Relaxed));
        unsaved >= last.max(SNAPSHOT_JOURNAL_BYTES) || (is_old && unsaved > last / 16)
    }

    /// Notes that a snapshot of `snapshot_bytes` holds what was written until `unsaved_bytes` was read.
    pub fn saved(&self, unsaved_bytes: u64, snapshot_bytes: u64) {
        self.unsaved_bytes.fetch_sub(unsaved_bytes, Ordering::Relaxed);
        self.snapshot_bytes.store(snapshot_bytes, Ordering::Relaxed);
    }

    /// Bytes on disk.
    pub fn disk_bytes(&self) -> u64 {
        self.log().disk_bytes()
    }

    /// The log that is in use.
    pub fn log(&self) -> Arc<dyn ShardLog> {
        self.order().log()
    }

    /// The last entry, whoever appended it: once it is safe, so is all before it.
    pub fn last(&self) -> Pending {
        let order = self.order();
        Pending {
            log: order.log(),
            lsn: order.last(),
            place: None,
        }
    }

    /// Takes the right to append.
    pub fn order(&self) -> Order<'_> {
        Order {
            journal: self,
            log: self.log.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

impl Journal {
    /// The same for an entry of so many bytes: waits for its room first, while others may append, when the disk may hang.
    pub fn order_for(&self, room: Room, bytes: usize) -> Result<Order<'_>, AppendError> {
        loop {
            let order = self.order();
            if order.log.has_room(bytes, room) {
                return Ok(order);
            }
            let log = order.log();
            drop(order);
            log.make_room(bytes, room)?;
        }
    }
}

impl Order<'_> {
    /// Appends an entry. An error means that nothing was written.
    pub fn append(&self, room: Room, entry: &[u8]) -> Result<Pending, AppendError> {
        let lsn = self.log.next_lsn();
        // Whoever waits asks for its level; until then the entry is in the buffer like any other.
        let place = self.log.append(lsn, entry, room, Level::Written, None)?;
        self.journal
            .unsaved_bytes
            .fetch_add(entry.len() as u64, Ordering::Relaxed);
        Ok(Pending {
            log: Arc::clone(&self.log),
            lsn,
            place,
        })
    }

    /// The log that is in use.
    pub fn log(&self) -> Arc<dyn ShardLog> {
        Arc::clone(&self.log)
    }

    /// The last entry that was appended, to be waited for.
    pub fn pending(&self) -> Pending {
        Pending {
            log: Arc::clone(&self.log),
            lsn: self.last(),
            place: None,
        }
    }

    /// The last entry that was appended.
    pub fn last(&self) -> Lsn {
        Lsn(self.log.next_lsn().0 - 1)
    }

    /// Goes on with another log: the one before failed.
    pub fn replace(&mut self, log: Arc<dyn ShardLog>) {
        *self.log = log;
        self.journal.unsaved_bytes.store(0, Ordering::Relaxed);
    }
}

impl Pending {
    /// Waits until the entry, and all before it, have reached a level.
    pub fn wait(&self, durability: Durability) -> Result<(), AppendError> {
        self.log.commit(self.lsn, level(durability))
    }

    /// Names the entry, for who leaves it behind.
    pub fn late(&self) -> Late {
        let (epoch, lsn) = (self.log.epoch(), self.lsn);
        Late { epoch, lsn }
    }

    /// True once the entry, and all before it, are synced.
    pub fn is_synced(&self) -> bool {
        self.log.reached(Level::Synced) >= self.lsn
    }

    /// Has the entry brought to a level while the caller waits for others.
    pub fn begin(&self, durability: Durability) {
        if level(durability) == Level::Synced {
            self.log.commit_soon();
        }
    }

    /// The same for an earlier entry of the same log.
    pub fn wait_for(&self, lsn: Lsn, durability: Durability) -> Result<(), AppendError> {
        self.log.commit(lsn.min(self.lsn), level(durability))
    }
}

fn level(durability: Durability) -> Level {
    match durability {
        Durability::Fsync => Level::Synced,
        Durability::Os | Durability::Memory => Level::Written,
    }
}
