// SPDX-License-Identifier: Apache-2.0
//! The settings of an entity with their limits, and `settings`, which changes some of them.

use std::sync::Arc;

use oxbus_broker::entity::Entity;
use oxbus_broker::namespace::EntityOption;
use oxbus_model::EntityKind;
use oxbus_model::caps::{
    AUTO_DELETE_ON_IDLE_MS_MIN, DUPLICATE_WINDOW_MS_MAX, DUPLICATE_WINDOW_MS_MIN, DURATION_MS_NEVER,
    LOCK_DURATION_MS_MAX, LOCK_DURATION_MS_MIN, MAX_DELIVERY_COUNT_MAX, MAX_SIZE_MEGABYTES_MAX,
    TIER_DUPLICATE_WINDOW_MS_MAX, TIER_DUPLICATE_WINDOW_MS_MIN, TIER_LOCK_DURATION_MS_MAX, TIER_LOCK_DURATION_MS_MIN,
    TIME_TO_LIVE_MS_MIN, USER_METADATA_CHARS_MAX,
};
use oxbus_model::options::EntityStatus;
use oxbus_model::tier::ServicePlan;
use oxbus_store::Wait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Request;
use crate::console::error::{ConsoleError, Result, from_json};

const STATUSES: [EntityStatus; 4] = [
    EntityStatus::Active,
    EntityStatus::Disabled,
    EntityStatus::SendDisabled,
    EntityStatus::ReceiveDisabled,
];

/// How a setting is written.
enum Form {
    /// Milliseconds.
    Duration(u64, u64, fn(u64) -> EntityOption),
    /// Milliseconds, or nothing for never.
    OptionalDuration(u64, fn(u64) -> EntityOption),
    Number(u64, u64, fn(u64) -> EntityOption),
    Flag(fn(bool) -> EntityOption),
    Text(u64, fn(String) -> EntityOption),
    Status,
}

/// The settings that can be changed, with what they are for.
fn forms(kind: EntityKind, plan: ServicePlan) -> Vec<(&'static str, Form)> {
    let has_tier = plan.tier.is_some();
    let lock = if has_tier {
        (TIER_LOCK_DURATION_MS_MIN, TIER_LOCK_DURATION_MS_MAX)
    } else {
        (LOCK_DURATION_MS_MIN, LOCK_DURATION_MS_MAX)
    };
    let window = if has_tier {
        (TIER_DUPLICATE_WINDOW_MS_MIN, TIER_DUPLICATE_WINDOW_MS_MAX)
    } else {
        (DUPLICATE_WINDOW_MS_MIN, DUPLICATE_WINDOW_MS_MAX)
    };
    let is_received_from = kind != EntityKind::Topic;
    let is_sent_to = kind != EntityKind::Subscription;
    let count_max = MAX_DELIVERY_COUNT_MAX.into();
    let path_max = 300;
    let all = [
        (true, "status", Form::Status),
        (
            is_received_from,
            "lock_duration",
            Form::Duration(lock.0, lock.1, EntityOption::LockDuration),
        ),
        (
            is_received_from,
            "max_delivery_count",
            Form::Number(1, count_max, EntityOption::MaxDeliveryCount),
        ),
        (
            true,
            "default_message_time_to_live",
            Form::OptionalDuration(TIME_TO_LIVE_MS_MIN, EntityOption::DefaultTimeToLive),
        ),
        (
            is_received_from,
            "dead_lettering_on_message_expiration",
            Form::Flag(EntityOption::DeadLetterExpired),
        ),
        (
            is_sent_to,
            "duplicate_detection_history_time_window",
            Form::Duration(window.0, window.1, EntityOption::DuplicateWindow),
        ),
        (
            is_sent_to,
            "max_size_in_megabytes",
            Form::Number(1, MAX_SIZE_MEGABYTES_MAX, EntityOption::MaxSizeMegabytes),
        ),
        (
            true,
            "auto_delete_on_idle",
            Form::OptionalDuration(AUTO_DELETE_ON_IDLE_MS_MIN, EntityOption::AutoDeleteOnIdle),
        ),
        (
            is_received_from,
            "forward_to",
            Form::Text(path_max, EntityOption::ForwardTo),
        ),
        (
            is_received_from,
            "forward_dead_lettered_messages_to",
            Form::Text(path_max, EntityOption::ForwardDeadLettersTo),
        ),
        (
            true,
            "user_metadata",
            Form::Text(USER_METADATA_CHARS_MAX as u64, EntityOption::UserMetadata),
        ),
    ];
    let own = all.into_iter().filter(|(is_own, ..)| *is_own);
    own.map(|(_, name, form)| (name, form)).collect()
}

