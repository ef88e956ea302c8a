// SPDX-License-Identifier: Apache-2.0
//! Converts entity options from dicts to [`EntityOption`]s.

use oxbus_broker::namespace::{AuthorizationRuleUpdate, EntityOption};
use oxbus_model::authorization::AccessRight;
use oxbus_model::options::EntityStatus;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

use crate::error::OrRaise;
use crate::options::not_supported;

pub(super) fn item<'py>(options: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
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

/// The option names that an entity kind accepts, with the name of the kind for errors.
pub(super) struct EntityOptionNames {
    pub(super) name: &'static str,
    pub(super) options: &'static [&'static str],
}

pub(super) const QUEUE: EntityOptionNames = EntityOptionNames {
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

pub(super) const TOPIC: EntityOptionNames = EntityOptionNames {
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

pub(super) const SUBSCRIPTION: EntityOptionNames = EntityOptionNames {
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

fn rights(rule: &Bound<'_, PyDict>) -> PyResult<Vec<AccessRight>> {
    let Some(given) = item(rule, "rights")? else {
        return Ok(Vec::new());
    };
    let mut rights = Vec::new();
    for right in given.try_iter()? {
        let right = right?;
        let name = text("rights", &right)?;
        let right = AccessRight::from_name(name).ok_or_else(|| {
            PyValueError::new_err(format!("unknown access right; use Manage, Send or Listen: `{name}`"))
        })?;
        if !rights.contains(&right) {
            rights.push(right);
        }
    }
    Ok(rights)
}

/// Reads authorization rules from a list of dicts.
pub(crate) fn authorization_rules(rules: &Bound<'_, PyAny>) -> PyResult<Vec<AuthorizationRuleUpdate>> {
    rules
        .try_iter()?
        .map(|rule| {
            let rule = rule?;
            let rule = rule.cast::<PyDict>().map_err(PyErr::from)?;
            let optional = |name: &str| -> PyResult<Option<String>> {
                item(rule, name)?
                    .map(|value| Ok(text(name, &value)?.to_owned()))
                    .transpose()
            };
            Ok(AuthorizationRuleUpdate {
                key_name: optional("key_name")?.unwrap_or_default(),
                primary_key: optional("primary_key")?,
                secondary_key: optional("secondary_key")?,
                rights: rights(rule)?,
            })
        })
        .collect()
}

/// Rejects an unsupported option unless it is off.
fn refuse(name: &str, is_on: bool) -> PyResult<Option<EntityOption>> {
    if is_on {
        return Err(not_supported(name, "leave it out")).or_raise();
    }
    Ok(None)
}

/// Converts one option. Returns `None` for a read-only property.
fn entity_option(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<EntityOption>> {
    let integer = |make: fn(u64) -> EntityOption| number(name, value).map(make);
    let flag = |make: fn(bool) -> EntityOption| boolean(name, value).map(make);
    let string = |make: fn(String) -> EntityOption| Ok::<_, PyErr>(make(text(name, value)?.to_owned()));
    let option = match name {
        "lock_duration" => integer(EntityOption::LockDuration),
        "max_delivery_count" => integer(EntityOption::MaxDeliveryCount),
        "default_message_time_to_live" => integer(EntityOption::DefaultTimeToLive),
        "max_size_in_megabytes" => integer(EntityOption::MaxSizeMegabytes),
        "max_message_size_in_kilobytes" => integer(EntityOption::MaxMessageSizeKilobytes),
        "duplicate_detection_history_time_window" => integer(EntityOption::DuplicateWindow),
        "auto_delete_on_idle" => integer(EntityOption::AutoDeleteOnIdle),
        "enable_partitioning" => flag(EntityOption::EnablePartitioning),
        "dead_lettering_on_message_expiration" => flag(EntityOption::DeadLetterExpired),
        "dead_lettering_on_filter_evaluation_exceptions" => flag(EntityOption::DeadLetterFailed),
        "enable_batched_operations" => flag(EntityOption::EnableBatchedOperations),
        "enable_express" => flag(EntityOption::EnableExpress),
        "requires_duplicate_detection" => flag(EntityOption::RequiresDuplicateDetection),
        "requires_session" => flag(EntityOption::RequiresSession),
        "expire_whole_sessions" => flag(EntityOption::ExpireWholeSessions),
        "support_ordering" => flag(EntityOption::SupportOrdering),
        "status" => Ok(EntityOption::Status(status(text(name, value)?)?)),
        "user_metadata" => string(EntityOption::UserMetadata),
        "forward_to" => string(EntityOption::ForwardTo),
        "forward_dead_lettered_messages_to" => string(EntityOption::ForwardDeadLettersTo),
        "authorization_rules" => Ok(EntityOption::AuthorizationRules(authorization_rules(value)?)),
        "filtering_messages_before_publishing" => return refuse(name, boolean(name, value)?),
        _ => return Ok(None),
    };
    option.map(Some)
}

/// Reads and checks all options before anything is changed. Skips options whose value is `None`.
pub(super) fn read(options: &Bound<'_, PyDict>, kind: &EntityOptionNames) -> PyResult<Vec<EntityOption>> {
    let mut found: Vec<EntityOption> = Vec::new();
    for (name, _) in options.iter() {
        let name: String = name.extract()?;
        if !kind.options.contains(&name.as_str()) {
            return Err(PyTypeError::new_err(format!(
                "{} has no such option: `{name}`",
                kind.name
            )));
        }
        let Some(value) = item(options, &name)? else { continue };
        found.extend(entity_option(&name, &value)?);
    }
    Ok(found)
}
