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
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            settings: QueueSettings::default(),
            support_ordering: true,
            bury_failed: true,
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

impl Wishes {
    /// Reads the options that are given; refuses those of later versions unless they say "off".
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
            match name.as_str() {
                "lock_duration" => {
                    let ms = number(&name, &value)?;
                    wishes.push(Box::new(move |it| it.settings.lock_duration_ms = ms));
                }
                "max_delivery_count" => {
                    let count = u32::try_from(number(&name, &value)?).unwrap_or(u32::MAX);
                    wishes.push(Box::new(move |it| it.settings.max_delivery_count = count));
                }
                "default_message_time_to_live" => {
                    let ms = number(&name, &value)?;
                    // The largest time span of .NET, or more, means never.
                    let ms = (ms < DURATION_MS_NEVER).then_some(ms);
                    wishes.push(Box::new(move |it| it.settings.default_time_to_live_ms = ms));
                }
                "max_size_in_megabytes" => {
                    let megabytes = number(&name, &value)?;
                    wishes.push(Box::new(move |it| {
                        let it = &mut it.settings;
                        // What get_queue shows for a queue without a size comes back from an update: it stays without.
                        if it.max_size_megabytes.is_some() || megabytes != it.shown_max_size_megabytes() {
                            it.max_size_megabytes = Some(megabytes);
                        }
                    }));
                }
                "max_message_size_in_kilobytes" => {
                    let kilobytes = number(&name, &value)?;
                    wishes.push(Box::new(move |it| {
                        it.settings.max_message_size_kilobytes = Some(kilobytes)
                    }));
                }
                "enable_partitioning" => {
                    let on = boolean(&name, &value)?;
                    wishes.push(Box::new(move |it| it.settings.enable_partitioning = on));
                }
                "dead_lettering_on_message_expiration" => {
                    let on = boolean(&name, &value)?;
                    wishes.push(Box::new(move |it| {
                        it.settings.dead_lettering_on_message_expiration = on
                    }));
                }
                "enable_batched_operations" => {
                    let on = boolean(&name, &value)?;
                    wishes.push(Box::new(move |it| it.settings.enable_batched_operations = on));
                }
                "enable_express" => {
                    let on = boolean(&name, &value)?;
                    wishes.push(Box::new(move |it| it.settings.enable_express = on));
                }
                "status" => {
                    let status = status(text(&name, &value)?)?;
                    wishes.push(Box::new(move |it| it.settings.status = status));
                }
                "user_metadata" => {
                    let metadata = text(&name, &value)?.to_owned();
                    wishes.push(Box::new(move |it| it.settings.user_metadata = metadata));
                }
                "requires_duplicate_detection" => {
                    let on = boolean(&name, &value)?;
                    wishes.push(Box::new(move |it| it.settings.requires_duplicate_detection = on));
                }
                "requires_session" => {
                    let on = boolean(&name, &value)?;
                    wishes.push(Box::new(move |it| it.settings.requires_session = on));
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
                    wishes.push(Box::new(move |it| it.settings.duplicate_window_ms = ms));
                }
                "support_ordering" => {
                    let on = boolean(&name, &value)?;
                    wishes.push(Box::new(move |it| it.support_ordering = on));
                }
                "dead_lettering_on_filter_evaluation_exceptions" => {
                    let on = boolean(&name, &value)?;
                    wishes.push(Box::new(move |it| it.bury_failed = on));
                }
                "filtering_messages_before_publishing" => {
                    if boolean(&name, &value)? {
                        return Err(not_yet(&name, "leave it out")).or_raise();
                    }
                }
                // Shown; not settings.
                _ => {}
            }
        }
        Ok(Self(wishes))
    }

    /// Applies them to settings.
    pub(super) fn apply(self, draft: &mut Draft) {
        self.0.into_iter().for_each(|wish| wish(draft));
    }
}
