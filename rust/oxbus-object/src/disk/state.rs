// SPDX-License-Identifier: Apache-2.0
//! What the threads of a disk share: the files, the object that gathers changes, and the objects on their way.
//!
//! Invariants
//! - the changes of the files are in the order of the lane: those of an object apply after those of earlier objects;
//! - an extent refers to the object that gathers, to one on its way, or to one in the store;
//! - nothing is durable before all objects up to it are acknowledged.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use oxbus_log::event;
use oxbus_model::sync::ignore_poison;
use oxbus_store::disk::{SyncCallback, TakenOver};

use super::change::{Change, FileId};
use super::file_map::{FileMap, Piece};
use super::object::{self, DataObject, HEADER_BYTES};
use super::place::{LaneId, LaneIndex, ObjectKey};
use crate::lane::{LaneWriter, ObjectNumber};

/// An object is written once it has this many bytes, even if nothing waits for it.
pub(super) const OBJECT_BYTES: usize = 4 << 20;
/// Bytes of one write, at most: longer ones are split.
pub(super) const WRITE_BYTES_MAX: usize = 2 << 20;
/// A write waits while more bytes than this are on their way.
const PENDING_BYTES_MAX: usize = 32 << 20;
/// How often a waiting call looks at the clock.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Why a disk accepts nothing more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    /// Another owner took the namespace over.
    TakenOver(String),
    /// It was closed.
    Closed,
}

impl Ended {
    pub(super) fn error(&self) -> io::Error {
        match self {
            Self::TakenOver(by) => io::Error::other(TakenOver { by: by.clone() }),
            Self::Closed => io::Error::other("the namespace is closed"),
        }
    }
}

/// A checkpoint that waits for the objects it covers.
#[derive(Debug)]
pub(super) struct Checkpoint {
    /// It covers all objects of the lane below this number.
    pub(super) floor: ObjectNumber,
    /// Its bytes.
    pub(super) bytes: Vec<u8>,
    /// Objects that no file needs once it is stored.
    pub(super) unused: Vec<ObjectKey>,
}

/// Syncs that wait, with the object before which all must be acknowledged.
#[derive(Default)]
struct PendingSyncs(Vec<(ObjectNumber, SyncCallback)>);

impl fmt::Debug for PendingSyncs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(target, _)| target)).finish()
    }
}

/// The shared state.
#[derive(Debug)]
pub(super) struct State {
    pub(super) map: FileMap,
    pub(super) lane: LaneId,
    pub(super) lane_index: LaneIndex,
    pub(super) writer: LaneWriter,
    /// The object that gathers: room for its header, and its payload.
    payload: Vec<u8>,
    /// Its changes.
    changes: Vec<u8>,
    /// When its first change came, on the clock of `oxbus_system::awake_ms`.
    pub(super) gathering_since: Option<u64>,
    /// True if a call waits for it.
    pub(super) is_wanted: bool,
    /// Objects on their way.
    pub(super) on_the_way: BTreeMap<ObjectNumber, DataObject>,
    pending_bytes: usize,
    syncs: PendingSyncs,
    /// True if the next object that is completed shall be followed by a checkpoint.
    pub(super) wants_checkpoint: bool,
    pub(super) checkpoint: Option<Checkpoint>,
    /// Bytes of changes, and of objects, since the last checkpoint.
    pub(super) changes_since: usize,
    pub(super) bytes_since: usize,
    pub(super) ended: Option<Ended>,
    /// The store has no space.
    pub(super) is_full: bool,
}

/// The state, and who waits for it.
#[derive(Debug)]
pub(super) struct SharedState {
    /// A panic leaves the map as it was before a change or after it.
    state: Mutex<State>,
    changed: Condvar,
    /// Until when no other owner may take over, on the clock of `oxbus_system::awake_ms`; 0 once the disk has ended.
    /// Changes while the state is locked.
    lease_until: AtomicU64,
}

impl SharedState {
    /// The state of a new owner, with the files as they are.
    pub(super) fn new(mut map: FileMap, lane: LaneId, depth: usize) -> Self {
        let lane_index = map.add_lane(lane);
        Self {
            state: Mutex::new(State {
                map,
                lane,
                lane_index,
                writer: LaneWriter::new(depth),
                payload: vec![0; HEADER_BYTES],
                changes: Vec::new(),
                gathering_since: None,
                is_wanted: false,
                on_the_way: BTreeMap::new(),
                pending_bytes: 0,
                syncs: PendingSyncs::default(),
                wants_checkpoint: false,
                checkpoint: None,
                changes_since: 0,
                bytes_since: 0,
                ended: None,
                is_full: false,
            }),
            changed: Condvar::new(),
            lease_until: AtomicU64::new(0),
        }
    }

