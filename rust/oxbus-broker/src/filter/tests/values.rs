// SPDX-License-Identifier: Apache-2.0
//! Tests of evaluation: three-valued logic, types, functions.

use super::*;

#[test]
fn and_and_or_follow_their_truth_tables_b370() {
    let value = |text: char| match text {
        'T' => "1=1",
        'F' => "1=2",
        _ => "missing=1",
    };
    let logic = |text: char| match text {
        'T' => TRUE,
        'F' => FALSE,
        _ => UNKNOWN,
    };
    for (left, right, and, or) in [
        ('T', 'T', 'T', 'T'),
        ('T', 'F', 'F', 'T'),
        ('T', 'U', 'U', 'T'),
        ('F', 'T', 'F', 'T'),
        ('F', 'F', 'F', 'F'),
        ('F', 'U', 'F', 'U'),
        ('U', 'T', 'U', 'T'),
        ('U', 'F', 'F', 'U'),
        ('U', 'U', 'U', 'U'),
    ] {
        let both = |word: &str| answer(&format!("{} {word} {}", value(left), value(right)));
        assert_eq!(both("AND"), Ok(logic(and)), "{left} AND {right}");
        assert_eq!(both("OR"), Ok(logic(or)), "{left} OR {right}");
    }
}

#[test]
fn missing_and_null_are_unknown_b370_b375() {
    check_answers(&[
        ("missing = 1", UNKNOWN),
        ("missing <> 1", UNKNOWN),
        ("note = NULL", UNKNOWN),
        ("missing + 1 = 1", UNKNOWN),
        ("'a' + missing = 'a'", UNKNOWN),
        ("-missing = 1", UNKNOWN),
        ("missing LIKE '%'", UNKNOWN),
        ("missing NOT LIKE '%'", UNKNOWN),
        ("color LIKE missing", UNKNOWN),
        ("color LIKE 'r%' ESCAPE missing", UNKNOWN),
        ("missing IN (1, 2)", UNKNOWN),
        ("missing NOT IN (1, 2)", UNKNOWN),
        ("quantity IN (missing, 10)", TRUE),
        ("quantity IN (missing, 11)", FALSE),
        ("quantity NOT IN (missing, 11)", TRUE),
        ("sys.To NOT IN ('a', 'b')", UNKNOWN),
        ("sys.To = 'a'", UNKNOWN),
    ]);
}

#[test]
fn is_null_and_exists_b371() {
    check_answers(&[
        ("missing IS NULL", TRUE),
        ("missing IS NOT NULL", FALSE),
        ("note IS NULL", TRUE),
        ("color IS NULL", FALSE),
        ("sys.To IS NULL", TRUE),
        ("sys.Label IS NOT NULL", TRUE),
        ("EXISTS(note)", TRUE),
        ("EXISTS(missing)", FALSE),
        ("EXISTS(sys.To)", FALSE),
        ("EXISTS(sys.Label)", TRUE),
        ("EXISTS(property('color'))", TRUE),
        ("p('missing') IS NULL", TRUE),
    ]);
}

#[test]
fn an_unknown_system_property_is_an_error_b372() {
    for expression in [
        "sys.Color = 1",
        "sys.Color IS NULL",
        "EXISTS(sys.Color)",
        "1 + sys.Color = 1",
    ] {
        assert_eq!(
            answer(expression),
            Err("the broker has no property `sys.Color`".to_owned()),
            "{expression}"
        );
    }
    // Parts that cannot change the result are not evaluated.
    check_answers(&[("1=2 AND sys.Color = 1", FALSE), ("1=1 OR sys.Color = 1", TRUE)]);
}

#[test]
fn numbers_promote_as_in_c_sharp_b373() {
    check_answers(&[
        ("7 / 2 = 3", TRUE),
        ("-7 / 2 = -3", TRUE),
        ("-7 % 3 = -1", TRUE),
        ("7 / 2.0 = 3.5", TRUE),
        ("7.5 % 2 = 1.5", TRUE),
        ("1 = 1.0", TRUE),
        ("quantity = 10.0", TRUE),
        ("quantity > price", TRUE),
        ("quantity * price = 25.0", TRUE),
        // Both sides convert to the same double.
        ("9007199254740993 = 9007199254740992.0", TRUE),
        // Arithmetic is unchecked.
        ("9223372036854775807 + 1 = smallest", TRUE),
        ("-smallest = smallest", TRUE),
        ("1.0 / 0 > 9e99", TRUE),
        ("nan = nan", FALSE),
        ("nan <> nan", TRUE),
        ("nan < 1", FALSE),
    ]);
    assert_eq!(answer("quantity / 0 = 1"), Err("10 is divided by zero".to_owned()));
    assert_eq!(answer("quantity % 0 = 1"), Err("10 is divided by zero".to_owned()));
    assert!(answer("smallest / -1 = 1").is_err());
}

