// SPDX-License-Identifier: Apache-2.0
//! A stage that is being written: its rows go to their partitions now, so that a commit need not look at them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use oxbus_log::event;
use oxbus_model::caps::{STAGE_RUN_BYTES, STAGED_BYTES_MAX};
use oxbus_model::{Error, ErrorKind, PartitionId, Result, Timestamp};
use oxbus_store::file::{StageHead, StageWriter};

use super::content::{Content, MemoryRun, encode};
use super::shelf::{Place, Shelf, Stage, check_id, storage};
use crate::client::{Keyless, KeylessTurn, Sender};
use crate::entity::Entity;
use crate::write::EncodedMessage;

/// Bytes that a row in memory takes beyond its record.
const ROW_BYTES: usize = 40;

/// A stage that is being written. Dropped unfinished, it is removed.
pub struct Staging {
    shelf: Arc<Shelf>,
    id: String,
    sender: Sender,
    out: Out,
    /// By partition, what is not in a run yet.
    waiting: Vec<Waiting>,
    rows: u64,
    bytes: u64,
    /// A write failed: nothing more is taken.
    failed: bool,
    is_finished: bool,
}

/// Where runs go.
enum Out {
    Memory(Vec<MemoryRun>),
    /// `None` once it is finished.
    File(Option<StageWriter>),
}

/// Rows of one partition that are not in a run yet.
#[derive(Default)]
struct Waiting {
    /// In memory.
    rows: Vec<EncodedMessage>,
    /// For a file.
    payload: Vec<u8>,
    count: u32,
    bytes: usize,
}

impl Staging {
    pub(super) fn begin(shelf: &Arc<Shelf>, entity: &str, id: &str) -> Result<Self> {
        shelf.check()?;
        check_id("the id of a stage", id)?;
        shelf.sweep();
        let core = &shelf.core;
        let Some(queue) = core.entity(entity) else {
            return Err(Error::entity_not_found(entity, "Create the queue or topic first."));
        };
        queue.check_sendable()?;
        let sender = Sender::new(Arc::clone(&queue));
        sender.check_sends()?;
        let created_at = core.clock().now();
        reserve(shelf, id, &sender, created_at)?;
        // From here on the id is given back when it is dropped.
        let mut staging = Self {
            shelf: Arc::clone(shelf),
            id: id.to_owned(),
            waiting: (0..queue.partitions()).map(|_| Waiting::default()).collect(),
            sender,
            out: Out::Memory(Vec::new()),
            rows: 0,
            bytes: 0,
            failed: false,
            is_finished: false,
        };
        if let Some(files) = &shelf.files {
            let head = StageHead {
                store: files.store,
                entity: queue.id().0,
                created_at_ms: created_at.0,
                number: core.randomness().bytes().map(u64::from_le_bytes)?,
                id: id.to_owned(),
            };
            let made = files.make_dir();
            let begun = made.and_then(|()| StageWriter::create(&files.disk, &files.dir(), head));
            staging.out = Out::File(Some(begun.map_err(|error| storage(files, "begun", error))?));
        }
        Ok(staging)
    }

    /// The entity that encodes its rows.
    pub fn entity(&self) -> &Entity {
        self.sender.queue()
    }

    /// Adds rows: to one partition when it is given, else where a sender would send them. After an error nothing of the call
    /// may count: drop the stage.
    pub fn push(&mut self, partition: Option<PartitionId>, rows: Vec<EncodedMessage>) -> Result<()> {
        self.shelf.check()?;
        if self.failed {
            let detail = format!(
                "the stage could not be written; drop it and begin another: id=`{}`",
                self.id
            );
            return Err(Error::new(ErrorKind::InvalidOperation, detail));
        }
        let pushed = self.push_all(partition, rows);
        self.failed = pushed.is_err();
        pushed
    }

