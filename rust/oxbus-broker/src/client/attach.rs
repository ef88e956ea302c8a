// SPDX-License-Identifier: Apache-2.0
//! Attaching rows: a partition takes those of one name once, however often and by whomever that is tried.
//!
//! The rows and their name are one entry of the journal, so that after a crash both are there or neither. Whoever tries it
//! while the first is under way waits for what becomes of that. That the rows will be messages was decided before, by a commit
//! of staged sends or by a bulk load: nothing refuses them any more but a store that does not work.

use oxbus_store::Wait;
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
    /// Stores rows of a bulk load in a partition, unless they are there. They are as safe as the system keeps them;
    /// [`Sender::sync`] makes them durable, and must before anybody sees a number of them.
    pub(crate) fn attach_loaded_rows(
        &self,
        partition: PartitionId,
        name: &str,
        rows: Vec<EncodedMessage>,
        wait: &Wait<'_>,
    ) -> Result<()> {
        attach(&self.entity, partition.0.into(), name, rows, true, wait)
    }

    /// Makes what is in a partition durable.
    pub(crate) fn sync(&self, partition: PartitionId, wait: &Wait<'_>) -> Result<()> {
        let cell = self.entity.cell_for_append(usize::from(partition.0));
        cell.shard.await_all(Durability::Fsync, CallKind::Send, wait)
    }
}

/// Stores rows of a batch that was decided in the cell with that index, unless they are there.
pub(crate) fn attach_committed(
    entity: &Arc<Entity>,
    index: usize,
    name: &str,
    rows: Vec<EncodedMessage>,
    wait: &Wait<'_>,
) -> Result<()> {
    attach(entity, index, name, rows, false, wait)
}

/// True when rows of that name are known in the cell with that index.
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
    commit(work, Some(&attachment), wait)
}
