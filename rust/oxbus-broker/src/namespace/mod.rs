// SPDX-License-Identifier: Apache-2.0
//! A namespace: its shards and its entities, in memory or in a directory (`durable`).
//!
//! Names of entities are case-insensitive. A handle keeps its entity alive. After an entity is deleted, every call on
//! its handles fails. An entity that is created later under the same name is a different entity.

pub mod bulk_load;
mod entities;
mod entity_options;
mod from_catalog;
mod health;
mod inner;
mod metrics;
mod partition_files;
mod topics;

use oxbus_log::event;
use oxbus_store::Wait;
use std::sync::Arc;

use oxbus_model::caps::PARTITIONS_MAX;
use oxbus_model::name::EntityName;
use oxbus_model::options::{Durability, LockPolicy, PeekPolicy};
use oxbus_model::tier::ServicePlan;
use oxbus_model::{Clock, Error, ErrorKind, Result, Timestamp};

pub use self::entity_options::{AuthorizationRuleUpdate, EntityOption};
pub use self::health::PartitionHealth;
pub use self::inner::CloseHandle;
use self::inner::{CloseGuard, Inner};
pub use self::partition_files::PartitionFiles;
pub use self::topics::{DEFAULT_RULE, SubscriptionOptions, TopicOptions};
use crate::backup::{self, Backup};
use crate::client::{Acceptor, Receiver, ReceiverOptions, Reservations, Sender, SessionSelector, Transaction};
use crate::clock::{ManualClock, Randomness};
use crate::durable::{Recovery, StoreOptions, Stores};
use crate::entity::EntityCounts;
pub use crate::entity::WakeHandle;
use crate::shard::Shard;
use crate::stage::Stages;

/// How to open a namespace.
#[derive(Default)]
pub struct NamespaceOptions {
    /// Options of a durable namespace; `None` for one in memory.
    pub store: Option<StoreOptions>,
    /// Number of partitions; `None` for the number of an existing namespace, or else the default.
    pub partitions: Option<u16>,
    /// Lock policy of receivers that do not set one.
    pub lock_policy: LockPolicy,
    /// Where a browse without a sequence number begins.
    pub peek_policy: PeekPolicy,
    /// Tier and profile.
    pub plan: ServicePlan,
    /// Memory limit of the messages, in bytes; `None` for no limit.
    pub memory_limit_bytes: Option<u64>,
    /// True to leave messages found at open on disk until they are read. Suits a process that reads each message once
    /// or never.
    pub keep_bodies_on_disk: bool,
    /// A manual clock for tests; `None` for the system's.
    pub clock: Option<Arc<ManualClock>>,
    /// A call that waits at least this many milliseconds for a journal is logged; 0 for never.
    pub slow_call_ms: u64,
    /// Source of ids, salts and secrets, seeded only in tests. `newid()` in rules always uses the system's.
    pub randomness: Randomness,
}

/// A handle of a namespace. Dropping the last handle closes it.
#[derive(Clone)]
pub struct Namespace {
    inner: Arc<Inner>,
    _closing: Arc<CloseGuard>,
}

