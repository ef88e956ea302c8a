// SPDX-License-Identifier: Apache-2.0
//! Entities: queues, topics and subscriptions, with their settings and their cells in the shards of the namespace.
//!
//! An entity has one cell in each partition, or only one in its home partition. The first message of a cell creates it.
//! `kind` contains the differences between queues, topics and subscriptions.

mod access;
mod admission;
mod announce;
mod bounds;
mod cells;
mod core;
pub mod counts;
pub mod drain;
mod entity_change;
mod entity_map;
pub(crate) mod forward;
mod idle;
mod keys;
pub(crate) mod kind;
mod lease;
pub mod purge;
pub mod receivable;
pub mod receive_cache;
pub(crate) mod reservation;
mod sessions;
mod settings;
mod token;
pub(crate) mod topic;
pub(crate) mod write_batch;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use oxbus_model::name::{EntityName, SubQueue};
use oxbus_model::options::QueueSettings;
use oxbus_model::{EntityKind, Timestamp};
use oxbus_store::Versions;

pub use self::core::{Core, WakeHandle};
pub use self::counts::{Backlog, EntityCounts, PartitionCounts};
pub use self::drain::{DrainOutcome, DrainPage};
pub(crate) use self::entity_change::EntityChange;
pub(crate) use self::entity_map::EntityMap;
use self::forward::Forwarding;
use self::idle::EntityTimes;
use self::kind::KindState;
pub use self::purge::MessageSelector;
pub use self::receivable::Receivable;
use self::reservation::Consumers;
pub use self::settings::EntitySettings;
use crate::shard::journal::EntityId;
use crate::shard::{Cell, CellFeatures, Shard};

/// A queue, a topic or a subscription of a namespace.
pub struct Entity {
    core: Arc<Core>,
    name: EntityName,
    id: EntityId,
    kind: KindState,
    settings: Versions<EntitySettings>,
    /// Settings that never change, and properties that follow from the kind.
    features: CellFeatures,
    /// The shard of each cell: all shards of the namespace, or only the home shard.
    shards: Box<[Arc<Shard>]>,
    cells: Box<[OnceLock<Cell>]>,
    main: Receivable,
    dead_letters: Receivable,
    forwarding: Forwarding,
    /// Consumers that have reservations.
    consumers: Consumers,
    is_removed: AtomicBool,
    times: EntityTimes,
}

impl Entity {
    pub(crate) fn new(
        core: &Arc<Core>,
        name: EntityName,
        settings: QueueSettings,
        kind: KindState,
        shards: Box<[Arc<Shard>]>,
        id: EntityId,
        (created_at, updated_at): (Timestamp, Timestamp),
    ) -> Self {
        Self {
            core: Arc::clone(core),
            name,
            id,
            features: CellFeatures {
                detects_duplicates: settings.requires_duplicate_detection,
                requires_session: settings.requires_session,
                fans_out: kind.fans_out(),
            },
            settings: Versions::new(EntitySettings::new(settings, kind.plan(core.plan()))),
            kind,
            cells: shards.iter().map(|_| OnceLock::new()).collect(),
            shards,
            main: Receivable::default(),
            dead_letters: Receivable::default(),
            forwarding: Forwarding::default(),
            consumers: Consumers::default(),
            is_removed: AtomicBool::new(false),
            times: EntityTimes::new(created_at, updated_at),
        }
    }

    /// Identifies the entity. An entity that is deleted and created again gets a new id.
    pub fn id(&self) -> EntityId {
        self.id
    }

    /// The name of the entity.
    pub fn name(&self) -> &EntityName {
        &self.name
    }

    /// Queue, topic or subscription.
    pub fn kind(&self) -> EntityKind {
        self.kind.tag()
    }

    /// The state that all entities of the namespace share.
    #[inline]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// True if the namespace stores messages in a directory.
    #[inline]
    pub fn is_durable(&self) -> bool {
        self.core.is_durable()
    }

    /// True if the namespace is in a store.
    pub fn is_in_store(&self) -> bool {
        self.core.is_in_store()
    }

    /// True if calls may wait for a store.
    #[inline]
    pub fn may_wait(&self) -> bool {
        self.core.may_wait()
    }

    /// Wall time of the namespace's clock.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.core.clock().now()
    }

    /// The shared receiver state of a sub-queue.
    #[inline]
    pub fn receivable(&self, sub_queue: SubQueue) -> &Receivable {
        match sub_queue {
            SubQueue::Main => &self.main,
            SubQueue::DeadLetter => &self.dead_letters,
        }
    }
}
