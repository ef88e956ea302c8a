// SPDX-License-Identifier: Apache-2.0
//! Snapshots of a shard, written while other threads continue.
//!
//! Under the append guard a snapshot notes the last entry and the numbers reserved so far. Once each number is
//! published or given up, the stores have every effect of every entry up to the noted one. A walk over the stores
//! finds all these effects, and perhaps later ones, which do no harm because events are idempotent
//! (`journal::shard_state`). The walk visits the queue of an entity before its dead-letter queue, so it does not miss
//! a message that moves.
//!
//! Healing a failed shard uses the same walk. The failed log takes no entries, so no numbers are reserved. The stores
//! contain everything that was acknowledged.

use oxbus_log::event;
use oxbus_store::Wait;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use oxbus_model::name::SubQueue;
use oxbus_model::sync::ignore_poison;
use oxbus_model::{Counter, Effect, Error, ErrorKind, Identity, Result, Timestamp};
use oxbus_store::extent::CHECKSUM_BYTES;
use oxbus_store::shard_log::{Chunk, Chunks, Level, Lsn, ShardLog};
use oxbus_store::{MessagePhase, NumberedStore, PeekedMessage, RecordPlaces};

use super::journal::push_intent;
use super::journal::{Intent, JournalEvent, KeptRecord, SEEN_MAX, StoredPhase};
use super::{Cell, FaultReason, History, PartitionFault, SessionState, Sessions, Shard};

/// Target size of a chunk in bytes. Its last message may exceed it.
const CHUNK_BYTES: usize = 256 << 10;
/// Messages read in one call.
const PAGE: usize = 64;

/// Keeps a cell alive.
pub trait CellHandle {
    /// The cell.
    fn cell(&self) -> &Cell;
}

/// A cell and the numbers that it had reserved at the noted entry.
struct NotedCell<C> {
    cell: C,
    /// The next number.
    next: Counter,
    /// The number from which the next open continues.
    reserved_until: Counter,
}

/// Approximate bytes of a snapshot of cells.
pub fn snapshot_bytes<C: CellHandle>(cells: &[C]) -> u64 {
    cells.iter().map(|cell| cell.cell().snapshot_bytes()).sum()
}

impl Shard {
    /// Writes a snapshot and truncates the journal before it. `cells` lists the cells of this shard. `closing` is true
    /// if no more numbers will be assigned; then the next open continues without a gap.
    pub fn write_snapshot<C: CellHandle>(&self, cells: impl FnOnce() -> Vec<C>, closing: bool) -> Result<()> {
        let Some(journal) = self.journal() else { return Ok(()) };
        let _snapshot_guard = ignore_poison(self.snapshot_mutex.lock());
        if self.is_closed() {
            return Ok(());
        }
        let unsaved = journal.unsaved_bytes();
        // No write is in progress: the stores have every effect up to the noted entry.
        let no_writes = self.snapshot_barrier.wait_until_idle();
        let append_guard = journal.lock_for_append(&self.health);
        let at = append_guard.last_lsn();
        let noted = note(cells(), closing);
        let log = append_guard.log();
        drop(append_guard);
        drop(no_writes);
        self.wait_numbers_decided(&noted)
            .map_err(|error| self.snapshot_failed(error))?;
        let mut chunks = SnapshotChunks::over(&noted, self.intents(), log.record_places());
        // The walk may find messages of later entries. They must be synced before the snapshot replaces earlier
        // entries.
        let mut checked_chunks = std::iter::from_fn(|| {
            chunks
                .next()
                .or_else(|| self.check_complete(Some(&*log)).err().map(Err))
        });
        let saved = log
            .put_snapshot(at, &mut checked_chunks)
            .and_then(|written| log.truncate_before(at.next()).map(|()| written));
        let written = saved.map_err(|error| self.snapshot_failed(error))?;
        journal.snapshot_written(unsaved, written);
        event!(
            SNAPSHOT_WRITTEN,
            partition = self.id.0,
            bytes = written,
            replaced_bytes = unsaved
        );
        Ok(())
    }

