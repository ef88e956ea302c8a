// SPDX-License-Identifier: Apache-2.0
//! All messages of a shard, written down while threads go on.
//!
//! The journal's order is held for a moment: the last entry is noted, and the numbers given out so far. Once all of those
//! are settled, every effect of every entry up to the noted one is in the stores, so a walk over them finds it, and more:
//! what happens during the walk may be in it or not. Every event can happen twice (`journal::image`), so that does no harm.
//! Of an entity the queue is walked first and its dead-letter queue second: a message that moves is seen.
//!
//! A shard that failed heals by the same walk: its log has ended, so no number is given out meanwhile. What was not
//! acknowledged is not in the stores, and what was is.

use oxbus_log::event;
use oxbus_store::Wait;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use oxbus_model::name::SubQueue;
use oxbus_model::sync::whole;
use oxbus_model::{Counter, Effect, Error, ErrorKind, Identity, Result, Timestamp};
use oxbus_store::extent::CHECK_BYTES;
use oxbus_store::shard_log::{Chunk, Chunks, Level, Lsn, ShardLog};
use oxbus_store::{MessagePhase, NumberedStore, PeekedMessage};

use super::journal::push_intent;
use super::journal::{EntityId, Intent, JournalEvent, SEEN_MAX, StoredPhase};
use super::{Cell, FaultReason, History, PartitionFault, SessionState, Sessions, Shard};

/// Bytes of a chunk; one message may make it longer.
const CHUNK_BYTES: usize = 256 << 10;
/// Messages looked at in one call.
const PAGE: usize = 64;

/// Keeps a cell alive.
pub trait CellHandle {
    /// The cell.
    fn cell(&self) -> &Cell;
}

/// A cell and how far its numbers go at the noted entry.
struct NotedCell<C> {
    cell: C,
    /// The next number.
    next: Counter,
    /// The number to go on from after an unclean end.
    reserved_until: Counter,
}

/// Bytes that a snapshot of cells has, about.
pub fn snapshot_bytes<C: CellHandle>(cells: &[C]) -> u64 {
    cells.iter().map(|cell| cell.cell().snapshot_bytes()).sum()
}

impl Shard {
    /// Writes a snapshot and lets go of the journal before it. `cells` lists the cells of this shard. `closing` says
    /// that no number will be given out any more, so that the next open goes on without a gap.
    pub fn write_snapshot<C: CellHandle>(&self, cells: impl FnOnce() -> Vec<C>, closing: bool) -> Result<()> {
        let Some(journal) = self.journal() else { return Ok(()) };
        let _snapshot_guard = whole(self.snapshot_mutex.lock());
        if self.is_closed() {
            return Ok(());
        }
        let unsaved = journal.unsaved_bytes();
        // No unit of work is half-way: what the noted entry says is in the stores.
        let units = self.snapshot_barrier.wait_until_idle();
        let append_guard = journal.lock_for_append(&self.health);
        let at = append_guard.last();
        let noted = note(cells(), closing);
        let log = append_guard.log();
        drop(append_guard);
        drop(units);
        self.wait_numbers_decided(&noted)
            .map_err(|error| self.snapshot_failed(error))?;
        let mut chunks = SnapshotChunks::over(&noted, self.intents());
        // What is remembered may be younger than the noted entry: its message must not be lost when the snapshot stays.
        let mut with_end = std::iter::from_fn(|| {
            chunks
                .next()
                .or_else(|| self.check_complete(Some(&*log)).err().map(Err))
        });
        let saved = log
            .put_snapshot(at, &mut with_end)
            .and_then(|()| log.truncate_before(at.next()));
        saved.map_err(|error| self.snapshot_failed(error))?;
        journal.snapshot_written(unsaved, chunks.bytes);
        event!(
            SNAPSHOT_WRITTEN,
            partition = self.id.0,
            bytes = chunks.bytes,
            replaced_bytes = unsaved
        );
        Ok(())
    }

