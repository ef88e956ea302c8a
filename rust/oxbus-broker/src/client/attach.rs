// SPDX-License-Identifier: Apache-2.0
//! Attaching rows of a bulk load: a partition takes those of one name once, however often and by whomever that is tried.
//!
//! The rows and their name are one entry of the journal, so that after a crash both are there or neither. Whoever tries it
//! while the first is under way waits for what becomes of that.

use std::sync::Arc;

use oxbus_model::caps::ATTACHED_BYTES_MAX;
use oxbus_model::options::Durability;
use oxbus_model::{Error, ErrorKind, PartitionId, Result};

use super::commit::{Attached, commit};
use super::sender::{Row, Sender};
use super::transaction::{Numbers, Sent, Work};
use crate::entity::Queue;

/// Who attaches rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attacher {
    /// A task of a bulk load, which closes the partition afterwards: no numbers are set aside beyond those of its rows.
    Task,
    /// A commit that was decided: nothing may refuse its rows any more but a store that does not work.
    Commit,
}

impl Sender {
    /// Stores rows of a table in one partition, all or none, unless rows of that name were attached to it in the last seven
    /// days. Says whether these were stored.
    pub fn attach_rows(&self, partition: PartitionId, name: &str, rows: Vec<Row>) -> Result<bool> {
        self.check_sends()?;
        let bytes: usize = rows.iter().map(Row::bytes).sum();
        if bytes > ATTACHED_BYTES_MAX {
            let detail = format!(
                "too much for one partition at once; use more tasks: size={bytes} bytes, limit={ATTACHED_BYTES_MAX} bytes"
            );
            return Err(Error::new(ErrorKind::MessageSizeExceeded, detail));
        }
        let (is_new, durability) = attach(&self.queue, partition.0.into(), name, rows, Attacher::Task)?;
        if is_new {
            self.reach(durability);
        }
        Ok(is_new)
    }
}

/// Stores rows of a batch that was decided in the cell with that index, unless they are there.
pub(crate) fn attach_committed(queue: &Arc<Queue>, index: usize, name: &str, rows: Vec<Row>) -> Result<()> {
    attach(queue, index, name, rows, Attacher::Commit).map(|_| ())
}

/// True when rows of that name are known in the cell with that index.
pub(crate) fn is_attached(queue: &Queue, index: usize, name: &str) -> bool {
    let identity = queue.core().identity_key().identity(None, name);
    queue.cell(index).is_some_and(|cell| cell.attached().knows(identity))
}

/// Says whether the rows are new, and how safe they are.
fn attach(
    queue: &Arc<Queue>,
    index: usize,
    name: &str,
    rows: Vec<Row>,
    attacher: Attacher,
) -> Result<(bool, Durability)> {
    let shard = queue.shard(index);
    shard.health().check_serves(shard.id())?;
    // Whether there is room is asked by the commit: rows that are here already need none.
    let cell = queue.cell_for_append(index);
    let core = queue.core();
    let name = core.identity_key().identity(None, name);
    let now = core.clock().now();
    let admission = cell.attached().admit(&[Some(name)], now, core.attached_ms(now))?;
    let durability = cell.durability(None);
    if admission.identities().is_empty() {
        cell.wait_for_earlier(durability)?;
        return Ok((false, durability));
    }
    let mut work = Work::new(queue, shard.id(), core.clock().ticks());
    work.sends.push(Sent {
        entity: Arc::clone(queue),
        index,
        entries: rows.into_iter().map(Row::into_entry).collect(),
        numbers: Numbers::default(),
    });
    let attached = Attached {
        cell,
        admission: &admission,
        attacher,
    };
    commit(work, Some(&attached))?;
    Ok((true, durability))
}