    /// Recovers from a failure: writes everything that was acknowledged into a new journal, which `new_log` creates
    /// from the given chunks. `is_needed` is called while no other heal or snapshot runs, so that a late call does not
    /// take a healthy shard out of service.
    pub fn heal<C: CellHandle>(
        &self,
        is_needed: impl FnOnce() -> bool,
        cells: impl FnOnce() -> Vec<C>,
        new_log: impl FnOnce(Chunks<'_>) -> io::Result<Arc<dyn ShardLog>>,
    ) -> Result<()> {
        let Some(journal) = self.journal() else { return Ok(()) };
        let _snapshot_guard = ignore_poison(self.snapshot_mutex.lock());
        if self.is_closed() || !is_needed() {
            return Ok(());
        }
        let reason = || FaultReason::of(self.health.reason().unwrap_or_default(), self.health.source());
        self.health.fail(PartitionFault::Healing, reason());
        // Writes that are already committed take effect first. The failed log takes no entries, so no numbers are
        // assigned after the append guard is dropped.
        let no_writes = self.snapshot_barrier.wait_until_idle();
        let append_guard = journal.lock_for_append(&self.health);
        let noted = note(cells(), false);
        drop(append_guard);
        drop(no_writes);
        let places = journal.log().record_places();
        let mut chunks = SnapshotChunks::over(&noted, self.intents(), places);
        let mut checked_chunks =
            std::iter::from_fn(|| chunks.next().or_else(|| self.check_complete(None).err().map(Err)));
        let begun = self
            .wait_numbers_decided(&noted)
            .and_then(|()| new_log(&mut checked_chunks));
        match begun.map_err(|error| self.snapshot_error(error)) {
            Ok(log) => {
                self.keep_dead_letters_in_memory();
                journal.lock_for_append(&self.health).replace(log);
                self.health.heal();
                Ok(())
            }
            Err(error) => {
                event!(PARTITION_HEAL_FAILED, partition = self.id.0, cause = %error);
                self.health.fail(PartitionFault::Failed, reason());
                Err(error)
            }
        }
    }

    /// Checks that a complete snapshot is valid: syncs the log, and fails if the shard has panicked or closed.
    fn check_complete(&self, log: Option<&dyn ShardLog>) -> io::Result<()> {
        log.map_or(Ok(()), sync_all)?;
        self.check_not_panicked()?;
        if log.is_some() && self.is_closed() {
            return Err(io::Error::other("the namespace was closed"));
        }
        Ok(())
    }

    /// Fails after a panic, which may have left the state inconsistent.
    fn check_not_panicked(&self) -> io::Result<()> {
        if self.health.fault() == Some(PartitionFault::Panicked) {
            return Err(io::Error::other("a call panicked while it changed the partition"));
        }
        Ok(())
    }

    /// Waits until every noted number is published or given up. Callers give up their numbers if the log fails, but
    /// perhaps not after a panic.
    fn wait_numbers_decided<C: CellHandle>(&self, noted: &[NotedCell<C>]) -> io::Result<()> {
        let mut pause = Duration::from_micros(20);
        for NotedCell { cell, next, .. } in noted {
            while !cell.cell().main().is_decided(*next) {
                self.check_not_panicked()?;
                std::thread::park_timeout(pause);
                pause = (pause * 2).min(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    fn snapshot_failed(&self, error: io::Error) -> Error {
        // A snapshot that a close interrupts has not failed.
        if !self.is_closed() {
            event!(SNAPSHOT_FAILED, partition = self.id.0, cause = %error);
            if let Some(journal) = self.journal() {
                journal.snapshot_failed();
            }
        }
        self.snapshot_error(error)
    }

    fn snapshot_error(&self, error: io::Error) -> Error {
        let detail = format!(
            "the messages of the partition could not be rewritten ({error}); check its disk and try again: partition={}",
            self.id
        );
        Error::new(ErrorKind::PartitionUnavailable, detail)
            .with_effect(Effect::None)
            .with_source(error)
    }
}

fn sync_all(log: &dyn ShardLog) -> io::Result<()> {
    let last = Lsn(log.next_lsn().0 - 1);
    Ok(log.commit(last, Level::Synced, &Wait::FOREVER)?)
}

fn note<C: CellHandle>(cells: Vec<C>, closing: bool) -> Vec<NotedCell<C>> {
    cells
        .into_iter()
        .map(|cell| {
            let next = cell.cell().main().next();
            let reserved_until = if closing {
                next
            } else {
                cell.cell().reserved_until().max(next)
            };
            NotedCell {
                cell,
                next,
                reserved_until,
            }
        })
        .collect()
}

/// The contents of cells as chunks of events.
struct SnapshotChunks<'a, C> {
    /// Intents still to be written.
    intents: Vec<(String, Intent)>,
    left: VecDeque<&'a NotedCell<C>>,
    /// The position in the current cell.
    at: Option<(&'a Cell, SubQueue, Counter)>,
    /// Identities of the current cell still to be written.
    remembered: VecDeque<(Timestamp, Identity)>,
    /// Session states of the current cell still to be written.
    states: Vec<(Arc<str>, SessionState)>,
    page: VecDeque<PeekedMessage>,
    /// Where records go that are apart from the events.
    places: Option<RecordPlaces>,
}

impl<'a, C: CellHandle> SnapshotChunks<'a, C> {
    fn over(noted: &'a [NotedCell<C>], intents: Vec<(String, Intent)>, places: Option<RecordPlaces>) -> Self {
        Self {
            intents,
            left: noted.iter().collect(),
            at: None,
            remembered: VecDeque::new(),
            states: Vec::new(),
            page: VecDeque::new(),
            places,
        }
    }

    /// Writes the next intent, identities, session state or message, or goes on to the next page, sub-queue or cell.
    /// Returns false at the end.
    fn step(&mut self, chunk: &mut Chunk) -> io::Result<bool> {
        if let Some((sink, intent)) = self.intents.pop() {
            push_intent(&sink, intent, &mut chunk.bytes);
            return Ok(true);
        }
        let Some((cell, sub_queue, from)) = self.at else {
            let Some(noted) = self.left.pop_front() else {
                return Ok(false);
            };
            let cell = noted.cell.cell();
            let next = noted.reserved_until;
            JournalEvent::Number { next }.encode(cell.entity(), &mut chunk.bytes);
            self.at = Some((cell, SubQueue::Main, Counter(0)));
            self.remembered = cell.history().map(History::remembered).unwrap_or_default().into();
            let origins = cell.origins();
            if !origins.is_empty() {
                let forget = false;
                JournalEvent::Arrived { forget, origins }.encode(cell.entity(), &mut chunk.bytes);
            }
            for identities in cell.attached().remembered().chunks(SEEN_MAX) {
                let identities = identities.to_vec();
                JournalEvent::Attached { identities }.encode(cell.entity(), &mut chunk.bytes);
            }
            for ((sub_queue, name), record) in cell.consumers() {
                let name = &*name;
                let event = JournalEvent::Consumer {
                    sub_queue,
                    name,
                    record,
                };
                event.encode(cell.entity(), &mut chunk.bytes);
            }
            self.states = cell.sessions().map(Sessions::states).unwrap_or_default();
            return Ok(true);
        };
        if !self.remembered.is_empty() {
            let count = self.remembered.len().min(SEEN_MAX);
            let identities = self.remembered.drain(..count).collect();
            JournalEvent::Seen { identities }.encode(cell.entity(), &mut chunk.bytes);
            return Ok(true);
        }
        if let Some((id, SessionState { bytes, set_at })) = self.states.pop() {
            let (id, state) = (&*id, Some(&*bytes));
            JournalEvent::SessionState { id, set_at, state }.encode(cell.entity(), &mut chunk.bytes);
            return Ok(true);
        }
        if let Some(message) = self.page.pop_front() {
            push_message(cell, sub_queue, &message, self.places.as_mut(), chunk)?;
            return Ok(true);
        }
        let mut page = Vec::with_capacity(PAGE);
        cell.store(sub_queue).peek(from, PAGE, &mut page);
        self.at = match (page.last(), sub_queue) {
            (Some(last), _) => Some((cell, sub_queue, last.counter.next())),
            (None, SubQueue::Main) => Some((cell, SubQueue::DeadLetter, Counter(0))),
            (None, SubQueue::DeadLetter) => None,
        };
        self.page = page.into();
        Ok(true)
    }
}

impl<C: CellHandle> Iterator for SnapshotChunks<'_, C> {
    type Item = io::Result<Chunk>;

    fn next(&mut self) -> Option<io::Result<Chunk>> {
        let mut chunk = Chunk::default();
        while chunk.bytes.len() < CHUNK_BYTES {
            match self.step(&mut chunk) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return Some(Err(error)),
            }
        }
        (!chunk.bytes.is_empty()).then_some(Ok(chunk))
    }
}

fn push_message(
    cell: &Cell,
    sub_queue: SubQueue,
    message: &PeekedMessage,
    places: Option<&mut RecordPlaces>,
    chunk: &mut Chunk,
) -> io::Result<()> {
    let len = message.record.len();
    let placed = places.and_then(|places| places.assign(&message.record));
    let loaded;
    let record = if let Some(placed) = &placed {
        let position = placed.position;
        KeptRecord::Apart { len, position }
    } else {
        loaded = message.record.load()?;
        KeptRecord::Here(&loaded)
    };
    let phase = match message.phase {
        phase @ (MessagePhase::Locked | MessagePhase::DeferredLocked) => {
            let deferred = phase == MessagePhase::DeferredLocked;
            match cell.delay_of(sub_queue, message) {
                Some(until) => StoredPhase::Delayed { until, deferred },
                None if deferred => StoredPhase::Fetched,
                None => StoredPhase::Ready,
            }
        }
        MessagePhase::Ready | MessagePhase::Cached => StoredPhase::Ready,
        MessagePhase::Deferred => StoredPhase::Deferred,
        MessagePhase::Scheduled => StoredPhase::Scheduled {
            due: super::cell::due_of(message),
        },
    };
    // A delivery in progress counts as ended. The fetch of a deferred message has already counted its delivery. A
    // message that is locked but not delivered has no delivery to count.
    let counted = u32::from(message.phase == MessagePhase::Locked && message.is_delivered);
    JournalEvent::Keep {
        sub_queue,
        counter: message.counter,
        enqueued_at: message.enqueued_at,
        expires_at: message.expires_at,
        delivery_count: message.delivery_count.saturating_add(counted),
        generation: message.generation,
        record_generation: message.generation,
        phase,
        record,
    }
    .encode(cell.entity(), &mut chunk.bytes);
    match placed {
        Some(placed) => chunk.records.push(placed),
        None if message.record.in_memory().is_none() => {
            let start = chunk.bytes.len() - CHECKSUM_BYTES - len;
            chunk.messages.push((message.record.clone(), start));
        }
        None => {}
    }
    Ok(())
}
