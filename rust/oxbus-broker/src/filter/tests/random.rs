// SPDX-License-Identifier: Apache-2.0
//! Tests with random trees and texts.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::like::Pattern;
use super::super::operand::{Arithmetic, Comparison};
use super::super::sql_tree::{Expression, LikePattern, Negation, Predicate, Property};
use super::super::system_property::SystemProperty;
use super::*;

fn property() -> impl Strategy<Value = Property> {
    prop_oneof![
        "[a-c\\]\" é]{1,3}".prop_map(Property::User),
        prop::sample::select(SystemProperty::ALL.map(|(_, property)| property).to_vec()).prop_map(Property::System),
        "x[a-z\\]]{0,3}".prop_map(Property::UnknownSystem),
    ]
}

fn constant() -> impl Strategy<Value = OwnedValue> {
    prop_oneof![
        Just(OwnedValue::Null),
        any::<bool>().prop_map(OwnedValue::Bool),
        any::<i64>().prop_map(OwnedValue::Int),
        Just(OwnedValue::Int(i64::MIN)),
        (-1e300f64..1e300).prop_map(OwnedValue::Double),
        "['a%é]{0,5}".prop_map(OwnedValue::Text),
    ]
}

fn operators(products: bool) -> Vec<Arithmetic> {
    if products {
        vec![Arithmetic::Multiply, Arithmetic::Divide, Arithmetic::Remainder]
    } else {
        vec![Arithmetic::Add, Arithmetic::Subtract]
    }
}

fn expression() -> impl Strategy<Value = Expression> {
    let leaf = prop_oneof![
        constant().prop_map(Expression::Constant),
        property().prop_map(Expression::Property),
        Just(Expression::NewId),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let chain = |products: bool| {
            let operator = prop::sample::select(operators(products));
            (inner.clone(), vec((operator, inner.clone()), 1..3))
                .prop_map(|(first, rest)| Expression::Chain(Box::new(first), rest))
        };
        prop_oneof![
            inner.clone().prop_map(|it| Expression::Plus(Box::new(it))),
            inner.clone().prop_map(|it| Expression::Minus(Box::new(it))),
            inner
                .clone()
                .prop_map(|it| Expression::Property(Property::Computed(Box::new(it)))),
            chain(true),
            chain(false),
        ]
    })
}

fn negation() -> impl Strategy<Value = Negation> {
    prop::sample::select(vec![Negation::Plain, Negation::Negated])
}

fn like_pattern() -> impl Strategy<Value = LikePattern> {
    let fixed = ("[a%_']{0,5}", prop::option::of(prop::sample::select(vec!['!', '\''])));
    let is_text = |it: &Expression| matches!(it, Expression::Constant(OwnedValue::Text(_)));
    prop_oneof![
        fixed.prop_filter_map("ends with its escape", |(text, escape)| {
            let pattern = Pattern::read(&text, escape).ok()?;
            Some(LikePattern::Fixed(pattern, text, escape))
        }),
        (expression(), prop::option::of(expression()))
            .prop_filter("a constant", move |(pattern, escape)| {
                !is_text(pattern) && !escape.as_ref().is_some_and(is_text)
            })
            .prop_map(|(pattern, escape)| LikePattern::Computed(pattern, escape)),
    ]
}

fn comparison() -> impl Strategy<Value = Comparison> {
    prop::sample::select(vec![
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
    ])
}

fn predicate() -> impl Strategy<Value = Predicate> {
    let leaf = prop_oneof![
        (expression(), comparison(), expression()).prop_map(|(a, it, b)| Predicate::Compare(a, it, b)),
        (property(), negation()).prop_map(|(it, negation)| Predicate::Null(it, negation)),
        (expression(), vec(expression(), 1..3), negation()).prop_map(|(it, list, no)| Predicate::In(it, list, no)),
        (expression(), like_pattern(), negation()).prop_map(|(it, pattern, no)| Predicate::Like(
            it,
            Box::new(pattern),
            no
        )),
        property().prop_map(Predicate::Exists),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 2..4).prop_map(Predicate::All),
            vec(inner.clone(), 2..4).prop_map(Predicate::Any),
            inner.prop_map(|it| Predicate::Not(Box::new(it))),
        ]
    })
}

/// Tokens of filters and actions, so that random texts get past the first token.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "Color",
        "sys.",
        "user.",
        "sys.Label",
        "[x]",
        "\"y\"",
        "'text'",
        "'",
        "1",
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
        "@limit",
        "newid()",
        "p(",
        "SET",
        "REMOVE",
        "é",
        "\u{0}",
    ]);
    vec(piece, 0..24).prop_map(|pieces| pieces.join(" "))
}

/// Parses the text as a filter and as an action, and evaluates each that parses.
fn try_all(text: &str) {
    if let Ok(filter) = SqlFilter::parse(text, &parameters()) {
        let _ = with_order(|order| filter.selects(order));
        let shown = filter.to_string();
        if shown.chars().count() <= oxbus_model::caps::FILTER_TEXT_CHARS_MAX && !shown.contains("@<") {
            assert_eq!(SqlFilter::parse(&shown, &[]).ok().as_ref(), Some(&filter), "{text}");
        }
    }
    if let Ok(rule) = super::super::Rule::compile(&rule("r", FilterSettings::True, Some(text))) {
        let rules = [std::sync::Arc::new(rule)];
        let topic = super::super::TopicRules::compile([&rules[..]].into_iter());
        let mut out = Vec::new();
        with_order(|order| topic.select(order, &mut out));
        assert_eq!(out.len(), 1);
    }
}

proptest! {
    #[test]
    fn any_text_parses_or_is_rejected(text in ".{0,60}") {
        try_all(&text);
    }

    #[test]
    fn any_sequence_of_tokens_parses_or_is_rejected(text in pieces()) {
        try_all(&text);
    }

    #[test]
    fn a_printed_tree_parses_to_the_same_tree(tree in predicate()) {
        let text = tree.to_string();
        prop_assume!(text.chars().count() <= oxbus_model::caps::FILTER_TEXT_CHARS_MAX);
        let read = SqlFilter::parse(&text, &[]);
        prop_assert!(read.is_ok(), "{}: {:?}", text, read);
        prop_assert_eq!(read.expect("just asked").predicate().clone(), tree, "{}", text);
    }
}
