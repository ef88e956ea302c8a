// SPDX-License-Identifier: Apache-2.0
//! Rules of a subscription (B-360, B-432, B-433).

use oxbus_amqp::codec::{AmqpValue, Map};
use oxbus_model::rules::RuleSettings;
use oxbus_model::{Error, ErrorKind, Result};
use oxbus_store::Wait;

use super::reply::OperationOutcome;
use super::request::{ManagementRequest, wrong_type};
use super::rule_codec;

/// The topic and the subscription of a request.
fn subscription(request: &ManagementRequest<'_>) -> Result<(String, String)> {
    let entity = request.entity()?;
    let (topic, name) = entity.name().parts();
    let Some(name) = name else {
        let detail = format!(
            "only subscriptions have rules; use topic/Subscriptions/name: `{}`",
            entity.name().as_str()
        );
        return Err(Error::new(ErrorKind::InvalidOperation, detail));
    };
    Ok((topic.to_owned(), name.to_owned()))
}

/// `add-rule`.
pub(super) fn add(request: &ManagementRequest<'_>, wait: &Wait<'_>) -> Result<OperationOutcome> {
    request.reject_transaction()?;
    let (topic, subscription) = subscription(request)?;
    let description = request.find("rule-description").and_then(AmqpValue::as_map);
    let description = description.ok_or_else(|| wrong_type("rule-description", "a map"))?;
    let namespace = request.amqp.context.namespace();
    let rule = RuleSettings {
        name: request.text("rule-name")?.to_owned(),
        filter: rule_codec::read_filter(description)?,
        action: rule_codec::read_action(description)?,
        created_at_ms: namespace.clock().now().0,
    };
    namespace.create_rule(&topic, &subscription, &rule, wait)?;
    Ok(OperationOutcome::done())
}

/// `remove-rule`.
pub(super) fn remove(request: &ManagementRequest<'_>, wait: &Wait<'_>) -> Result<OperationOutcome> {
    request.reject_transaction()?;
    let (topic, subscription) = subscription(request)?;
    let namespace = request.amqp.context.namespace();
    namespace.delete_rule(&topic, &subscription, request.text("rule-name")?, wait)?;
    Ok(OperationOutcome::done())
}

/// `enumerate-rules`: a page of the rules, ordered by name.
pub(super) fn enumerate(request: &ManagementRequest<'_>, _: &Wait<'_>) -> Result<OperationOutcome> {
    let (topic, subscription) = subscription(request)?;
    let (skip, top) = (request.count("skip")?, request.count("top")?);
    let rules = request.amqp.context.namespace().list_rules(&topic, &subscription)?;
    let to_entry = |rule: &RuleSettings| {
        let mut entry = Map::new();
        entry.push("rule-description", rule_codec::write(rule));
        AmqpValue::from(entry)
    };
    let page: Vec<AmqpValue> = rules.iter().skip(skip).take(top).map(to_entry).collect();
    if page.is_empty() {
        return Ok(OperationOutcome::Nothing);
    }
    Ok(OperationOutcome::of("rules", page))
}
