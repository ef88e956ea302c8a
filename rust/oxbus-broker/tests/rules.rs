// SPDX-License-Identifier: Apache-2.0
//! Rules on inputs from a seed: words of the language in any order, behind them any bytes.

#[path = "support/rules.rs"]
pub mod support;

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
    fn what_must_hold_of_rules_holds(
        starts_as_action: bool,
        words in vec(prop::sample::select(WORDS.to_vec()), 0..20),
        bytes in vec(any::<u8>(), 0..40),
    ) {
        let text = words.join(" ");
        let text = if starts_as_action { format!("SET {text}") } else { text };
        support::rules(&[text.as_bytes(), b"\0", &bytes].concat());
    }
}