    /// Locks the state.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        ignore_poison(self.state.lock())
    }

    /// Wakes the calls that wait.
    pub(super) fn notify(&self) {
        self.changed.notify_all();
    }

    /// Ends the disk, unless it has ended.
    pub(super) fn end(&self, ended: Ended) {
        let mut state = self.lock();
        if state.ended.is_none() {
            if let Ended::TakenOver(by) = &ended {
                event!(NAMESPACE_LOST, by = %by);
            }
            self.lease_until.store(0, Ordering::Release);
        }
        let ended = state.ended.get_or_insert(ended).clone();
        let syncs = std::mem::take(&mut state.syncs).0;
        drop(state);
        self.notify();
        for (_, done) in syncs {
            done(Err(ended.error()));
        }
    }

    /// The lease lasts until then, unless the disk has ended.
    pub(super) fn extend_lease(&self, until: u64) {
        let state = self.lock();
        if state.ended.is_none() {
            self.lease_until.fetch_max(until, Ordering::AcqRel);
        }
        drop(state);
        self.notify();
    }

    /// True if no other owner may take over yet.
    pub(super) fn has_lease(&self) -> bool {
        oxbus_system::awake_ms() < self.lease_until.load(Ordering::Acquire)
    }

    /// Waits up to `patience` for the lease. Returns whether it lasts.
    pub(super) fn wait_for_lease(&self, patience: Duration) -> io::Result<bool> {
        let mut state = self.lock();
        if state.ended.is_none() && !self.has_lease() {
            state = ignore_poison(self.changed.wait_timeout(state, patience)).0;
        }
        match &state.ended {
            Some(ended) => Err(ended.error()),
            None => Ok(self.has_lease()),
        }
    }

    /// True if [`SharedState::lock_for_change`] would wait.
    pub(super) fn changes_wait(&self) -> bool {
        let state = self.lock();
        state.ended.is_none() && !self.accepts_changes(&state)
    }

    fn accepts_changes(&self, state: &State) -> bool {
        state.pending_bytes <= PENDING_BYTES_MAX && self.has_lease()
    }

    /// Locks the state for a change. Waits while too much is on its way, and while the lease is over.
    pub(super) fn lock_for_change(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        loop {
            if let Some(ended) = &state.ended {
                return Err(ended.error());
            }
            if self.accepts_changes(&state) {
                return Ok(state);
            }
            state = ignore_poison(self.changed.wait_timeout(state, LOOK_INTERVAL)).0;
        }
    }

    /// Calls `done` once everything so far is durable, or the disk has ended.
    pub(super) fn when_durable(&self, done: SyncCallback, want: impl FnOnce()) {
        let mut state = self.lock();
        let target = state.next_durable();
        let outcome = match &state.ended {
            _ if state.writer.acknowledged() >= target => Ok(()),
            Some(ended) => Err(ended.error()),
            None => {
                state.syncs.0.push((target, done));
                if state.has_changes() {
                    state.is_wanted = true;
                    want();
                }
                return;
            }
        };
        drop(state);
        done(outcome);
    }
}

impl State {
    /// Takes the syncs whose objects are all acknowledged.
    pub(super) fn take_durable_syncs(&mut self) -> Vec<SyncCallback> {
        let acknowledged = self.writer.acknowledged();
        let durable = self.syncs.0.extract_if(.., |(target, _)| *target <= acknowledged);
        durable.map(|(_, done)| done).collect()
    }

    /// True if the object that gathers has a change.
    pub(super) fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Everything so far is durable once all objects below this number are acknowledged.
    pub(super) fn next_durable(&self) -> ObjectNumber {
        let next = self.writer.next();
        if self.has_changes() { next.next() } else { next }
    }

    /// Bytes of the object that gathers.
    pub(super) fn gathered_bytes(&self) -> usize {
        self.payload.len() + self.changes.len()
    }

    fn gathering(&self) -> ObjectKey {
        ObjectKey::new(self.lane_index, self.writer.next())
    }

    /// Adds a change of names or lengths.
    pub(super) fn change(&mut self, change: &Change) {
        let before = self.changes.len();
        change.encode(&mut self.changes);
        self.pending_bytes += self.changes.len() - before;
        self.gathering_since.get_or_insert_with(oxbus_system::awake_ms);
        let object = self.gathering();
        self.map.apply(change, object);
    }

