// SPDX-License-Identifier: Apache-2.0
//! The options of an entity, from a dict to settings.

use oxbus_model::caps::DURATION_MS_NEVER;
use oxbus_model::options::{EntityStatus, QueueSettings};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

use crate::error::OrRaise;
use crate::options::not_yet;

pub(super) fn option<'py>(options: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
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

pub(super) fn text<'a>(name: &str, value: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
    value
        .cast::<pyo3::types::PyString>()
        .map_err(|_| wrong_type(name, "a str", value))?
        .to_str()
}

pub(super) fn wrong_type(name: &str, expected: &str, value: &Bound<'_, PyAny>) -> PyErr {
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

/// The settings of an entity while they are made.
pub(super) struct Draft {
    pub(super) settings: QueueSettings,
    pub(super) support_ordering: bool,
    pub(super) bury_failed: bool,
    /// What was said about partitioning, if anything.
    pub(super) partitioned: Option<bool>,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            settings: QueueSettings::default(),
            support_ordering: true,
            bury_failed: true,
            partitioned: None,
        }
    }
}

/// The options that a kind of entity has, and its name.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) options: &'static [&'static str],
}

pub(super) const QUEUE: Kind = Kind {
    name: "a queue",
    options: &[
        "lock_duration",
        "max_delivery_count",
        "default_message_time_to_live",
        "max_size_in_megabytes",
        "max_message_size_in_kilobytes",
        "enable_partitioning",
        "dead_lettering_on_message_expiration",
        "enable_batched_operations",
        "enable_express",
        "status",
        "user_metadata",
        "requires_duplicate_detection",
        "requires_session",
        "expire_whole_sessions",
        "forward_to",
        "forward_dead_lettered_messages_to",
        "auto_delete_on_idle",
        "authorization_rules",
        "duplicate_detection_history_time_window",
        "name",
        "availability_status",
    ],
};

pub(super) const TOPIC: Kind = Kind {
    name: "a topic",
    options: &[
        "default_message_time_to_live",
        "max_size_in_megabytes",
        "max_message_size_in_kilobytes",
        "enable_partitioning",
        "enable_batched_operations",
        "enable_express",
        "status",
        "user_metadata",
        "requires_duplicate_detection",
        "auto_delete_on_idle",
        "authorization_rules",
        "duplicate_detection_history_time_window",
        "support_ordering",
        "size_in_bytes",
        "filtering_messages_before_publishing",
        "name",
        "availability_status",
    ],
};

pub(super) const SUBSCRIPTION: Kind = Kind {
    name: "a subscription",
    options: &[
        "lock_duration",
        "max_delivery_count",
        "default_message_time_to_live",
        "dead_lettering_on_message_expiration",
        "dead_lettering_on_filter_evaluation_exceptions",
        "enable_batched_operations",
        "status",
        "user_metadata",
        "requires_session",
        "expire_whole_sessions",
        "forward_to",
        "forward_dead_lettered_messages_to",
        "auto_delete_on_idle",
        "name",
        "topic_name",
        "availability_status",
    ],
};

/// What a caller asks for, read before anything is changed.
pub(super) struct Wishes(Vec<Wish>);

type Wish = Box<dyn FnOnce(&mut Draft) + Send>;

fn flag(name: &str, value: &Bound<'_, PyAny>, set: fn(&mut Draft, bool)) -> PyResult<Option<Wish>> {
    let on = boolean(name, value)?;
    Ok(Some(Box::new(move |it| set(it, on))))
}

fn amount(name: &str, value: &Bound<'_, PyAny>, set: fn(&mut Draft, u64)) -> PyResult<Option<Wish>> {
    let amount = number(name, value)?;
    Ok(Some(Box::new(move |it| set(it, amount))))
}

/// Refuses an option of a later version unless it says "off".
fn refuse(name: &str, is_on: bool) -> PyResult<Option<Wish>> {
    if is_on {
        return Err(not_yet(name, "leave it out")).or_raise();
    }
    Ok(None)
}