    fn push_all(&mut self, asked: Option<PartitionId>, rows: Vec<EncodedMessage>) -> Result<()> {
        self.sender.check_sends()?;
        let partitions = self.waiting.len();
        if let Some(asked) = asked.filter(|asked| usize::from(asked.0) >= partitions) {
            let detail = format!(
                "the partition is out of range; use 0 to {}, or none: partition={asked}",
                partitions - 1
            );
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
        let bytes: usize = rows.iter().map(EncodedMessage::bytes).sum();
        self.count(bytes, rows.len())?;
        let mut turn = KeylessTurn::of(&self.sender, Keyless::Spread);
        for row in rows {
            let partition = turn.choose(&row, asked)?;
            self.add(usize::from(partition.0), row)?;
        }
        Ok(())
    }

    /// Counts what comes in, unless it is too much.
    fn count(&mut self, bytes: usize, rows: usize) -> Result<()> {
        let core = &self.shelf.core;
        let staged = core.staged_bytes();
        if staged.load(Ordering::Relaxed) + bytes as u64 > STAGED_BYTES_MAX {
            event!(QUOTA_EXCEEDED, reason = "stages", limit = STAGED_BYTES_MAX);
            let detail = format!(
                "the stages of the namespace take as much as they may; commit or discard some: limit={STAGED_BYTES_MAX} bytes"
            );
            return Err(Error::new(ErrorKind::QuotaExceeded, detail));
        }
        if self.shelf.files.is_none() {
            core.check_memory(bytes + rows * ROW_BYTES)?;
        }
        staged.fetch_add(bytes as u64, Ordering::Relaxed);
        self.rows += rows as u64;
        self.bytes += bytes as u64;
        Ok(())
    }

    fn add(&mut self, index: usize, row: EncodedMessage) -> Result<()> {
        let waiting = &mut self.waiting[index];
        waiting.count += 1;
        waiting.bytes += row.bytes();
        match &self.out {
            Out::Memory(_) => waiting.rows.push(row),
            Out::File(_) => encode(&row, &mut waiting.payload),
        }
        if waiting.bytes >= STAGE_RUN_BYTES {
            self.end_run(index)?;
        }
        Ok(())
    }

    fn end_run(&mut self, index: usize) -> Result<()> {
        let waiting = &mut self.waiting[index];
        if waiting.count == 0 {
            return Ok(());
        }
        let partition = index as u16;
        match &mut self.out {
            Out::Memory(runs) => {
                let (rows, bytes) = (std::mem::take(&mut waiting.rows), waiting.bytes);
                runs.push(MemoryRun { partition, rows, bytes });
            }
            Out::File(writer) => {
                let put = writer
                    .as_mut()
                    .map_or(Ok(()), |writer| writer.put(partition, waiting.count, &waiting.payload));
                put.map_err(|error| failed(&self.shelf, "written", error))?;
                waiting.payload.clear();
            }
        }
        (waiting.count, waiting.bytes) = (0, 0);
        Ok(())
    }

    /// Ends the stage; how many rows it has. It is as safe as the namespace keeps messages.
    pub fn finish(mut self) -> Result<u64> {
        self.shelf.check()?;
        if self.failed {
            return self.push(None, Vec::new()).map(|()| 0);
        }
        for index in 0..self.waiting.len() {
            self.end_run(index)?;
        }
        let content = match &mut self.out {
            Out::Memory(runs) => Content::Memory(std::mem::take(runs)),
            Out::File(writer) => {
                let synced = self.shelf.files.as_ref().is_some_and(|files| files.synced);
                let writer = writer.take().expect("a stage is finished once");
                let finished = writer.finish(synced);
                Content::File(finished.map_err(|error| failed(&self.shelf, "finished", error))?)
            }
        };
        // What is counted from here on is what a removal gives back.
        let staged = self.shelf.core.staged_bytes();
        staged.fetch_add(content.sums().1, Ordering::Relaxed);
        staged.fetch_sub(self.bytes, Ordering::Relaxed);
        if let Some(stage) = self.shelf.table().stages.get_mut(&self.id) {
            stage.place = Place::Ready(Arc::new(content));
        }
        self.is_finished = true;
        Ok(self.rows)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.is_finished {
            self.shelf.core.staged_bytes().fetch_sub(self.bytes, Ordering::Relaxed);
            self.shelf.table().stages.remove(&self.id);
        }
    }
}

fn failed(shelf: &Shelf, what: &str, error: std::io::Error) -> Error {
    match &shelf.files {
        Some(files) => storage(files, what, error),
        None => Error::new(ErrorKind::Storage, error.to_string()).with_source(error),
    }
}

/// Takes an id, so that nobody else writes a stage of it.
fn reserve(shelf: &Shelf, id: &str, sender: &Sender, created_at: Timestamp) -> Result<()> {
    let mut table = shelf.table();
    if table.stages.contains_key(id) {
        let detail = format!("a stage with that id exists; give each attempt of a task an id of its own: id=`{id}`");
        return Err(Error::new(ErrorKind::EntityAlreadyExists, detail));
    }
    let stage = Stage {
        entity: sender.queue().id(),
        created_at,
        place: Place::Open,
        undecided: None,
    };
    table.stages.insert(id.to_owned(), stage);
    Ok(())
}
