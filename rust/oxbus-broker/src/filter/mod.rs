// SPDX-License-Identifier: Apache-2.0
//! Rules of topic subscriptions: they select the messages of a subscription and change its copies (B-343 … B-381).
//!
//! [`Rule::compile`] parses a rule, [`TopicRules::compile`] builds an index of all rules of a topic, and
//! [`TopicRules::select`] evaluates that index for a message. This module does not lock, store or send.
//!
//! Read in this order: `rule`, `sql_lexer`, `sql_parser`, `sql_tree`, `sql_eval` with `operand` and `like`, `sql_action`
//! with `copy_draft`, `correlation`, `correlation_index`, `topic_rules`. `docs/guide/rules-language.md` documents the
//! language.

mod copy_draft;
mod correlation;
mod correlation_index;
mod like;
mod operand;
mod property_name;
mod rule;
mod rule_io;
mod sql_action;
mod sql_eval;
mod sql_filter;
mod sql_lexer;
mod sql_parser;
mod sql_tree;
mod system_property;
mod topic_rules;
mod view;

#[cfg(test)]
mod tests;

pub use rule::Rule;
pub use rule_io::{MessageCopy, RuleFailure, RuleInput, Selection};
pub use sql_filter::SqlFilter;
pub use topic_rules::TopicRules;
