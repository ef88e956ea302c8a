// SPDX-License-Identifier: Apache-2.0
//! `_Stages`: staged sends, for management and tests.

use oxbus_broker::{StageInfo, StageState};
use oxbus_model::Timestamp;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error::OrRaise;
use crate::fork::ProcessLocal;
use crate::namespace::Namespace;
use crate::{arrow, waiting};

/// The stages of a namespace.
#[pyclass(frozen, name = "_Stages", module = "oxbus")]
pub(crate) struct Stages {
    namespace: ProcessLocal<oxbus_broker::Namespace>,
}

#[pymethods]
impl Namespace {
    /// See `oxbus.management`.
    fn _stages(&self) -> PyResult<Stages> {
        let namespace = self.namespace.sibling(self.namespace.get()?.clone());
        Ok(Stages { namespace })
    }
}

#[pymethods]
impl Stages {
    /// Stages the rows of an Arrow object and returns their number.
    fn stage(&self, entity: &str, stage_id: &str, data: &Bound<'_, PyAny>) -> PyResult<u64> {
        arrow::stage(&self.namespace.get()?.stages(), entity, stage_id, data)
    }

    fn commit_stages(
        &self,
        py: Python<'_>,
        sink: &str,
        query: &str,
        batch: u64,
        stage_ids: Vec<String>,
    ) -> PyResult<bool> {
        let stages = self.namespace.get()?.stages();
        waiting::run_detached(py, |wait| stages.commit(sink, query, batch, &stage_ids, wait))?.or_raise()
    }

    fn abort_stages(
        &self,
        py: Python<'_>,
        sink: &str,
        query: &str,
        batch: u64,
        stage_ids: Vec<String>,
    ) -> PyResult<()> {
        let stages = self.namespace.get()?.stages();
        waiting::run_detached(py, |wait| stages.abort(sink, query, batch, &stage_ids, wait))?.or_raise()
    }

    fn stages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let stages = self.namespace.get()?.stages();
        let all = waiting::run_detached(py, |_| stages.list())?;
        let shown = all.iter().map(|stage| show(py, stage)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, shown)
    }

    fn discard_stage(&self, py: Python<'_>, stage_id: &str) -> PyResult<bool> {
        let stages = self.namespace.get()?.stages();
        waiting::run_detached(py, |wait| stages.discard(stage_id, wait))?.or_raise()
    }
}

fn show<'py>(py: Python<'py>, stage: &StageInfo) -> PyResult<Bound<'py, PyDict>> {
    let (status, reason, commit) = match &stage.state {
        StageState::Open => ("open", None, None),
        StageState::Ready => ("ready", None, None),
        StageState::Committed { sink, batch } => ("committed", None, Some((sink, *batch))),
        StageState::Damaged(why) => ("damaged", Some(why), None),
    };
    let dict = PyDict::new(py);
    dict.set_item("id", &stage.id)?;
    dict.set_item("entity", &stage.entity)?;
    let ms = |time: Timestamp| (time != Timestamp::NEVER).then_some(time.0);
    dict.set_item("created_at_ms", ms(stage.created_at))?;
    dict.set_item("expires_at_ms", ms(stage.expires_at))?;
    dict.set_item("rows", stage.rows)?;
    dict.set_item("bytes", stage.bytes)?;
    dict.set_item("status", status)?;
    dict.set_item("reason", reason)?;
    dict.set_item("sink", commit.map(|(sink, _)| sink))?;
    dict.set_item("batch", commit.map(|(_, batch)| batch))?;
    Ok(dict)
}
