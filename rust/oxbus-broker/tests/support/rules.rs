// SPDX-License-Identifier: Apache-2.0
//! Invariants of rules for any text and any message. The fuzz target runs [`rules`] on its own inputs, `tests/rules.rs`
//! on random ones.
//!
//! An input is a text up to its first zero byte, followed by bytes from which the properties of a message are made:
//! - no text makes the parser or an evaluation panic;
//! - a printed filter parses to the same filter and gives the same result;
//! - a topic with only this rule gives the result of the filter.

use std::sync::Arc;

use oxbus_broker::filter::{MessageCopy, Rule, RuleFailure, RuleInput, SqlFilter, TopicRules};
use oxbus_model::Timestamp;
use oxbus_model::caps::FILTER_TEXT_CHARS_MAX;
use oxbus_model::message::{Fields, PropertiesBuilder, Value};
use oxbus_model::rules::{ActionSettings, FilterSettings, OwnedValue, RuleSettings};

/// Checks the invariants for one input.
pub fn rules(input: &[u8]) {
    let (text, rest) = match input.iter().position(|&byte| byte == 0) {
        Some(end) => (&input[..end], &input[end + 1..]),
        None => (input, &[][..]),
    };
    let text = String::from_utf8_lossy(text);
    let subject_text = String::from_utf8_lossy(rest);
    let properties = properties(rest, &subject_text);
    let fields = Fields {
        subject: Some(&subject_text),
        application_properties: Some(properties.properties()),
        ..Fields::default()
    };
    let subject = RuleInput {
        fields: &fields,
        enqueued_at: Timestamp(1_700_000_000_000),
        enqueued_number: None,
        expires_at: Timestamp::NEVER,
        size_bytes: fields.encoded_len(),
        delivery_count: 0,
    };
    if let Ok(filter) = SqlFilter::parse(&text, &parameters()) {
        check_filter(&filter, &text, &subject);
    }
    check_action(&text, &subject);
}

fn parameters() -> Vec<(String, OwnedValue)> {
    vec![
        ("x".to_owned(), OwnedValue::Int(7)),
        ("y".to_owned(), OwnedValue::Text("a%".to_owned())),
    ]
}

/// Properties `a`, `b` and `c` with types and values from the bytes.
fn properties(bytes: &[u8], text: &str) -> PropertiesBuilder {
    let mut builder = PropertiesBuilder::default();
    for (name, chunk) in ["a", "b", "c"].into_iter().zip(bytes.chunks(9)) {
        let mut eight = [0; 8];
        eight[..chunk.len() - 1].copy_from_slice(&chunk[1..]);
        let value = match chunk[0] % 8 {
            0 => Value::Null,
            1 => Value::Bool(chunk[0] > 127),
            2 => Value::Int(i64::from_le_bytes(eight)),
            3 => Value::Double(f64::from_le_bytes(eight)),
            4 => Value::Time(i64::from_le_bytes(eight)),
            5 => Value::Bytes(chunk),
            6 => Value::Uuid([chunk[0]; 16]),
            _ => Value::Text(text),
        };
        builder.push(name, value);
    }
    builder
}

fn check_filter(filter: &SqlFilter, text: &str, subject: &RuleInput<'_>) {
    let answer = filter.selects(subject);
    // The result of `newid()` differs each time.
    let is_steady = !text.to_ascii_lowercase().contains("newid");
    let shown = filter.to_string();
    if shown.chars().count() <= FILTER_TEXT_CHARS_MAX {
        let read = SqlFilter::parse(&shown, &[]).unwrap_or_else(|error| panic!("{shown}: {error}"));
        assert_eq!(&read, filter, "{shown}");
        assert!(!is_steady || read.selects(subject) == answer, "{shown}");
    }
    let filter = FilterSettings::Sql {
        expression: text.to_owned(),
        parameters: parameters(),
    };
    let copies = copies(filter, None, subject).expect("the filter was read before");
    let same = match (&answer, copies.first()) {
        (Ok(selects), None) => !selects,
        (Ok(selects), Some(MessageCopy::AsSent)) => *selects,
        (Err(_), Some(MessageCopy::Failed(RuleFailure::Filter(_)))) => true,
        _ => false,
    };
    assert!(!is_steady || same, "{answer:?} {copies:?}");
}

fn check_action(text: &str, subject: &RuleInput<'_>) {
    let action = ActionSettings {
        expression: text.to_owned(),
        parameters: parameters(),
    };
    let Some(copies) = copies(FilterSettings::True, Some(action), subject) else {
        return;
    };
    match &copies[..] {
        [MessageCopy::Changed(record)] => {
            let copy = Fields::decode(record).expect("a copy is a message");
            let properties = copy.application_properties.expect("the name of the rule");
            assert_eq!(properties.get("RuleName"), Some(Value::Text("r")));
            assert_eq!(copy.body, subject.fields.body);
        }
        [MessageCopy::Failed(RuleFailure::Action(_))] => {}
        other => panic!("one copy of the action: {other:?}"),
    }
}

/// The copies of a topic with this rule; `None` when the rule is invalid.
fn copies(filter: FilterSettings, action: Option<ActionSettings>, subject: &RuleInput<'_>) -> Option<Vec<MessageCopy>> {
    let settings = RuleSettings {
        name: "r".to_owned(),
        filter,
        action,
        created_at_ms: 0,
    };
    let rules = [Arc::new(Rule::compile(&settings).ok()?)];
    let mut out = Vec::new();
    TopicRules::compile([&rules[..]].into_iter()).select(subject, &mut out);
    Some(out.into_iter().map(|selected| selected.copy).collect())
}
