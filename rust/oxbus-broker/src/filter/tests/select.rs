// SPDX-License-Identifier: Apache-2.0
//! Tests of the copies that subscriptions get, their number and their order.

use std::sync::Arc;

use oxbus_model::ErrorKind;
use oxbus_model::rules::CorrelationSettings;
use proptest::collection::vec;
use proptest::prelude::*;

use super::super::rule::RuleFilter;
use super::super::view::MessageView;
use super::super::{MessageCopy, Rule, RuleFailure, Selection, TopicRules};
use super::*;

fn compiled(settings: &[RuleSettings]) -> Vec<Arc<Rule>> {
    let compile = |rule| Arc::new(Rule::compile(rule).expect("a rule"));
    settings.iter().map(compile).collect()
}

/// Copies as comparable texts.
fn shown(selected: &[Selection]) -> Vec<String> {
    let show = |it: &Selection| match &it.copy {
        MessageCopy::AsSent => format!("{} as sent", it.subscription),
        MessageCopy::Changed(record) => {
            let fields = Fields::decode(record).expect("a message");
            let properties = fields.application_properties.expect("the rule's name");
            format!(
                "{} changed {:?} {:?}",
                it.subscription,
                properties.get("RuleName"),
                &record[..]
            )
        }
        MessageCopy::Failed(failure) => format!("{} failed {failure:?}", it.subscription),
    };
    selected.iter().map(show).collect()
}

fn copies(subscriptions: &[Vec<RuleSettings>]) -> Vec<String> {
    let rules: Vec<_> = subscriptions.iter().map(|rules| compiled(rules)).collect();
    let topic = TopicRules::compile(rules.iter().map(Vec::as_slice));
    let mut out = Vec::new();
    with_order(|order| topic.select(order, &mut out));
    let begins = |text: &String| text.split(" [").next().unwrap_or_default().to_owned();
    shown(&out).iter().map(begins).collect()
}

fn subject_is(subject: &str) -> FilterSettings {
    FilterSettings::Correlation(CorrelationSettings {
        subject: Some(subject.to_owned()),
        ..CorrelationSettings::default()
    })
}

fn property_is(name: &str, value: OwnedValue) -> FilterSettings {
    FilterSettings::Correlation(CorrelationSettings {
        properties: vec![(name.to_owned(), value)],
        ..CorrelationSettings::default()
    })
}

#[test]
fn five_matching_rules_of_which_two_have_actions_make_three_copies_b347_b348_b349() {
    let rules = vec![
        rule("1", FilterSettings::True, None),
        rule("2", sql("color = 'red'"), Some("SET a = 1")),
        rule("3", subject_is("order.created"), None),
        rule("4", subject_is("order.created"), Some("SET a = 2")),
        rule("5", sql("quantity > 1"), None),
        rule("6", FilterSettings::False, Some("SET a = 3")),
    ];
    assert_eq!(
        copies(&[rules]),
        [
            "0 as sent",
            "0 changed Some(Text(\"2\"))",
            "0 changed Some(Text(\"4\"))"
        ]
    );
}

#[test]
fn selected_subscriptions_come_in_order_b343_b346() {
    let one = |filter| vec![rule("r", filter, None)];
    let subscriptions = [
        one(subject_is("order.created")),
        vec![],
        one(FilterSettings::True),
        one(sql("color = 'red'")),
        one(FilterSettings::False),
        one(sql("color = 'blue'")),
        one(sql("missing = 1")),
        one(FilterSettings::True),
        one(subject_is("Order.Created")),
    ];
    assert_eq!(
        copies(&subscriptions),
        ["0 as sent", "2 as sent", "3 as sent", "7 as sent"]
    );
}

#[test]
fn an_error_makes_a_failed_copy_unless_another_rule_of_that_copy_selects_b358() {
    let broken = |name: &str| rule(name, sql("sys.Color = 1"), None);
    let failed = |subscription: usize, name: &str| {
        let detail = format!("the broker has no property `sys.Color`: rule=`{name}`");
        format!("{subscription} failed {:?}", RuleFailure::Filter(detail))
    };
    assert_eq!(
        copies(&[
            vec![broken("a"), broken("b")],
            vec![broken("a"), rule("b", FilterSettings::True, None)],
            vec![broken("a"), rule("b", sql("color = 'red'"), None)],
            vec![broken("a"), rule("b", FilterSettings::True, Some("SET x = 1"))],
            vec![
                rule("a", sql("sys.Color = 1"), Some("SET x = 1")),
                rule("b", FilterSettings::True, None)
            ],
        ]),
        [
            failed(0, "a"),
            "1 as sent".to_owned(),
            "2 as sent".to_owned(),
            failed(3, "a"),
            "3 changed Some(Text(\"b\"))".to_owned(),
            "4 as sent".to_owned(),
            failed(4, "a"),
        ]
    );
}