#[test]
fn types_that_do_not_compare_are_unknown() {
    check_answers(&[
        ("color = 1", UNKNOWN),
        ("color <> 1", UNKNOWN),
        ("color > 1", UNKNOWN),
        ("express = 1", UNKNOWN),
        ("express > FALSE", UNKNOWN),
        ("express <> FALSE", TRUE),
        ("trace = 'x'", UNKNOWN),
        ("trace < newid()", UNKNOWN),
        ("color * 2 = 4", UNKNOWN),
        ("express + 1 = 2", UNKNOWN),
        ("-color = 1", UNKNOWN),
        ("+color = 'red'", UNKNOWN),
        ("quantity LIKE '1%'", UNKNOWN),
        ("color LIKE 1", UNKNOWN),
        ("color IN (1, 'red')", TRUE),
        ("color IN (1, 2)", FALSE),
        ("property(1) = 1", UNKNOWN),
    ]);
}

#[test]
fn texts_compare_by_characters_and_join_with_anything() {
    check_answers(&[
        ("color = 'RED'", FALSE),
        ("'B' < 'a'", TRUE),
        ("color >= 'rea'", TRUE),
        ("color + '-' + quantity = 'red-10'", TRUE),
        ("quantity + color = '10red'", TRUE),
        // The evaluation is from left to right.
        ("1 + 2 + 'a' = '3a'", TRUE),
        ("'a' + 1 + 2 = 'a12'", TRUE),
        ("'' + express = 'True'", TRUE),
        ("'' + price = '2.5'", TRUE),
        ("'' + raw = 'ab'", UNKNOWN),
        ("'' + trace = '07070707-0707-0707-0707-070707070707'", TRUE),
        ("'' + due = '1970-01-01T00:00:01.000Z'", TRUE),
    ]);
}

#[test]
fn like_takes_computed_patterns_b369() {
    check_answers(&[
        ("color LIKE pattern", TRUE),
        ("color LIKE pattern ESCAPE 'r'", FALSE),
        ("'r%' LIKE 'r!%' ESCAPE '!'", TRUE),
        ("sys.Label LIKE 'order.%'", TRUE),
        ("sys.Label LIKE '%bus%'", FALSE),
        ("'a%' LIKE 'a' + '_'", TRUE),
    ]);
    assert!(answer("color LIKE pattern ESCAPE '%'").is_err());
    assert!(answer("color LIKE pattern ESCAPE 'xy' + ''").is_err());
    assert!(answer("color LIKE pattern ESCAPE 1").is_err());
}

#[test]
fn functions_b368() {
    check_answers(&[
        ("property('color') = 'red'", TRUE),
        ("p('Name' + ' with ]') = 'x'", TRUE),
        ("p(key) = 'red'", TRUE),
        ("PROPERTY(P('KEY')) = 'red'", TRUE),
        ("newid() <> newid()", TRUE),
        ("'' + newid() LIKE '________-____-4___-____-____________'", TRUE),
    ]);
}

#[test]
fn system_properties_are_those_of_the_message_b364() {
    check_answers(&[
        ("sys.CorrelationId = 'high'", TRUE),
        ("sys.SessionId LIKE 'customer-%'", TRUE),
        ("sys.DeliveryCount = 0", TRUE),
        ("sys.Size = 120", TRUE),
        ("sys.State = 0", TRUE),
        ("sys.SequenceNumber = 562949953421319", TRUE),
        ("sys.EnqueuedSequenceNumber = sys.SequenceNumber", TRUE),
        ("sys.ExpiresAtUtc IS NULL", TRUE),
        ("sys.EnqueuedTimeUtc IS NOT NULL", TRUE),
        (
            "sys.LockToken IS NULL AND sys.LockedUntilUtc IS NULL AND sys.DeadLetterSource IS NULL",
            TRUE,
        ),
        (
            "sys.MessageId IS NULL AND sys.TimeToLive IS NULL AND sys.ViaPartitionKey IS NULL",
            TRUE,
        ),
    ]);
    let fields = Fields {
        message_id: Some(oxbus_model::message::MessageId::Assigned(
            oxbus_model::message::AssignedId::new(1, 2),
        )),
        time_to_live_ms: Some(5_000),
        ..Fields::default()
    };
    let filter = SqlFilter::parse(
        "sys.MessageId = '00000000000000010000000000000002' AND sys.TimeToLive = 5000",
        &[],
    );
    assert_eq!(filter.expect("a filter").selects(&rule_input(&fields)), Ok(true));
}

#[test]
fn a_computed_text_over_the_limit_is_an_error() {
    let long = "x".repeat(40_000);
    let properties = properties(&[("a", Value::Text(&long))]);
    let fields = Fields {
        application_properties: Some(properties.properties()),
        ..Fields::default()
    };
    let filter = SqlFilter::parse("a + a = 'x'", &[]).expect("a filter");
    let failure = filter.selects(&rule_input(&fields)).expect_err("80,000 bytes");
    assert!(failure.contains("longer than 65536 bytes"), "{failure}");
}
