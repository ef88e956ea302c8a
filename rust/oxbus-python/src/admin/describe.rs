// SPDX-License-Identifier: Apache-2.0
//! Properties and runtime counts of entities as dicts.

use oxbus_store::Wait;
use std::sync::Arc;

use oxbus_broker::entity::{Entity, PartitionCounts};
use oxbus_model::authorization::AuthorizationRule;
use oxbus_model::options::EntityStatus;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error::OrRaise;

/// The milliseconds that mean "never" in Python.
const NEVER: i64 = i64::MAX;

fn status_name(status: EntityStatus) -> &'static str {
    match status {
        EntityStatus::Active => "Active",
        EntityStatus::Disabled => "Disabled",
        EntityStatus::SendDisabled => "SendDisabled",
        EntityStatus::ReceiveDisabled => "ReceiveDisabled",
    }
}

/// The dict of a queue.
pub(super) fn queue<'py>(py: Python<'py>, queue: &Entity) -> PyResult<Bound<'py, PyDict>> {
    let settings = queue.settings();
    let dict = PyDict::new(py);
    dict.set_item("name", queue.name().as_str())?;
    dict.set_item("lock_duration", settings.lock_duration_ms)?;
    dict.set_item("max_delivery_count", settings.max_delivery_count)?;
    dict.set_item(
        "default_message_time_to_live",
        settings.default_time_to_live_ms.map_or(NEVER, |ms| ms as i64),
    )?;
    let megabytes = settings.shown_max_size_megabytes();
    dict.set_item("max_size_in_megabytes", megabytes)?;
    dict.set_item(
        "total_max_size_in_megabytes",
        megabytes.saturating_mul(u64::from(queue.partitions())),
    )?;
    dict.set_item("max_message_size_in_kilobytes", settings.message_size_bytes_max >> 10)?;
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
    dict.set_item("forward_to", &settings.forward_to)?;
    dict.set_item("forward_dead_lettered_messages_to", &settings.forward_dead_letters_to)?;
    let idle = settings.auto_delete_on_idle_ms.map_or(NEVER, |ms| ms as i64);
    dict.set_item("auto_delete_on_idle", idle)?;
    dict.set_item("user_metadata", &settings.user_metadata)?;
    let rules = settings
        .authorization_rules
        .iter()
        .map(|rule| authorization_rule(py, rule));
    dict.set_item(
        "authorization_rules",
        PyList::new(py, rules.collect::<PyResult<Vec<_>>>()?)?,
    )?;
    dict.set_item("availability_status", availability(queue.is_available()))?;
    Ok(dict)
}

/// The dict of an authorization rule, with its keys.
pub(crate) fn authorization_rule<'py>(py: Python<'py>, rule: &AuthorizationRule) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("type", AuthorizationRule::TYPE)?;
    dict.set_item("claim_type", AuthorizationRule::CLAIM_TYPE)?;
    dict.set_item("claim_value", AuthorizationRule::CLAIM_VALUE)?;
    dict.set_item(
        "rights",
        rule.rights.iter().map(|right| right.name()).collect::<Vec<_>>(),
    )?;
    dict.set_item("created_at_ms", rule.created_at_ms)?;
    dict.set_item("modified_at_ms", rule.modified_at_ms)?;
    dict.set_item("key_name", &rule.key_name)?;
    dict.set_item("primary_key", &rule.primary_key)?;
    dict.set_item("secondary_key", &rule.secondary_key)?;
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
    dict.set_item("transfer_message_count", counts.transfer)?;
    dict.set_item("transfer_dead_letter_message_count", 0)?;
    // Service Bus counts each message once, whatever its state (B-391).
    dict.set_item(
        "total_message_count",
        counts.active + counts.dead_letter + counts.scheduled + counts.transfer,
    )?;
    dict.set_item("locked_message_count", counts.locked)?;
    dict.set_item("deferred_message_count", counts.deferred)
}

