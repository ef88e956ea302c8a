// SPDX-License-Identifier: Apache-2.0
//! Commits a batch: runs every check that can reject it, then decides it with one record.
//!
//! A sink remembers the highest batch that it committed, and the query of that batch. The batch numbers of one query
//! rise, so a batch that is not higher was already committed. A query whose checkpoint was deleted counts from 0 again
//! under a new id. Its batches may have new rows, which are lost if the batches count as repeated.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use oxbus_model::options::Durability;
use oxbus_model::{Error, ErrorKind, Result};
use oxbus_store::Wait;
use oxbus_store::shard_log::SpaceClass;

use super::content::{RunInfo, StageContent};
use super::publish::split_into_pieces;
use super::registry::{StagePhase, StageRegistry, check_id};
use crate::entity::Entity;
use crate::shard::journal::{EntityId, Intent, IntentTarget};
use crate::write::{ShardWrite, Ticket, WriteError, WriteOperation};

/// A stage that a commit names.
pub(super) struct NamedStage {
    pub(super) id: String,
    pub(super) entity: EntityId,
    pub(super) content: Arc<StageContent>,
}

impl StageRegistry {
    /// See [`Stages::commit`](super::Stages::commit).
    pub(super) fn commit(&self, sink: &str, query: &str, batch: u64, ids: &[String], wait: &Wait<'_>) -> Result<bool> {
        self.check()?;
        check_id("the id of a sink", sink)?;
        check_id("the id of a query", query)?;
        self.remove_expired();
        let _guard = self.lock_sink(sink, wait)?;
        let home = self.home_of(sink);
        home.health().check_send(home.id(), wait)?;
        if let Some(known) = home.intent(sink) {
            if batch <= known.batch && known.query != query {
                return Err(conflicting_query(sink, query, batch, &known));
            }
            if batch <= known.batch {
                let of_intent = |id: &&String| known.stages.contains(id);
                let new: Vec<String> = ids.iter().filter(|id| !of_intent(id)).cloned().collect();
                self.discard_all(&new);
                self.discard_overtaken(sink, query, batch);
                if !known.is_done {
                    self.publish(sink, false, wait)
                        .map_err(|error| committed_error(batch, &error))?;
                }
                return Ok(false);
            }
            if !known.is_done {
                // The previous batch is published first, because a sink has one intent.
                self.publish(sink, true, wait)
                    .map_err(|error| committed_error(known.batch, &error))?;
            }
        }
        let named = self.ready_stages(ids)?;
        let piece_bytes = self.piece_bytes.load(Ordering::Relaxed);
        self.verify(&named, wait)?;
        let targets = self.check_targets(&named, piece_bytes, wait)?;
        let intent = Intent {
            query: query.to_owned(),
            batch,
            at: self.core.clock().now(),
            is_done: false,
            piece_bytes,
            stages: named.iter().map(|stage| stage.id.clone()).collect(),
            targets,
        };
        self.reserve(sink, &intent)?;
        if let Err(error) = self.decide(sink, intent.clone(), wait) {
            self.release_stages(sink, (!error.is_definite()).then(|| usize::from(home.id().0)));
            return Err(error.into());
        }
        self.table().unpublished.insert(sink.to_owned(), None);
        self.note_unpublished();
        self.discard_overtaken(sink, query, batch);
        self.publish_verified(sink, &named, wait)
            .map_err(|error| committed_error(batch, &error))?;
        Ok(true)
    }

    /// Decides a batch. Once this returns `Ok`, the batch is committed, whatever happens. After a definite error it is
    /// not.
    pub(super) fn decide(&self, sink: &str, intent: Intent, wait: &Wait<'_>) -> std::result::Result<(), WriteError> {
        let home = self.home_of(sink);
        let room = SpaceClass::Adds;
        let mut write = ShardWrite::of(intent_of(sink, intent, room), self.core.clock().moment());
        let ticket = home.begin(&mut write, home.durability(None), wait)?;
        ticket.finish(wait).map(drop)
    }

    /// Updates the intent of a committed batch without waiting for the disk: recovery derives a lost update again.
    pub(super) fn update_intent(&self, sink: &str, intent: Intent, wait: &Wait<'_>) {
        let room = SpaceClass::Frees;
        let mut write = ShardWrite::of(intent_of(sink, intent, room), self.core.clock().moment());
        let _ = self
            .home_of(sink)
            .begin(&mut write, Durability::Memory, wait)
            .map(Ticket::detach);
    }

