// SPDX-License-Identifier: Apache-2.0
//! Tests of filters, actions and the index through their public interface. The rule numbers are those of
//! docs/behaviour.md.

mod action;
mod grammar;
mod random;
mod select;
mod values;

use oxbus_model::message::{Fields, PropertiesBuilder, Value};
use oxbus_model::rules::{ActionSettings, FilterSettings, OwnedValue, RuleSettings};
use oxbus_model::{Counter, PartitionId, SequenceNumber, Timestamp};

use super::{RuleInput, SqlFilter};

/// A message with these fields as it arrives at a topic.
fn rule_input<'a>(fields: &'a Fields<'a>) -> RuleInput<'a> {
    RuleInput {
        fields,
        enqueued_at: Timestamp(1_700_000_000_000),
        enqueued_number: Some(SequenceNumber::new(PartitionId(2), Counter(7))),
        expires_at: Timestamp::NEVER,
        size_bytes: 120,
        delivery_count: 0,
    }
}

fn properties(entries: &[(&str, Value<'_>)]) -> PropertiesBuilder {
    let mut builder = PropertiesBuilder::default();
    for (name, value) in entries {
        builder.push(name, *value);
    }
    builder
}

/// Calls `see` with the message that the tables use.
fn with_order<T>(see: impl FnOnce(&RuleInput<'_>) -> T) -> T {
    let properties = properties(&[
        ("Color", Value::Text("red")),
        ("quantity", Value::Int(10)),
        ("price", Value::Double(2.5)),
        ("express", Value::Bool(true)),
        ("note", Value::Null),
        ("Name With ]", Value::Text("x")),
        ("größe", Value::Int(3)),
        ("pattern", Value::Text("r%")),
        ("key", Value::Text("colOR")),
        ("raw", Value::Bytes(b"ab")),
        ("trace", Value::Uuid([7; 16])),
        ("due", Value::Time(1_000)),
        ("smallest", Value::Int(i64::MIN)),
        ("and", Value::Int(1)),
        ("nan", Value::Double(f64::NAN)),
    ]);
    let fields = Fields {
        subject: Some("order.created"),
        correlation_id: Some("high"),
        session_id: Some("customer-1"),
        application_properties: Some(properties.properties()),
        ..Fields::default()
    };
    see(&rule_input(&fields))
}

fn parameters() -> Vec<(String, OwnedValue)> {
    vec![
        ("@color".to_owned(), OwnedValue::Text("red".to_owned())),
        ("limit".to_owned(), OwnedValue::Int(5)),
        ("@due".to_owned(), OwnedValue::Time(1_000)),
        ("trace".to_owned(), OwnedValue::Uuid([7; 16])),
        ("raw".to_owned(), OwnedValue::Bytes(b"ab".to_vec())),
    ]
}

/// The result of an expression: true, false or unknown (`None`), or the text of an evaluation error.
fn answer(expression: &str) -> Result<Option<bool>, String> {
    let read = |text: &str| SqlFilter::parse(text, &parameters()).unwrap_or_else(|error| panic!("{text}: {error}"));
    let (filter, opposite) = (read(expression), read(&format!("NOT ({expression})")));
    with_order(|order| {
        Ok(match (filter.selects(order)?, opposite.selects(order)?) {
            (false, false) => None,
            (holds, opposite) => {
                assert_ne!(holds, opposite, "{expression}");
                Some(holds)
            }
        })
    })
}

const TRUE: Option<bool> = Some(true);
const FALSE: Option<bool> = Some(false);
const UNKNOWN: Option<bool> = None;

fn check_answers(table: &[(&str, Option<bool>)]) {
    for (expression, expected) in table {
        assert_eq!(answer(expression), Ok(*expected), "{expression}");
    }
}

fn sql(expression: &str) -> FilterSettings {
    FilterSettings::Sql {
        expression: expression.to_owned(),
        parameters: parameters(),
    }
}

fn rule(name: &str, filter: FilterSettings, action: Option<&str>) -> RuleSettings {
    RuleSettings {
        name: name.to_owned(),
        filter,
        action: action.map(|expression| ActionSettings {
            expression: expression.to_owned(),
            parameters: parameters(),
        }),
        created_at_ms: 0,
    }
}
