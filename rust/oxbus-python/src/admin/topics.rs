// SPDX-License-Identifier: Apache-2.0
//! Topics and subscriptions as dicts.

use oxbus_model::EntityKind;
use oxbus_model::tier::Tier;
use oxbus_store::Wait;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::entity_options::{SUBSCRIPTION, TOPIC};
use super::{describe, entity_options, rules};
use crate::error::OrRaise;
use crate::namespace::Namespace;
use crate::{blocking, waiting};

#[pymethods]
impl Namespace {
    fn _create_topic<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        options: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let values = entity_options::read(options, &TOPIC)?;
        let namespace = self.namespace.get()?;
        let created = blocking::run(py, namespace.stores().is_some(), |wait| {
            namespace.create_topic_with(name, values, wait)
        })?;
        describe::topic(py, &*created.or_raise()?)
    }

    fn _get_topic<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
        describe::topic(py, &*self.namespace.get()?.topic(name).or_raise()?)
    }

    fn _update_topic(&self, name: &str, options: &Bound<'_, PyDict>) -> PyResult<()> {
        let values = entity_options::read(options, &TOPIC)?;
        let namespace = self.namespace.get()?;
        let update = |wait: &Wait<'_>| namespace.update_with(&namespace.topic(name)?, values, wait);
        blocking::run(options.py(), namespace.stores().is_some(), update)?.or_raise()
    }

    fn _delete_topic(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let namespace = self.namespace.get()?;
        waiting::run_detached(py, |_| namespace.delete(&namespace.topic(name)?))?.or_raise()
    }

    fn _list_topics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let topics = self.namespace.get()?.list(EntityKind::Topic).or_raise()?;
        let dicts = topics.iter().map(|topic| describe::topic(py, topic));
        PyList::new(py, dicts.collect::<PyResult<Vec<_>>>()?)
    }

    fn _topic_runtime<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
        describe::topic_runtime(py, &self.namespace.get()?.topic(name).or_raise()?)
    }

    fn _create_subscription<'py>(
        &self,
        py: Python<'py>,
        topic: &str,
        name: &str,
        options: &Bound<'py, PyDict>,
        rule: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let values = entity_options::read(options, &SUBSCRIPTION)?;
        let namespace = self.namespace.get()?;
        let now = namespace.clock().now();
        let rule = rule.map(|rule| rules::read(rule, now)).transpose()?;
        let created = blocking::run(py, namespace.stores().is_some(), |wait| {
            namespace.create_subscription_with(topic, name, values, rule, wait)
        })?;
        describe::subscription(py, &*created.or_raise()?)
    }

    fn _get_subscription<'py>(&self, py: Python<'py>, topic: &str, name: &str) -> PyResult<Bound<'py, PyDict>> {
        describe::subscription(py, &*self.namespace.get()?.subscription(topic, name).or_raise()?)
    }

    fn _update_subscription(&self, topic: &str, name: &str, options: &Bound<'_, PyDict>) -> PyResult<()> {
        let values = entity_options::read(options, &SUBSCRIPTION)?;
        let namespace = self.namespace.get()?;
        let update = |wait: &Wait<'_>| namespace.update_with(&namespace.subscription(topic, name)?, values, wait);
        blocking::run(options.py(), namespace.stores().is_some(), update)?.or_raise()
    }

    fn _delete_subscription(&self, py: Python<'_>, topic: &str, name: &str) -> PyResult<()> {
        let namespace = self.namespace.get()?;
        waiting::run_detached(py, |_| namespace.delete(&namespace.subscription(topic, name)?))?.or_raise()
    }

    fn _list_subscriptions<'py>(&self, py: Python<'py>, topic: &str) -> PyResult<Bound<'py, PyList>> {
        let found = self.namespace.get()?.list_subscriptions(topic).or_raise()?;
        let dicts = found.iter().map(|it| describe::subscription(py, it));
        PyList::new(py, dicts.collect::<PyResult<Vec<_>>>()?)
    }

    fn _subscription_runtime<'py>(&self, py: Python<'py>, topic: &str, name: &str) -> PyResult<Bound<'py, PyDict>> {
        describe::subscription_runtime(py, &self.namespace.get()?.subscription(topic, name).or_raise()?)
    }

    fn _namespace_properties<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let namespace = self.namespace.get()?;
        let dict = PyDict::new(py);
        let path = namespace.stores().map(|stores| stores.dir().to_path_buf());
        let name = path.as_ref().and_then(|path| path.file_name()?.to_str());
        dict.set_item("name", name.unwrap_or("memory"))?;
        let (created, updated) = namespace.times();
        dict.set_item("created_at_ms", created.0)?;
        dict.set_item("updated_at_ms", updated.0)?;
        dict.set_item("messaging_sku", namespace.plan().tier.map_or("", Tier::name))?;
        dict.set_item("messaging_units", py.None())?;
        dict.set_item("partitions", namespace.partitions())?;
        Ok(dict)
    }
}