fn value_of(entity: &Entity, name: &str) -> Value {
    let it = entity.settings();
    match name {
        "status" => json!(format!("{:?}", it.status)),
        "lock_duration" => json!(it.lock_duration_ms),
        "max_delivery_count" => json!(it.max_delivery_count),
        "default_message_time_to_live" => json!(it.default_time_to_live_ms),
        "dead_lettering_on_message_expiration" => json!(it.dead_lettering_on_message_expiration),
        "duplicate_detection_history_time_window" => json!(it.duplicate_window_ms),
        "max_size_in_megabytes" => json!(it.shown_max_size_megabytes()),
        "auto_delete_on_idle" => json!(it.auto_delete_on_idle_ms),
        "forward_to" => json!(it.forward_to.as_deref().unwrap_or_default()),
        "forward_dead_lettered_messages_to" => json!(it.forward_dead_letters_to.as_deref().unwrap_or_default()),
        _ => json!(it.user_metadata),
    }
}

/// The settings with their values and limits, then those that are fixed.
pub(super) fn shown(entity: &Arc<Entity>, plan: ServicePlan) -> Value {
    let forms = forms(entity.kind(), plan);
    let form = |(name, form): (&'static str, Form)| {
        let value = value_of(entity, name);
        let (kind, min, max) = match form {
            Form::Duration(min, max, _) => ("duration", min, max),
            Form::OptionalDuration(min, _) => ("optional_duration", min, DURATION_MS_NEVER),
            Form::Number(min, max, _) => ("number", min, max),
            Form::Flag(_) => ("flag", 0, 1),
            Form::Text(max, _) => ("text", 0, max),
            Form::Status => ("status", 0, 0),
        };
        json!({ "name": name, "kind": kind, "min": min, "max": max, "value": value })
    };
    let it = entity.settings();
    json!({
        "editable": forms.into_iter().map(form).collect::<Vec<_>>(),
        "statuses": STATUSES.map(|status| format!("{status:?}")),
        "fixed": {
            "enable_partitioning": it.enable_partitioning,
            "requires_session": it.requires_session,
            "requires_duplicate_detection": it.requires_duplicate_detection,
            "max_message_size_in_kilobytes": it.message_size_bytes_max >> 10,
        },
    })
}

#[derive(Deserialize)]
struct Change {
    path: String,
    name: String,
    value: Value,
}

/// Changes one setting.
pub(super) fn change(request: &Request, body: &[u8], wait: &Wait<'_>) -> Result<Value> {
    let Change { path, name, value } = from_json(body)?;
    let (entity, _) = request.entity_of(&path)?;
    let namespace = request.context.namespace();
    let forms = forms(entity.kind(), namespace.plan());
    let form = forms
        .into_iter()
        .find_map(|(known, form)| (known == name).then_some(form));
    let wrong = |expected: &str| ConsoleError::bad_request(format!("`{name}` must be {expected}"));
    let number = || value.as_u64().ok_or_else(|| wrong("a whole number, 0 or more"));
    let option = match form {
        Some(Form::OptionalDuration(_, option)) if value.is_null() => option(DURATION_MS_NEVER),
        Some(Form::Duration(_, _, option) | Form::Number(_, _, option) | Form::OptionalDuration(_, option)) => {
            option(number()?)
        }
        Some(Form::Flag(option)) => option(value.as_bool().ok_or_else(|| wrong("true or false"))?),
        Some(Form::Text(_, option)) => option(value.as_str().ok_or_else(|| wrong("a text"))?.to_owned()),
        Some(Form::Status) => {
            let status = STATUSES
                .into_iter()
                .find(|it| value.as_str() == Some(&format!("{it:?}")));
            EntityOption::Status(status.ok_or_else(|| wrong("Active, Disabled, SendDisabled or ReceiveDisabled"))?)
        }
        None => {
            return Err(ConsoleError::bad_request(format!(
                "the entity has no setting `{name}` that can be changed"
            )));
        }
    };
    namespace.update_with(&entity, vec![option], wait)?;
    request.log_change("update", entity.name().as_str(), 1);
    Ok(json!({}))
}