/// The dict of a topic.
pub(super) fn topic<'py>(py: Python<'py>, topic: &Entity) -> PyResult<Bound<'py, PyDict>> {
    let dict = queue(py, topic)?;
    for absent in [
        "lock_duration",
        "max_delivery_count",
        "requires_session",
        "expire_whole_sessions",
        "dead_lettering_on_message_expiration",
        "forward_to",
        "forward_dead_lettered_messages_to",
    ] {
        dict.del_item(absent)?;
    }
    dict.set_item("support_ordering", topic.supports_ordering())?;
    dict.set_item("filtering_messages_before_publishing", false)?;
    dict.set_item(
        "size_in_bytes",
        topic.counts(&Wait::FOREVER).or_raise()?.total.size_bytes,
    )?;
    Ok(dict)
}

/// The dict of a subscription.
pub(super) fn subscription<'py>(py: Python<'py>, subscription: &Entity) -> PyResult<Bound<'py, PyDict>> {
    let dict = queue(py, subscription)?;
    for absent in [
        "max_size_in_megabytes",
        "total_max_size_in_megabytes",
        "max_message_size_in_kilobytes",
        "enable_partitioning",
        "requires_duplicate_detection",
        "duplicate_detection_history_time_window",
        "enable_express",
        "authorization_rules",
    ] {
        dict.del_item(absent)?;
    }
    name_parts(&dict, subscription)?;
    dict.set_item(
        "dead_lettering_on_filter_evaluation_exceptions",
        subscription.dead_letters_failed(),
    )?;
    Ok(dict)
}

/// Sets the names of a subscription and its topic.
fn name_parts(dict: &Bound<'_, PyDict>, subscription: &Entity) -> PyResult<()> {
    let (topic, name) = subscription.name().parts();
    dict.set_item("topic_name", topic)?;
    dict.set_item("name", name)
}

/// The dict of a topic's counts.
pub(super) fn topic_runtime<'py>(py: Python<'py>, topic: &Arc<Entity>) -> PyResult<Bound<'py, PyDict>> {
    let dict = runtime(py, topic)?;
    let subscriptions = topic.subscriptions();
    let bytes = |it: &Arc<Entity>| Ok(it.counts(&Wait::FOREVER)?.total.size_bytes);
    let subscriptions_bytes: oxbus_model::Result<u64> = py.detach(|| subscriptions.iter().map(bytes).sum());
    let subscriptions_bytes = subscriptions_bytes.or_raise()?;
    let own: u64 = dict.get_item("size_in_bytes")?.map_or(Ok(0), |it| it.extract())?;
    dict.set_item("size_in_bytes", own + subscriptions_bytes)?;
    dict.set_item("subscription_count", subscriptions.len())?;
    let (sql, correlation) = topic.filters();
    dict.set_item("sql_filter_count", sql)?;
    dict.set_item("correlation_filter_count", correlation)?;
    Ok(dict)
}

/// The dict of a subscription's counts.
pub(super) fn subscription_runtime<'py>(py: Python<'py>, subscription: &Arc<Entity>) -> PyResult<Bound<'py, PyDict>> {
    let dict = runtime(py, subscription)?;
    name_parts(&dict, subscription)?;
    Ok(dict)
}

/// The dict of an entity's counts.
pub(super) fn runtime<'py>(py: Python<'py>, queue: &Arc<Entity>) -> PyResult<Bound<'py, PyDict>> {
    let counts = py.detach(|| queue.counts(&Wait::FOREVER)).or_raise()?;
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
        // An entity that is not partitioned shows no partition id.
        part.set_item("partition_id", queue.is_partitioned().then_some(partition.0))?;
        part.set_item("available", *reached)?;
        set_counts(&part, counts)?;
        partitions.append(part)?;
    }
    dict.set_item("partitions", partitions)?;
    dict.set_item("availability_status", availability(queue.is_available()))?;
    Ok(dict)
}
