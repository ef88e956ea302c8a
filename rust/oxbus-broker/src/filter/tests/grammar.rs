// SPDX-License-Identifier: Apache-2.0
//! Tests of the grammar of filters, and of the errors of invalid ones.

use oxbus_model::ErrorKind;
use oxbus_model::caps::{EXPRESSION_DEPTH_MAX, FILTER_TEXT_CHARS_MAX};

use super::*;

fn error_text(expression: &str) -> String {
    let error = SqlFilter::parse(expression, &parameters()).expect_err(expression);
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    error.detail().to_owned()
}

#[test]
fn predicates_of_every_kind_b361() {
    check_answers(&[
        ("color = 'red'", TRUE),
        ("color <> 'red'", FALSE),
        ("color != 'blue'", TRUE),
        ("quantity > 9", TRUE),
        ("quantity >= 10", TRUE),
        ("quantity < 10", FALSE),
        ("quantity <= 9", FALSE),
        ("NOT quantity < 10", TRUE),
        ("quantity = 10 AND price = 2.5", TRUE),
        ("quantity = 1 OR price = 2.5", TRUE),
        ("color IN ('blue', 'red')", TRUE),
        ("color NOT IN ('blue', 'red')", FALSE),
        ("color LIKE 'r_d'", TRUE),
        ("color NOT LIKE 'r%'", FALSE),
        ("EXISTS(color)", TRUE),
        ("EXISTS(colour)", FALSE),
        ("note IS NULL", TRUE),
        ("color IS NOT NULL", TRUE),
        ("(color = 'red')", TRUE),
        ("((quantity) = (10))", TRUE),
    ]);
}

#[test]
fn not_binds_closer_than_and_and_and_closer_than_or() {
    check_answers(&[
        ("1=1 OR 1=1 AND 1=2", TRUE),
        ("(1=1 OR 1=1) AND 1=2", FALSE),
        ("NOT 1=2 AND 1=1", TRUE),
        ("NOT 1=1 OR 1=1", TRUE),
        ("NOT (1=1 OR 1=1)", FALSE),
        ("NOT NOT 1=1", TRUE),
        ("1 + 2 * 3 = 7", TRUE),
        ("(1 + 2) * 3 = 9", TRUE),
        ("10 - 3 - 2 = 5", TRUE),
        ("20 / 2 / 5 = 2", TRUE),
        ("-2 * -3 = 6", TRUE),
        ("2 - -2 = 4", TRUE),
    ]);
}

#[test]
fn names_in_every_form_b363_b365_b366() {
    check_answers(&[
        ("COLOR = 'red'", TRUE),
        ("user.color = 'red'", TRUE),
        ("USER.Color = 'red'", TRUE),
        ("[color] = 'red'", TRUE),
        ("user.[color] = 'red'", TRUE),
        ("\"color\" = 'red'", TRUE),
        ("[name with ]]] = 'x'", TRUE),
        ("\"Name With ]\" = 'x'", TRUE),
        ("GRÖßE = 3", TRUE),
        ("[and] = 1", TRUE),
        ("\"a\"\"b\" IS NULL", TRUE),
        ("sys.Label = 'order.created'", TRUE),
        ("SYS.label = 'order.created'", TRUE),
        ("sys.[Label] = 'order.created'", TRUE),
        ("sys.Subject = sys.Label", TRUE),
        // A name is a function only before a parenthesis, and a scope only before a period.
        ("p IS NULL", TRUE),
        ("property IS NULL", TRUE),
        ("sys IS NULL", TRUE),
    ]);
}

#[test]
fn constants_of_every_type_b367() {
    check_answers(&[
        ("9223372036854775807 > 0", TRUE),
        ("-9223372036854775808 = smallest", TRUE),
        ("- 9223372036854775808 = smallest", TRUE),
        ("2.5 = price", TRUE),
        ("25E-1 = price", TRUE),
        ("0.25e+1 = price", TRUE),
        ("express = TRUE", TRUE),
        ("express = false", FALSE),
        ("'it''s' = 'it' + '''' + 's'", TRUE),
        ("'' = ''", TRUE),
        ("NULL = NULL", UNKNOWN),
    ]);
}

#[test]
fn keywords_in_any_case() {
    check_answers(&[("color iN ('red') aNd not eXiSts(x) oR color is nUll", TRUE)]);
    check_answers(&[("color like 'r!%' escape '!'", FALSE)]);
}

#[test]
fn parameters_have_their_typed_values_b374() {
    check_answers(&[
        ("color = @color", TRUE),
        ("quantity > @limit", TRUE),
        ("quantity > @LIMIT * 2", FALSE),
        ("due = @due", TRUE),
        ("sys.EnqueuedTimeUtc > @due", TRUE),
        ("trace = @trace", TRUE),
        ("raw = @raw", TRUE),
        ("color LIKE @color", TRUE),
    ]);
    assert_eq!(
        error_text("color = @colour"),
        "column 9: expected a parameter that has a value, found `@colour`"
    );
}

