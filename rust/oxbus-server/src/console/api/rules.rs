// SPDX-License-Identifier: Apache-2.0
//! The rules of a subscription: `rule` creates or replaces one, `rule-delete` deletes one, and `rule-test` tells which
//! peeked messages one would select.

use oxbus_broker::filter::{Rule, RuleInput};
use oxbus_model::message::Fields;
use oxbus_model::rules::{ActionSettings, CorrelationSettings, FilterSettings, OwnedValue, RuleSettings};
use oxbus_store::Wait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Request;
use super::message::brief;
use super::reading::{number_of, peek_first};
use crate::console::error::{ConsoleError, Result, from_json};

/// Messages that a test looks at.
const TESTED_MAX: usize = 500;

/// A value of a correlation filter or a parameter as text, with its type unless it is text.
pub(super) fn value_text(value: &OwnedValue) -> Value {
    match value {
        OwnedValue::Null => Value::Null,
        OwnedValue::Bool(it) => json!(it),
        OwnedValue::Int(it) | OwnedValue::Time(it) | OwnedValue::TimeWithoutZone(it) => json!(it.to_string()),
        OwnedValue::Double(it) => json!(it.to_string()),
        OwnedValue::Text(it) => json!(it),
        OwnedValue::Bytes(it) => json!(oxbus_model::hex::to_hex(it)),
        OwnedValue::Uuid(it) => json!(oxbus_model::hex::to_hex(it)),
        OwnedValue::Timespan(it) => json!(oxbus_model::timespan::text(*it)),
    }
}

fn pairs(values: &[(String, OwnedValue)]) -> Vec<Value> {
    values
        .iter()
        .map(|(name, value)| json!([name, value_text(value)]))
        .collect()
}

/// A rule as the page shows it.
pub(super) fn shown(rule: &RuleSettings) -> Value {
    let filter = match &rule.filter {
        FilterSettings::True => json!({ "kind": "true" }),
        FilterSettings::False => json!({ "kind": "false" }),
        FilterSettings::Sql { expression, parameters } => {
            json!({ "kind": "sql", "expression": expression, "parameters": pairs(parameters) })
        }
        FilterSettings::Correlation(it) => json!({
            "kind": "correlation",
            "fields": [
                ["correlation_id", it.correlation_id], ["message_id", it.message_id], ["to", it.to],
                ["reply_to", it.reply_to], ["subject", it.subject], ["session_id", it.session_id],
                ["reply_to_session_id", it.reply_to_session_id], ["content_type", it.content_type],
            ],
            "properties": pairs(&it.properties),
        }),
    };
    let action = rule.action.as_ref().map(|action| action.expression.as_str());
    json!({ "name": rule.name, "filter": filter, "action": action, "created_ms": rule.created_at_ms })
}

/// A rule as the page sends it.
#[derive(Deserialize)]
struct GivenRule {
    path: String,
    name: String,
    /// `true`, `false`, `sql` or `correlation`.
    kind: String,
    #[serde(default)]
    expression: String,
    #[serde(default)]
    correlation: Vec<(String, String)>,
    #[serde(default)]
    action: String,
    #[serde(default)]
    is_update: bool,
}

impl GivenRule {
    fn settings(&self, now_ms: u64) -> Result<RuleSettings> {
        let filter = match self.kind.as_str() {
            "true" => FilterSettings::True,
            "false" => FilterSettings::False,
            "sql" => FilterSettings::Sql {
                expression: self.expression.clone(),
                parameters: Vec::new(),
            },
            "correlation" => FilterSettings::Correlation(self.correlation()),
            other => {
                return Err(ConsoleError::bad_request(format!(
                    "unknown kind of filter `{other}`; use sql"
                )));
            }
        };
        let action = (!self.action.trim().is_empty()).then(|| ActionSettings {
            expression: self.action.clone(),
            parameters: Vec::new(),
        });
        Ok(RuleSettings {
            name: self.name.clone(),
            filter,
            action,
            created_at_ms: now_ms,
        })
    }

    fn correlation(&self) -> CorrelationSettings {
        let mut it = CorrelationSettings::default();
        for (name, value) in &self.correlation {
            let field = match name.as_str() {
                "correlation_id" => &mut it.correlation_id,
                "message_id" => &mut it.message_id,
                "to" => &mut it.to,
                "reply_to" => &mut it.reply_to,
                "subject" => &mut it.subject,
                "session_id" => &mut it.session_id,
                "reply_to_session_id" => &mut it.reply_to_session_id,
                "content_type" => &mut it.content_type,
                _ => {
                    it.properties.push((name.clone(), OwnedValue::Text(value.clone())));
                    continue;
                }
            };
            *field = Some(value.clone());
        }
        it
    }
}

/// The topic and the subscription of a request.
fn names(request: &Request, path: &str) -> Result<(String, String)> {
    let (entity, _) = request.entity_of(path)?;
    match entity.name().parts() {
        (topic, Some(subscription)) => Ok((topic.to_owned(), subscription.to_owned())),
        _ => Err(ConsoleError::bad_request("only a subscription has rules; name one")),
    }
}

pub(super) fn put(request: &Request, body: &[u8], wait: &Wait<'_>) -> Result<Value> {
    let given: GivenRule = from_json(body)?;
    let (topic, subscription) = names(request, &given.path)?;
    let namespace = request.context.namespace();
    let rule = given.settings(namespace.clock().now().0)?;
    if given.is_update {
        namespace.update_rule(&topic, &subscription, &rule, wait)?;
    } else {
        namespace.create_rule(&topic, &subscription, &rule, wait)?;
    }
    request.log_change(
        if given.is_update { "update_rule" } else { "create_rule" },
        &given.path,
        1,
    );
    Ok(json!({}))
}

#[derive(Deserialize)]
struct NamedRule {
    path: String,
    name: String,
}

pub(super) fn delete(request: &Request, body: &[u8], wait: &Wait<'_>) -> Result<Value> {
    let given: NamedRule = from_json(body)?;
    let (topic, subscription) = names(request, &given.path)?;
    request
        .context
        .namespace()
        .delete_rule(&topic, &subscription, &given.name, wait)?;
    request.log_change("delete_rule", &given.path, 1);
    Ok(json!({}))
}

/// Which of the first messages of the subscription the rule would select.
pub(super) fn test(request: &Request, body: &[u8], wait: &Wait<'_>) -> Result<Value> {
    let given: GivenRule = from_json(body)?;
    let rule = Rule::compile(&given.settings(0)?)?;
    let (receiver, items) = peek_first(request, &given.path, TESTED_MAX, wait)?;
    let (mut selected, mut failed) = (Vec::new(), Vec::new());
    let mut count = 0;
    for item in &items {
        let Some(record) = item.message.record.in_memory() else {
            continue;
        };
        let fields = Fields::decode(record)?;
        let number = number_of(item);
        let input = RuleInput {
            fields: &fields,
            enqueued_at: item.message.enqueued_at,
            enqueued_number: Some(fields.enqueued_number.unwrap_or(number)),
            expires_at: item.message.expires_at,
            size_bytes: record.len(),
            delivery_count: 0,
        };
        match rule.selects(&input) {
            Ok(true) => {
                count += 1;
                if selected.len() < 20 {
                    selected.push(brief(receiver.entity(), item)?);
                }
            }
            Err(reason) if failed.len() < 5 => failed.push(json!({ "number": number.0.to_string(), "reason": reason })),
            Ok(false) | Err(_) => {}
        }
    }
    Ok(json!({ "looked_at": items.len(), "selected": count, "messages": selected, "failed": failed }))
}
