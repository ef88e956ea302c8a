// SPDX-License-Identifier: Apache-2.0
//! `_Drain`: reads the messages of one partition as columns. The caller settles them by sequence number once it has
//! written them elsewhere.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use oxbus_arrow::{ColumnSelection, TableBuilder};
use oxbus_broker::entity::{DrainOutcome, DrainPage, Entity};
use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, PartitionId, Result, SequenceNumber};
use oxbus_store::CoalescingReader;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow::{ArrowTable, ColumnNames, import, selection};
use crate::error::OrRaise;
use crate::fork::ProcessLocal;
use crate::namespace::Namespace;
use crate::{options, waiting};

/// See `oxbus.spark.bulk_drain`.
#[pyclass(frozen, module = "oxbus")]
pub(crate) struct _Drain {
    entity: ProcessLocal<Arc<Entity>>,
    sub_queue: SubQueue,
    partition: PartitionId,
    columns: ColumnSelection,
}

/// The namespace partition of each partition of an entity. The call opens the namespace without owning partitions.
#[pyfunction]
pub(crate) fn _shards_of(path: &Bound<'_, PyAny>, entity_path: &str) -> PyResult<Vec<u16>> {
    let options = options::unowned(path, None)?;
    let shards = waiting::run_detached(path.py(), |_| {
        let entity = oxbus_broker::Namespace::open(options)?.entity(entity_path)?;
        Ok((0..usize::from(entity.partitions()))
            .map(|index| entity.shard(index).id().0)
            .collect())
    });
    shards?.or_raise()
}

/// Builds the selected columns, copying records straight from memory or disk.
fn table_of(queue: &Entity, partition: PartitionId, page: &DrainPage, columns: ColumnSelection) -> Result<RecordBatch> {
    let bytes = page.messages.iter().map(|message| message.record.len()).sum();
    let mut builder = TableBuilder::new(columns, page.messages.len(), bytes);
    if !builder.needs_records() {
        for message in &page.messages {
            builder.push_peeked(queue, partition.0.into(), message, &[])?;
        }
        return builder.finish();
    }
    let mut reader = CoalescingReader::default();
    queue.read_records(partition, &page.messages, &mut reader, |message, record| {
        builder.push_peeked(queue, partition.0.into(), message, record)
    })?;
    builder.finish()
}

#[pymethods]
impl _Drain {
    #[new]
    /// `columns` names the columns of each page. `None` selects all; without a name, a page has only a number of rows.
    #[pyo3(signature = (namespace, entity_path, sub_queue, partition, columns=None))]
    fn new(
        namespace: &Namespace,
        entity_path: &str,
        sub_queue: Option<&str>,
        partition: u16,
        columns: ColumnNames,
    ) -> PyResult<Self> {
        let opened = namespace.namespace.get()?;
        Ok(Self {
            entity: namespace.namespace.sibling(opened.entity(entity_path).or_raise()?),
            sub_queue: options::sub_queue(sub_queue)?,
            partition: PartitionId(partition),
            columns: match &columns {
                Some(names) if names.is_empty() => ColumnSelection::none(),
                _ => selection(&columns)?,
            },
        })
    }

    /// Returns a page of available messages from a sequence number on (0 for the first): at most `bytes_max`, at least
    /// one message. The second value is the start of the next page.
    fn page(&self, py: Python<'_>, from: u64, bytes_max: usize) -> PyResult<(ArrowTable, Option<u64>)> {
        let (queue, partition) = (self.entity.get()?, self.partition);
        let page = waiting::run_detached(py, |wait| {
            let counter = SequenceNumber(from).counter().max(Counter::FIRST);
            let page = queue.drain_page(self.sub_queue, partition, counter, bytes_max, wait)?;
            let next = page
                .next
                .map(|next| Entity::sequence_number(usize::from(partition.0), next).0);
            Ok((table_of(queue, partition, &page, self.columns)?, next))
        })?;
        let (table, next) = page.or_raise()?;
        Ok((ArrowTable::of(table), next))
    }

    /// Settles messages by sequence number, given as an Arrow array of int64. Returns how many existed.
    #[pyo3(signature = (numbers, outcome, reason=None, description=None))]
    fn settle(
        &self,
        numbers: &Bound<'_, PyAny>,
        outcome: &str,
        reason: Option<&str>,
        description: Option<&str>,
    ) -> PyResult<usize> {
        let outcome = match outcome {
            "complete" => DrainOutcome::Complete,
            "defer" => DrainOutcome::Defer,
            "dead_letter" => DrainOutcome::DeadLetter { reason, description },
            _ => {
                let detail = format!("unknown outcome; use `complete`, `defer` or `dead_letter`: `{outcome}`");
                return Err(PyValueError::new_err(detail));
            }
        };
        let wrong = || PyValueError::new_err("sequence numbers must be an Arrow array of int64 without nulls");
        let mut counters = Vec::new();
        for chunk in import(numbers)?.ok_or_else(wrong)?.chunks {
            let column = chunk
                .as_primitive_opt::<Int64Type>()
                .filter(|it| it.nulls().is_none())
                .ok_or_else(wrong)?;
            for number in column.values() {
                let number = SequenceNumber(*number as u64);
                if number.partition() != self.partition {
                    let detail = format!(
                        "the message is not in partition {}; settle it there: sequence_number={number}",
                        self.partition
                    );
                    return Err(PyValueError::new_err(detail));
                }
                counters.push(number.counter());
            }
        }
        counters.sort_unstable();
        counters.dedup();
        let queue = self.entity.get()?;
        waiting::run_detached(numbers.py(), |wait| {
            queue.settle_drained(self.sub_queue, self.partition, &counters, outcome, wait)
        })?
        .or_raise()
    }
}
