// SPDX-License-Identifier: Apache-2.0
//! What a sink has committed last: the record that decides a batch of staged sends, and that it is published.

use oxbus_model::Timestamp;
use oxbus_model::varint::{self, Reader};

use super::event::{EntityId, JournalEvent};

/// The latest batch of a sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// Who counts the batches.
    pub query: String,
    /// Which batch.
    pub batch: u64,
    /// When it was committed, or published if that is over.
    pub at: Timestamp,
    /// All its rows are published.
    pub is_done: bool,
    /// Rows of one partition that take more bytes than this are attached in several entries.
    pub piece_bytes: u64,
    /// The stages with its rows. Once it is done they are to be removed.
    pub stages: Vec<String>,
    /// Where its rows go; empty once it is done.
    pub targets: Vec<IntentTarget>,
}

/// Rows of a batch for one partition of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct IntentTarget {
    /// Which entity.
    pub entity: EntityId,
    /// Its cell with that index.
    pub index: u16,
    /// In how many entries they are attached.
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

    /// What stands behind the name of the sink.
    pub(super) fn take(from: &mut Reader<'_>) -> Option<Self> {
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

/// Adds the event of an intent to an entry or a snapshot.
pub fn push_intent(sink: &str, intent: Intent, out: &mut Vec<u8>) {
    JournalEvent::Intent { sink, intent }.encode(NO_ENTITY, out);
}
