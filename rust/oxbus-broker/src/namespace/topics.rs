// SPDX-License-Identifier: Apache-2.0
//! Management of topics, subscriptions and rules (B-343 … B-360).

use oxbus_store::Wait;
use std::slice;
use std::sync::Arc;

use oxbus_model::caps::SUBSCRIPTIONS_MAX;
use oxbus_model::name::EntityName;
use oxbus_model::options::QueueSettings;
use oxbus_model::rules::{FilterSettings, RuleSettings};
use oxbus_model::{EntityKind, Error, ErrorKind, Result, Timestamp};

use super::Namespace;
use super::entities::check_all_in_service;
use crate::catalog::{CatalogChange, EntityRole, RuleChange};
use crate::entity::Entity;
use crate::entity::kind::{CompiledRule, RuleList, count_filters};
use crate::shard::journal::EntityId;

/// Name of the default rule of a new subscription (B-021).
pub const DEFAULT_RULE: &str = "$Default";

/// Settings that only a topic has.
#[derive(Debug, Clone, Copy)]
pub struct TopicOptions {
    /// Stored and returned, but has no effect: a partition always keeps its order (B-354).
    pub support_ordering: bool,
}

/// Settings that only a subscription has.
#[derive(Debug, Clone, Copy)]
pub struct SubscriptionOptions {
    /// True if messages that make a rule fail go to the dead-letter queue (B-358).
    pub dead_letter_failed: bool,
}

impl Namespace {
    /// Creates a topic.
    pub fn create_topic(
        &self,
        name: &str,
        settings: QueueSettings,
        options: TopicOptions,
        wait: &Wait<'_>,
    ) -> Result<Arc<Entity>> {
        let TopicOptions { support_ordering } = options;
        self.create(
            &EntityName::parse(name)?,
            settings,
            EntityRole::Topic { support_ordering },
            wait,
        )
    }

    /// The topic of that name.
    pub fn topic(&self, name: &str) -> Result<Arc<Entity>> {
        self.entity_of_kind(name, EntityKind::Topic)
    }

    /// Creates a subscription with one rule: the given one, or [`DEFAULT_RULE`], which selects everything (B-345).
    pub fn create_subscription(
        &self,
        topic: &str,
        name: &str,
        settings: QueueSettings,
        options: SubscriptionOptions,
        rule: Option<RuleSettings>,
        wait: &Wait<'_>,
    ) -> Result<Arc<Entity>> {
        let topic = self.topic(topic)?;
        let path = EntityName::subscription(topic.name(), name)?;
        let is_full = {
            let subscriptions = &topic.subscribers().entities;
            subscriptions.len() >= SUBSCRIPTIONS_MAX && subscriptions.iter().all(|it| it.name().key() != path.key())
        };
        if is_full {
            let detail = format!(
                "the topic is at its limit of {SUBSCRIPTIONS_MAX} subscriptions; delete one, or use another topic: `{}`",
                topic.name().as_str()
            );
            return Err(Error::new(ErrorKind::QuotaExceeded, detail));
        }
        let rule = rule.unwrap_or_else(|| RuleSettings {
            name: DEFAULT_RULE.to_owned(),
            filter: FilterSettings::True,
            action: None,
            created_at_ms: self.clock().now().0,
        });
        let first = [compile(&rule)?];
        self.check_filters(&topic, &[], &first)?;
        // Messages that are already due are not copied to it (B-241).
        topic.tick(self.clock().moment(), wait);
        let settings = QueueSettings {
            // A subscription has the partitions of its topic (B-009).
            enable_partitioning: topic.is_partitioned(),
            ..settings
        };
        let role = EntityRole::Subscription {
            topic: topic.id().0,
            dead_letter_failed: options.dead_letter_failed,
            rules: vec![rule],
        };
        self.create(&path, settings, role, wait)
    }

    /// The subscription of that name.
    pub fn subscription(&self, topic: &str, name: &str) -> Result<Arc<Entity>> {
        let topic = self.topic(topic)?;
        let path = format!("{}/Subscriptions/{name}", topic.name().as_str());
        self.entity_of_kind(&path, EntityKind::Subscription)
    }

    /// All subscriptions of a topic by name.
    pub fn list_subscriptions(&self, topic: &str) -> Result<Vec<Arc<Entity>>> {
        Ok(self.topic(topic)?.subscriptions())
    }

    /// Adds a rule to a subscription (B-360).
    pub fn create_rule(&self, topic: &str, subscription: &str, rule: &RuleSettings, wait: &Wait<'_>) -> Result<()> {
        let added = compile(rule)?;
        self.update_rules(
            topic,
            subscription,
            |rules| {
                if rules.get(&rule.name).is_some() {
                    let detail = format!(
                        "the subscription has a rule of that name; choose another name or update that one: `{}`",
                        rule.name
                    );
                    return Err(Error::new(ErrorKind::EntityAlreadyExists, detail));
                }
                Ok(RuleUpdate::Put { before: None, added })
            },
            wait,
        )
    }

    /// The rule of that name.
    pub fn rule(&self, topic: &str, subscription: &str, name: &str) -> Result<RuleSettings> {
        let entity = self.subscription(topic, subscription)?;
        let found = entity.with_rules(|rules| rules.get(name).map(|it| RuleSettings::clone(&it.settings)));
        found.ok_or_else(|| no_rule((topic, subscription), name))
    }

