// SPDX-License-Identifier: Apache-2.0
//! Rules of topic subscriptions: which messages a subscription gets, and what is changed in its copies (B-343 … B-381).
//!
//! [`Rule::compile`] reads the text of a rule once, [`TopicRules::compile`] puts all rules of a topic into an index, and
//! [`TopicRules::select`] asks that index about a message. Nothing here locks, stores or sends.
//!
//! Read in this order: `rule`, `sql_lexer`, `sql_parser`, `sql_tree`, `sql_eval` with `operand` and `like`, `sql_action` with
//! `draft`, `correlation`, `correlation_index`, `topic_rules`. `docs/guide/rules-language.md` is the language for its users.

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
