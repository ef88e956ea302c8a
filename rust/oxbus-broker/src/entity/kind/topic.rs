// SPDX-License-Identifier: Apache-2.0
//! State of a topic: an immutable snapshot of its subscriptions and their rules.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, RwLock};

use oxbus_model::rules::FilterSettings;
use oxbus_model::sync::ignore_poison;

use super::{CompiledRule, Entity, KindState};
use crate::filter::{Rule, TopicRules};

/// Snapshot of a topic's subscriptions and their rules.
#[derive(Default)]
pub(crate) struct Subscribers {
    pub(crate) entities: Vec<Arc<Entity>>,
    /// Compiled by the first send, so that rules created one after another are compiled together once.
    rules: OnceLock<TopicRules>,
}

impl Subscribers {
    /// The rules of all subscriptions.
    pub(crate) fn rules(&self) -> &TopicRules {
        self.rules.get_or_init(|| {
            let compiled = |entity: &Arc<Entity>| entity.compiled_rules().into_iter().map(|it| it.rule).collect();
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

    /// Replaces the subscriptions of a topic. Later sends use these and their current rules.
    pub(crate) fn subscribe(&self, entities: Vec<Arc<Self>>) {
        let KindState::Topic(topic) = &self.kind else { return };
        let rules = OnceLock::new();
        *ignore_poison(topic.subscribers.write()) = Arc::new(Subscribers { entities, rules });
    }

    /// Makes later sends to a topic use the current rules of its subscriptions.
    pub(crate) fn recompile(&self) {
        self.subscribe(self.subscriptions());
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
        let filters_of = |entity: &Arc<Self>| count_filters(&entity.compiled_rules());
        self.subscriptions()
            .iter()
            .map(filters_of)
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
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