#[test]
fn an_action_does_not_change_other_copies_b350() {
    let subscriptions = [
        vec![rule("a", FilterSettings::True, Some("SET color = 'blue'"))],
        vec![rule("b", sql("color = 'red'"), None)],
    ];
    assert_eq!(copies(&subscriptions), ["0 changed Some(Text(\"a\"))", "1 as sent"]);
}

#[test]
fn correlation_compares_types_and_case_b356_b357() {
    let text = |text: &str| OwnedValue::Text(text.to_owned());
    for (name, value, expected) in [
        ("color", text("red"), true),
        ("COLOR", text("red"), true),
        ("GRÖßE", OwnedValue::Int(3), true),
        ("color", text("Red"), false),
        ("quantity", OwnedValue::Int(10), true),
        ("quantity", OwnedValue::Double(10.0), true),
        ("quantity", text("10"), false),
        ("price", OwnedValue::Double(2.5), true),
        ("express", OwnedValue::Bool(true), true),
        ("express", OwnedValue::Int(1), false),
        ("note", OwnedValue::Null, true),
        ("missing", OwnedValue::Null, false),
        ("trace", OwnedValue::Uuid([7; 16]), true),
        ("due", OwnedValue::Time(1_000), true),
        ("due", OwnedValue::Int(1_000), false),
        ("raw", OwnedValue::Bytes(b"ab".to_vec()), true),
        ("nan", OwnedValue::Double(f64::NAN), false),
    ] {
        let found = copies(&[vec![rule("r", property_is(name, value.clone()), None)]]);
        assert_eq!(found.len(), usize::from(expected), "{name} {value:?}");
    }
}

#[test]
fn a_correlation_filter_needs_a_condition_and_names_a_property_once_b356() {
    let none = FilterSettings::Correlation(CorrelationSettings::default());
    let twice = FilterSettings::Correlation(CorrelationSettings {
        properties: vec![
            ("a".to_owned(), OwnedValue::Int(1)),
            ("A".to_owned(), OwnedValue::Int(1)),
        ],
        ..CorrelationSettings::default()
    });
    for filter in [none, twice] {
        let error = Rule::compile(&rule("r", filter, None)).expect_err("no filter");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn a_constant_filter_is_known_before_the_first_message_b355() {
    let filter = |text| Rule::compile(&rule("r", sql(text), None)).expect("a rule").filter;
    assert_eq!(filter("1=1"), RuleFilter::All);
    assert_eq!(filter("1=0"), RuleFilter::Nothing);
    assert_eq!(filter("NOT 'a' LIKE 'b%'"), RuleFilter::All);
    assert!(matches!(filter("1/0 = 1"), RuleFilter::Sql(_)));
    assert!(matches!(filter("missing IS NULL"), RuleFilter::Sql(_)));
}

#[test]
fn a_rule_has_a_name_b016_b017() {
    assert!(Rule::compile(&rule("a/b", FilterSettings::True, None)).is_err());
    assert!(Rule::compile(&rule("", FilterSettings::True, None)).is_err());
    assert!(Rule::compile(&rule(&"x".repeat(51), FilterSettings::True, None)).is_err());
    assert_eq!(
        Rule::compile(&rule("$Default", FilterSettings::True, None))
            .expect("a rule")
            .name(),
        "$Default"
    );
}

/// Evaluates every rule on its own, in order.
fn naive(subscriptions: &[Vec<Arc<Rule>>], subject: &RuleInput<'_>) -> Vec<Selection> {
    let mut out = Vec::new();
    let view = MessageView::of(subject);
    for (subscription, rules) in subscriptions.iter().enumerate() {
        let mut shared = None;
        let mut own = Vec::new();
        for rule in rules {
            let selects = match &rule.filter {
                RuleFilter::All => Ok(true),
                RuleFilter::Nothing => Ok(false),
                RuleFilter::Sql(filter) => filter.selects(subject),
                RuleFilter::Correlation(filter) => Ok(filter.selects(&view)),
            };
            let selects = selects.map_err(|text| format!("{text}: rule=`{}`", rule.name()));
            match (selects, &rule.action) {
                (Ok(false), _) => {}
                (Ok(true), None) => shared = Some(MessageCopy::AsSent),
                (Err(text), None) => shared = shared.or(Some(MessageCopy::Failed(RuleFailure::Filter(text)))),
                (Err(text), Some(_)) => own.push(MessageCopy::Failed(RuleFailure::Filter(text))),
                (Ok(true), Some(action)) => own.push(match action.apply(&view, rule.name()) {
                    Ok(record) => MessageCopy::Changed(record),
                    Err(text) => MessageCopy::Failed(RuleFailure::Action(format!("{text}: rule=`{}`", rule.name()))),
                }),
            }
        }
        let copies = shared.into_iter().chain(own);
        out.extend(copies.map(|copy| Selection { subscription, copy }));
    }
    out
}

fn small_text() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["red", "blue", "10", ""]).prop_map(str::to_owned)
}

