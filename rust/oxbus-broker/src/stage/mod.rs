// SPDX-License-Identifier: Apache-2.0
//! Staged sends: tasks put rows aside, and one commit publishes those of a batch together, exactly once.
//!
//! A stage is what one task wrote. A commit names the sink that it is made for, a number that rises with each batch of that
//! sink, the query that counts the batches, and the stages. It is decided by one record, the intent of the sink; from then on
//! the rows are published whatever happens, partition by partition.
//!
//! Source: Structured Streaming, "Fault tolerance semantics": a sink that is told of a batch twice keeps it once.

mod staging;

use oxbus_model::{Result, Timestamp};

pub use staging::Staging;

/// The stages of a namespace.
pub struct Stages {}

/// A stage as management shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageInfo {
    /// Its id, as the task gave it.
    pub id: String,
    /// The entity that its rows are for; empty when its file cannot be read.
    pub entity: String,
    /// When it was begun.
    pub created_at: Timestamp,
    /// When it is removed if no commit names it.
    pub expires_at: Timestamp,
    /// Its rows.
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
    /// Begins a stage for an entity. Its id is new: each attempt of a task has its own.
    pub fn begin(&self, entity: &str, id: &str) -> Result<Staging> {
        staging::begin(entity, id)
    }

    /// Publishes the rows of the stages as batch `batch` of `sink`, all of them and once. True when this call committed the
    /// batch; false when that happened before, and the stages named now are discarded.
    pub fn commit(&self, sink: &str, query: &str, batch: u64, ids: &[String]) -> Result<bool> {
        let _ = (sink, query, batch, ids);
        Err(staging::coming())
    }

    /// Discards the stages, unless the batch was committed: then nothing happens.
    pub fn abort(&self, sink: &str, query: &str, batch: u64, ids: &[String]) -> Result<()> {
        let _ = (sink, query, batch, ids);
        Err(staging::coming())
    }

    /// All stages, oldest first.
    pub fn list(&self) -> Vec<StageInfo> {
        Vec::new()
    }

    /// Removes a stage that no commit named; false when there is none of that id.
    pub fn discard(&self, id: &str) -> Result<bool> {
        let _ = id;
        Err(staging::coming())
    }
}
