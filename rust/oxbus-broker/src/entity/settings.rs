// SPDX-License-Identifier: Apache-2.0
//! The settings of an entity: one snapshot, put in place of the one before as a whole.

use std::ops::Deref;

use oxbus_model::Timestamp;
use oxbus_model::options::QueueSettings;
use oxbus_model::tier::ServicePlan;

use super::Entity;
use crate::catalog::EntityRole;
use crate::shard::DeliveryPolicy;

/// The settings that hold, and what follows from them.
#[derive(Debug, PartialEq)]
pub struct EntitySettings {
    configured: QueueSettings,
    /// Bytes one message may have.
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

    /// Bytes each partition may hold, when the entity was given a size (B-035).
    #[inline]
    pub fn size_bytes_max(&self) -> Option<u64> {
        self.max_size_megabytes.map(|megabytes| megabytes << 20)
    }
}

impl Entity {
    /// Its settings as they are now.
    #[inline]
    pub fn settings(&self) -> &EntitySettings {
        self.settings.current()
    }

    /// Takes over valid settings, and what the catalog says of its kind. Who waits must look again: call
    /// [`Entity::wake_all`] when the queue map is let go.
    pub(crate) fn apply(&self, settings: QueueSettings, role: &EntityRole, updated_at: Timestamp) {
        self.kind.apply(role);
        self.settings
            .replace(EntitySettings::new(settings, self.kind.plan(self.core.plan())));
        self.set_updated_at(updated_at);
    }

    /// True with a cell in each partition of the namespace.
    pub fn is_partitioned(&self) -> bool {
        self.settings().enable_partitioning
    }

    /// When a message with this time to live, accepted now, expires: the smaller of its own and the entity's (B-247).
    #[inline]
    pub fn expires_at(&self, time_to_live_ms: Option<u64>, now: Timestamp) -> Timestamp {
        let default = self.settings().default_time_to_live_ms.unwrap_or(u64::MAX);
        now.plus_ms(time_to_live_ms.map_or(default, |own| own.min(default)))
    }

    /// The settings by which its cells dispose of messages.
    pub fn delivery_policy(&self) -> DeliveryPolicy {
        let settings = self.settings();
        DeliveryPolicy {
            max_delivery_count: settings.max_delivery_count,
            dead_letter_expired: settings.dead_lettering_on_message_expiration,
            sessions_expire_whole: settings.expire_whole_sessions,
        }
    }
}
