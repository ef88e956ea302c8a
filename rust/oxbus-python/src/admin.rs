// SPDX-License-Identifier: Apache-2.0
//! Settings and counts of queues as dicts, for `oxbus.management`.

use std::sync::Arc;

use oxbus_broker::entity::{PartitionCounts, Queue, QueueDescription};
use oxbus_model::caps::{DURATION_MS_NEVER, MESSAGE_SIZE_KILOBYTES_MAX};
use oxbus_model::options::{EntityStatus, QueueSettings};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList};

use crate::error::OrRaise;
use crate::namespace::Namespace;
use crate::options::not_yet;
use crate::{blocking, waiting};

/// "Never" as it crosses to Python, in milliseconds.
const NEVER: i64 = i64::MAX;

fn option<'py>(options: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    Ok(options.get_item(name)?.filter(|value| !value.is_none()))
}

fn boolean(name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    value
        .cast::<PyBool>()
        .map(PyBoolMethods::is_true)
        .map_err(|_| wrong_type(name, "a bool", value))
}

fn number(name: &str, value: &Bound<'_, PyAny>) -> PyResult<u64> {
    if value.cast::<PyBool>().is_ok() {
        return Err(wrong_type(name, "an int", value));
    }
    let number = value.extract::<i64>().map_err(|_| wrong_type(name, "an int", value))?;
    u64::try_from(number).map_err(|_| PyValueError::new_err(format!("{name} cannot be negative: {number}")))
}

fn text<'a>(name: &str, value: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
    value
        .cast::<pyo3::types::PyString>()
        .map_err(|_| wrong_type(name, "a str", value))?
        .to_str()
}

fn wrong_type(name: &str, expected: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let got = value
        .get_type()
        .name()
        .map_or_else(|_| "?".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("{name} must be {expected}: {got}"))
}

fn status(value: &str) -> PyResult<EntityStatus> {
    match value.to_ascii_lowercase().as_str() {
        "active" => Ok(EntityStatus::Active),
        "disabled" => Ok(EntityStatus::Disabled),
        "senddisabled" => Ok(EntityStatus::SendDisabled),
        "receivedisabled" => Ok(EntityStatus::ReceiveDisabled),
        _ => Err(PyValueError::new_err(format!(
            "status cannot be set to this; use Active, Disabled, SendDisabled or ReceiveDisabled: `{value}`"
        ))),
    }
}

fn status_name(status: EntityStatus) -> &'static str {
    match status {
        EntityStatus::Active => "Active",
        EntityStatus::Disabled => "Disabled",
        EntityStatus::SendDisabled => "SendDisabled",
        EntityStatus::ReceiveDisabled => "ReceiveDisabled",
    }
}

/// What a caller asks for, read before anything is changed.
struct Wishes(Vec<Wish>);

type Wish = Box<dyn FnOnce(&mut QueueSettings) + Send>;

