// SPDX-License-Identifier: Apache-2.0
//! Publishes a decided batch, at once or after a crash: partition by partition, each exactly once.
//!
//! The rows of a partition are attached under a name that contains the batch, in one journal entry with that name, so
//! repeating it has no effect. The stages are removed once all rows are synced; until then a recovery may need them.

use oxbus_store::Wait;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use oxbus_model::caps::{ATTACHED_BYTES_MAX, PUBLISHING_THREADS, STORE_STALLED_MS};
use oxbus_model::options::Durability;
use oxbus_model::{Error, ErrorKind, Result};

use super::commit::NamedStage;
use super::content::unreadable;
use super::registry::{PendingSyncs, StageRegistry};
use crate::client::{attach_committed, is_attached};
use crate::clock::with_timeout;
use crate::entity::Entity;
use crate::parallel;
use crate::shard::journal::{Intent, IntentTarget};
use crate::shard::{CallKind, Shard};

/// Splits runs into pieces, one per journal entry: consecutive runs of at most `max` bytes in total, or a single larger
/// run.
pub(super) fn split_into_pieces(runs: impl Iterator<Item = usize>, max: u64) -> Vec<Range<usize>> {
    let mut pieces: Vec<Range<usize>> = Vec::new();
    let mut bytes_so_far = 0;
    for (position, bytes) in runs.enumerate() {
        match pieces.last_mut() {
            Some(last) if bytes_so_far + bytes as u64 <= max => {
                last.end = position + 1;
                bytes_so_far += bytes as u64;
            }
            _ => {
                pieces.push(position..position + 1);
                bytes_so_far = bytes as u64;
            }
        }
    }
    pieces
}

/// The name under which a piece is attached. It begins with the lengths of its parts, so that names are unique.
pub(super) fn attach_name(sink: &str, query: &str, batch: u64, piece: usize) -> String {
    format!("stage {} {} {sink}{query} {batch}/{piece}", sink.len(), query.len())
}

impl StageRegistry {
    /// Publishes the committed batch of a sink. The caller holds the sink's lock. With `wait_synced` it waits until
    /// the attached rows are synced; otherwise a later call finishes the batch.
    pub(super) fn publish(&self, sink: &str, wait_synced: bool, wait: &Wait<'_>) -> Result<()> {
        self.publish_from(sink, wait_synced, None, wait)
    }

    /// Publishes stages that were just verified, without waiting for a sync.
    pub(super) fn publish_verified(&self, sink: &str, named: &[NamedStage], wait: &Wait<'_>) -> Result<()> {
        self.publish_from(sink, false, Some(named), wait)
    }

    fn publish_from(
        &self,
        sink: &str,
        wait_synced: bool,
        verified: Option<&[NamedStage]>,
        wait: &Wait<'_>,
    ) -> Result<()> {
        let home = self.home_of(sink);
        let Some(intent) = home.intent(sink).filter(|intent| !intent.is_done) else {
            self.table().unpublished.remove(sink);
            return Ok(());
        };
        let attached = self.table().unpublished.get(sink).cloned().flatten();
        let pending = if let Some(pending) = attached {
            pending
        } else {
            self.attach_all(sink, &intent, verified, wait)?;
            let pending = self.pending_of(&intent);
            self.table().unpublished.insert(sink.to_owned(), Some(pending.clone()));
            pending
        };
        if wait_synced {
            // All syncs begin before any is waited for, so that they overlap.
            for (_, pending) in &pending {
                pending.begin_sync(Durability::Fsync);
            }
            let synced = pending
                .iter()
                .try_for_each(|(shard, pending)| shard.wait_until(pending, Durability::Fsync, CallKind::Send, wait));
            if let Err(error) = synced {
                // A later call attaches again once the store works, and skips attached rows.
                self.table().unpublished.insert(sink.to_owned(), None);
                return Err(error);
            }
        } else if !pending.iter().all(|(_, pending)| pending.is_synced()) {
            return Ok(());
        }
        self.finish(sink, intent, wait);
        Ok(())
    }

    /// Marks a batch as published and removes its stages.
    fn finish(&self, sink: &str, intent: Intent, wait: &Wait<'_>) {
        let done = Intent {
            is_done: true,
            // The retention of the intent starts now: publishing may have taken long, and the committer may not know
            // the result.
            at: self.core.clock().now().max(intent.at),
            targets: Vec::new(),
            ..intent
        };
        self.update_intent(sink, done.clone(), wait);
        self.table().unpublished.remove(sink);
        self.note_unpublished();
        self.remove_all(&done.stages);
    }

