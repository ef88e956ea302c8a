// SPDX-License-Identifier: Apache-2.0
//! The front door: a namespace, its shards, and the queues in them.
//!
//! In memory, or in a directory (`durable`). Queues are found by name without case. Handles keep their queue alive; a deleted queue refuses every call,
//! and a queue of the same name created later is another incarnation.

pub mod bulk_load;
mod entities;
mod entity_options;
mod from_catalog;
mod health;
mod inner;
mod topics;

use oxbus_store::Wait;
use std::sync::Arc;

use oxbus_model::caps::PARTITIONS_MAX;
use oxbus_model::name::EntityName;
use oxbus_model::options::{LockPolicy, PeekPolicy};
use oxbus_model::tier::Plan;
use oxbus_model::{Clock, Error, ErrorKind, Result, Timestamp};

pub use self::entity_options::{AuthorizationRuleUpdate, EntityOption};
pub use self::health::PartitionHealth;
pub use self::inner::CloseHandle;
use self::inner::{CloseGuard, Inner};
pub use self::topics::{DEFAULT_RULE, SubscriptionOptions, TopicOptions};
use crate::client::{Acceptor, Receiver, ReceiverOptions, Reservations, Sender, Transaction, Wanted};
use crate::clock::{ManualClock, Randomness};
use crate::durable::{Recovery, StoreOptions, Stores};
use crate::entity::QueueCounts;
pub use crate::entity::WakeHandle;
use crate::shard::Shard;
use crate::stage::Stages;

/// How to open a namespace.
#[derive(Default)]
pub struct NamespaceOptions {
    /// Where to keep it; `None` in memory.
    pub store: Option<StoreOptions>,
    /// Shards, and cells of a partitioned entity. `None` for the usual number, or for those that it has.
    pub partitions: Option<u16>,
    /// Policy of receivers that name none.
    pub lock_policy: LockPolicy,
    /// From where a browse without a number answers.
    pub peek_policy: PeekPolicy,
    /// Its tier and edition.
    pub plan: Plan,
    /// Bytes the messages may take; `None` without a bound.
    pub memory_limit_bytes: Option<u64>,
    /// What its directory has when it is opened stays on disk until somebody reads it: for who reads each message once, or
    /// none.
    pub keep_bodies_on_disk: bool,
    /// A clock moved by hand; `None` for the machine's.
    pub clock: Option<Arc<ManualClock>>,
    /// Milliseconds from which a call that waits for a journal is logged; 0 for never.
    pub slow_call_ms: u64,
    /// Where its ids, salts and secrets come from; a seed is for tests. `newid()` of a rule takes the system's in any case.
    pub randomness: Randomness,
}

/// A set of queues over a set of shards. Closes when the last handle of it is gone.
#[derive(Clone)]
pub struct Namespace {
    inner: Arc<Inner>,
    _closing: Arc<CloseGuard>,
}

impl Namespace {
    /// Opens a namespace: empty in memory, or what is in its directory.
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

    /// Its tier and edition.
    pub fn plan(&self) -> Plan {
        self.inner.core.plan()
    }

    /// True when messages are kept in a directory.
    pub fn is_durable(&self) -> bool {
        self.inner.core.is_durable()
    }

    /// True when calls may wait for a store.
    pub fn may_wait(&self) -> bool {
        self.inner.core.may_wait()
    }

    /// Number of partitions.
    pub fn partitions(&self) -> u16 {
        self.inner.shards.len() as u16
    }

    /// A handle that wakes who waits.
    pub fn wake_handle(&self) -> WakeHandle {
        self.inner.core.wake_handle()
    }

    /// A handle that closes the namespace.
    pub fn close_handle(&self) -> CloseHandle {
        CloseHandle::new(&self.inner)
    }

    /// When it was opened, and when an entity changed last.
    pub fn times(&self) -> (Timestamp, Timestamp) {
        let opened = self.inner.opened_at;
        let changed = self.inner.core.queues().values().map(|entity| entity.times().1).max();
        (opened, changed.map_or(opened, |changed| changed.max(opened)))
    }

    /// True until [`Namespace::close`].
    pub fn is_open(&self) -> bool {
        self.inner.core.check_open().is_ok()
    }

    /// The namespace's clock.
    pub fn clock(&self) -> &dyn Clock {
        self.inner.core.clock()
    }

    /// The files of a durable namespace.
    pub fn stores(&self) -> Option<&Stores> {
        self.inner.stores.as_ref()
    }

    /// What opening a durable namespace found.
    pub fn recovery(&self) -> Option<Recovery> {
        self.stores().map(Stores::recovery)
    }

    /// Ends the namespace: every later call fails, and who waits learns it. In memory, the messages are gone; in a
    /// directory, everything acknowledged is there, and others may open it.
    pub fn close(&self) {
        self.inner.close(false);
    }

    /// The same without snapshots, which costs time now and saves some at the next open: for who only adds messages, to
    /// journals that have little else.
    pub fn close_as_it_is(&self) {
        self.inner.close(true);
    }

    /// Writes a snapshot of every healthy partition and lets go of the journals before it.
    pub fn checkpoint(&self) -> Result<()> {
        self.inner.core.check_open()?;
        self.inner.forget_seen();
        self.inner.record_uses(|_| true);
        let healthy = |shard: &&Arc<Shard>| shard.health().serves();
        self.inner
            .shards
            .iter()
            .filter(healthy)
            .try_for_each(|shard| shard.save(|| self.inner.cells_of(shard), false))
    }

    /// Counts of a queue.
    pub fn queue_counts(&self, name: &str, wait: &Wait<'_>) -> Result<QueueCounts> {
        Ok(self.queue(name)?.counts(wait))
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

    /// Accepts a session of a queue or a subscription. `owner` names the receiver.
    pub fn acceptor(&self, path: &str, wanted: Wanted, options: ReceiverOptions, owner: String) -> Result<Acceptor> {
        let entity = self.entity(path)?;
        entity.check_receivable()?;
        Acceptor::new(entity, wanted, options, owner)
    }

    /// Sends that are staged and committed in two steps.
    pub fn stages(&self) -> Stages {
        Stages::new(&self.inner.registry)
    }

    /// A transaction in which nothing was done. It may touch several entities when `cross_entity` says so.
    pub fn transaction(&self, cross_entity: bool) -> Result<Transaction> {
        self.inner.core.check_open()?;
        self.inner.core.plan().check_transactions()?;
        Ok(Transaction::new(Arc::clone(&self.inner.core), cross_entity))
    }
}
