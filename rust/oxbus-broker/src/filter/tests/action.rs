// SPDX-License-Identifier: Apache-2.0
//! Tests of SQL actions: SET and REMOVE.

use std::sync::Arc;

use super::super::{MessageCopy, Rule, RuleFailure, TopicRules};
use super::*;

/// The copy of the order message that an action makes.
fn copy_after(action: &str) -> MessageCopy {
    let rule = Rule::compile(&rule("r", FilterSettings::True, Some(action)));
    let rules = [Arc::new(rule.unwrap_or_else(|error| panic!("{action}: {error}")))];
    let topic = TopicRules::compile([&rules[..]].into_iter());
    let mut out = Vec::new();
    with_order(|order| topic.select(order, &mut out));
    assert_eq!(out.len(), 1);
    out.remove(0).copy
}

/// Checks that filters select the copy.
fn check_copy(action: &str, table: &[&str]) {
    let MessageCopy::Changed(record) = copy_after(action) else {
        panic!("{action} fails");
    };
    let fields = Fields::decode(&record).expect("a message");
    for expression in table {
        let filter = SqlFilter::parse(expression, &parameters()).expect("a filter");
        assert_eq!(filter.selects(&rule_input(&fields)), Ok(true), "{action}: {expression}");
    }
}

fn error_text(action: &str) -> String {
    let error = Rule::compile(&rule("r", FilterSettings::True, Some(action))).expect_err(action);
    error.detail().to_owned()
}

#[test]
fn statements_run_in_order_b376() {
    let expected = ["a = 1", "b = 2", "color IS NULL", "NOT EXISTS(color)", "RuleName = 'r'"];
    for action in [
        "SET a = 1; SET b = a + 1; REMOVE color;",
        "SET a = 1, SET b = a + 1, REMOVE color",
        "set a = 1 set b = a + 1 remove user.Color",
        "REMOVE [COLOR]; SET [a] = @limit - 4; SET user.b = 2",
    ] {
        check_copy(action, &expected);
    }
}

#[test]
fn set_keeps_the_type_of_a_property_where_it_can_b377() {
    check_copy("SET quantity = '12'", &["quantity = 12"]);
    check_copy("SET quantity = 12.0", &["quantity / 5 = 2"]);
    check_copy("SET quantity = 12.5", &["quantity = 12.5"]);
    check_copy("SET quantity = 'many'", &["quantity = 'many'"]);
    check_copy("SET price = 3", &["price / 2 = 1.5"]);
    check_copy("SET price = '3.5'", &["price = 3.5"]);
    check_copy("SET color = 12", &["color = '12'"]);
    check_copy("SET color = TRUE", &["color = 'True'"]);
    check_copy("SET color = newid()", &["color LIKE '%-%-%-%-%'"]);
    check_copy("SET express = 'FALSE'", &["express = FALSE"]);
    check_copy(
        "SET trace = '07070707-0707-0707-0707-070707070708'",
        &["trace <> @trace", "'' + trace LIKE '%08'"],
    );
    check_copy("SET note = 1", &["note = 1"]);
    check_copy("SET Quantity = NULL", &["quantity IS NULL", "EXISTS(quantity)"]);
    check_copy("SET copy = missing", &["copy IS NULL", "EXISTS(copy)"]);
    check_copy("REMOVE missing", &["color = 'red'"]);
}

#[test]
fn fields_of_the_broker_are_set_and_removed_b378() {
    check_copy(
        "SET sys.To = 'x'; SET sys.Label = 'y'; SET sys.CorrelationId = quantity; SET sys.MessageId = 'm'",
        &[
            "sys.To = 'x'",
            "sys.Subject = 'y'",
            "sys.CorrelationId = '10'",
            "sys.MessageId = 'm'",
        ],
    );
    check_copy(
        "SET sys.ReplyTo = 'a'; SET sys.ReplyToSessionId = 'b'; SET sys.ContentType = 'c'; SET sys.Subject = 'd'",
        &[
            "sys.ReplyTo = 'a'",
            "sys.ReplyToSessionId = 'b'",
            "sys.ContentType = 'c'",
            "sys.Label = 'd'",
        ],
    );
    check_copy(
        "REMOVE sys.Label; SET sys.CorrelationId = NULL",
        &["sys.Label IS NULL", "sys.CorrelationId IS NULL"],
    );
    check_copy("SET sys.To = 'a'; SET sys.To = sys.To + 'b'", &["sys.To = 'ab'"]);
    check_copy("SET sys.SessionId = 'other'", &["sys.SessionId = 'other'"]);
}

