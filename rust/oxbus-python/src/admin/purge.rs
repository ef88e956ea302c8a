// SPDX-License-Identifier: Apache-2.0
//! Purging messages, and resubmitting dead-lettered ones.

use oxbus_broker::entity::MessageSelector;
use oxbus_broker::filter::SqlFilter;
use oxbus_model::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::rules::typed;
use crate::error::OrRaise;
use crate::namespace::Namespace;
use crate::{convert, options, waiting};

fn selector(
    expression: Option<&str>,
    parameters: &Bound<'_, PyDict>,
    before: Option<&Bound<'_, PyAny>>,
    limit: Option<usize>,
) -> PyResult<MessageSelector> {
    let parameters = typed(parameters.as_any())?;
    let filter = expression.map(|expression| {
        let filter = SqlFilter::parse(expression, &parameters);
        filter.map_err(|error| Error::new(ErrorKind::InvalidRule, error.detail()))
    });
    Ok(MessageSelector {
        filter: filter.transpose().or_raise()?,
        before: before.map(convert::timestamp).transpose()?,
        limit,
    })
}

#[pymethods]
impl Namespace {
    /// Removes messages and returns their number.
    #[expect(clippy::too_many_arguments, reason = "each is an option of the call")]
    fn _purge(
        &self,
        py: Python<'_>,
        entity_path: &str,
        sub_queue: Option<&str>,
        expression: Option<&str>,
        parameters: &Bound<'_, PyDict>,
        before: Option<&Bound<'_, PyAny>>,
        limit: Option<usize>,
    ) -> PyResult<usize> {
        let selector = selector(expression, parameters, before, limit)?;
        let sub_queue = options::sub_queue(sub_queue)?;
        let entity = self.namespace.get()?.entity(entity_path).or_raise()?;
        waiting::run_detached(py, |wait| entity.purge(sub_queue, &selector, wait))?.or_raise()
    }

    /// The namespace's monotonic clock in milliseconds.
    fn _clock_ms(&self) -> PyResult<u64> {
        Ok(self.namespace.get()?.clock().ticks().0)
    }

    fn _dead_letter_count(&self, py: Python<'_>, entity_path: &str) -> PyResult<u64> {
        let entity = self.namespace.get()?.entity(entity_path).or_raise()?;
        let counts = waiting::run_detached(py, |wait| entity.counts(wait))?.or_raise()?;
        Ok(counts.total.dead_letter)
    }

    /// Resubmits dead-lettered messages and returns their number.
    fn _resubmit(
        &self,
        py: Python<'_>,
        entity_path: &str,
        expression: Option<&str>,
        parameters: &Bound<'_, PyDict>,
        limit: Option<usize>,
    ) -> PyResult<usize> {
        let selector = selector(expression, parameters, None, limit)?;
        let entity = self.namespace.get()?.entity(entity_path).or_raise()?;
        waiting::run_detached(py, |wait| entity.resubmit(&selector, wait))?.or_raise()
    }
}
