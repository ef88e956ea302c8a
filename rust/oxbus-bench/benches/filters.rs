// SPDX-License-Identifier: Apache-2.0
//! Time that the rules of a topic take per message.
//!
//! Case ids are `select/RULES/SHAPE` and `evaluate/KIND/SHAPE`; throughput is in messages per second.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use oxbus_broker::filter::{Rule, RuleInput, SqlFilter, TopicRules};
use oxbus_model::Timestamp;
use oxbus_model::message::{Fields, PropertiesBuilder, Value};
use oxbus_model::rules::{CorrelationSettings, FilterSettings, OwnedValue, RuleSettings};

const TYPICAL: &str = "sys.Label LIKE 'order.%' AND color IN ('red', 'blue') AND quantity > 5";

fn rule(filter: FilterSettings) -> Arc<Rule> {
    let settings = RuleSettings {
        name: "rule".to_owned(),
        filter,
        action: None,
        created_at_ms: 0,
    };
    Arc::new(Rule::compile(&settings).expect("compiles"))
}

/// A correlation filter on the first `properties` properties, and on the subject when `has_subject`.
fn correlation(number: usize, properties: usize, has_subject: bool) -> FilterSettings {
    let names = ["customer", "region", "color"];
    let value = |name: &str| OwnedValue::Text(format!("{name}-{number}"));
    FilterSettings::Correlation(CorrelationSettings {
        subject: has_subject.then(|| format!("order-{number}")),
        properties: names[..properties]
            .iter()
            .map(|name| ((*name).to_owned(), value(name)))
            .collect(),
        ..CorrelationSettings::default()
    })
}

fn sql(expression: String) -> FilterSettings {
    FilterSettings::Sql {
        expression,
        parameters: Vec::new(),
    }
}

fn topic(filters: impl Iterator<Item = FilterSettings>) -> TopicRules {
    let subscriptions: Vec<[Arc<Rule>; 1]> = filters.map(|filter| [rule(filter)]).collect();
    TopicRules::compile(subscriptions.iter().map(<[_; 1]>::as_slice))
}

/// Calls `use_message` with the message of all cases.
fn with_message<T>(use_message: impl FnOnce(&RuleInput<'_>) -> T) -> T {
    let mut properties = PropertiesBuilder::default();
    properties.push("customer", Value::Text("customer-4711"));
    properties.push("region", Value::Text("region-4711"));
    properties.push("color", Value::Text("red"));
    properties.push("quantity", Value::Int(10));
    let fields = Fields {
        subject: Some("order-4711"),
        correlation_id: Some("high"),
        application_properties: Some(properties.properties()),
        ..Fields::default()
    };
    use_message(&RuleInput {
        fields: &fields,
        enqueued_at: Timestamp(1_700_000_000_000),
        enqueued_number: None,
        expires_at: Timestamp::NEVER,
        size_bytes: fields.encoded_len(),
        delivery_count: 0,
    })
}

fn select(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("select");
    group.throughput(Throughput::Elements(1));
    let mixed = |number: usize| correlation(number, number % 4, number.is_multiple_of(2));
    let cases = [
        ("true/subscriptions_1", topic(std::iter::once(FilterSettings::True)), 1),
        (
            "true/subscriptions_100",
            topic((0..100).map(|_| FilterSettings::True)),
            100,
        ),
        (
            "correlation_1/subject",
            topic((4_711..4_712).map(|number| correlation(number, 0, true))),
            1,
        ),
        (
            "correlation_10000/subject",
            topic((0..10_000).map(|number| correlation(number, 0, true))),
            1,
        ),
        (
            "correlation_10000/property",
            topic((0..10_000).map(|number| correlation(number, 1, false))),
            1,
        ),
        (
            "correlation_10000/subject_and_2_properties",
            topic((0..10_000).map(|number| correlation(number, 2, true))),
            1,
        ),
        (
            "correlation_10000/mixed_4_sets_of_fields",
            topic((0..10_000).map(mixed)),
            0,
        ),
        (
            "sql_100/distinct",
            topic((0..100).map(|number| sql(format!("quantity = {number}")))),
            1,
        ),
        (
            "sql_100/equal",
            topic((0..100).map(|_| sql("quantity > 9".to_owned()))),
            100,
        ),
    ];
    for (name, topic, expected) in cases {
        group.bench_function(name, |bencher| {
            with_message(|message| {
                let mut out = Vec::new();
                topic.select(message, &mut out);
                assert_eq!(out.len(), expected, "{name}");
                bencher.iter(|| {
                    out.clear();
                    topic.select(black_box(message), &mut out);
                    out.len()
                });
            });
        });
    }
    group.finish();
}

fn evaluate(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("evaluate");
    group.throughput(Throughput::Elements(1));
    let like = format!("sys.Label LIKE '{}'", "%o%r%d%e%r".to_owned() + "%-%");
    for (name, expression, expected) in [
        ("sql/typical", TYPICAL.replace("order.", "order-"), true),
        ("sql/equal", "color = 'red'".to_owned(), true),
        ("sql/like", like, true),
    ] {
        group.bench_function(name, |bencher| {
            let filter = SqlFilter::parse(&expression, &[]).expect("parses");
            with_message(|message| {
                assert_eq!(filter.selects(message), Ok(expected), "{name}");
                bencher.iter(|| filter.selects(black_box(message)));
            });
        });
    }
    group.bench_function("parse/typical", |bencher| {
        bencher.iter(|| SqlFilter::parse(black_box(TYPICAL), &[]));
    });
    group.finish();
}

criterion_group!(benches, select, evaluate);
criterion_main!(benches);