    /// Replaces the rule of the same name.
    pub fn update_rule(&self, topic: &str, subscription: &str, rule: &RuleSettings, wait: &Wait<'_>) -> Result<()> {
        compile(rule)?;
        self.update_rules(
            topic,
            subscription,
            |rules| {
                let held = rules.get(&rule.name);
                let before = held.ok_or_else(|| no_rule((topic, subscription), &rule.name))?.clone();
                let added = compile(&RuleSettings {
                    created_at_ms: before.settings.created_at_ms,
                    ..rule.clone()
                })?;
                let before = Some(before);
                Ok(RuleUpdate::Put { before, added })
            },
            wait,
        )
    }

    /// Deletes a rule.
    pub fn delete_rule(&self, topic: &str, subscription: &str, name: &str, wait: &Wait<'_>) -> Result<()> {
        self.update_rules(
            topic,
            subscription,
            |rules| {
                let gone = rules.get(name).ok_or_else(|| no_rule((topic, subscription), name))?;
                Ok(RuleUpdate::Remove(gone.clone()))
            },
            wait,
        )
    }

    /// All rules of a subscription by name.
    pub fn list_rules(&self, topic: &str, subscription: &str) -> Result<Vec<RuleSettings>> {
        let mut rules = self.subscription(topic, subscription)?.rule_settings();
        rules.sort_by_key(|rule| EntityName::key_of(&rule.name));
        Ok(rules)
    }

    /// Changes a rule of a subscription. `choose` returns the change, given the current rules.
    fn update_rules(
        &self,
        topic: &str,
        subscription: &str,
        choose: impl FnOnce(&RuleList) -> Result<RuleUpdate>,
        wait: &Wait<'_>,
    ) -> Result<()> {
        let topic = self.topic(topic)?;
        let entity = self.subscription(topic.name().as_str(), subscription)?;
        // Messages that are already due use the old rules (B-241).
        topic.tick(self.clock().moment(), wait);
        let in_turn = self.inner.core.change_entities();
        entity.check_alive()?;
        check_all_in_service(&entity, "update")?;
        let update = entity.with_rules(choose)?;
        let (gone, added) = update.rules();
        self.check_filters(&topic, gone, added)?;
        let now = self.clock().now();
        if let Some(stores) = &self.inner.stores {
            stores.change(|_| Some(update.record(entity.id(), now)))?;
        }
        match update {
            RuleUpdate::Put { added, .. } => entity.put_rule(added),
            RuleUpdate::Remove(gone) => entity.remove_rule(&gone.settings.name),
        }
        entity.set_updated_at(now);
        topic.touch(now);
        topic.recompile();
        drop(in_turn);
        Ok(())
    }

    /// Fails if the topic would exceed its limit of filters after rules `added` replace the rules `gone` (B-042).
    fn check_filters(&self, topic: &Entity, gone: &[CompiledRule], added: &[CompiledRule]) -> Result<()> {
        let plan = self.plan();
        if plan.tier.is_none() {
            return Ok(());
        }
        let of_topic = topic.filter_counts();
        let (gone, new) = (count_filters(gone), count_filters(added));
        plan.check_filters(
            topic.name().as_str(),
            (of_topic.0, of_topic.0 - gone.0 + new.0),
            (of_topic.1, of_topic.1 - gone.1 + new.1),
        )
    }
}

/// A change of one rule of a subscription.
enum RuleUpdate {
    /// A rule is added, or replaces the one of the same name.
    Put {
        before: Option<CompiledRule>,
        added: CompiledRule,
    },
    /// A rule is deleted.
    Remove(CompiledRule),
}

impl RuleUpdate {
    /// The rules that go and those that come.
    fn rules(&self) -> (&[CompiledRule], &[CompiledRule]) {
        match self {
            Self::Put { before, added } => (before.as_slice(), slice::from_ref(added)),
            Self::Remove(gone) => (slice::from_ref(gone), &[]),
        }
    }

    /// The change of the catalog.
    fn record(&self, subscription: EntityId, now: Timestamp) -> CatalogChange {
        let change = |rule: &CompiledRule| RuleChange {
            subscription: subscription.0,
            updated_at_ms: now.0,
            rule: RuleSettings::clone(&rule.settings),
        };
        match self {
            Self::Put { before: None, added } => CatalogChange::AddRule(change(added)),
            Self::Put { added, .. } => CatalogChange::ReplaceRule(change(added)),
            Self::Remove(gone) => CatalogChange::RemoveRule {
                subscription: subscription.0,
                updated_at_ms: now.0,
                name: gone.settings.name.clone(),
            },
        }
    }
}

fn no_rule((topic, subscription): (&str, &str), name: &str) -> Error {
    let path = format!("{topic}/Subscriptions/{subscription}/Rules/{name}");
    Error::entity_not_found(&path, "Check its name, or create the rule with create_rule.")
}

/// Compiles a rule. The error names the invalid part.
fn compile(rule: &RuleSettings) -> Result<CompiledRule> {
    if rule.name != DEFAULT_RULE {
        EntityName::check_segment(&rule.name)?;
    }
    let compiled = CompiledRule::new(rule.clone());
    compiled.map_err(|error| Error::new(ErrorKind::InvalidRule, error.detail()))
}