impl Namespace {
    /// Opens a namespace: an empty one in memory, or the one in a directory.
    pub fn open(options: NamespaceOptions) -> Result<Self> {
        if let Some(partitions) = options
            .partitions
            .filter(|number| !(1..=PARTITIONS_MAX).contains(number))
        {
            let detail = format!("partitions is out of range; use 1 to {PARTITIONS_MAX}: {partitions}");
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
        let inner = Inner::open(options)?;
        Ok(Self {
            _closing: Arc::new(CloseGuard(Arc::clone(&inner))),
            inner,
        })
    }

    /// Tier and profile.
    pub fn plan(&self) -> ServicePlan {
        self.inner.core.plan()
    }

    /// True if the namespace is in a directory.
    pub fn is_durable(&self) -> bool {
        self.inner.core.is_durable()
    }

    /// True if calls may block on a store.
    pub fn may_wait(&self) -> bool {
        self.inner.core.may_wait()
    }

    /// True if the namespace is in a store, which answers after milliseconds at least.
    pub fn is_in_store(&self) -> bool {
        self.inner.core.is_in_store()
    }

    /// True if a call at a durability, or at the default one, neither waits for a sync nor finds a disk that hangs.
    pub fn answers_at_once(&self, durability: Option<Durability>) -> bool {
        let core = &self.inner.core;
        let hangs = || self.inner.shards.iter().any(|shard| shard.health().is_stalled());
        core.answers_at_once(durability) && !(core.may_wait() && hangs())
    }

    /// Number of partitions.
    pub fn partitions(&self) -> u16 {
        self.inner.shards.len() as u16
    }

    /// A handle that wakes waiting calls.
    pub fn wake_handle(&self) -> WakeHandle {
        self.inner.core.wake_handle()
    }

    /// A handle that closes the namespace.
    pub fn close_handle(&self) -> CloseHandle {
        CloseHandle::new(&self.inner)
    }

    /// The time of the open, and of the last change of an entity.
    pub fn times(&self) -> (Timestamp, Timestamp) {
        let opened = self.inner.opened_at;
        let changed = self.inner.core.entities().values().map(|entity| entity.times().1).max();
        (opened, changed.map_or(opened, |changed| changed.max(opened)))
    }

    /// True until [`Namespace::close`].
    pub fn is_open(&self) -> bool {
        self.inner.core.check_open().is_ok()
    }

    /// True if another process took the namespace over. Then nothing works here any more.
    pub fn is_taken_over(&self) -> bool {
        self.inner.core.is_taken_over()
    }

    /// The namespace's clock.
    pub fn clock(&self) -> &dyn Clock {
        self.inner.core.clock()
    }

    /// The files of a durable namespace.
    pub fn stores(&self) -> Option<&Stores> {
        self.inner.stores.as_ref()
    }

    /// The result of recovery; `None` in memory.
    pub fn recovery(&self) -> Option<Recovery> {
        self.stores().map(Stores::recovery)
    }

    /// Closes the namespace. Waiting calls and all later calls fail. Messages in memory are lost. A directory has
    /// everything that was acknowledged, and another process may open it.
    pub fn close(&self) {
        self.inner.close(false);
    }

    /// Closes the namespace without snapshots: a faster close, and a slower next open. Suits a process that only
    /// appended messages.
    pub fn close_without_snapshots(&self) {
        self.inner.close(true);
    }

    /// Writes a snapshot of every healthy partition and removes the journal before it.
    pub fn checkpoint(&self) -> Result<()> {
        self.inner.core.check_open()?;
        self.inner.forget_expired_identities();
        self.inner.record_uses(|_| true);
        let healthy = |shard: &&Arc<Shard>| shard.health().serves();
        self.inner
            .shards
            .iter()
            .filter(healthy)
            .try_for_each(|shard| shard.write_snapshot(|| self.inner.cells_of(shard), false))
    }

    /// The files of the namespace as they are at one moment, with everything that was acknowledged before the call. No
    /// call waits for it longer than for another call.
    pub fn backup(&self, wait: &Wait<'_>) -> Result<Backup> {
        let inner = &self.inner;
        let Some(stores) = &inner.stores else {
            let detail = "a namespace in memory has no files; back up one in a directory, or copy its messages with `oxbus copy`";
            return Err(Error::new(ErrorKind::InvalidOperation, detail));
        };
        let found = backup::of_open(&inner.core, stores, &inner.shards, &inner.registry, wait)?;
        event!(
            BACKUP_BEGUN,
            path = %inner.display_path(),
            files = found.files().len(),
            bytes = found.files().iter().map(|file| file.bytes).sum::<u64>()
        );
        Ok(found)
    }

    /// Counts of a queue.
    pub fn queue_counts(&self, name: &str, wait: &Wait<'_>) -> Result<EntityCounts> {
        self.queue(name)?.counts(wait)
    }

    /// A sender to a queue or a topic.
    pub fn sender(&self, path: &str) -> Result<Sender> {
        let entity = self.entity(path)?;
        entity.check_sendable()?;
        Ok(Sender::new(entity))
    }

    /// A receiver from a queue or a subscription, or from its dead-letter queue.
    pub fn receiver(&self, path: &str, options: ReceiverOptions) -> Result<Receiver> {
        Receiver::new(self.entity(path)?, options, None)
    }

    /// The reservations of a queue or a subscription, or of its dead-letter queue: `orders`, `t/Subscriptions/s`,
    /// `orders/$deadletterqueue`.
    pub fn reservations(&self, path: &str) -> Result<Reservations> {
        let (path, sub_queue) = EntityName::split_sub_queue(path);
        let entity = self.entity(path)?;
        entity.check_receivable()?;
        Reservations::new(entity, sub_queue)
    }

    /// An acceptor of sessions of a queue or a subscription. `owner` names the receiver.
    pub fn acceptor(
        &self,
        path: &str,
        wanted: SessionSelector,
        options: ReceiverOptions,
        owner: String,
    ) -> Result<Acceptor> {
        let entity = self.entity(path)?;
        entity.check_receivable()?;
        Acceptor::new(entity, wanted, options, owner)
    }

    /// The staged sends of the namespace.
    pub fn stages(&self) -> Stages {
        Stages::new(&self.inner.registry)
    }

    /// Begins a transaction. With `cross_entity`, it may include several entities.
    pub fn transaction(&self, cross_entity: bool) -> Result<Transaction> {
        self.inner.core.check_open()?;
        self.inner.core.plan().check_transactions()?;
        Ok(Transaction::new(Arc::clone(&self.inner.core), cross_entity))
    }
}