    /// The last journal entry of each shard to which the batch went.
    fn pending_of(&self, intent: &Intent) -> PendingSyncs {
        let shard_of = |target: &IntentTarget| {
            let queue = self.core.entity_by_id(target.entity)?;
            Some(Arc::clone(queue.shard(target.index.into())))
        };
        let shards = intent.targets.iter().filter_map(shard_of);
        let by_id: BTreeMap<u16, _> = shards.map(|shard| (shard.id().0, shard)).collect();
        let last = |shard: Arc<Shard>| shard.last_pending().map(|pending| (shard, pending));
        by_id.into_values().filter_map(last).collect()
    }

    /// Attaches the rows that are not yet attached, several partitions in parallel. A failing partition does not stop
    /// the others. Returns the first error.
    fn attach_all(&self, sink: &str, intent: &Intent, verified: Option<&[NamedStage]>, wait: &Wait<'_>) -> Result<()> {
        let name = |piece| attach_name(sink, &intent.query, intent.batch, piece);
        let mut left: Vec<(Arc<Entity>, &IntentTarget)> = Vec::new();
        for target in &intent.targets {
            // The rows of a deleted entity are dropped.
            let Some(queue) = self.core.entity_by_id(target.entity) else {
                continue;
            };
            let is_there = |piece: u32| is_attached(&queue, target.index.into(), &name(piece as usize));
            if !(0..target.pieces).all(is_there) {
                left.push((queue, target));
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        let found;
        let named = if let Some(named) = verified {
            named
        } else {
            found = self.stages_of(intent)?;
            self.verify(&found, wait)?;
            &found
        };
        let bytes = named.iter().map(|stage| stage.content.totals().1).sum();
        let attach = |(queue, target): &(Arc<Entity>, &IntentTarget), wait: &Wait<'_>| {
            self.attach((queue, target), named, intent.piece_bytes, &name, wait)
        };
        parallel::for_each(&left, self.threads_for(bytes), wait, attach)
    }

    /// Reads and checks all stages. The error names the first damaged one.
    pub(super) fn verify(&self, named: &[NamedStage], wait: &Wait<'_>) -> Result<()> {
        let read = |stage: &NamedStage, _: &Wait<'_>| stage.content.verify(&stage.id, self.disk());
        parallel::for_each(named, self.threads_for(0), wait, read)
    }

    /// Number of threads for rows of `bytes` in total. All threads together hold at most the bytes of one entry in
    /// memory.
    fn threads_for(&self, bytes: u64) -> usize {
        let waits_for_disks = self.disk().is_some() && bytes <= ATTACHED_BYTES_MAX as u64;
        if waits_for_disks { PUBLISHING_THREADS } else { 1 }
    }

    /// Attaches the pieces of one target that are not yet attached.
    pub(super) fn attach(
        &self,
        (queue, target): (&Arc<Entity>, &IntentTarget),
        named: &[NamedStage],
        piece_bytes: u64,
        name: &(dyn Fn(usize) -> String + Sync),
        wait: &Wait<'_>,
    ) -> Result<()> {
        // For each run of the target: its stage, its position in the stage, and its bytes.
        let mut runs = Vec::new();
        for (stage, content) in named.iter().enumerate().filter(|(_, it)| it.entity == target.entity) {
            let here = content.content.runs().into_iter().enumerate();
            let here = here.filter(|(_, run)| run.partition == target.index);
            runs.extend(here.map(|(position, run)| (stage, position, run.bytes)));
        }
        let pieces = split_into_pieces(runs.iter().map(|(.., bytes)| *bytes), piece_bytes);
        for (number, piece) in pieces.into_iter().enumerate() {
            let name = name(number);
            if is_attached(queue, target.index.into(), &name) {
                continue;
            }
            let mut rows = Vec::new();
            for stage in runs[piece].chunk_by(|one, other| one.0 == other.0) {
                let positions: Vec<usize> = stage.iter().map(|(_, position, _)| *position).collect();
                let named = &named[stage[0].0];
                named.content.load(&named.id, self.disk(), &positions, &mut rows)?;
            }
            attach_committed(queue, target.index.into(), &name, rows, wait)?;
        }
        Ok(())
    }

    /// The stages of a decided commit.
    pub(super) fn stages_of(&self, intent: &Intent) -> Result<Vec<NamedStage>> {
        let table = self.table();
        let named = intent.stages.iter().map(|id| {
            let stage = table.stages.get(id);
            let found = stage.and_then(|stage| Some((stage.entity, Arc::clone(stage.content()?))));
            let (entity, content) = found.ok_or_else(|| unreadable(id, "its file is missing"))?;
            let id = id.clone();
            Ok(NamedStage { id, entity, content })
        });
        named.collect()
    }

    /// Publishes decided batches, and removes stages that no commit has named for too long.
    pub(crate) fn resume(&self) {
        self.remove_expired();
        let unpublished: Vec<String> = self.table().unpublished.keys().cloned().collect();
        for sink in unpublished {
            if let Some(_guard) = self.try_lock_sink(&sink) {
                // A failure is retried by the next call.
                let _ = self.publish(&sink, false, &Wait::FOREVER);
            }
        }
    }

    /// Publishes decided batches for a caller. Waits a while for a thread that is publishing the sink: that thread may
    /// have tried before the fault ended.
    pub(crate) fn resume_waiting(&self, wait: &Wait<'_>) {
        let unpublished: Vec<String> = self.table().unpublished.keys().cloned().collect();
        with_timeout(STORE_STALLED_MS, wait, |wait| {
            for sink in unpublished {
                if let Ok(_guard) = self.lock_sink(&sink, wait) {
                    // A failure is retried by the next call.
                    let _ = self.publish(&sink, false, wait);
                }
            }
        });
    }

    /// Publishes decided batches after a partition was healed. Attaches again, because the old journal's entries may be
    /// lost.
    pub(crate) fn resume_after_heal(&self) {
        self.table()
            .unpublished
            .values_mut()
            .for_each(|attached| *attached = None);
        self.resume();
    }

    /// Finishes batches before the journals are closed.
    pub(crate) fn close(&self) {
        let unpublished: Vec<String> = self.table().unpublished.keys().cloned().collect();
        for sink in unpublished {
            if let Some(_guard) = self.try_lock_sink(&sink) {
                // The next open retries a failure.
                let _ = self.publish(&sink, true, &Wait::FOREVER);
            }
        }
    }

    /// Sets the time of the oldest unpublished batch in the namespace's shared state.
    pub(crate) fn note_unpublished(&self) {
        let since = self.shards.iter().filter_map(|shard| shard.unpublished_since());
        self.core.set_unpublished_since(since.min());
    }

    /// Publishes a batch without its unreadable stage.
    pub(super) fn publish_without(&self, sink: &str, id: &str, wait: &Wait<'_>) -> Result<bool> {
        let _guard = self.lock_sink(sink, wait)?;
        let home = self.home_of(sink);
        let Some(mut intent) = home.intent(sink).filter(|intent| !intent.is_done) else {
            return Ok(false);
        };
        let content = self.table().stages.get(id).and_then(|stage| stage.content().cloned());
        if content.is_some_and(|content| content.verify(id, self.disk()).is_ok()) {
            let detail = format!("the stage is committed and is being published; wait until that has ended: id=`{id}`");
            return Err(Error::new(ErrorKind::InvalidOperation, detail));
        }
        intent.stages.retain(|stage| stage != id);
        let name = |piece| attach_name(sink, &intent.query, intent.batch, piece);
        let named: Vec<NamedStage> = {
            let rest = Intent {
                stages: intent.stages.clone(),
                ..intent.clone()
            };
            // Other unreadable stages are discarded one by one.
            self.stages_of(&rest).unwrap_or_default()
        };
        intent.targets.retain_mut(|target| {
            let Some(queue) = self.core.entity_by_id(target.entity) else {
                return false;
            };
            let is_there = |piece: u32| is_attached(&queue, target.index.into(), &name(piece as usize));
            if target.pieces > 1 && (0..target.pieces).any(is_there) {
                // Without the stage it is unknown which pieces are missing, so the rest of the target is dropped.
                return false;
            }
            let of_target = named.iter().filter(|stage| stage.entity == target.entity);
            let runs = of_target.flat_map(|stage| stage.content.runs());
            let runs = runs.filter(|run| run.partition == target.index).map(|run| run.bytes);
            target.pieces = split_into_pieces(runs, intent.piece_bytes).len().max(1) as u32;
            true
        });
        self.update_intent(sink, intent, wait);
        self.remove_all(&[id.to_owned()]);
        self.table().unpublished.insert(sink.to_owned(), None);
        let _ = self.publish(sink, false, wait);
        Ok(true)
    }
}
