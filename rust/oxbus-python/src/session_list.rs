// SPDX-License-Identifier: Apache-2.0
//! Listing the sessions of an entity.

use oxbus_model::Ticks;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::blocking;
use crate::error::OrRaise;
use crate::namespace::Namespace;

#[pymethods]
impl Namespace {
    /// The sessions of an entity as dicts, ordered by id.
    fn _list_sessions<'py>(&self, py: Python<'py>, entity_path: &str) -> PyResult<Bound<'py, PyList>> {
        let namespace = self.namespace.get()?;
        let queue = namespace.entity(entity_path).or_raise()?;
        let found = blocking::run(py, queue.is_durable(), |wait| queue.list_sessions(wait))?.or_raise()?;
        let moment = namespace.clock().moment();
        let locked_until = |deadline: Ticks| moment.now.plus_ms(deadline.0.saturating_sub(moment.ticks.0));
        let dicts = PyList::empty(py);
        for (index, info) in found {
            let dict = PyDict::new(py);
            dict.set_item("session_id", &*info.id)?;
            let partition = queue.visible_partition(index).map(|partition| partition.0);
            dict.set_item("partition_id", partition)?;
            dict.set_item("message_count", info.messages)?;
            dict.set_item("oldest_message_ms", info.oldest.map(|time| time.0))?;
            dict.set_item("now_ms", moment.now.0)?;
            dict.set_item("state_updated_ms", info.state_set_at.map(|time| time.0))?;
            dict.set_item("lock_owner", info.owner)?;
            dict.set_item(
                "locked_until_ms",
                info.deadline.map(|deadline| locked_until(deadline).0),
            )?;
            dicts.append(dict)?;
        }
        Ok(dicts)
    }
}
