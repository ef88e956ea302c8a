// SPDX-License-Identifier: Apache-2.0
//! Subscription rules as dicts.

use oxbus_model::Timestamp;
use oxbus_model::rules::{ActionSettings, CorrelationSettings, FilterSettings, OwnedValue, RuleSettings};
use oxbus_store::Wait;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::entity_options::{item, text};
use crate::error::OrRaise;
use crate::namespace::Namespace;
use crate::{blocking, properties};

fn required<'py>(dict: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    item(dict, name)?.ok_or_else(|| PyTypeError::new_err(format!("a rule needs {name}; it is missing")))
}

fn required_text(dict: &Bound<'_, PyDict>, name: &str) -> PyResult<String> {
    Ok(text(name, &required(dict, name)?)?.to_owned())
}

fn optional_text(dict: &Bound<'_, PyDict>, name: &str) -> PyResult<Option<String>> {
    item(dict, name)?
        .map(|value| Ok(text(name, &value)?.to_owned()))
        .transpose()
}

fn values(dict: &Bound<'_, PyDict>, name: &str) -> PyResult<Vec<(String, OwnedValue)>> {
    item(dict, name)?.map_or_else(|| Ok(Vec::new()), |mapping| typed(&mapping))
}

/// Reads a mapping of names to values, with the types of application properties.
pub(super) fn typed(mapping: &Bound<'_, PyAny>) -> PyResult<Vec<(String, OwnedValue)>> {
    let encoded = properties::encode(mapping)?;
    let owned = encoded.properties().iter();
    Ok(owned.map(|(name, value)| (name.to_owned(), value.into())).collect())
}

/// Reads a rule from a dict.
pub(super) fn read(rule: &Bound<'_, PyDict>, now: Timestamp) -> PyResult<RuleSettings> {
    let filter = required(rule, "filter")?;
    let filter = filter.cast::<PyDict>().map_err(PyErr::from)?;
    let kind = required_text(filter, "kind")?;
    let filter = match kind.as_str() {
        "true" => FilterSettings::True,
        "false" => FilterSettings::False,
        "sql" => FilterSettings::Sql {
            expression: required_text(filter, "expression")?,
            parameters: values(filter, "parameters")?,
        },
        "correlation" => FilterSettings::Correlation(CorrelationSettings {
            correlation_id: optional_text(filter, "correlation_id")?,
            message_id: optional_text(filter, "message_id")?,
            to: optional_text(filter, "to")?,
            reply_to: optional_text(filter, "reply_to")?,
            subject: optional_text(filter, "label")?,
            session_id: optional_text(filter, "session_id")?,
            reply_to_session_id: optional_text(filter, "reply_to_session_id")?,
            content_type: optional_text(filter, "content_type")?,
            properties: values(filter, "properties")?,
        }),
        other => {
            return Err(PyValueError::new_err(format!(
                "unknown filter kind; use `true`, `false`, `sql` or `correlation`: `{other}`"
            )));
        }
    };
    let action = item(rule, "action")?
        .map(|action| -> PyResult<ActionSettings> {
            let action = action.cast::<PyDict>().map_err(PyErr::from)?;
            Ok(ActionSettings {
                expression: required_text(action, "expression")?,
                parameters: values(action, "parameters")?,
            })
        })
        .transpose()?;
    Ok(RuleSettings {
        name: required_text(rule, "name")?,
        filter,
        action,
        created_at_ms: now.0,
    })
}

fn values_dict<'py>(py: Python<'py>, values: &[(String, OwnedValue)]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in values {
        dict.set_item(name, properties::value(py, value.as_value())?)?;
    }
    Ok(dict)
}

/// The dict of a rule.
fn describe<'py>(py: Python<'py>, rule: &RuleSettings) -> PyResult<Bound<'py, PyDict>> {
    let filter = PyDict::new(py);
    match &rule.filter {
        FilterSettings::True => filter.set_item("kind", "true")?,
        FilterSettings::False => filter.set_item("kind", "false")?,
        FilterSettings::Sql { expression, parameters } => {
            filter.set_item("kind", "sql")?;
            filter.set_item("expression", expression)?;
            filter.set_item("parameters", values_dict(py, parameters)?)?;
        }
        FilterSettings::Correlation(correlation) => {
            filter.set_item("kind", "correlation")?;
            filter.set_item("correlation_id", &correlation.correlation_id)?;
            filter.set_item("message_id", &correlation.message_id)?;
            filter.set_item("to", &correlation.to)?;
            filter.set_item("reply_to", &correlation.reply_to)?;
            filter.set_item("label", &correlation.subject)?;
            filter.set_item("session_id", &correlation.session_id)?;
            filter.set_item("reply_to_session_id", &correlation.reply_to_session_id)?;
            filter.set_item("content_type", &correlation.content_type)?;
            filter.set_item("properties", values_dict(py, &correlation.properties)?)?;
        }
    }
    let dict = PyDict::new(py);
    dict.set_item("name", &rule.name)?;
    dict.set_item("filter", filter)?;
    let action = rule.action.as_ref().map(|action| -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("expression", &action.expression)?;
        dict.set_item("parameters", values_dict(py, &action.parameters)?)?;
        Ok(dict)
    });
    dict.set_item("action", action.transpose()?)?;
    dict.set_item("created_at_ms", rule.created_at_ms)?;
    Ok(dict)
}

#[pymethods]
impl Namespace {
    fn _create_rule<'py>(
        &self,
        py: Python<'py>,
        topic: &str,
        subscription: &str,
        rule: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let namespace = self.namespace.get()?;
        let rule = read(rule, namespace.clock().now())?;
        let create = |wait: &Wait<'_>| namespace.create_rule(topic, subscription, &rule, wait);
        blocking::run(py, namespace.stores().is_some(), create)?.or_raise()?;
        describe(py, &rule)
    }

    fn _get_rule<'py>(
        &self,
        py: Python<'py>,
        topic: &str,
        subscription: &str,
        name: &str,
    ) -> PyResult<Bound<'py, PyDict>> {
        describe(py, &self.namespace.get()?.rule(topic, subscription, name).or_raise()?)
    }

    fn _update_rule(&self, py: Python<'_>, topic: &str, subscription: &str, rule: &Bound<'_, PyDict>) -> PyResult<()> {
        let namespace = self.namespace.get()?;
        let rule = read(rule, namespace.clock().now())?;
        let update = |wait: &Wait<'_>| namespace.update_rule(topic, subscription, &rule, wait);
        blocking::run(py, namespace.stores().is_some(), update)?.or_raise()
    }

    fn _delete_rule(&self, py: Python<'_>, topic: &str, subscription: &str, name: &str) -> PyResult<()> {
        let namespace = self.namespace.get()?;
        let delete = |wait: &Wait<'_>| namespace.delete_rule(topic, subscription, name, wait);
        blocking::run(py, namespace.stores().is_some(), delete)?.or_raise()
    }

    fn _list_rules<'py>(&self, py: Python<'py>, topic: &str, subscription: &str) -> PyResult<Bound<'py, PyList>> {
        let rules = self.namespace.get()?.list_rules(topic, subscription).or_raise()?;
        let dicts = rules.iter().map(|rule| describe(py, rule));
        PyList::new(py, dicts.collect::<PyResult<Vec<_>>>()?)
    }
}
