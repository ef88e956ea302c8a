// SPDX-License-Identifier: Apache-2.0
//! A stage that is being written. Rows get their partitions here, so that a commit need not read them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use oxbus_log::event;
use oxbus_model::caps::{STAGE_RUN_BYTES, STAGED_BYTES_MAX};
use oxbus_model::{Effect, Error, ErrorKind, PartitionId, Result, Timestamp};
use oxbus_store::file::{StageHeader, StageWriter};

use super::content::{MemoryRun, StageContent, encode};
use super::registry::{Stage, StagePhase, StageRegistry, check_id, stage_storage_error};
use crate::client::{Keyless, KeylessRotation, Sender};
use crate::entity::Entity;
use crate::write::EncodedMessage;

/// Memory of a row in addition to its record, in bytes.
const ROW_BYTES: usize = 40;

/// A stage that is being written. Dropping it unfinished removes it.
pub struct Staging {
    registry: Arc<StageRegistry>,
    id: String,
    sender: Sender,
    out: RunOutput,
    /// By partition.
    pending_runs: Vec<PendingRun>,
    rows: u64,
    bytes: u64,
    /// True after a failed write; further rows are rejected.
    failed: bool,
    is_finished: bool,
}

/// The destination of finished runs.
enum RunOutput {
    Memory(Vec<MemoryRun>),
    /// `None` once it is finished.
    File(Option<StageWriter>),
}

/// Rows of one partition that are not yet written as a run.
#[derive(Default)]
struct PendingRun {
    /// For a stage in memory.
    rows: Vec<EncodedMessage>,
    /// For a stage in a file.
    payload: Vec<u8>,
    count: u32,
    bytes: usize,
}

impl Staging {
    pub(super) fn begin(registry: &Arc<StageRegistry>, entity: &str, id: &str) -> Result<Self> {
        registry.check()?;
        check_id("the id of a stage", id)?;
        registry.remove_expired();
        let core = &registry.core;
        let Some(queue) = core.entity(entity) else {
            return Err(Error::entity_not_found(entity, "Create the queue or topic first."));
        };
        queue.check_sendable()?;
        let sender = Sender::new(Arc::clone(&queue));
        sender.check_sends()?;
        let created_at = core.clock().now();
        // A caller that got no answer stages the same rows again.
        registry.discard_all(&[id.to_owned()]);
        reserve_id(registry, id, &sender, created_at)?;
        // From now on, dropping `staging` frees the id.
        let mut staging = Self {
            registry: Arc::clone(registry),
            id: id.to_owned(),
            pending_runs: (0..queue.partitions()).map(|_| PendingRun::default()).collect(),
            sender,
            out: RunOutput::Memory(Vec::new()),
            rows: 0,
            bytes: 0,
            failed: false,
            is_finished: false,
        };
        if let Some(files) = &registry.files {
            let head = StageHeader {
                store: files.store,
                entity: queue.id().0,
                created_at_ms: created_at.0,
                number: core.randomness().bytes().map(u64::from_le_bytes)?,
                id: id.to_owned(),
            };
            let made = files.make_dir();
            let begun = made.and_then(|()| StageWriter::create(&files.disk, &files.dir(), head));
            staging.out = RunOutput::File(Some(begun.map_err(|error| stage_storage_error(files, "begun", error))?));
        }
        Ok(staging)
    }

    /// The entity of the rows, which encodes them.
    pub fn entity(&self) -> &Entity {
        self.sender.entity()
    }

    /// Adds rows to `partition`, or by default to the partitions that a sender would choose. After an error, drop the
    /// stage: it may contain some of the rows.
    pub fn push(&mut self, partition: Option<PartitionId>, rows: Vec<EncodedMessage>) -> Result<()> {
        self.registry.check()?;
        if self.failed {
            let detail = format!(
                "an earlier write to the stage failed; drop it and begin another: id=`{}`",
                self.id
            );
            return Err(Error::new(ErrorKind::InvalidOperation, detail));
        }
        let pushed = self.push_all(partition, rows);
        self.failed = pushed.is_err();
        pushed
    }

