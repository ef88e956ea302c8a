// SPDX-License-Identifier: Apache-2.0
//! Attaches rows: a partition stores the rows of one name only once, regardless of the number of attempts and callers.
//!
//! One journal entry contains the rows and their name, so that after a crash both exist or neither. A concurrent
//! attempt waits for the result of the first. A commit of staged sends or a bulk load has decided that the rows become
//! messages. Only a failed store or the deletion of the entity can prevent it.

use oxbus_store::Wait;
use oxbus_store::suspended::run_now;
use std::sync::Arc;

use oxbus_model::options::Durability;
use oxbus_model::{PartitionId, Result};

use super::commit::{Attachment, commit};
use super::sender::Sender;
use super::transaction::{PendingNumbers, TransactionSend, TransactionWork};
use crate::entity::Entity;
use crate::shard::CallKind;
use crate::write::EncodedMessage;

impl Sender {
    /// Stores rows of a bulk load in a partition, unless it has them. The rows are written but not synced:
    /// [`Sender::sync`] must sync them before a caller sees one of their numbers.
    pub(crate) fn attach_loaded_rows(
        &self,
        partition: PartitionId,
        name: &str,
        rows: Vec<EncodedMessage>,
        wait: &Wait<'_>,
    ) -> Result<()> {
        attach(&self.entity, partition.0.into(), name, rows, true, wait)
    }

    /// Syncs a partition.
    pub(crate) fn sync(&self, partition: PartitionId, wait: &Wait<'_>) -> Result<()> {
        let cell = self.entity.cell_for_append(usize::from(partition.0));
        cell.shard.await_all(Durability::Fsync, CallKind::Send, wait)
    }
}

/// Stores rows of a decided batch in a cell, unless it has them.
pub(crate) fn attach_committed(
    entity: &Arc<Entity>,
    index: usize,
    name: &str,
    rows: Vec<EncodedMessage>,
    wait: &Wait<'_>,
) -> Result<()> {
    attach(entity, index, name, rows, false, wait)
}

/// True if a cell has rows of this name.
pub(crate) fn is_attached(entity: &Entity, index: usize, name: &str) -> bool {
    let identity = entity.core().identity_key().identity(None, name);
    entity
        .cell(index)
        .is_some_and(|cell| cell.attached().contains(identity))
}

fn attach(
    entity: &Arc<Entity>,
    index: usize,
    name: &str,
    rows: Vec<EncodedMessage>,
    is_load: bool,
    wait: &Wait<'_>,
) -> Result<()> {
    let shard = entity.shard(index);
    shard.health().check_serves(shard.id(), wait)?;
    let cell = entity.cell_for_append(index);
    let core = entity.core();
    let name = core.identity_key().identity(None, name);
    let now = core.clock().now();
    let admission = cell
        .attached()
        .admit(&[Some(name)], now, core.attached_window_ms(now), wait)?;
    let durability = cell.durability(is_load.then_some(Durability::Os));
    if admission.identities().is_empty() {
        return cell.shard.await_all(durability, CallKind::Send, wait);
    }
    let mut rows = rows;
    rows.iter_mut().try_for_each(|row| entity.set_identity(row))?;
    let mut work = TransactionWork::new(entity, shard.id(), core.clock().ticks());
    work.durability = durability;
    work.sends.push(TransactionSend {
        entity: Arc::clone(entity),
        index,
        messages: rows,
        numbers: PendingNumbers::default(),
    });
    let attachment = Attachment {
        cell,
        admission: &admission,
        exact_numbers: is_load,
    };
    run_now(commit(work, Some(&attachment), wait))
}