    /// Goes on after a failure: writes everything that was acknowledged into a new journal. `new_log` makes it from
    /// the messages it is given. Nothing is done unless it `is_needed`, asked when nobody else heals or saves: a healthy
    /// shard is not taken out of service by who came late.
    pub fn heal<C: CellHandle>(
        &self,
        is_needed: impl FnOnce() -> bool,
        cells: impl FnOnce() -> Vec<C>,
        new_log: impl FnOnce(Chunks<'_>) -> io::Result<Arc<dyn ShardLog>>,
    ) -> Result<()> {
        let Some(journal) = self.journal() else { return Ok(()) };
        let _snapshot_guard = whole(self.snapshot_mutex.lock());
        if self.is_closed() || !is_needed() {
            return Ok(());
        }
        let reason = || FaultReason::of(self.health.reason().unwrap_or_default(), self.health.source());
        self.health.fail(PartitionFault::Healing, reason());
        // The log has ended: nothing is appended any more, so the order need not be held, and numbers stand still. A unit of
        // work that was committed before has its effect first.
        let units = self.snapshot_barrier.wait_until_idle();
        let append_guard = journal.lock_for_append(&self.health);
        let noted = note(cells(), false);
        drop(append_guard);
        drop(units);
        let mut chunks = SnapshotChunks::over(&noted, self.intents());
        let mut with_end = std::iter::from_fn(|| chunks.next().or_else(|| self.check_complete(None).err().map(Err)));
        let begun = self.wait_numbers_decided(&noted).and_then(|()| new_log(&mut with_end));
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

    /// What must hold before a snapshot that is written counts, beside a log that goes on.
    fn check_complete(&self, log: Option<&dyn ShardLog>) -> io::Result<()> {
        log.map_or(Ok(()), sync_all)?;
        self.check_not_panicked()?;
        if log.is_some() && self.is_closed() {
            return Err(io::Error::other("the namespace was closed meanwhile"));
        }
        Ok(())
    }

    /// Refuses to write down what a call left that panicked.
    fn check_not_panicked(&self) -> io::Result<()> {
        if self.health.fault() == Some(PartitionFault::Panicked) {
            return Err(io::Error::other("a call panicked while it changed the partition"));
        }
        Ok(())
    }

    /// Waits until every number that was given out is a message or given up. A log that fails lets everybody give up; after a
    /// panic nobody may.
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
        // One that gives way to the end of the namespace has not failed.
        if !self.is_closed() {
            event!(SNAPSHOT_FAILED, partition = self.id.0, cause = %error);
        }
        self.snapshot_error(error)
    }

    fn snapshot_error(&self, error: io::Error) -> Error {
        let detail = format!(
            "the messages of the partition could not be written anew ({error}); see to its disk and try again: partition={}",
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

/// The messages of cells as chunks of events.
struct SnapshotChunks<'a, C> {
    /// What sinks committed last.
    sinks: Vec<(String, Intent)>,
    left: VecDeque<&'a NotedCell<C>>,
    /// Where the cell at hand goes on.
    at: Option<(&'a Cell, SubQueue, Counter)>,
    /// What it remembers and did not give out yet.
    remembered: VecDeque<(Timestamp, Identity)>,
    /// The states of its sessions, likewise.
    states: Vec<(Arc<str>, SessionState)>,
    page: VecDeque<PeekedMessage>,
    /// Bytes given out so far.
    bytes: u64,
}

impl<'a, C: CellHandle> SnapshotChunks<'a, C> {
    fn over(noted: &'a [NotedCell<C>], sinks: Vec<(String, Intent)>) -> Self {
        Self {
            sinks,
            left: noted.iter().collect(),
            at: None,
            remembered: VecDeque::new(),
            states: Vec::new(),
            page: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Adds one message, or goes on to the next page, sub-queue or cell. False at the end.
    fn step(&mut self, chunk: &mut Chunk) -> io::Result<bool> {
        if let Some((sink, intent)) = self.sinks.pop() {
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
                let is_over = false;
                JournalEvent::Arrived { is_over, origins }.encode(cell.entity(), &mut chunk.bytes);
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
            push_message(cell.entity(), sub_queue, &message, chunk)?;
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
        self.bytes += chunk.bytes.len() as u64;
        (!chunk.bytes.is_empty()).then_some(Ok(chunk))
    }
}

fn push_message(entity: EntityId, sub_queue: SubQueue, message: &PeekedMessage, chunk: &mut Chunk) -> io::Result<()> {
    let record = message.record.load()?;
    let phase = match message.phase {
        MessagePhase::Ready | MessagePhase::Cached | MessagePhase::Locked => StoredPhase::Ready,
        MessagePhase::Deferred => StoredPhase::Deferred,
        MessagePhase::DeferredLocked => StoredPhase::Fetched,
        MessagePhase::Scheduled => StoredPhase::Scheduled {
            due: super::cell::due_of(message),
        },
    };
    // A delivery under way counts as ended; a deferred message was charged at its fetch. What is on the move was not
    // delivered.
    let charge = u32::from(message.phase == MessagePhase::Locked && message.is_delivered);
    JournalEvent::Keep {
        sub_queue,
        counter: message.counter,
        enqueued_at: message.enqueued_at,
        expires_at: message.expires_at,
        delivery_count: message.delivery_count.saturating_add(charge),
        generation: message.generation,
        record_generation: message.generation,
        phase,
        bytes: &record,
    }
    .encode(entity, &mut chunk.bytes);
    if message.record.in_memory().is_none() {
        let start = chunk.bytes.len() - CHECK_BYTES - record.len();
        chunk.messages.push((message.record.clone(), start));
    }
    Ok(())
}