    fn push_all(&mut self, requested: Option<PartitionId>, rows: Vec<EncodedMessage>) -> Result<()> {
        self.sender.check_sends()?;
        let partitions = self.pending_runs.len();
        if let Some(invalid) = requested.filter(|requested| usize::from(requested.0) >= partitions) {
            let detail = format!(
                "the partition is out of range; use 0 to {}, or none: partition={invalid}",
                partitions - 1
            );
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
        let bytes: usize = rows.iter().map(EncodedMessage::bytes).sum();
        self.count_staged(bytes, rows.len())?;
        let mut rotation = KeylessRotation::of(&self.sender, Keyless::Spread);
        for row in rows {
            let partition = rotation.choose(&row, requested)?;
            self.add(usize::from(partition.0), row)?;
        }
        Ok(())
    }

    /// Counts rows as staged. Fails if that exceeds a limit.
    fn count_staged(&mut self, bytes: usize, rows: usize) -> Result<()> {
        let core = &self.registry.core;
        let staged = core.staged_bytes();
        if staged.load(Ordering::Relaxed) + bytes as u64 > STAGED_BYTES_MAX {
            event!(QUOTA_EXCEEDED, reason = "stages", limit = STAGED_BYTES_MAX);
            let detail = format!(
                "the stages of the namespace are at their limit; commit or discard some: limit={STAGED_BYTES_MAX} bytes"
            );
            return Err(Error::new(ErrorKind::QuotaExceeded, detail));
        }
        if self.registry.files.is_none() {
            core.check_memory(bytes + rows * ROW_BYTES)?;
        }
        staged.fetch_add(bytes as u64, Ordering::Relaxed);
        self.rows += rows as u64;
        self.bytes += bytes as u64;
        Ok(())
    }

    fn add(&mut self, index: usize, row: EncodedMessage) -> Result<()> {
        let run = &mut self.pending_runs[index];
        run.count += 1;
        run.bytes += row.bytes();
        match &self.out {
            RunOutput::Memory(_) => run.rows.push(row),
            RunOutput::File(_) => encode(&row, &mut run.payload),
        }
        if run.bytes >= STAGE_RUN_BYTES {
            self.end_run(index)?;
        }
        Ok(())
    }

    fn end_run(&mut self, index: usize) -> Result<()> {
        let run = &mut self.pending_runs[index];
        if run.count == 0 {
            return Ok(());
        }
        let partition = index as u16;
        match &mut self.out {
            RunOutput::Memory(runs) => {
                let (rows, bytes) = (std::mem::take(&mut run.rows), run.bytes);
                runs.push(MemoryRun { partition, rows, bytes });
            }
            RunOutput::File(writer) => {
                let put = writer
                    .as_mut()
                    .map_or(Ok(()), |writer| writer.push_run(partition, run.count, &run.payload));
                put.map_err(|error| write_error(&self.registry, "written", error))?;
                run.payload.clear();
            }
        }
        (run.count, run.bytes) = (0, 0);
        Ok(())
    }

    /// Finishes the stage and returns its number of rows. It is as durable as the namespace's messages.
    pub fn finish(mut self) -> Result<u64> {
        self.registry.check()?;
        if self.failed {
            // Returns the error of a failed stage.
            return self.push(None, Vec::new()).map(|()| 0);
        }
        for index in 0..self.pending_runs.len() {
            self.end_run(index)?;
        }
        let content = match &mut self.out {
            RunOutput::Memory(runs) => StageContent::Memory(std::mem::take(runs)),
            RunOutput::File(writer) => {
                let synced = self.registry.files.as_ref().is_some_and(|files| files.synced);
                let writer = writer.take().expect("a stage is finished once");
                let finished = writer.finish(synced);
                StageContent::File(finished.map_err(|error| write_error(&self.registry, "finished", error))?)
            }
        };
        // The removal of the stage subtracts the size of its content, so this adds that size instead of the pushed
        // bytes.
        let staged = self.registry.core.staged_bytes();
        staged.fetch_add(content.totals().1, Ordering::Relaxed);
        staged.fetch_sub(self.bytes, Ordering::Relaxed);
        if let Some(stage) = self.registry.table().stages.get_mut(&self.id) {
            stage.phase = StagePhase::Ready(Arc::new(content));
        }
        self.is_finished = true;
        if self.registry.is_overtaken(&self.id) {
            self.registry.discard_all(&[std::mem::take(&mut self.id)]);
        }
        Ok(self.rows)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.is_finished {
            self.registry
                .core
                .staged_bytes()
                .fetch_sub(self.bytes, Ordering::Relaxed);
            self.registry.table().stages.remove(&self.id);
        }
    }
}

fn write_error(registry: &StageRegistry, what: &str, error: std::io::Error) -> Error {
    match &registry.files {
        Some(files) => stage_storage_error(files, what, error),
        None => Error::new(ErrorKind::Storage, error.to_string()).with_source(error),
    }
}

/// Reserves an id for this stage. Fails while another call writes a stage with that id, and once a commit has named it.
fn reserve_id(registry: &StageRegistry, id: &str, sender: &Sender, created_at: Timestamp) -> Result<()> {
    let mut table = registry.table();
    if let Some(stage) = table.stages.get(id) {
        let is_open = matches!(stage.phase, StagePhase::Open);
        let (kind, what) = if is_open {
            (
                ErrorKind::ServerBusy,
                "is being written by another call; wait until that ends",
            )
        } else {
            let what = "is part of a commit; give each attempt of a task its own id";
            (ErrorKind::EntityAlreadyExists, what)
        };
        let detail = format!("a stage with that id {what}: id=`{id}`");
        return Err(Error::new(kind, detail).with_effect(Effect::None));
    }
    let stage = Stage {
        entity: sender.entity().id(),
        created_at,
        phase: StagePhase::Open,
        undecided: None,
    };
    table.stages.insert(id.to_owned(), stage);
    Ok(())
}
