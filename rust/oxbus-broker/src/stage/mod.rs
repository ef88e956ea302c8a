// SPDX-License-Identifier: Apache-2.0
//! Staged sends: tasks write rows to stages, and one commit publishes all stages of a batch together, exactly once.
//!
//! A stage contains the rows of one task. A commit names the sink, the query, the batch number and the stages. The
//! query counts the batches of the sink. One record decides the commit: the sink's intent. After that the rows are
//! published partition by partition, whatever happens.
//!
//! Read in this order: `staging` (writing a stage), `registry` (all stages of a namespace), `commit` (checks and
//! decision), `publish` (publishing a decided batch, also after a crash), `content` (the rows).
//!
//! Source: Structured Streaming, "Fault tolerance semantics": a sink that receives a batch twice keeps it once.

mod check;
mod commit;
mod content;
mod overtaken;
mod publish;
mod registry;
mod staging;
#[cfg(test)]
mod tests;

use oxbus_store::Wait;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use oxbus_model::{Result, Timestamp};

pub(crate) use check::{check_files, read_run};
pub(crate) use content::rows_of;
pub(crate) use registry::{StageFileHold, StageFiles, StageRegistry, stages_dir};
pub use staging::Staging;

/// The stages of a namespace.
#[derive(Clone)]
pub struct Stages {
    registry: Arc<StageRegistry>,
}

/// A stage, for the list of stages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageInfo {
    /// The id that the task gave it, or the name of its file if the id is unreadable.
    pub id: String,
    /// The entity of its rows; empty if it is unknown or deleted.
    pub entity: String,
    /// When it was begun.
    pub created_at: Timestamp,
    /// When it is removed, unless a commit names it.
    pub expires_at: Timestamp,
    /// Number of rows; 0 while the task is writing.
    pub rows: u64,
    /// Bytes of the rows.
    pub bytes: u64,
    /// Its state.
    pub state: StageState,
}

/// The state of a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StageState {
    /// Its task is writing.
    Open,
    /// It is finished and waits for a commit.
    Ready,
    /// A commit named it, and its rows are being published.
    Committed {
        /// The sink of the commit.
        sink: String,
        /// The batch of the commit.
        batch: u64,
    },
    /// It cannot be read, for this reason.
    Damaged(String),
}

impl Stages {
    pub(crate) fn new(registry: &Arc<StageRegistry>) -> Self {
        Self {
            registry: Arc::clone(registry),
        }
    }

    /// Begins a stage for a queue or a topic. A stage with the same id that no commit has named is replaced, so a call
    /// whose answer was lost can be repeated; each attempt of a task uses its own id.
    ///
    /// An id `SINK/QUERY/BATCH/…` belongs to that batch of the query for the sink, with `%` and `/` in their names written
    /// as `%25` and `%2F`. Once the sink has committed the batch or a later one, what is left of it is removed.
    pub fn begin(&self, entity: &str, id: &str) -> Result<Staging> {
        Staging::begin(&self.registry, entity, id)
    }

    /// Publishes all rows of the stages, exactly once, as batch `batch` of `sink`. Returns true if this call committed
    /// the batch. If the batch was committed before, discards the stages and returns false.
    pub fn commit(&self, sink: &str, query: &str, batch: u64, ids: &[String], wait: &Wait<'_>) -> Result<bool> {
        self.registry.commit(sink, query, batch, ids, wait)
    }

    /// Discards the given stages that no commit has named. A committed batch stays committed, because an abort may
    /// follow a commit whose answer was lost.
    pub fn abort(&self, sink: &str, query: &str, batch: u64, ids: &[String], wait: &Wait<'_>) -> Result<()> {
        let _ = (query, batch);
        self.registry.abort(sink, ids, wait)
    }

    /// Bytes of the rows in all stages.
    pub fn bytes(&self) -> u64 {
        self.registry.core.staged_bytes().load(Ordering::Relaxed)
    }

    /// All stages, oldest first.
    pub fn list(&self) -> Vec<StageInfo> {
        self.registry.list()
    }

    /// Removes a stage that is unreadable or that no commit has named. The rows of an unreadable stage are lost, and a
    /// commit that waits for it continues without them. Returns false if there is no such stage.
    pub fn discard(&self, id: &str, wait: &Wait<'_>) -> Result<bool> {
        self.registry.discard(id, wait)
    }
}
