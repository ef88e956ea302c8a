// SPDX-License-Identifier: Apache-2.0
//! Rules in `$management`: read from maps, written as described lists (B-432, B-433).

use oxbus_amqp::codec::{AmqpTimestamp, AmqpValue, Map};
use oxbus_amqp::record::{owned_pairs, to_amqp_value};
use oxbus_model::Result;
use oxbus_model::rules::{ActionSettings, CorrelationSettings, FilterSettings, RuleSettings};

use super::request::wrong_type;

/// Descriptors of the types. Those of filters have a shorter vendor part, because clients in use compare that form.
const RULE: u64 = 0x0000_0137_0000_0004;
const NO_ACTION: u64 = 0x0000_0137_0000_0005;
const SQL_ACTION: u64 = 0x0000_0137_0000_0006;
const SQL_FILTER: u64 = 0x13_7000_0006;
const TRUE_FILTER: u64 = 0x13_7000_0007;
const FALSE_FILTER: u64 = 0x13_7000_0008;
const CORRELATION_FILTER: u64 = 0x13_7000_0009;

/// The version of the SQL language. Every SQL text carries it, and oxbus ignores it.
const COMPATIBILITY_LEVEL: i32 = 20;

fn optional_map<'a>(description: &'a Map, key: &str) -> Result<Option<&'a Map>> {
    match description.get(key) {
        None | Some(AmqpValue::Null) => Ok(None),
        Some(value) => value.as_map().map(Some).ok_or_else(|| wrong_type(key, "a map")),
    }
}

fn optional_text(map: &Map, key: &str) -> Result<Option<String>> {
    match map.get(key) {
        None | Some(AmqpValue::Null) => Ok(None),
        Some(value) => {
            let text = value.as_text().ok_or_else(|| wrong_type(key, "a string"))?;
            Ok(Some(text.to_owned()))
        }
    }
}

fn expression(map: &Map) -> Result<String> {
    optional_text(map, "expression")?.ok_or_else(|| wrong_type("expression", "the text of the filter or action"))
}

/// Reads a filter. Clients write the true and the false filter as SQL.
pub(super) fn read_filter(description: &Map) -> Result<FilterSettings> {
    if let Some(filter) = optional_map(description, "sql-filter")? {
        let expression = expression(filter)?;
        return Ok(match expression.trim() {
            "1=1" => FilterSettings::True,
            "1=0" => FilterSettings::False,
            _ => FilterSettings::Sql {
                expression,
                parameters: optional_map(filter, "parameters")?.map_or(Ok(Vec::new()), owned_pairs)?,
            },
        });
    }
    let Some(filter) = optional_map(description, "correlation-filter")? else {
        return Err(wrong_type(
            "rule-description",
            "a map with sql-filter or correlation-filter",
        ));
    };
    Ok(FilterSettings::Correlation(CorrelationSettings {
        correlation_id: optional_text(filter, "correlation-id")?,
        message_id: optional_text(filter, "message-id")?,
        to: optional_text(filter, "to")?,
        reply_to: optional_text(filter, "reply-to")?,
        subject: optional_text(filter, "label")?,
        session_id: optional_text(filter, "session-id")?,
        reply_to_session_id: optional_text(filter, "reply-to-session-id")?,
        content_type: optional_text(filter, "content-type")?,
        properties: optional_map(filter, "properties")?.map_or(Ok(Vec::new()), owned_pairs)?,
    }))
}

/// Reads the action, if there is one.
pub(super) fn read_action(description: &Map) -> Result<Option<ActionSettings>> {
    let Some(action) = optional_map(description, "sql-rule-action")? else {
        return Ok(None);
    };
    Ok(Some(ActionSettings {
        expression: expression(action)?,
        parameters: optional_map(action, "parameters")?.map_or(Ok(Vec::new()), owned_pairs)?,
    }))
}

fn list(descriptor: u64, items: Vec<AmqpValue>) -> AmqpValue {
    AmqpValue::described(descriptor.into(), items.into())
}

fn sql(descriptor: u64, expression: &str) -> AmqpValue {
    list(descriptor, vec![expression.into(), COMPATIBILITY_LEVEL.into()])
}

/// Writes a rule: its filter, action, name and creation time.
pub(super) fn write(rule: &RuleSettings) -> AmqpValue {
    let filter = match &rule.filter {
        FilterSettings::True => list(TRUE_FILTER, Vec::new()),
        FilterSettings::False => list(FALSE_FILTER, Vec::new()),
        FilterSettings::Sql { expression, .. } => sql(SQL_FILTER, expression),
        FilterSettings::Correlation(filter) => correlation(filter),
    };
    let action = match &rule.action {
        Some(action) => sql(SQL_ACTION, &action.expression),
        None => list(NO_ACTION, Vec::new()),
    };
    let created_at = AmqpTimestamp(rule.created_at_ms.cast_signed());
    list(RULE, vec![filter, action, rule.name.as_str().into(), created_at.into()])
}

fn correlation(filter: &CorrelationSettings) -> AmqpValue {
    let text = |text: &Option<String>| text.as_deref().map_or(AmqpValue::Null, AmqpValue::from);
    let properties = filter.properties.iter();
    let properties: Map = properties
        .map(|(key, value)| (key.as_str().into(), to_amqp_value(value)))
        .collect();
    list(
        CORRELATION_FILTER,
        vec![
            text(&filter.correlation_id),
            text(&filter.message_id),
            text(&filter.to),
            text(&filter.reply_to),
            text(&filter.subject),
            text(&filter.session_id),
            text(&filter.reply_to_session_id),
            text(&filter.content_type),
            properties.into(),
        ],
    )
}