impl Wishes {
    /// Reads the options that are given; refuses those of later versions unless they say "off".
    fn read(options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut wishes: Vec<Wish> = Vec::new();
        for (name, _) in options.iter() {
            let name: String = name.extract()?;
            let Some(value) = option(options, &name)? else { continue };
            match name.as_str() {
                "lock_duration" => {
                    let ms = number(&name, &value)?;
                    wishes.push(Box::new(move |it| it.lock_duration_ms = ms));
                }
                "max_delivery_count" => {
                    let count = u32::try_from(number(&name, &value)?).unwrap_or(u32::MAX);
                    wishes.push(Box::new(move |it| it.max_delivery_count = count));
                }
                "default_message_time_to_live" => {
                    let ms = number(&name, &value)?;
                    // The largest time span of .NET, or more, means never.
                    let ms = (ms < DURATION_MS_NEVER).then_some(ms);
                    wishes.push(Box::new(move |it| it.default_time_to_live_ms = ms));
                }
                "max_size_in_megabytes" => {
                    let megabytes = number(&name, &value)?;
                    wishes.push(Box::new(move |it| {
                        // What get_queue shows for a queue without a size comes back from an update: it stays without.
                        if it.max_size_megabytes.is_some() || megabytes != it.shown_max_size_megabytes() {
                            it.max_size_megabytes = Some(megabytes);
                        }
                    }));
                }
                "max_message_size_in_kilobytes" => {
                    let kilobytes = number(&name, &value)?;
                    wishes.push(Box::new(move |it| it.max_message_size_kilobytes = Some(kilobytes)));
                }
                "enable_partitioning" => {
                    let on = boolean(&name, &value)?;
                    wishes.push(Box::new(move |it| it.enable_partitioning = on));
                }
                "dead_lettering_on_message_expiration" => {
                    let on = boolean(&name, &value)?;
                    wishes.push(Box::new(move |it| it.dead_lettering_on_message_expiration = on));
                }
                "enable_batched_operations" => {
                    let on = boolean(&name, &value)?;
                    wishes.push(Box::new(move |it| it.enable_batched_operations = on));
                }
                "enable_express" => {
                    let on = boolean(&name, &value)?;
                    wishes.push(Box::new(move |it| it.enable_express = on));
                }
                "status" => {
                    let status = status(text(&name, &value)?)?;
                    wishes.push(Box::new(move |it| it.status = status));
                }
                "user_metadata" => {
                    let metadata = text(&name, &value)?.to_owned();
                    wishes.push(Box::new(move |it| it.user_metadata = metadata));
                }
                "requires_duplicate_detection" => {
                    let on = boolean(&name, &value)?;
                    wishes.push(Box::new(move |it| it.requires_duplicate_detection = on));
                }
                "expire_whole_sessions" => {
                    let on = boolean(&name, &value)?;
                    wishes.push(Box::new(move |it| it.expire_whole_sessions = on));
                }
                "requires_session" => {
                    let on = boolean(&name, &value)?;
                    wishes.push(Box::new(move |it| it.requires_session = on));
                }
                "forward_to" | "forward_dead_lettered_messages_to" => {
                    if !text(&name, &value)?.is_empty() {
                        return Err(not_yet(&name, "leave it out")).or_raise();
                    }
                }
                "auto_delete_on_idle" => {
                    if number(&name, &value)? < DURATION_MS_NEVER {
                        return Err(not_yet(&name, "leave it out")).or_raise();
                    }
                }
                "authorization_rules" => {
                    if value.len()? > 0 {
                        return Err(not_yet(&name, "leave it out")).or_raise();
                    }
                }
                "duplicate_detection_history_time_window" => {
                    let ms = number(&name, &value)?;
                    wishes.push(Box::new(move |it| it.duplicate_window_ms = ms));
                }
                // Shown by get_queue; not settings.
                "name" | "availability_status" => {}
                _ => return Err(PyTypeError::new_err(format!("a queue has no such option: `{name}`"))),
            }
        }
        Ok(Self(wishes))
    }

    /// Applies them to settings.
    fn apply(self, settings: &mut QueueSettings) {
        self.0.into_iter().for_each(|wish| wish(settings));
    }
}

/// The dict of a queue.
fn describe<'py>(py: Python<'py>, queue: &QueueDescription) -> PyResult<Bound<'py, PyDict>> {
    let settings = &queue.settings;
    let dict = PyDict::new(py);
    dict.set_item("name", &queue.name)?;
    dict.set_item("lock_duration", settings.lock_duration_ms)?;
    dict.set_item("max_delivery_count", settings.max_delivery_count)?;
    dict.set_item(
        "default_message_time_to_live",
        settings.default_time_to_live_ms.map_or(NEVER, |ms| ms as i64),
    )?;
    dict.set_item("max_size_in_megabytes", settings.shown_max_size_megabytes())?;
    dict.set_item(
        "max_message_size_in_kilobytes",
        settings
            .max_message_size_kilobytes
            .unwrap_or(MESSAGE_SIZE_KILOBYTES_MAX),
    )?;
    dict.set_item("enable_partitioning", settings.enable_partitioning)?;
    dict.set_item("requires_session", settings.requires_session)?;
    dict.set_item("expire_whole_sessions", settings.expire_whole_sessions)?;
    dict.set_item("requires_duplicate_detection", settings.requires_duplicate_detection)?;
    dict.set_item("duplicate_detection_history_time_window", settings.duplicate_window_ms)?;
    dict.set_item(
        "dead_lettering_on_message_expiration",
        settings.dead_lettering_on_message_expiration,
    )?;
    dict.set_item("enable_batched_operations", settings.enable_batched_operations)?;
    dict.set_item("enable_express", settings.enable_express)?;
    dict.set_item("status", status_name(settings.status))?;
    dict.set_item("forward_to", py.None())?;
    dict.set_item("forward_dead_lettered_messages_to", py.None())?;
    dict.set_item("auto_delete_on_idle", NEVER)?;
    dict.set_item("user_metadata", &settings.user_metadata)?;
    dict.set_item("authorization_rules", PyList::empty(py))?;
    dict.set_item("availability_status", availability(queue.available))?;
    Ok(dict)
}