/// What one option asks for; `None` for one that is shown and no setting.
fn wish(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<Wish>> {
    match name {
        "lock_duration" => amount(name, value, |it, ms| it.settings.lock_duration_ms = ms),
        "max_delivery_count" => amount(name, value, |it, count| {
            it.settings.max_delivery_count = u32::try_from(count).unwrap_or(u32::MAX);
        }),
        // The largest time span of .NET, or more, means never.
        "default_message_time_to_live" => amount(name, value, |it, ms| {
            it.settings.default_time_to_live_ms = (ms < DURATION_MS_NEVER).then_some(ms);
        }),
        "max_size_in_megabytes" => amount(name, value, |it, megabytes| {
            let it = &mut it.settings;
            // What get_queue shows for a queue without a size comes back from an update: it stays without.
            if it.max_size_megabytes.is_some() || megabytes != it.shown_max_size_megabytes() {
                it.max_size_megabytes = Some(megabytes);
            }
        }),
        "max_message_size_in_kilobytes" => amount(name, value, |it, kilobytes| {
            it.settings.max_message_size_kilobytes = Some(kilobytes);
        }),
        "duplicate_detection_history_time_window" => amount(name, value, |it, ms| it.settings.duplicate_window_ms = ms),
        "enable_partitioning" => flag(name, value, |it, on| {
            it.settings.enable_partitioning = on;
            it.partitioned = Some(on);
        }),
        "dead_lettering_on_message_expiration" => flag(name, value, |it, on| {
            it.settings.dead_lettering_on_message_expiration = on;
        }),
        "enable_batched_operations" => flag(name, value, |it, on| it.settings.enable_batched_operations = on),
        "enable_express" => flag(name, value, |it, on| it.settings.enable_express = on),
        "requires_duplicate_detection" => flag(name, value, |it, on| it.settings.requires_duplicate_detection = on),
        "requires_session" => flag(name, value, |it, on| it.settings.requires_session = on),
        "expire_whole_sessions" => flag(name, value, |it, on| it.settings.expire_whole_sessions = on),
        "support_ordering" => flag(name, value, |it, on| it.support_ordering = on),
        "dead_lettering_on_filter_evaluation_exceptions" => flag(name, value, |it, on| it.bury_failed = on),
        "status" => {
            let status = status(text(name, value)?)?;
            Ok(Some(Box::new(move |it| it.settings.status = status)))
        }
        "user_metadata" => {
            let metadata = text(name, value)?.to_owned();
            Ok(Some(Box::new(move |it| it.settings.user_metadata = metadata)))
        }
        // An empty text clears it.
        "forward_to" => {
            let path = Some(text(name, value)?.to_owned()).filter(|path| !path.is_empty());
            Ok(Some(Box::new(move |it| it.settings.forward_to = path)))
        }
        "forward_dead_lettered_messages_to" => {
            let path = Some(text(name, value)?.to_owned()).filter(|path| !path.is_empty());
            Ok(Some(Box::new(move |it| it.settings.forward_dead_letters_to = path)))
        }
        "auto_delete_on_idle" => amount(name, value, |it, ms| {
            it.settings.auto_delete_on_idle_ms = (ms < DURATION_MS_NEVER).then_some(ms);
        }),
        "authorization_rules" => refuse(name, value.len()? > 0),
        "filtering_messages_before_publishing" => refuse(name, boolean(name, value)?),
        _ => Ok(None),
    }
}

impl Wishes {
    /// Reads the options that are given.
    pub(super) fn read(options: &Bound<'_, PyDict>, kind: &Kind) -> PyResult<Self> {
        let mut wishes: Vec<Wish> = Vec::new();
        for (name, _) in options.iter() {
            let name: String = name.extract()?;
            if !kind.options.contains(&name.as_str()) {
                return Err(PyTypeError::new_err(format!(
                    "{} has no such option: `{name}`",
                    kind.name
                )));
            }
            let Some(value) = option(options, &name)? else { continue };
            wishes.extend(wish(&name, &value)?);
        }
        Ok(Self(wishes))
    }

    /// Applies them to settings.
    pub(super) fn apply(self, draft: &mut Draft) {
        self.0.into_iter().for_each(|wish| wish(draft));
    }
}
