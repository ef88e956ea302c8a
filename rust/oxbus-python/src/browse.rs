// SPDX-License-Identifier: Apache-2.0
//! `_Browse`: the messages of an entity of an open namespace as pages of columns, without locking them.

use oxbus_arrow::{PropertiesFormat, TableBuilder};
use oxbus_broker::{Receiver, ReceiverOptions};
use oxbus_model::PartitionId;
use oxbus_model::name::EntityName;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow::{ArrowTable, ColumnNames, selection};
use crate::error::OrRaise;
use crate::fork::ProcessLocal;
use crate::namespace::Namespace;
use crate::waiting;

/// See `oxbus.scan`.
#[pyclass(frozen, module = "oxbus")]
pub(crate) struct _Browse(ProcessLocal<Receiver>);

fn format_of(name: &str) -> PyResult<PropertiesFormat> {
    match name {
        "map" => Ok(PropertiesFormat::Map),
        "json" => Ok(PropertiesFormat::Json),
        "variant" => Ok(PropertiesFormat::Variant),
        other => Err(PyValueError::new_err(format!(
            "application_properties must be `map`, `json` or `variant`: `{other}`"
        ))),
    }
}

#[pymethods]
impl _Browse {
    #[new]
    fn new(namespace: &Namespace, entity_path: &str) -> PyResult<Self> {
        let opened = namespace.namespace.get()?;
        let (entity, sub_queue) = EntityName::split_sub_queue(entity_path);
        let options = ReceiverOptions {
            sub_queue,
            ..ReceiverOptions::default()
        };
        let receiver = opened.receiver(entity, options).or_raise()?;
        Ok(Self(namespace.namespace.sibling(receiver)))
    }

    /// For each partition, the number of its first message and that of the next one to be sent.
    fn bounds(&self, py: Python<'_>) -> PyResult<Vec<(u64, u64)>> {
        let receiver = self.0.get()?;
        let bounds = waiting::run_detached(py, |wait| {
            receiver.entity().check_alive()?;
            Ok(receiver.entity().number_bounds(receiver.sub_queue(), wait))
        })?;
        let bounds = bounds.or_raise()?.into_iter().enumerate();
        let number = |index, counter| oxbus_broker::entity::Entity::sequence_number(index, counter).0;
        Ok(bounds
            .map(|(index, (start, end))| (number(index, start), number(index, end)))
            .collect())
    }

    /// Returns a page of a partition, and the number at which the next one begins.
    #[pyo3(signature = (partition, lo, hi, max_bytes, application_properties, columns))]
    #[expect(clippy::too_many_arguments, reason = "each is an option of the call")]
    fn page(
        &self,
        py: Python<'_>,
        partition: u16,
        lo: u64,
        hi: u64,
        max_bytes: usize,
        application_properties: &str,
        columns: ColumnNames,
    ) -> PyResult<(ArrowTable, Option<u64>)> {
        let receiver = self.0.get()?;
        let (columns, format) = (selection(&columns)?, format_of(application_properties)?);
        let page = waiting::run_detached(py, |wait| {
            let (found, next) = receiver.browse_page(PartitionId(partition), (lo, hi), max_bytes, wait)?;
            let bytes = found.iter().map(|item| item.message.record.len()).sum();
            let mut builder = TableBuilder::new(columns, found.len(), bytes).with_properties(format);
            builder.push_browsed(receiver.entity(), &found)?;
            Ok((builder.finish()?, next.map(|next| next.0)))
        })?;
        let (table, next) = page.or_raise()?;
        Ok((ArrowTable::of(table), next))
    }
}
