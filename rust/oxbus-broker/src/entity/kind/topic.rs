// SPDX-License-Identifier: Apache-2.0
//! State of a topic: an immutable snapshot of its subscriptions and their rules.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, RwLock};

use oxbus_model::rules::FilterSettings;
use oxbus_model::sync::ignore_poison;

use super::{CompiledRule, Entity};
use crate::filter::{Rule, TopicRules};

/// Snapshot of a topic's subscriptions and their rules.
#[derive(Default)]
pub(crate) struct Subscribers {
    /// Sorted by name.
    pub(crate) entities: Vec<Arc<Entity>>,
    /// Compiled by the first send, so that rules created one after another are compiled together once.
    rules: OnceLock<TopicRules>,
}

impl Subscribers {
    /// The rules of all subscriptions.
    pub(crate) fn rules(&self) -> &TopicRules {
        self.rules.get_or_init(|| {
            let compiled = |entity: &Arc<Entity>| {
                entity.with_rules(|rules| rules.all().iter().map(|it| Arc::clone(&it.rule)).collect())
            };
            let rules: Vec<Vec<Arc<Rule>>> = self.entities.iter().map(compiled).collect();
            TopicRules::compile(rules.iter().map(Vec::as_slice))
        })
    }
}

/// State of an entity that is a topic.
#[derive(Default)]
pub(crate) struct Topic {
    /// Stored and reported, but has no effect.
    pub(super) support_ordering: AtomicBool,
    subscribers: RwLock<Arc<Subscribers>>,
}

impl Topic {
    pub(super) fn new(support_ordering: bool) -> Self {
        Self {
            support_ordering: AtomicBool::new(support_ordering),
            ..Self::default()
        }
    }

    pub(super) fn subscribers(&self) -> Arc<Subscribers> {
        Arc::clone(&*ignore_poison(self.subscribers.read()))
    }

    /// Changes the list of subscriptions. Later sends use it, and compile the current rules. The list is copied only if
    /// a send is using it.
    fn edit_subscriptions(&self, edit: impl FnOnce(&mut Vec<Arc<Entity>>)) {
        let mut current = ignore_poison(self.subscribers.write());
        let rules = OnceLock::new();
        if let Some(unused) = Arc::get_mut(&mut current) {
            unused.rules = rules;
            edit(&mut unused.entities);
        } else {
            let mut entities = current.entities.clone();
            edit(&mut entities);
            *current = Arc::new(Subscribers { entities, rules });
        }
    }
}

impl Entity {
    /// The current subscriptions of a topic; empty for other kinds.
    pub(crate) fn subscribers(&self) -> Arc<Subscribers> {
        self.kind.as_topic().map(Topic::subscribers).unwrap_or_default()
    }

    /// The subscriptions of a topic.
    pub fn subscriptions(&self) -> Vec<Arc<Self>> {
        self.subscribers().entities.clone()
    }

    /// Adds a subscription to a topic. Later sends use it.
    pub(crate) fn add_subscription(&self, added: &Arc<Self>) {
        self.edit_subscriptions(|entities| {
            if let Err(at) = find(entities, added) {
                entities.insert(at, Arc::clone(added));
            }
        });
    }

    /// Removes a subscription from a topic. Later sends do not use it.
    pub(crate) fn remove_subscription(&self, removed: &Self) {
        self.edit_subscriptions(|entities| {
            if let Ok(at) = find(entities, removed) {
                entities.remove(at);
            }
        });
    }

    /// Makes later sends to a topic use the current rules of its subscriptions.
    pub(crate) fn recompile(&self) {
        self.edit_subscriptions(|_| {});
    }

    fn edit_subscriptions(&self, edit: impl FnOnce(&mut Vec<Arc<Self>>)) {
        if let Some(topic) = self.kind.as_topic() {
            topic.edit_subscriptions(edit);
        }
    }

    /// True if the entity is a topic with the setting `support_ordering`.
    pub fn supports_ordering(&self) -> bool {
        let topic = self.kind.as_topic();
        topic.is_some_and(|it| it.support_ordering.load(Ordering::Acquire))
    }

    /// Numbers of SQL filters, including true and false filters, and of correlation filters of a topic's subscriptions.
    pub fn filters(&self) -> (usize, usize) {
        let settings: Vec<_> = self.subscriptions().iter().flat_map(|it| it.rule_settings()).collect();
        let correlation = settings
            .iter()
            .filter(|rule| matches!(rule.filter, FilterSettings::Correlation(_)))
            .count();
        (settings.len() - correlation, correlation)
    }

    /// Numbers of SQL filters and correlation filters of a topic's subscriptions, as the quota counts them (B-042).
    pub(crate) fn filter_counts(&self) -> (usize, usize) {
        let filters_of = |entity: &Arc<Self>| entity.with_rules(|rules| count_filters(rules.all()));
        let subscribers = self.subscribers();
        subscribers
            .entities
            .iter()
            .map(filters_of)
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

/// The position of a subscription among those of its topic, which are sorted by name; or the one where it belongs.
fn find(entities: &[Arc<Entity>], entity: &Entity) -> Result<usize, usize> {
    entities.binary_search_by(|it| it.name().key().cmp(entity.name().key()))
}

/// Numbers of SQL filters and correlation filters among rules. True and false filters count as neither.
pub(crate) fn count_filters(rules: &[CompiledRule]) -> (usize, usize) {
    rules
        .iter()
        .fold((0, 0), |(sql, correlation), rule| match rule.settings.filter {
            FilterSettings::Sql { .. } => (sql + 1, correlation),
            FilterSettings::Correlation(_) => (sql, correlation + 1),
            FilterSettings::True | FilterSettings::False => (sql, correlation),
        })
}