#[test]
fn setting_the_session_id_sets_the_partition_key_b064() {
    let rule = Rule::compile(&rule("r", FilterSettings::True, Some("SET sys.SessionId = 'b'"))).expect("a rule");
    let rules = [Arc::new(rule)];
    let fields = Fields {
        session_id: Some("a"),
        partition_key: Some("a"),
        body: oxbus_model::message::Body::Data(b"body"),
        ..Fields::default()
    };
    let mut out = Vec::new();
    TopicRules::compile([&rules[..]].into_iter()).select(&rule_input(&fields), &mut out);
    let MessageCopy::Changed(record) = &out[0].copy else {
        panic!("it does not fail")
    };
    let copy = Fields::decode(record).expect("a message");
    assert_eq!(copy.key().expect("equal keys"), Some("b"));
    assert_eq!(copy.body, fields.body);
}

#[test]
fn an_action_fails_as_a_whole_b378_b381() {
    for (action, expected) in [
        ("SET sys.Color = 1", "the broker has no property `sys.Color`: rule=`r`"),
        ("REMOVE sys.Color", "the broker has no property `sys.Color`: rule=`r`"),
        (
            "SET a = 1; SET b = sys.Color",
            "the broker has no property `sys.Color`: rule=`r`",
        ),
        ("SET a = quantity / 0", "10 is divided by zero: rule=`r`"),
        ("SET sys.To = raw", "sys.To takes a text, not bytes: rule=`r`"),
    ] {
        let MessageCopy::Failed(RuleFailure::Action(failure)) = copy_after(action) else {
            panic!("{action} does not fail");
        };
        assert_eq!(failure, expected);
    }
    let long = format!("SET sys.SessionId = '{}'", "x".repeat(129));
    assert!(matches!(copy_after(&long), MessageCopy::Failed(RuleFailure::Action(_))));
    let doubling = "SET color = color + color;".repeat(32);
    assert!(matches!(
        copy_after(&doubling),
        MessageCopy::Failed(RuleFailure::Action(_))
    ));
}

#[test]
fn an_invalid_action_is_rejected_b043_b359() {
    for (action, expected) in [
        ("", "column 1: expected SET or REMOVE, found the end"),
        (
            "SET",
            "column 4: expected a property, a constant or a parenthesis, found the end",
        ),
        ("SET a", "column 6: expected `=`, found the end"),
        ("SET 1 = 1", "column 5: expected the name of a property"),
        ("SET p('a') = 1", "column 5: expected the name of a property"),
        ("SET a = b = 1", "column 11: expected SET or REMOVE, found `=`"),
        ("SET a = (b = 1)", "column 9: expected a value, found a condition"),
        ("SET a = 1,", "column 11: expected SET or REMOVE, found the end"),
        ("SET a = 1;;", "column 11: expected SET or REMOVE, found `;`"),
        (
            "REMOVE sys.SequenceNumber",
            "column 8: expected a property that an action may write, found `sys.SequenceNumber`",
        ),
        ("color = 'red'", "column 1: expected SET or REMOVE, found `color`"),
    ] {
        assert_eq!(
            error_text(action),
            format!("invalid action: {expected}; rule=`r`"),
            "{action}"
        );
    }
    assert!(Rule::compile(&rule("r", FilterSettings::True, Some(&"SET a=1;".repeat(32)))).is_ok());
    assert!(error_text(&"SET a=1;".repeat(33)).contains("at most 32 expressions"));
    assert!(error_text(&format!("SET a = '{}'", "x".repeat(1_020))).contains("at most 1024 characters"));
}
