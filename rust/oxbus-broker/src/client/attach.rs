// SPDX-License-Identifier: Apache-2.0
//! Attaching rows of a bulk load: a partition takes those of one name once, however often and by whomever that is tried.
//!
//! The rows and their name are one entry of the journal, so that after a crash both are there or neither. Whoever tries it
//! while the first is under way waits for what becomes of that.

use std::sync::Arc;

use oxbus_model::caps::{ATTACHED_BYTES_MAX, ATTACHED_MS};
use oxbus_model::options::Durability;
use oxbus_model::{Error, ErrorKind, PartitionId, Result};

use super::commit::{Attached, commit};
use super::sender::{Row, Sender};
use super::transaction::{Numbers, Sent, Work};

impl Sender {
    /// Stores rows of a table in one partition, all or none, unless rows of that name were attached to it in the last seven
    /// days. Says whether these were stored.
    pub fn attach_rows(&self, partition: PartitionId, name: &str, rows: Vec<Row>) -> Result<bool> {
        self.check_sends()?;
        let index = usize::from(partition.0);
        let bytes: usize = rows.iter().map(Row::bytes).sum();
        if bytes > ATTACHED_BYTES_MAX {
            let detail = format!(
                "too much for one partition at once; use more tasks: size={bytes} bytes, limit={ATTACHED_BYTES_MAX} bytes"
            );
            return Err(Error::new(ErrorKind::MessageSizeExceeded, detail));
        }
        self.queue.shard(index).health().check_serves(partition)?;
        self.attach(partition, name, rows, true)
    }

    /// The same for rows that were accepted before: what holds for new messages was asked then. They are as safe as the
    /// system keeps them; [`Sender::sync`] makes them durable.
    pub(crate) fn take_rows_over(&self, partition: PartitionId, name: &str, rows: Vec<Row>) -> Result<bool> {
        self.attach(partition, name, rows, false)
    }

    /// Makes what is in a partition durable.
    pub(crate) fn sync(&self, partition: PartitionId) -> Result<()> {
        let cell = self.queue.cell_for_append(usize::from(partition.0));
        cell.wait_for_earlier(Durability::Fsync)
    }

    fn attach(&self, partition: PartitionId, name: &str, rows: Vec<Row>, is_new: bool) -> Result<bool> {
        let index = usize::from(partition.0);
        // Whether there is room is asked by the commit: rows that are here already need none.
        let cell = self.queue.cell_for_append(index);
        let core = self.queue.core();
        let name = core.identity_key().identity(None, name);
        let admission = cell.attached().admit(&[Some(name)], core.clock().now(), ATTACHED_MS)?;
        let durability = cell.durability((!is_new).then_some(Durability::Os));
        if admission.identities().is_empty() {
            cell.wait_for_earlier(durability)?;
            return Ok(false);
        }
        let mut work = Work::new(&self.queue, partition, core.clock().ticks());
        work.durability = durability;
        work.sends.push(Sent {
            entity: Arc::clone(&self.queue),
            index,
            entries: rows.into_iter().map(Row::into_entry).collect(),
            numbers: Numbers::default(),
        });
        let attached = Attached {
            cell,
            admission: &admission,
            is_new,
        };
        commit(work, Some(&attached))?;
        self.reach(durability);
        Ok(true)
    }
}
