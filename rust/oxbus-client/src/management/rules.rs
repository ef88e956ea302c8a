// SPDX-License-Identifier: Apache-2.0
//! Requests about the rules of a subscription: written as maps, read from described lists (B-432, B-433).

use oxbus_amqp::codec::{AmqpTimestamp, AmqpValue, Map};
use oxbus_amqp::record::{owned_pairs, to_amqp_value};
use oxbus_model::rules::{ActionSettings, CorrelationSettings, FilterSettings, OwnedValue, RuleSettings};

use super::{Arguments, Management};
use crate::connection::{lacks, required};
use crate::deadline::Deadline;
use crate::error::Result;

/// Rules of a page.
const PAGE: usize = 100;

/// Descriptors, without the vendor part, which servers write in two lengths.
const SQL_FILTER: u64 = 0x6;
const TRUE_FILTER: u64 = 0x7;
const FALSE_FILTER: u64 = 0x8;
const CORRELATION_FILTER: u64 = 0x9;
const DESCRIPTOR_MASK: u64 = 0xff;

impl Management {
    /// Adds a rule.
    pub async fn add_rule(&self, rule: &RuleSettings, deadline: Deadline) -> Result<()> {
        let arguments = Arguments::new()
            .with("rule-name", rule.name.as_str())
            .with("rule-description", description(rule));
        self.tell("add-rule", arguments, None, deadline).await.map(drop)
    }

    /// Removes a rule.
    pub async fn remove_rule(&self, name: &str, deadline: Deadline) -> Result<()> {
        let arguments = Arguments::new().with("rule-name", name);
        self.tell("remove-rule", arguments, None, deadline).await.map(drop)
    }

    /// All rules, by name.
    pub async fn rules(&self, deadline: Deadline) -> Result<Vec<RuleSettings>> {
        let mut found: Vec<RuleSettings> = Vec::new();
        loop {
            let arguments = Arguments::new()
                .with("top", i32::try_from(PAGE).unwrap_or(i32::MAX))
                .with("skip", i32::try_from(found.len()).unwrap_or(i32::MAX));
            let Some(body) = self.ask("enumerate-rules", arguments, deadline).await? else {
                return Ok(found);
            };
            let page = required(&body, "rules")?.as_items().ok_or_else(|| lacks("rules"))?;
            for item in page {
                let rule = item.as_map().and_then(|entry| entry.get("rule-description"));
                found.push(rule.and_then(read).ok_or_else(|| lacks("rule-description"))?);
            }
            if page.len() < PAGE {
                return Ok(found);
            }
        }
    }
}

fn pairs(values: &[(String, OwnedValue)]) -> Map {
    values
        .iter()
        .map(|(key, value)| (AmqpValue::from(key.as_str()), to_amqp_value(value)))
        .collect()
}

fn sql(expression: &str, parameters: &[(String, OwnedValue)]) -> Map {
    let sql = Arguments::new().with("expression", expression);
    if parameters.is_empty() {
        sql.0
    } else {
        sql.with("parameters", pairs(parameters)).0
    }
}

fn description(rule: &RuleSettings) -> Map {
    let filter = match &rule.filter {
        FilterSettings::True => Arguments::new().with("sql-filter", sql("1=1", &[])),
        FilterSettings::False => Arguments::new().with("sql-filter", sql("1=0", &[])),
        FilterSettings::Sql { expression, parameters } => {
            Arguments::new().with("sql-filter", sql(expression, parameters))
        }
        FilterSettings::Correlation(filter) => Arguments::new().with("correlation-filter", correlation(filter)),
    };
    let named = filter.with("rule-name", rule.name.as_str());
    match &rule.action {
        Some(action) => {
            named
                .with("sql-rule-action", sql(&action.expression, &action.parameters))
                .0
        }
        None => named.with("sql-rule-action", AmqpValue::Null).0,
    }
}

fn correlation(filter: &CorrelationSettings) -> Map {
    let mut map = Arguments::new();
    for (key, value) in [
        ("correlation-id", &filter.correlation_id),
        ("message-id", &filter.message_id),
        ("to", &filter.to),
        ("reply-to", &filter.reply_to),
        ("label", &filter.subject),
        ("session-id", &filter.session_id),
        ("reply-to-session-id", &filter.reply_to_session_id),
        ("content-type", &filter.content_type),
    ] {
        if let Some(value) = value {
            map = map.with(key, value.as_str());
        }
    }
    map.with("properties", pairs(&filter.properties)).0
}

/// The last byte of a descriptor, and the fields of a described list.
fn described(value: &AmqpValue) -> Option<(u64, &[AmqpValue])> {
    let AmqpValue::Described(pair) = value else {
        return None;
    };
    let AmqpValue::Ulong(descriptor) = &pair.0 else {
        return None;
    };
    Some((descriptor & DESCRIPTOR_MASK, pair.1.as_items()?))
}

fn text(fields: &[AmqpValue], index: usize) -> Option<String> {
    fields.get(index)?.as_text().map(str::to_owned)
}

/// Reads a rule: filter, action, name, time of creation.
fn read(rule: &AmqpValue) -> Option<RuleSettings> {
    let (_, fields) = described(rule)?;
    let created_at_ms = match fields.get(3) {
        Some(AmqpValue::Timestamp(AmqpTimestamp(ms))) => u64::try_from(*ms).unwrap_or(0),
        _ => 0,
    };
    let (_, action) = described(fields.get(1)?)?;
    Some(RuleSettings {
        filter: filter(fields.first()?)?,
        action: text(action, 0).map(|expression| ActionSettings {
            expression,
            parameters: Vec::new(),
        }),
        name: text(fields, 2)?,
        created_at_ms,
    })
}

fn filter(value: &AmqpValue) -> Option<FilterSettings> {
    let (descriptor, fields) = described(value)?;
    Some(match descriptor {
        TRUE_FILTER => FilterSettings::True,
        FALSE_FILTER => FilterSettings::False,
        SQL_FILTER => FilterSettings::Sql {
            expression: text(fields, 0)?,
            parameters: Vec::new(),
        },
        CORRELATION_FILTER => FilterSettings::Correlation(CorrelationSettings {
            correlation_id: text(fields, 0),
            message_id: text(fields, 1),
            to: text(fields, 2),
            reply_to: text(fields, 3),
            subject: text(fields, 4),
            session_id: text(fields, 5),
            reply_to_session_id: text(fields, 6),
            content_type: text(fields, 7),
            properties: match fields.get(8).and_then(AmqpValue::as_map) {
                Some(properties) => owned_pairs(properties).ok()?,
                None => Vec::new(),
            },
        }),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use oxbus_amqp::codec::AmqpValue;

    use super::read;

    #[test]
    fn what_is_no_rule_is_none() {
        let list = |descriptor: u64, items: Vec<AmqpValue>| AmqpValue::described(descriptor.into(), items.into());
        for value in [
            AmqpValue::Null,
            list(4, vec![]),
            list(4, vec![list(0x13_7000_0001, vec![]), list(5, vec![]), "name".into()]),
            list(4, vec![list(0x13_7000_0007, vec![]), AmqpValue::Null, "name".into()]),
        ] {
            assert_eq!(read(&value), None, "{value:?}");
        }
    }
}
