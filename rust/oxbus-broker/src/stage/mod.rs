// SPDX-License-Identifier: Apache-2.0
//! Staged sends: tasks put rows aside, and one commit publishes those of a batch together, exactly once.
//!
//! A stage is what one task wrote. A commit names the sink that it is made for, a number that rises with each batch of that
//! sink, the query that counts the batches, and the stages. It is decided by one record, the intent of the sink; from then on
//! the rows are published whatever happens, partition by partition.
//!
//! Read in this order: `staging` (writing one), `registry` (where they wait), `commit` (what is checked and decided), `publish`
//! (what follows from it, also after a crash), `content` (their rows).
//!
//! Source: Structured Streaming, "Fault tolerance semantics": a sink that is told of a batch twice keeps it once.

mod commit;
mod content;
mod publish;
mod registry;
mod staging;
#[cfg(test)]
mod tests;

use oxbus_store::Wait;
use std::sync::Arc;

use oxbus_model::{Result, Timestamp};

pub(crate) use content::rows_of;
pub(crate) use registry::{StageFiles, StageRegistry};
pub use staging::Staging;

/// The stages of a namespace.
#[derive(Clone)]
pub struct Stages {
    registry: Arc<StageRegistry>,
}

/// A stage as management shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageInfo {
    /// Its id, as the task gave it; the name of its file when that cannot be read.
    pub id: String,
    /// The entity that its rows are for; empty when that is not known or not there.
    pub entity: String,
    /// When it was begun.
    pub created_at: Timestamp,
    /// When it is removed if no commit names it.
    pub expires_at: Timestamp,
    /// Its rows; 0 while its task is writing.
    pub rows: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// How far it is.
    pub state: StageState,
}

/// How far a stage is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StageState {
    /// Its task is writing.
    Open,
    /// It waits for a commit.
    Ready,
    /// A commit named it, and its rows are being published.
    Committed {
        /// Of which sink.
        sink: String,
        /// Which batch.
        batch: u64,
    },
    /// It cannot be read; why, for people.
    Damaged(String),
}

impl Stages {
    pub(crate) fn new(registry: &Arc<StageRegistry>) -> Self {
        Self {
            registry: Arc::clone(registry),
        }
    }

    /// Begins a stage for a queue or a topic. Its id is new: each attempt of a task has its own.
    pub fn begin(&self, entity: &str, id: &str) -> Result<Staging> {
        Staging::begin(&self.registry, entity, id)
    }

    /// Publishes the rows of the stages as batch `batch` of `sink`, all of them and once. True when this call committed the
    /// batch; false when that happened before, and the stages named now are discarded.
    pub fn commit(&self, sink: &str, query: &str, batch: u64, ids: &[String], wait: &Wait<'_>) -> Result<bool> {
        self.registry.commit(sink, query, batch, ids, wait)
    }

    /// Discards the stages that no commit has named. What was committed stays so: an abort may follow a commit whose answer got
    /// lost.
    pub fn abort(&self, sink: &str, query: &str, batch: u64, ids: &[String], wait: &Wait<'_>) -> Result<()> {
        let _ = (query, batch);
        self.registry.abort(sink, ids, wait)
    }

    /// All stages, oldest first.
    pub fn list(&self) -> Vec<StageInfo> {
        self.registry.list()
    }

    /// Removes a stage that no commit has named, or one that cannot be read: its rows are given up then, and a commit that waits
    /// for it goes on without them. False when there is no such stage.
    pub fn discard(&self, id: &str, wait: &Wait<'_>) -> Result<bool> {
        self.registry.discard(id, wait)
    }
}
