// SPDX-License-Identifier: Apache-2.0
//! State of a subscription: its topic and its rules.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock, Weak};

use oxbus_model::Result;
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

/// State of an entity that is a subscription.
pub(crate) struct Subscription {
    pub(super) topic: Weak<Entity>,
    /// True if messages for which a rule cannot be evaluated go to the dead-letter queue (B-358).
    pub(super) dead_letter_failed: AtomicBool,
    rules: RwLock<Vec<CompiledRule>>,
}

impl Subscription {
    pub(super) fn new(topic: &Arc<Entity>, dead_letter_failed: bool, rules: &[RuleSettings]) -> Result<Self> {
        let rules = rules.iter().cloned().map(CompiledRule::new).collect::<Result<_>>()?;
        Ok(Self {
            topic: Arc::downgrade(topic),
            dead_letter_failed: AtomicBool::new(dead_letter_failed),
            rules: RwLock::new(rules),
        })
    }

    pub(super) fn apply(&self, dead_letter_failed: bool, rules: &[RuleSettings]) {
        self.dead_letter_failed.store(dead_letter_failed, Ordering::Release);
        if self.rules().iter().map(|it| &*it.settings).ne(rules) {
            // The rules were compiled when they were changed, so they compile here.
            let compiled = rules.iter().filter_map(|rule| CompiledRule::new(rule.clone()).ok());
            self.set_rules(compiled.collect());
        }
    }

    fn rules(&self) -> Vec<CompiledRule> {
        ignore_poison(self.rules.read()).clone()
    }

    fn set_rules(&self, rules: Vec<CompiledRule>) {
        *ignore_poison(self.rules.write()) = rules;
    }
}

impl Entity {
    /// The topic of a subscription.
    pub fn topic(&self) -> Option<Arc<Self>> {
        self.kind.as_subscription()?.topic.upgrade()
    }

    /// The rules of a subscription.
    pub fn rule_settings(&self) -> Vec<RuleSettings> {
        let rules = self.compiled_rules();
        rules.iter().map(|it| RuleSettings::clone(&it.settings)).collect()
    }

    /// The rules of a subscription, compiled.
    pub(crate) fn compiled_rules(&self) -> Vec<CompiledRule> {
        self.kind.as_subscription().map(Subscription::rules).unwrap_or_default()
    }

    /// Replaces the rules of a subscription. Its topic uses them after [`Entity::recompile`].
    pub(crate) fn set_rules(&self, rules: Vec<CompiledRule>) {
        if let Some(subscription) = self.kind.as_subscription() {
            subscription.set_rules(rules);
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
