// SPDX-License-Identifier: Apache-2.0
//! An intent is the record that decides a batch of staged sends and later notes its publication.

use oxbus_model::Timestamp;
use oxbus_model::varint::{self, VarintReader};

use super::event::{EntityId, JournalEvent};

/// The latest batch of a sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// The query that numbers the batches.
    pub query: String,
    /// The number of the batch.
    pub batch: u64,
    /// When it was decided, or when it was published once `is_done`.
    pub at: Timestamp,
    /// True once all its rows are published.
    pub is_done: bool,
    /// Rows of one partition that exceed this size are attached in several entries.
    pub piece_bytes: u64,
    /// The stages that contain its rows. Once `is_done`, they are to be removed.
    pub stages: Vec<String>,
    /// Destinations of its rows; empty once `is_done`.
    pub targets: Vec<IntentTarget>,
}

/// Rows of a batch for one partition of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct IntentTarget {
    /// The entity.
    pub entity: EntityId,
    /// Index of its cell.
    pub index: u16,
    /// Number of entries in which the rows are attached.
    pub pieces: u32,
}

impl Intent {
    pub(super) fn push(&self, sink: &str, out: &mut Vec<u8>) {
        varint::push_bytes(out, sink.as_bytes());
        varint::push_bytes(out, self.query.as_bytes());
        varint::push(out, self.batch);
        varint::push(out, self.at.0);
        out.push(self.is_done.into());
        varint::push(out, self.piece_bytes);
        varint::push(out, self.stages.len() as u64);
        for stage in &self.stages {
            varint::push_bytes(out, stage.as_bytes());
        }
        varint::push(out, self.targets.len() as u64);
        for target in &self.targets {
            for value in [target.entity.0, target.index.into(), target.pieces.into()] {
                varint::push(out, value);
            }
        }
    }

    /// Reads the bytes after the name of the sink.
    pub(super) fn take(from: &mut VarintReader<'_>) -> Option<Self> {
        let query = from.text()?.to_owned();
        let (batch, at) = (from.varint()?, Timestamp(from.varint()?));
        let is_done = match from.take(1)? {
            [0] => false,
            [1] => true,
            _ => return None,
        };
        let piece_bytes = from.varint()?;
        let mut stages = Vec::new();
        for _ in 0..from.varint()? {
            stages.push(from.text()?.to_owned());
        }
        let mut targets = Vec::new();
        for _ in 0..from.varint()? {
            targets.push(IntentTarget {
                entity: EntityId(from.varint()?),
                index: from.varint()?.try_into().ok()?,
                pieces: from.varint()?.try_into().ok()?,
            });
        }
        Some(Self {
            query,
            batch,
            at,
            is_done,
            piece_bytes,
            stages,
            targets,
        })
    }
}

/// Intents belong to no entity.
const NO_ENTITY: EntityId = EntityId(0);

/// Appends the event of an intent to an entry or snapshot.
pub fn push_intent(sink: &str, intent: Intent, out: &mut Vec<u8>) {
    JournalEvent::Intent { sink, intent }.encode(NO_ENTITY, out);
}
