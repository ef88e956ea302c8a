// SPDX-License-Identifier: Apache-2.0
//! Creates and updates entities from a list of options, for the administration clients in process and over HTTP.

use oxbus_store::Wait;
use std::sync::Arc;

use oxbus_model::authorization::{AccessRight, AuthorizationRule};
use oxbus_model::caps::DURATION_MS_NEVER;
use oxbus_model::name::EntityName;
use oxbus_model::options::{EntityStatus, QueueSettings};
use oxbus_model::rules::RuleSettings;
use oxbus_model::tier::ServicePlan;
use oxbus_model::{Result, Timestamp};

use super::Namespace;
use super::topics::SubscriptionOptions;
use crate::catalog::EntityRole;
use crate::clock::Randomness;
use crate::entity::Entity;

/// One option. Durations are in milliseconds. The longest duration of .NET, or more, means never.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntityOption {
    /// `lock_duration`.
    LockDuration(u64),
    /// `max_delivery_count`.
    MaxDeliveryCount(u64),
    /// `default_message_time_to_live`.
    DefaultTimeToLive(u64),
    /// `max_size_in_megabytes`.
    MaxSizeMegabytes(u64),
    /// `max_message_size_in_kilobytes`.
    MaxMessageSizeKilobytes(u64),
    /// `duplicate_detection_history_time_window`.
    DuplicateWindow(u64),
    /// `auto_delete_on_idle`.
    AutoDeleteOnIdle(u64),
    /// `enable_partitioning`.
    EnablePartitioning(bool),
    /// `dead_lettering_on_message_expiration`.
    DeadLetterExpired(bool),
    /// `dead_lettering_on_filter_evaluation_exceptions`.
    DeadLetterFailed(bool),
    /// `enable_batched_operations`.
    EnableBatchedOperations(bool),
    /// `enable_express`.
    EnableExpress(bool),
    /// `requires_duplicate_detection`.
    RequiresDuplicateDetection(bool),
    /// `requires_session`.
    RequiresSession(bool),
    /// `expire_whole_sessions`.
    ExpireWholeSessions(bool),
    /// `support_ordering`.
    SupportOrdering(bool),
    /// `status`.
    Status(EntityStatus),
    /// `user_metadata`.
    UserMetadata(String),
    /// `forward_to`; an empty string clears it.
    ForwardTo(String),
    /// `forward_dead_lettered_messages_to`; an empty string clears it.
    ForwardDeadLettersTo(String),
    /// `authorization_rules`: the complete new list.
    AuthorizationRules(Vec<AuthorizationRuleUpdate>),
}

/// A new or updated authorization rule. An omitted key keeps its value, or is generated for a new rule.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthorizationRuleUpdate {
    /// The name of the rule's keys.
    pub key_name: String,
    /// Primary key.
    pub primary_key: Option<String>,
    /// Secondary key.
    pub secondary_key: Option<String>,
    /// Rights of its bearers.
    pub rights: Vec<AccessRight>,
}

impl std::fmt::Debug for AuthorizationRuleUpdate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "AuthorizationRuleUpdate(key_name={:?}, rights={:?})",
            self.key_name, self.rights
        )
    }
}

/// The settings of an entity while options are applied.
struct EntityDraft {
    settings: QueueSettings,
    role: EntityRole,
    /// The option `enable_partitioning`, if given.
    partitioned: Option<bool>,
}

impl EntityDraft {
    fn apply(
        &mut self,
        option: EntityOption,
        plan: ServicePlan,
        now: Timestamp,
        randomness: &Randomness,
    ) -> Result<()> {
        let it = &mut self.settings;
        let unless_never = |ms: u64| (ms < DURATION_MS_NEVER).then_some(ms);
        let unless_empty = |path: String| Some(path).filter(|path| !path.is_empty());
        match option {
            EntityOption::LockDuration(ms) => it.lock_duration_ms = ms,
            EntityOption::MaxDeliveryCount(count) => it.max_delivery_count = u32::try_from(count).unwrap_or(u32::MAX),
            EntityOption::DefaultTimeToLive(ms) => it.default_time_to_live_ms = unless_never(ms),
            EntityOption::MaxSizeMegabytes(megabytes) => {
                // A client that changes another option sends back the size that it read. An unset size stays unset.
                if it.max_size_megabytes.is_some() || megabytes != it.shown_max_size_megabytes() {
                    it.max_size_megabytes = Some(megabytes);
                }
            }
            EntityOption::MaxMessageSizeKilobytes(kilobytes) => {
                // The message size is treated the same way.
                if it.max_message_size_kilobytes.is_some() || kilobytes != plan.shown_max_message_size_kilobytes(it) {
                    it.max_message_size_kilobytes = Some(kilobytes);
                }
            }
            EntityOption::DuplicateWindow(ms) => it.duplicate_window_ms = ms,
            EntityOption::AutoDeleteOnIdle(ms) => it.auto_delete_on_idle_ms = unless_never(ms),
            EntityOption::EnablePartitioning(on) => {
                it.enable_partitioning = on;
                self.partitioned = Some(on);
            }
            EntityOption::DeadLetterExpired(on) => it.dead_lettering_on_message_expiration = on,
            EntityOption::DeadLetterFailed(on) => {
                if let EntityRole::Subscription { dead_letter_failed, .. } = &mut self.role {
                    *dead_letter_failed = on;
                }
            }
            EntityOption::EnableBatchedOperations(on) => it.enable_batched_operations = on,
            EntityOption::EnableExpress(on) => it.enable_express = on,
            EntityOption::RequiresDuplicateDetection(on) => it.requires_duplicate_detection = on,
            EntityOption::RequiresSession(on) => it.requires_session = on,
            EntityOption::ExpireWholeSessions(on) => it.expire_whole_sessions = on,
            EntityOption::SupportOrdering(on) => {
                if let EntityRole::Topic { support_ordering } = &mut self.role {
                    *support_ordering = on;
                }
            }
            EntityOption::Status(status) => it.status = status,
            EntityOption::UserMetadata(metadata) => it.user_metadata = metadata,
            EntityOption::ForwardTo(path) => it.forward_to = unless_empty(path),
            EntityOption::ForwardDeadLettersTo(path) => it.forward_dead_letters_to = unless_empty(path),
            EntityOption::AuthorizationRules(rules) => {
                let current = &it.authorization_rules;
                let rules = rules.into_iter().map(|rule| rule.apply_to(current, now, randomness));
                it.authorization_rules = rules.collect::<Result<_>>()?;
            }
        }
        Ok(())
    }

