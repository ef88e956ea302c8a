// SPDX-License-Identifier: Apache-2.0
//! The staging methods of `BulkClient`.

use std::time::Duration;

use oxbus_wire::client::Request;
use pyo3::prelude::*;
use pyo3::types::PyList;
use serde_json::json;

use super::client::BulkClient;
use super::json::{JsonFields, as_python};
use crate::error::OrRaise;

#[pymethods]
impl BulkClient {
    fn stage(&self, entity: &str, stage_id: &str, data: &Bound<'_, PyAny>) -> PyResult<u64> {
        let request = Request::post("stages")
            .with("entity", entity)
            .with("id", stage_id)
            .with_stream();
        self.upload(data, &request)?.number("rows").or_raise()
    }

    fn commit_stages(
        &self,
        py: Python<'_>,
        sink: &str,
        query: &str,
        batch: u64,
        stage_ids: Vec<String>,
    ) -> PyResult<bool> {
        let body = json!({ "sink": sink, "query": query, "batch": batch, "ids": stage_ids });
        // The call is not repeatable: the answer is true only for the call that committed the batch.
        let request = Request::post("stages/commit").with_json(&body);
        self.call(py, &request, Duration::ZERO)?.boolean("committed").or_raise()
    }

    fn abort_stages(
        &self,
        py: Python<'_>,
        sink: &str,
        query: &str,
        batch: u64,
        stage_ids: Vec<String>,
    ) -> PyResult<()> {
        let body = json!({ "sink": sink, "query": query, "batch": batch, "ids": stage_ids });
        let request = Request::post("stages/abort").with_json(&body).repeatable();
        self.call(py, &request, Duration::ZERO)?;
        Ok(())
    }

    fn stages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let answer = self.call(py, &Request::get("stages"), Duration::ZERO)?;
        Ok(as_python(py, answer.field("stages").or_raise()?)?.cast_into()?)
    }

    fn discard_stage(&self, py: Python<'_>, stage_id: &str) -> PyResult<bool> {
        let request = Request::post("stages/discard").with_json(&json!({ "id": stage_id }));
        self.call(py, &request, Duration::ZERO)?.boolean("discarded").or_raise()
    }
}