    /// Writes bytes to a file, at most [`WRITE_BYTES_MAX`] of them.
    pub(super) fn write(&mut self, file: FileId, position: u64, bytes: &[u8]) {
        let offset = (self.payload.len() - HEADER_BYTES) as u32;
        self.payload.extend_from_slice(bytes);
        self.pending_bytes += bytes.len();
        self.change(&Change::Write {
            file,
            position,
            len: bytes.len() as u32,
            offset,
        });
    }

    /// Makes bytes of a file those that another file has, which may be the same one.
    /// Fails if there is no such file.
    pub(super) fn share(&mut self, of: FileId, from: u64, file: FileId, position: u64, len: u64) -> io::Result<()> {
        self.map.len(of).ok_or(io::ErrorKind::NotFound)?;
        let pieces = self.map.pieces(of, from, len as usize);
        if pieces.iter().map(|piece| piece.len as u64).sum::<u64>() < len {
            self.change(&Change::Clear { file, position, len });
        }
        for Piece { at, len, place } in pieces {
            let lane = self.map.lane(place.object.lane());
            self.change(&Change::Share {
                file,
                position: position + at as u64,
                len: len as u32,
                lane: lane.expect("a lane with objects is known"),
                number: place.object.number(),
                offset: place.offset,
            });
        }
        Ok(())
    }

    /// Completes the object that gathers and returns its number, unless too many are on their way.
    pub(super) fn seal(&mut self) -> Option<ObjectNumber> {
        let key = self.gathering();
        self.writer.begin()?;
        let payload = std::mem::replace(&mut self.payload, vec![0; HEADER_BYTES]);
        let changes = std::mem::take(&mut self.changes);
        self.changes_since += changes.len();
        let sealed = object::seal(payload, &changes, self.lane, key.number());
        self.map.add_object(key, sealed.bytes.len());
        self.bytes_since += sealed.bytes.len();
        self.on_the_way.insert(key.number(), sealed);
        self.gathering_since = None;
        self.is_wanted = false;
        self.checkpoint_if_wanted();
        Some(key.number())
    }

    /// Makes the checkpoint that is wanted, if all changes are in completed objects.
    pub(super) fn checkpoint_if_wanted(&mut self) {
        if !self.wants_checkpoint || self.has_changes() || self.checkpoint.is_some() {
            return;
        }
        self.wants_checkpoint = false;
        (self.changes_since, self.bytes_since) = (0, 0);
        let floor = self.writer.next();
        let unused = self.map.objects().filter(|(_, usage)| usage.live == 0);
        self.checkpoint = Some(Checkpoint {
            floor,
            bytes: self.map.encode(),
            unused: unused.map(|(key, _)| key).collect(),
        });
    }

    /// Takes the objects that are acknowledged off the list of those on their way.
    pub(super) fn take_acknowledged(&mut self) {
        let acknowledged = self.writer.acknowledged();
        while let Some(first) = self.on_the_way.first_entry()
            && *first.key() < acknowledged
        {
            let sealed = first.remove();
            self.pending_bytes -= sealed.bytes.len() - HEADER_BYTES;
        }
    }

    /// True if a checkpoint is made and all objects that it covers are acknowledged.
    pub(super) fn is_checkpoint_due(&self) -> bool {
        let made = self.checkpoint.as_ref();
        made.is_some_and(|made| self.writer.acknowledged() >= made.floor)
    }

    /// The payload of an object that is not in the store for certain.
    pub(super) fn pending_payload(&self, object: ObjectKey) -> Option<&[u8]> {
        if object.lane() != self.lane_index {
            return None;
        }
        if object.number() == self.writer.next() {
            return Some(&self.payload[HEADER_BYTES..]);
        }
        self.on_the_way.get(&object.number()).map(DataObject::payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_is_renewed_and_ends_with_the_disk() {
        let lane = LaneId::random().expect("random bytes");
        let state = SharedState::new(FileMap::default(), lane, 1);
        let wait = || state.wait_for_lease(Duration::ZERO);
        assert!(!wait().expect("it may be renewed"));
        state.extend_lease(oxbus_system::awake_ms() + 3_600_000);
        assert!(state.has_lease() && wait().expect("renewed"));
        state.end(Ended::TakenOver("another".to_owned()));
        state.extend_lease(oxbus_system::awake_ms() + 7_200_000);
        assert!(!state.has_lease());
        assert!(
            wait()
                .expect_err("it has ended")
                .to_string()
                .contains("took the namespace over: another")
        );
    }
}