    fn apply_all(&mut self, options: Vec<EntityOption>, namespace: &Namespace) -> Result<()> {
        let (plan, now) = (namespace.plan(), namespace.clock().now());
        let randomness = namespace.inner.core.randomness();
        options
            .into_iter()
            .try_for_each(|option| self.apply(option, plan, now, randomness))
    }
}

impl AuthorizationRuleUpdate {
    /// Returns the rule after this update. `current` may contain a rule of the same name. Missing keys are generated.
    pub fn apply_to(
        self,
        current: &[AuthorizationRule],
        now: Timestamp,
        randomness: &Randomness,
    ) -> Result<AuthorizationRule> {
        let current = current.iter().find(|rule| rule.key_name == self.key_name);
        let key = |given: Option<String>, current: Option<&str>| match (given, current) {
            (Some(key), _) => Ok(key),
            (None, Some(key)) => Ok(key.to_owned()),
            (None, None) => new_key(randomness),
        };
        let rule = AuthorizationRule {
            primary_key: key(self.primary_key, current.map(|rule| rule.primary_key.as_str()))?,
            secondary_key: Some(key(
                self.secondary_key,
                current.and_then(|rule| rule.secondary_key.as_deref()),
            )?),
            key_name: self.key_name,
            rights: self.rights,
            created_at_ms: current.map_or(now.0, |rule| rule.created_at_ms),
            modified_at_ms: current.map_or(now.0, |rule| rule.modified_at_ms),
        };
        Ok(match current {
            Some(current) if *current != rule => AuthorizationRule {
                modified_at_ms: now.0,
                ..rule
            },
            _ => rule,
        })
    }
}

/// A random key of 256 bits.
fn new_key(randomness: &Randomness) -> Result<String> {
    use std::fmt::Write as _;
    let bytes: [u8; 32] = randomness.bytes()?;
    let mut text = String::with_capacity(64);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("writing to a String does not fail");
    }
    Ok(text)
}

impl Namespace {
    /// The settings and the role of a new entity with these options.
    fn draft(&self, role: EntityRole, options: Vec<EntityOption>) -> Result<(QueueSettings, EntityRole)> {
        let mut draft = EntityDraft {
            settings: QueueSettings::default(),
            role,
            partitioned: None,
        };
        draft.apply_all(options, self)?;
        draft.settings.enable_partitioning = self.plan().is_partitioned(draft.partitioned, self.partitions());
        Ok((draft.settings, draft.role))
    }

    /// Creates a queue with these options.
    pub fn create_queue_with(&self, name: &str, options: Vec<EntityOption>, wait: &Wait<'_>) -> Result<Arc<Entity>> {
        let (settings, role) = self.draft(EntityRole::Queue, options)?;
        self.create(&EntityName::parse(name)?, settings, role, wait)
    }

    /// Creates a topic with these options.
    pub fn create_topic_with(&self, name: &str, options: Vec<EntityOption>, wait: &Wait<'_>) -> Result<Arc<Entity>> {
        let support_ordering = true;
        let (settings, role) = self.draft(EntityRole::Topic { support_ordering }, options)?;
        self.create(&EntityName::parse(name)?, settings, role, wait)
    }

    /// Creates a subscription with these options, and one rule.
    pub fn create_subscription_with(
        &self,
        topic: &str,
        name: &str,
        options: Vec<EntityOption>,
        rule: Option<RuleSettings>,
        wait: &Wait<'_>,
    ) -> Result<Arc<Entity>> {
        let role = EntityRole::Subscription {
            topic: 0,
            dead_letter_failed: true,
            rules: Vec::new(),
        };
        let (settings, role) = self.draft(role, options)?;
        let dead_letter_failed = matches!(
            role,
            EntityRole::Subscription {
                dead_letter_failed: true,
                ..
            }
        );
        self.create_subscription(
            topic,
            name,
            settings,
            SubscriptionOptions { dead_letter_failed },
            rule,
            wait,
        )
    }

    /// Updates these options of an entity.
    pub fn update_with(&self, entity: &Arc<Entity>, options: Vec<EntityOption>, wait: &Wait<'_>) -> Result<()> {
        self.update_entry(
            entity,
            |settings, role| {
                let mut draft = EntityDraft {
                    settings: std::mem::take(settings),
                    role: std::mem::take(role),
                    partitioned: None,
                };
                draft.apply_all(options, self)?;
                (*settings, *role) = (draft.settings, draft.role);
                Ok(())
            },
            wait,
        )
    }
}
