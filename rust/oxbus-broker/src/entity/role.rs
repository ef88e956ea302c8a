// SPDX-License-Identifier: Apache-2.0
//! What an entity is: a queue, a topic, or a subscription of one.
//!
//! A topic has a store only for messages that wait for their time; a subscription is received from like a queue.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};

use oxbus_model::options::QueueSettings;
use oxbus_model::rules::RuleSettings;
use oxbus_model::tier::Plan;
use oxbus_model::{Error, ErrorKind, Result};

use super::Entity;
use crate::durable::EntityRole;
use crate::filter::{Rule, TopicRules};

/// What an entity is.
pub(crate) enum Role {
    Queue,
    Topic(TopicRole),
    Subscription(SubscriptionRole),
}

/// The subscriptions of a topic as one send sees them.
#[derive(Default)]
pub(crate) struct Subscribers {
    pub(crate) entities: Vec<Arc<Entity>>,
    /// Made by the first send that needs it: ten thousand rules that are created one by one are compiled together once.
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

/// A topic's part of an entity.
#[derive(Default)]
pub(crate) struct TopicRole {
    /// Kept and shown.
    pub(crate) support_ordering: AtomicBool,
    subscribers: RwLock<Arc<Subscribers>>,
}

/// A rule with the settings that it was made of.
#[derive(Clone)]
pub(crate) struct CompiledRule {
    pub(crate) settings: Arc<RuleSettings>,
    pub(crate) rule: Arc<Rule>,
}

impl TopicRole {
    pub(crate) fn new(support_ordering: bool) -> Self {
        Self {
            support_ordering: AtomicBool::new(support_ordering),
            ..Self::default()
        }
    }
}

impl SubscriptionRole {
    pub(crate) fn new(topic: &Arc<Entity>, bury_failed: bool, rules: Vec<CompiledRule>) -> Self {
        Self {
            topic: Arc::downgrade(topic),
            bury_failed: AtomicBool::new(bury_failed),
            rules: RwLock::new(rules),
        }
    }
}

impl CompiledRule {
    pub(crate) fn new(settings: RuleSettings) -> Result<Self> {
        let rule = Arc::new(Rule::compile(&settings)?);
        let settings = Arc::new(settings);
        Ok(Self { settings, rule })
    }
}

/// A subscription's part of an entity.
pub(crate) struct SubscriptionRole {
    pub(crate) topic: Weak<Entity>,
    /// What its rules cannot be evaluated for goes to its dead-letter queue (B-358).
    pub(crate) bury_failed: AtomicBool,
    pub(crate) rules: RwLock<Vec<CompiledRule>>,
}

impl Entity {
    /// True for a queue: neither a topic nor a subscription.
    pub fn is_queue(&self) -> bool {
        matches!(self.role(), Role::Queue)
    }

    /// True for a topic.
    #[inline]
    pub fn is_topic(&self) -> bool {
        self.features.fans_out
    }

    /// True for a subscription.
    pub fn is_subscription(&self) -> bool {
        matches!(self.role(), Role::Subscription(_))
    }

    /// Its kind, for people.
    pub fn kind(&self) -> &'static str {
        match self.role() {
            Role::Queue => "queue",
            Role::Topic(_) => "topic",
            Role::Subscription(_) => "subscription",
        }
    }

    pub(crate) fn topic_role(&self) -> Option<&TopicRole> {
        match self.role() {
            Role::Topic(topic) => Some(topic),
            _ => None,
        }
    }

    pub(crate) fn subscription_role(&self) -> Option<&SubscriptionRole> {
        match self.role() {
            Role::Subscription(subscription) => Some(subscription),
            _ => None,
        }
    }

    /// The topic of a subscription.
    pub fn topic(&self) -> Option<Arc<Self>> {
        self.subscription_role()?.topic.upgrade()
    }

