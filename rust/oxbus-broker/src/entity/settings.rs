// SPDX-License-Identifier: Apache-2.0
//! The settings of an entity: an immutable snapshot that an update replaces as a whole.

use std::ops::Deref;

use oxbus_model::Timestamp;
use oxbus_model::options::QueueSettings;
use oxbus_model::tier::ServicePlan;

use super::Entity;
use crate::catalog::EntityRole;
use crate::shard::DeliveryPolicy;

/// Settings of an entity and values derived from them.
#[derive(Debug, PartialEq)]
pub struct EntitySettings {
    configured: QueueSettings,
    /// Maximum bytes of a message.
    pub message_size_bytes_max: usize,
}

impl Deref for EntitySettings {
    type Target = QueueSettings;

    #[inline]
    fn deref(&self) -> &QueueSettings {
        &self.configured
    }
}

impl EntitySettings {
    pub(super) fn new(configured: QueueSettings, plan: ServicePlan) -> Self {
        Self {
            message_size_bytes_max: plan.message_size_bytes_max(&configured),
            configured,
        }
    }

    /// Maximum bytes of each partition, if the entity has a maximum size (B-035).
    #[inline]
    pub fn size_bytes_max(&self) -> Option<u64> {
        self.max_size_megabytes.map(|megabytes| megabytes << 20)
    }
}

impl Entity {
    /// The current settings.
    #[inline]
    pub fn settings(&self) -> &EntitySettings {
        self.settings.current()
    }

    /// Applies valid settings and the catalog's role of the entity. The caller then calls [`Entity::wake_all`] without
    /// the lock of the map of entities, so that waiting calls see the settings.
    pub(crate) fn apply(&self, settings: QueueSettings, role: &EntityRole, updated_at: Timestamp) {
        self.kind.apply(role);
        self.settings
            .replace(EntitySettings::new(settings, self.kind.plan(self.core.plan())));
        self.set_updated_at(updated_at);
    }

    /// True if the entity has a cell in each partition of the namespace.
    pub fn is_partitioned(&self) -> bool {
        self.settings().enable_partitioning
    }

    /// Expiry of a message enqueued now, by its time to live or the entity's, whichever is shorter (B-247).
    #[inline]
    pub fn expires_at(&self, time_to_live_ms: Option<u64>, now: Timestamp) -> Timestamp {
        let default = self.settings().default_time_to_live_ms.unwrap_or(u64::MAX);
        now.plus_ms(time_to_live_ms.map_or(default, |own| own.min(default)))
    }

    /// The settings by which cells expire and dead-letter messages.
    pub fn delivery_policy(&self) -> DeliveryPolicy {
        let settings = self.settings();
        DeliveryPolicy {
            max_delivery_count: settings.max_delivery_count,
            dead_letter_expired: settings.dead_lettering_on_message_expiration,
            sessions_expire_whole: settings.expire_whole_sessions,
        }
    }
}