fn small_value() -> impl Strategy<Value = OwnedValue> {
    prop_oneof![
        Just(OwnedValue::Null),
        any::<bool>().prop_map(OwnedValue::Bool),
        (9i64..12).prop_map(OwnedValue::Int),
        prop::sample::select(vec![9.0, 10.0, 10.5, f64::NAN, -0.0]).prop_map(OwnedValue::Double),
        small_text().prop_map(OwnedValue::Text),
        Just(OwnedValue::Uuid([1; 16])),
        (9i64..11).prop_map(OwnedValue::Time),
    ]
}

fn small_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "A", "b", "ä", "Ä", "c"]).prop_map(str::to_owned)
}

fn filter() -> impl Strategy<Value = FilterSettings> {
    let of_sql = prop::sample::select(vec![
        "a = 'red'",
        "a = 10",
        "b >= 10 OR sys.Label = 'red'",
        "sys.Nothing = 1",
        "a = 'red' AND sys.Nothing = 1",
        "b / 0 = 1",
        "ä IS NULL",
        "1 = 1",
    ]);
    let of_values = (
        prop::option::of(small_text()),
        prop::option::of(small_text()),
        prop::option::weighted(0.2, small_text()),
        vec((small_name(), small_value()), 0..3),
    );
    prop_oneof![
        Just(FilterSettings::True),
        Just(FilterSettings::False),
        of_sql.prop_map(sql),
        of_values.prop_map(|(subject, message_id, to, properties)| {
            FilterSettings::Correlation(CorrelationSettings {
                subject,
                message_id,
                to,
                properties,
                ..CorrelationSettings::default()
            })
        }),
    ]
}

fn action() -> impl Strategy<Value = Option<&'static str>> {
    prop::sample::select(vec![
        None,
        None,
        None,
        Some("SET a = 1"),
        Some("REMOVE b; SET sys.To = a"),
        Some("SET a = 1 / 0"),
    ])
}

proptest! {
    #[test]
    fn the_index_selects_like_the_rules_one_by_one(
        subscriptions in vec(vec((filter(), action()), 0..5), 0..6),
        subject in prop::option::of(small_text()),
        message_id in prop::option::of(small_text()),
        entries in vec((small_name(), small_value()), 0..4),
    ) {
        let subscriptions: Vec<Vec<Arc<Rule>>> = subscriptions
            .into_iter()
            .map(|rules| {
                let named = rules.into_iter().enumerate();
                let compiled = named.map(|(index, (filter, action))| {
                    Rule::compile(&rule(&index.to_string(), filter, action)).map(Arc::new)
                });
                compiled.filter_map(Result::ok).collect()
            })
            .collect();
        let topic = TopicRules::compile(subscriptions.iter().map(Vec::as_slice));
        let entries: Vec<_> = entries.iter().map(|(name, value)| (name.as_str(), value.as_value())).collect();
        let properties = PropertiesBuilder::merge(None, &entries);
        let fields = Fields {
            subject: subject.as_deref(),
            message_id: message_id.as_deref().map(oxbus_model::message::MessageId::Given),
            application_properties: Some(properties.properties()),
            ..Fields::default()
        };
        let arrived = rule_input(&fields);
        let mut out = Vec::new();
        topic.select(&arrived, &mut out);
        prop_assert_eq!(shown(&out), shown(&naive(&subscriptions, &arrived)));
    }
}