    /// The subscriptions of a topic, as they are now.
    pub(crate) fn subscribers(&self) -> Arc<Subscribers> {
        let Some(topic) = self.topic_role() else {
            return Arc::default();
        };
        Arc::clone(&topic.subscribers.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The subscriptions of a topic.
    pub fn subscriptions(&self) -> Vec<Arc<Self>> {
        self.subscribers().entities.clone()
    }

    /// Takes over the subscriptions of a topic with their rules; later sends go by them.
    pub(crate) fn subscribe(&self, entities: Vec<Arc<Self>>) {
        let Some(topic) = self.topic_role() else { return };
        let rules = OnceLock::new();
        *topic.subscribers.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Subscribers { entities, rules });
    }

    /// Makes later sends to a topic go by the rules that its subscriptions have now.
    pub(crate) fn recompile(&self) {
        self.subscribe(self.subscriptions());
    }

    /// The rules of a subscription.
    pub fn rule_settings(&self) -> Vec<RuleSettings> {
        let rules = self.compiled_rules();
        rules.iter().map(|it| RuleSettings::clone(&it.settings)).collect()
    }

    /// Its role as the catalog keeps it.
    pub(crate) fn role_entry(&self) -> EntityRole {
        match self.role() {
            Role::Queue => EntityRole::Queue,
            Role::Topic(_) => EntityRole::Topic {
                support_ordering: self.supports_ordering(),
            },
            Role::Subscription(subscription) => EntityRole::Subscription {
                topic: subscription.topic.upgrade().map_or(0, |topic| topic.id().0),
                bury_failed: self.buries_failed(),
                rules: self.rule_settings(),
            },
        }
    }

    /// Takes over the rules of a subscription. Its topic goes by them once it is told.
    pub(crate) fn set_rules(&self, rules: Vec<CompiledRule>) {
        if let Some(subscription) = self.subscription_role() {
            *subscription.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
        }
    }

    /// Takes over what becomes of messages that the rules of a subscription cannot be evaluated for.
    pub(crate) fn set_buries_failed(&self, on: bool) {
        if let Some(subscription) = self.subscription_role() {
            subscription.bury_failed.store(on, Ordering::Release);
        }
    }

    /// The rules of a subscription, compiled.
    pub(crate) fn compiled_rules(&self) -> Vec<CompiledRule> {
        let Some(subscription) = self.subscription_role() else {
            return Vec::new();
        };
        subscription
            .rules
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// True for a topic that keeps its order.
    pub fn supports_ordering(&self) -> bool {
        self.topic_role()
            .is_some_and(|it| it.support_ordering.load(Ordering::Acquire))
    }

    /// Takes over whether a topic keeps its order.
    pub(crate) fn set_support_ordering(&self, on: bool) {
        if let Some(topic) = self.topic_role() {
            topic.support_ordering.store(on, Ordering::Release);
        }
    }

    /// True when what its rules cannot be evaluated for goes to its dead-letter queue.
    pub fn buries_failed(&self) -> bool {
        self.subscription_role()
            .is_some_and(|it| it.bury_failed.load(Ordering::Acquire))
    }

    /// Bytes one message may have with these settings. To a subscription nobody sends, so it has no tier's limit of its own.
    pub(super) fn message_size_bytes_max_of(&self, settings: &QueueSettings) -> usize {
        let plan = self.core().plan();
        let plan = if self.is_subscription() { Plan::default() } else { plan };
        plan.message_size_bytes_max(settings)
    }

    /// Bytes that a copy may have which an action has changed: those of a message of the topic.
    pub(crate) fn copy_bytes_max(&self) -> usize {
        let of_topic = self.topic().map_or(usize::MAX, |topic| topic.message_size_bytes_max());
        of_topic.min(self.message_size_bytes_max())
    }

    /// Refuses to receive from a topic.
    pub(crate) fn check_receivable(&self) -> Result<()> {
        if !self.is_topic() {
            return Ok(());
        }
        let detail = format!(
            "a topic cannot be received from; receive from one of its subscriptions with get_subscription_receiver: `{}`",
            self.name().as_str()
        );
        Err(Error::new(ErrorKind::InvalidOperation, detail))
    }

    /// Refuses to send to a subscription.
    pub(crate) fn check_sendable(&self) -> Result<()> {
        if !self.is_subscription() {
            return Ok(());
        }
        let detail = format!(
            "a subscription cannot be sent to; send to its topic with get_topic_sender: `{}`",
            self.name().as_str()
        );
        Err(Error::new(ErrorKind::InvalidOperation, detail))
    }
}
