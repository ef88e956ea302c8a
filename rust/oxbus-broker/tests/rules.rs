// SPDX-License-Identifier: Apache-2.0
//! Rules on random inputs: tokens of the language in any order, followed by any bytes.

#[path = "support/rules.rs"]
pub mod support;

use oxbus_broker::filter::Rule;
use oxbus_model::rules::{ActionSettings, CorrelationSettings, FilterSettings, OwnedValue, RuleSettings};
use proptest::collection::vec;
use proptest::prelude::*;

const WORDS: [&str; 46] = [
    "a",
    "B",
    "c",
    "sys.",
    "user.",
    "sys.Label",
    "sys.To",
    "sys.Nothing",
    "[a]",
    "\"b\"",
    "'a'",
    "'",
    "''",
    "1",
    "0",
    "9223372036854775807",
    "2.5",
    "1e3",
    "-",
    "+",
    "*",
    "/",
    "%",
    "(",
    ")",
    ",",
    ";",
    "=",
    "<>",
    "<",
    ">=",
    "AND",
    "OR",
    "NOT",
    "IN",
    "LIKE",
    "ESCAPE",
    "EXISTS",
    "IS",
    "NULL",
    "TRUE",
    "@x",
    "@y",
    "newid()",
    "p(",
    "é",
];

proptest! {
    #[test]
    fn rules_hold_their_invariants(
        starts_as_action: bool,
        words in vec(prop::sample::select(WORDS.to_vec()), 0..20),
        bytes in vec(any::<u8>(), 0..40),
    ) {
        let text = words.join(" ");
        let text = if starts_as_action { format!("SET {text}") } else { text };
        support::rules(&[text.as_bytes(), b"\0", &bytes].concat());
    }
}

/// The examples of the guide are valid.
#[test]
fn every_example_of_the_guide_compiles() {
    let guide = include_str!("../../../docs/guide/rules-language.md");
    let blocks = guide.split("```sql\n").skip(1);
    let examples: Vec<&str> = blocks
        .flat_map(|block| block.split("```").next().unwrap_or_default().lines())
        .collect();
    assert!(examples.len() > 20);
    for example in examples {
        let is_action = example.starts_with("SET") || example.starts_with("REMOVE");
        let (filter, action) = if is_action {
            let action = ActionSettings {
                expression: example.to_owned(),
                parameters: Vec::new(),
            };
            (FilterSettings::True, Some(action))
        } else {
            let filter = FilterSettings::Sql {
                expression: example.to_owned(),
                parameters: Vec::new(),
            };
            (filter, None)
        };
        let settings = RuleSettings {
            name: "example".to_owned(),
            filter,
            action,
            created_at_ms: 0,
        };
        let compiled = Rule::compile(&settings);
        assert!(compiled.is_ok(), "{example}: {compiled:?}");
    }
}

/// The catalog stores rules as JSON.
#[test]
fn settings_survive_a_round_trip_through_json() {
    let values = [
        OwnedValue::Null,
        OwnedValue::Bool(true),
        OwnedValue::Int(i64::MIN),
        OwnedValue::Double(f64::NEG_INFINITY),
        OwnedValue::Double(0.1),
        OwnedValue::Text("é".to_owned()),
        OwnedValue::Bytes(vec![0, 255]),
        OwnedValue::Uuid([9; 16]),
        OwnedValue::Time(-1),
    ];
    let named: Vec<_> = values.into_iter().map(|value| ("name".to_owned(), value)).collect();
    for filter in [
        FilterSettings::True,
        FilterSettings::False,
        FilterSettings::Sql {
            expression: "a = 1".to_owned(),
            parameters: named.clone(),
        },
        FilterSettings::Correlation(CorrelationSettings {
            subject: Some("s".to_owned()),
            properties: named.clone(),
            ..CorrelationSettings::default()
        }),
    ] {
        let settings = RuleSettings {
            name: "rule".to_owned(),
            filter,
            action: Some(ActionSettings {
                expression: "SET a = 1".to_owned(),
                parameters: named.clone(),
            }),
            created_at_ms: 7,
        };
        let text = serde_json::to_string(&settings).expect("JSON");
        let read: RuleSettings = serde_json::from_str(&text).expect("settings");
        assert_eq!(read, settings);
        let with_more = text.replacen('{', "{\"more\":1,", 1);
        assert!(serde_json::from_str::<RuleSettings>(&with_more).is_err());
    }
}
