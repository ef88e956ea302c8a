// SPDX-License-Identifier: Apache-2.0
//! Differences between queues, topics and subscriptions. No other code depends on the kind of an entity.
//!
//! A topic stores only scheduled messages. Receivers use a subscription like a queue.

mod append;
mod subscription;
mod topic;

use oxbus_store::Wait;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use oxbus_model::tier::ServicePlan;
use oxbus_model::{EntityKind, Error, ErrorKind, Result, Timestamp};

pub(crate) use self::subscription::{CompiledRule, RuleList, Subscription};
pub(crate) use self::topic::{Subscribers, Topic, count_filters};
use super::Entity;
use crate::catalog::EntityRole;
use crate::shard::Cell;

/// Kind of an entity, with the state of that kind.
pub(crate) enum KindState {
    Queue,
    Topic(Topic),
    Subscription(Subscription),
}

impl KindState {
    /// The kind of a catalog entry; `topic_of` finds the topic of a subscription.
    pub(crate) fn of(role: &EntityRole, topic_of: impl FnOnce(u64) -> Result<Arc<Entity>>) -> Result<Self> {
        Ok(match role {
            EntityRole::Queue => Self::Queue,
            EntityRole::Topic { support_ordering } => Self::Topic(Topic::new(*support_ordering)),
            EntityRole::Subscription {
                topic,
                dead_letter_failed,
                rules,
            } => Self::Subscription(Subscription::new(&topic_of(*topic)?, *dead_letter_failed, rules)?),
        })
    }

    /// Applies a changed catalog entry. The topic of a subscription uses changed rules after [`Entity::recompile`].
    pub(super) fn apply(&self, role: &EntityRole) {
        match (self, role) {
            (Self::Topic(topic), EntityRole::Topic { support_ordering }) => {
                topic.support_ordering.store(*support_ordering, Ordering::Release);
            }
            (
                Self::Subscription(subscription),
                EntityRole::Subscription {
                    dead_letter_failed,
                    rules,
                    ..
                },
            ) => {
                subscription.apply(*dead_letter_failed, rules);
            }
            _ => {}
        }
    }

    pub(super) fn tag(&self) -> EntityKind {
        match self {
            Self::Queue => EntityKind::Queue,
            Self::Topic(_) => EntityKind::Topic,
            Self::Subscription(_) => EntityKind::Subscription,
        }
    }

    /// True if messages are stored in other entities, as those of a topic are.
    pub(super) fn fans_out(&self) -> bool {
        matches!(self, Self::Topic(_))
    }

    /// The plan whose limits apply to its messages. A subscription has the default plan: its topic enforces the limits.
    pub(super) fn plan(&self, plan: ServicePlan) -> ServicePlan {
        if self.tag().accepts_sends() {
            plan
        } else {
            ServicePlan::default()
        }
    }

    /// Maximum number of stored copies of each sent message.
    pub(super) fn copies(&self) -> u64 {
        match self {
            Self::Topic(topic) => topic.subscribers().entities.len().max(1) as u64,
            Self::Queue | Self::Subscription(_) => 1,
        }
    }

    /// True if a resubmitted message gets a new enqueued number. In a subscription the message keeps the topic's
    /// number.
    pub(super) fn renumbers(&self) -> bool {
        matches!(self, Self::Queue)
    }

    fn as_topic(&self) -> Option<&Topic> {
        match self {
            Self::Topic(topic) => Some(topic),
            Self::Queue | Self::Subscription(_) => None,
        }
    }

    fn as_subscription(&self) -> Option<&Subscription> {
        match self {
            Self::Subscription(subscription) => Some(subscription),
            Self::Queue | Self::Topic(_) => None,
        }
    }
}

impl Entity {
    /// True if the entity is a topic.
    #[inline]
    fn is_topic(&self) -> bool {
        self.features.fans_out
    }

    /// Kind of the entity as the catalog stores it.
    pub(crate) fn catalog_role(&self) -> EntityRole {
        match &self.kind {
            KindState::Queue => EntityRole::Queue,
            KindState::Topic(_) => EntityRole::Topic {
                support_ordering: self.supports_ordering(),
            },
            KindState::Subscription(subscription) => EntityRole::Subscription {
                topic: subscription.topic.upgrade().map_or(0, |topic| topic.id().0),
                dead_letter_failed: self.dead_letters_failed(),
                rules: self.rule_settings(),
            },
        }
    }

    /// Sends due messages of a topic to its subscriptions. Cells of other entities activate their messages themselves.
    pub(super) fn activate(&self, index: usize, cell: &Cell, now: Timestamp, wait: &Wait<'_>) {
        if self.kind.fans_out() {
            self.activate_due(index, cell, now, wait);
        }
    }

    /// Fails unless the entity is a partitioned queue, the only kind that can be bulk-loaded.
    pub(crate) fn check_loadable(&self, path: &str) -> Result<()> {
        if self.is_partitioned() && matches!(self.kind, KindState::Queue) {
            return Ok(());
        }
        let detail = format!(
            "only a partitioned queue can be bulk-loaded; create it with enable_partitioning=True, or send to it instead: `{path}`"
        );
        Err(Error::new(ErrorKind::InvalidOperation, detail))
    }
}