fn availability(available: bool) -> &'static str {
    if available { "Available" } else { "Limited" }
}

fn set_counts(dict: &Bound<'_, PyDict>, counts: &PartitionCounts) -> PyResult<()> {
    dict.set_item("size_in_bytes", counts.size_bytes)?;
    dict.set_item("active_message_count", counts.active)?;
    dict.set_item("dead_letter_message_count", counts.dead_letter)?;
    dict.set_item("scheduled_message_count", counts.scheduled)?;
    dict.set_item("transfer_message_count", 0)?;
    dict.set_item("transfer_dead_letter_message_count", 0)?;
    // Service Bus counts a message once, wherever it is (B-391).
    dict.set_item(
        "total_message_count",
        counts.active + counts.dead_letter + counts.scheduled,
    )?;
    dict.set_item("locked_message_count", counts.locked)?;
    dict.set_item("deferred_message_count", counts.deferred)
}

/// The dict of a queue's counts.
fn runtime<'py>(py: Python<'py>, queue: &Arc<Queue>) -> PyResult<Bound<'py, PyDict>> {
    let counts = py.detach(|| queue.counts());
    let (created, updated, accessed) = queue.times();
    let dict = PyDict::new(py);
    dict.set_item("name", queue.name().as_str())?;
    dict.set_item("created_at_ms", created.0)?;
    dict.set_item("updated_at_ms", updated.0)?;
    dict.set_item("accessed_at_ms", accessed.map(|time| time.0))?;
    set_counts(&dict, &counts.total)?;
    let partitions = PyList::empty(py);
    for (partition, reached, counts) in &counts.partitions {
        let part = PyDict::new(py);
        // A queue that is not partitioned has no partition to name.
        part.set_item("partition_id", queue.is_partitioned().then_some(partition.0))?;
        part.set_item("available", *reached)?;
        set_counts(&part, counts)?;
        partitions.append(part)?;
    }
    dict.set_item("partitions", partitions)?;
    dict.set_item("availability_status", availability(queue.is_available()))?;
    Ok(dict)
}

#[pymethods]
impl Namespace {
    fn _create_queue<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        options: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let mut settings = QueueSettings::default();
        Wishes::read(options)?.apply(&mut settings);
        let namespace = self.namespace.get()?;
        let created = blocking::run(py, namespace.stores().is_some(), || {
            namespace.create_queue(name, settings)
        })?;
        describe(py, &created.or_raise()?)
    }

    fn _get_queue<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
        describe(py, &self.namespace.get()?.queue(name).or_raise()?.describe())
    }

    fn _update_queue(&self, name: &str, options: &Bound<'_, PyDict>) -> PyResult<()> {
        let wishes = Wishes::read(options)?;
        let namespace = self.namespace.get()?;
        let update = || namespace.update_queue(name, |settings| wishes.apply(settings));
        blocking::run(options.py(), namespace.stores().is_some(), update)?.or_raise()
    }

    fn _delete_queue(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let namespace = self.namespace.get()?;
        waiting::outside(py, || namespace.delete_queue(name))?.or_raise()
    }

    fn _list_queues<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let queues = self.namespace.get()?.list_queues().or_raise()?;
        let dicts = queues
            .iter()
            .map(|queue| describe(py, &queue.describe()))
            .collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, dicts)
    }

    fn _queue_runtime<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
        runtime(py, &self.namespace.get()?.queue(name).or_raise()?)
    }
}