#[test]
fn an_error_names_the_column_and_the_expected_token_b359() {
    for (expression, expected) in [
        (
            "",
            "column 1: expected a property, a constant or a parenthesis, found the end",
        ),
        (
            "color",
            "column 1: expected a condition, found a value; compare it with another, for example `flag = TRUE`",
        ),
        (
            "color =",
            "column 8: expected a property, a constant or a parenthesis, found the end",
        ),
        ("color = 'red", "column 9: expected `'` at the end of the text"),
        ("größe = 1 1", "column 11: expected AND, OR or the end, found 1"),
        ("(a = 1", "column 7: expected `)`, found the end"),
        ("a = 1 = b", "column 7: expected AND, OR or the end, found `=`"),
        (
            "(a = 1) = TRUE",
            "column 9: expected AND, OR or the end after a condition, found `=`",
        ),
        ("(a = 1) + 1 = 2", "column 1: expected a value, found a condition"),
        ("a = (b = 1)", "column 5: expected a value, found a condition"),
        (
            "a AND b = 1",
            "column 1: expected a condition, found a value; compare it with another, for example `flag = TRUE`",
        ),
        (
            "foo.bar = 1",
            "column 1: expected the scope `sys` or `user`, found `foo`",
        ),
        ("sys. = 1", "column 6: expected the name of a property, found `=`"),
        (
            "f(1) = 1",
            "column 1: expected one of the functions newid(), property(name) and p(name), found `f`",
        ),
        ("a NOT = 1", "column 7: expected IN or LIKE, found `=`"),
        ("a IS 1", "column 6: expected NULL, found 1"),
        ("1 IS NULL", "column 1: expected a property before IS NULL"),
        ("EXISTS(1)", "column 8: expected a property in EXISTS( )"),
        (
            "a IN ()",
            "column 7: expected a property, a constant or a parenthesis, found `)`",
        ),
        (
            "a # 1",
            "column 3: expected a name, a constant or an operator, found `#`",
        ),
        ("a = 1.", "column 7: expected a digit"),
        ("a = 1e", "column 7: expected a digit"),
        ("[] = 1", "column 1: expected a name between the delimiters"),
        (
            "a LIKE 'x' ESCAPE 'yz'",
            "column 19: ESCAPE takes a string of one character: 'yz'",
        ),
        (
            "a LIKE 'x!' ESCAPE '!'",
            "column 8: the LIKE pattern ends with its escape character; add the character to escape",
        ),
        (
            "a = 9223372036854775808",
            "column 5: expected an integer of 64 bits; write a fraction, `1.0`, for a double: 9223372036854775808",
        ),
    ] {
        assert_eq!(error_text(expression), expected, "{expression}");
    }
    for expression in [
        "1st = 1",
        "a = 1e999",
        "a = 99999999999999999999",
        "a = -9223372036854775809",
        "@ = 1",
        "and = 1",
    ] {
        error_text(expression);
    }
}

#[test]
fn a_text_has_at_most_1024_characters_b043() {
    let of_length = |length: usize| format!("a = '{}'", "é".repeat(length - 6));
    assert!(SqlFilter::parse(&of_length(FILTER_TEXT_CHARS_MAX), &[]).is_ok());
    assert!(error_text(&of_length(FILTER_TEXT_CHARS_MAX + 1)).contains("1025 characters"));
}

#[test]
fn depth_is_bounded_and_length_does_not_count_as_depth() {
    let nested = |open: &str, close: &str, depth: usize| format!("{}1{} = 1", open.repeat(depth), close.repeat(depth));
    for (open, close) in [("(", ")"), ("- ", ""), ("+", ""), ("p(", ")")] {
        // The innermost minus is part of the number.
        let depth = EXPRESSION_DEPTH_MAX;
        assert!(SqlFilter::parse(&nested(open, close, depth), &[]).is_ok(), "{open}");
        assert!(
            error_text(&nested(open, close, depth + 2)).contains("at most 64 levels"),
            "{open}"
        );
    }
    assert!(error_text(&format!("{}1=1", "NOT ".repeat(65))).contains("at most 64 levels"));
    assert!(error_text(&"(".repeat(1_000)).contains("at most 64 levels"));
    for long in [
        format!("1{} > 0", "+1".repeat(500)),
        format!("1=1{}", " OR 1=1".repeat(140)),
        format!("a IN (1{})", ",1".repeat(500)),
    ] {
        assert!(SqlFilter::parse(&long, &[]).is_ok());
    }
    // This tests the parser alone, without the limit on the length of a text.
    let deep = format!("{}1{} = 1", "(".repeat(100_000), ")".repeat(100_000));
    assert!(
        super::super::sql_parser::Parser::new(&deep, &[])
            .expect("a token")
            .filter()
            .is_err()
    );
}