    /// Returns the stages of a commit. Fails unless all of them are finished and free.
    pub(super) fn ready_stages(&self, ids: &[String]) -> Result<Vec<NamedStage>> {
        let table = self.table();
        let mut named: Vec<NamedStage> = Vec::with_capacity(ids.len());
        for id in ids {
            if named.iter().any(|it| it.id == *id) {
                continue;
            }
            let refuse = |what: &str| {
                let detail = format!("{what} and nothing was published: id=`{id}`");
                Error::new(ErrorKind::InvalidOperation, detail)
            };
            let Some(stage) = table.stages.get(id) else {
                let what = "there is no stage with that id: it expired, was discarded, or is at another broker; stage its rows again";
                return Err(refuse(what));
            };
            match &stage.phase {
                StagePhase::Ready(content) => named.push(NamedStage {
                    id: id.clone(),
                    entity: stage.entity,
                    content: Arc::clone(content),
                }),
                StagePhase::Open => return Err(refuse("the stage is still being written; finish it first")),
                StagePhase::Committed { sink, batch, .. } => {
                    let what = format!("the stage is part of another commit, batch {batch} of `{sink}`");
                    return Err(refuse(&what));
                }
            }
        }
        Ok(named)
    }

    /// Returns the partitions of the rows. Fails if one of them cannot take its rows now.
    pub(super) fn check_targets(
        &self,
        named: &[NamedStage],
        piece_bytes: u64,
        wait: &Wait<'_>,
    ) -> Result<Vec<IntentTarget>> {
        let mut all: BTreeMap<(EntityId, u16), Vec<RunInfo>> = BTreeMap::new();
        let mut entities: BTreeMap<EntityId, Arc<Entity>> = BTreeMap::new();
        for stage in named {
            let Some(queue) = self.core.entity_by_id(stage.entity) else {
                let detail = format!(
                    "the queue or topic of the stage was deleted and nothing was published; create it and stage the rows again: id=`{}`",
                    stage.id
                );
                return Err(Error::new(ErrorKind::EntityNotFound, detail));
            };
            entities.insert(stage.entity, queue);
            for run in stage.content.runs() {
                all.entry((stage.entity, run.partition)).or_default().push(run);
            }
        }
        let mut targets = Vec::with_capacity(all.len());
        for ((entity, index), runs) in all {
            let bytes = runs.iter().map(|run| run.bytes).sum();
            let rows: u64 = runs.iter().map(|run| run.rows).sum();
            entities[&entity].check_room(index.into(), bytes, rows as usize, wait)?;
            let pieces = split_into_pieces(runs.iter().map(|run| run.bytes), piece_bytes).len() as u32;
            targets.push(IntentTarget { entity, index, pieces });
        }
        Ok(targets)
    }

    /// Reserves the stages for this commit. Fails without effect if one of them is no longer ready.
    pub(super) fn reserve(&self, sink: &str, intent: &Intent) -> Result<()> {
        let mut table = self.table();
        let is_ready = |id: &&String| {
            !table
                .stages
                .get(*id)
                .is_some_and(|it| matches!(it.phase, StagePhase::Ready(_)))
        };
        if let Some(id) = intent.stages.iter().find(is_ready) {
            let detail = format!(
                "the stage was discarded during the commit and nothing was published; stage its rows again: id=`{id}`"
            );
            return Err(Error::new(ErrorKind::InvalidOperation, detail));
        }
        table.reserve(sink, intent);
        Ok(())
    }

    /// Releases the stages of a commit that was not decided. `undecided` is the partition whose store left the decision
    /// unknown, if any.
    fn release_stages(&self, sink: &str, undecided: Option<usize>) {
        for stage in self.table().stages.values_mut() {
            if let StagePhase::Committed { sink: of, content, .. } = &stage.phase
                && of == sink
            {
                stage.phase = StagePhase::Ready(Arc::clone(content));
                stage.undecided = undecided;
            }
        }
    }
}

/// The error of a batch that is committed but not yet published.
fn committed_error(batch: u64, error: &Error) -> Error {
    let detail = format!(
        "batch {batch} is committed and is published once this error is resolved; committing it again is harmless: {}",
        error.detail()
    );
    Error::new(error.kind(), detail).with_shared_source(error.shared_source())
}

fn conflicting_query(sink: &str, query: &str, batch: u64, known: &Intent) -> Error {
    let detail = format!(
        "the sink has committed batch {} of another query, so batch {batch} may be new or repeated, and nothing was published; \
         a query with a new checkpoint needs another sink id: sink=`{sink}` query=`{query}` \
         committed=`{}`",
        known.batch, known.query
    );
    Error::new(ErrorKind::InvalidOperation, detail)
}

fn intent_of(sink: &str, intent: Intent, space_class: SpaceClass) -> WriteOperation<'_> {
    let intent = Box::new(intent);
    WriteOperation::Intent {
        sink,
        intent,
        space_class,
    }
}
