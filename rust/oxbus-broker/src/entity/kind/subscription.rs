// SPDX-License-Identifier: Apache-2.0
//! State of a subscription: its topic and its rules.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock, Weak};

use oxbus_model::Result;
use oxbus_model::name::EntityName;
use oxbus_model::rules::RuleSettings;
use oxbus_model::sync::ignore_poison;

use super::Entity;
use crate::filter::Rule;

/// A compiled rule with its settings.
#[derive(Clone)]
pub(crate) struct CompiledRule {
    pub(crate) settings: Arc<RuleSettings>,
    pub(crate) rule: Arc<Rule>,
}

impl CompiledRule {
    pub(crate) fn new(settings: RuleSettings) -> Result<Self> {
        let rule = Arc::new(Rule::compile(&settings)?);
        let settings = Arc::new(settings);
        Ok(Self { settings, rule })
    }
}

/// The rules of a subscription in the order in which they were added.
#[derive(Default)]
pub(crate) struct RuleList {
    rules: Vec<CompiledRule>,
    /// Positions by key.
    positions: HashMap<String, usize>,
}

impl RuleList {
    fn new(rules: Vec<CompiledRule>) -> Self {
        let mut list = Self::default();
        for rule in rules {
            list.put(rule);
        }
        list
    }

    /// The rules.
    pub(crate) fn all(&self) -> &[CompiledRule] {
        &self.rules
    }

    /// The rule of a name, case-insensitive (B-018).
    pub(crate) fn get(&self, name: &str) -> Option<&CompiledRule> {
        let at = self.positions.get(&EntityName::key_of(name))?;
        Some(&self.rules[*at])
    }

    /// Adds a rule, or replaces the one of that name.
    fn put(&mut self, rule: CompiledRule) {
        let key = EntityName::key_of(&rule.settings.name);
        if let Some(at) = self.positions.get(&key) {
            self.rules[*at] = rule;
        } else {
            self.positions.insert(key, self.rules.len());
            self.rules.push(rule);
        }
    }

    fn remove(&mut self, name: &str) {
        let Some(removed) = self.positions.remove(&EntityName::key_of(name)) else {
            return;
        };
        self.rules.remove(removed);
        for at in self.positions.values_mut() {
            *at -= usize::from(*at > removed);
        }
    }
}

/// State of an entity that is a subscription.
pub(crate) struct Subscription {
    pub(super) topic: Weak<Entity>,
    /// True if messages for which a rule cannot be evaluated go to the dead-letter queue (B-358).
    pub(super) dead_letter_failed: AtomicBool,
    rules: RwLock<RuleList>,
}

impl Subscription {
    pub(super) fn new(topic: &Arc<Entity>, dead_letter_failed: bool, rules: &[RuleSettings]) -> Result<Self> {
        let rules = rules.iter().cloned().map(CompiledRule::new).collect::<Result<_>>()?;
        Ok(Self {
            topic: Arc::downgrade(topic),
            dead_letter_failed: AtomicBool::new(dead_letter_failed),
            rules: RwLock::new(RuleList::new(rules)),
        })
    }

    pub(super) fn apply(&self, dead_letter_failed: bool, rules: &[RuleSettings]) {
        self.dead_letter_failed.store(dead_letter_failed, Ordering::Release);
        let mut held = ignore_poison(self.rules.write());
        if held.all().iter().map(|it| &*it.settings).ne(rules) {
            // The rules were compiled when they were changed, so they compile here.
            let compiled = rules.iter().filter_map(|rule| CompiledRule::new(rule.clone()).ok());
            *held = RuleList::new(compiled.collect());
        }
    }
}

impl Entity {
    /// The topic of a subscription.
    pub fn topic(&self) -> Option<Arc<Self>> {
        self.kind.as_subscription()?.topic.upgrade()
    }

    /// The rules of a subscription.
    pub fn rule_settings(&self) -> Vec<RuleSettings> {
        self.with_rules(|rules| rules.all().iter().map(|it| RuleSettings::clone(&it.settings)).collect())
    }

    /// Calls `read` with the rules of a subscription, compiled.
    pub(crate) fn with_rules<T>(&self, read: impl FnOnce(&RuleList) -> T) -> T {
        let Some(subscription) = self.kind.as_subscription() else {
            return read(&RuleList::default());
        };
        let rules = ignore_poison(subscription.rules.read());
        read(&rules)
    }

    /// Adds a rule to a subscription, or replaces the one of that name. Its topic uses it after [`Entity::recompile`].
    pub(crate) fn put_rule(&self, rule: CompiledRule) {
        if let Some(subscription) = self.kind.as_subscription() {
            ignore_poison(subscription.rules.write()).put(rule);
        }
    }

    /// Removes a rule from a subscription. Its topic no longer uses it after [`Entity::recompile`].
    pub(crate) fn remove_rule(&self, name: &str) {
        if let Some(subscription) = self.kind.as_subscription() {
            ignore_poison(subscription.rules.write()).remove(name);
        }
    }

    /// True if messages for which a rule cannot be evaluated go to the dead-letter queue.
    pub fn dead_letters_failed(&self) -> bool {
        let subscription = self.kind.as_subscription();
        subscription.is_some_and(|it| it.dead_letter_failed.load(Ordering::Acquire))
    }

    /// Maximum bytes of a copy that an action changed: the smaller of the limits of topic and subscription.
    pub(crate) fn copy_bytes_max(&self) -> usize {
        let topic_max = self
            .topic()
            .map_or(usize::MAX, |topic| topic.settings().message_size_bytes_max);
        topic_max.min(self.settings().message_size_bytes_max)
    }
}
