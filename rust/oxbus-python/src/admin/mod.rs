// SPDX-License-Identifier: Apache-2.0
//! Entity administration for `oxbus.management`: options and results are dicts.

mod describe;
mod entity_options;
mod purge;
mod rules;
mod topics;

use oxbus_model::EntityKind;
use oxbus_store::Wait;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

pub(crate) use self::describe::authorization_rule;
use self::entity_options::QUEUE;
pub(crate) use self::entity_options::authorization_rules;
use crate::error::OrRaise;
use crate::namespace::Namespace;
use crate::{blocking, waiting};

#[pymethods]
impl Namespace {
    fn _create_queue<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        options: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let values = entity_options::read(options, &QUEUE)?;
        let namespace = self.namespace.get()?;
        let created = blocking::run(py, namespace.stores().is_some(), |wait| {
            namespace.create_queue_with(name, values, wait)
        })?;
        describe::queue(py, &*created.or_raise()?)
    }

    fn _get_queue<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
        describe::queue(py, &*self.namespace.get()?.queue(name).or_raise()?)
    }

    fn _update_queue(&self, name: &str, options: &Bound<'_, PyDict>) -> PyResult<()> {
        let values = entity_options::read(options, &QUEUE)?;
        let namespace = self.namespace.get()?;
        let update = |wait: &Wait<'_>| namespace.update_with(&namespace.queue(name)?, values, wait);
        blocking::run(options.py(), namespace.stores().is_some(), update)?.or_raise()
    }

    fn _delete_queue(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let namespace = self.namespace.get()?;
        waiting::run_detached(py, |_| namespace.delete(&namespace.queue(name)?))?.or_raise()
    }

    fn _list_queues<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let queues = self.namespace.get()?.list(EntityKind::Queue).or_raise()?;
        let dicts = queues
            .iter()
            .map(|queue| describe::queue(py, queue))
            .collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, dicts)
    }

    fn _queue_runtime<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
        describe::runtime(py, &self.namespace.get()?.queue(name).or_raise()?)
    }
}
