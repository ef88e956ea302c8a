// SPDX-License-Identifier: Apache-2.0
//! The front door: a namespace, its shards, and the queues in them.
//!
//! In memory, or in a directory (`durable`). Queues are found by name without case. Handles keep their queue alive; a deleted queue refuses every call,
//! and a queue of the same name created later is another incarnation.

mod core;
mod inner;
mod topics;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use oxbus_model::caps::{PARTITIONS_MAX, STORE_SUSPECT_MS};
use oxbus_model::hash::partition_of;
use oxbus_model::name::EntityName;
use oxbus_model::options::{EntityStatus, LockPolicy, PeekPolicy, QueueSettings};
use oxbus_model::tier::{Kind, Plan};
use oxbus_model::{Clock, Error, ErrorKind, PartitionId, Result, Timestamp};
use oxbus_store::injected::DiskFault;

pub use self::core::{Core, WakeHandle};
pub use self::inner::CloseHandle;
use self::inner::{Inner, link_all, subscribe_all};
pub use self::topics::{DEFAULT_RULE, SubscriptionOptions, TopicOptions};
use crate::client::{Acceptor, Receiver, ReceiverOptions, Sender, Transaction, Wanted};
use crate::clock::{Alarm, ManualClock};
use crate::durable::{EntityEntry, EntityRole, Recovery, StoreOptions, Stores};
use crate::entity::{Queue, QueueCounts, QueueDescription};
use crate::shard::{Fault, Injected, Shard};

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
    /// A clock moved by hand; `None` for the machine's.
    pub clock: Option<Arc<ManualClock>>,
}

/// Health of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionHealth {
    /// Which partition.
    pub partition: PartitionId,
    /// What is wrong with it; `None` when it is healthy.
    pub fault: Option<Fault>,
    /// The same for people.
    pub reason: Option<String>,
}

/// A set of queues over a set of shards. Closes when the last handle of it is gone.
#[derive(Clone)]
pub struct Namespace {
    inner: Arc<Inner>,
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
        Ok(Self {
            inner: Inner::open(options)?,
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
    pub fn recovery(&self) -> Option<&Recovery> {
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
        self.inner.note_uses(|_| true);
        let healthy = |shard: &&Arc<Shard>| shard.health().serves();
        self.inner
            .shards
            .iter()
            .filter(healthy)
            .try_for_each(|shard| shard.save(|| self.inner.cells_of(shard), false))
    }

    /// Creates a queue.
    pub fn create_queue(&self, name: &str, settings: QueueSettings) -> Result<QueueDescription> {
        let name = EntityName::parse(name)?;
        let created = self.create(&name, settings, EntityRole::Queue)?;
        Ok(created.describe())
    }

    /// Creates an entity of a valid name.
    fn create(&self, name: &EntityName, mut settings: QueueSettings, role: EntityRole) -> Result<Arc<Queue>> {
        let inner = &self.inner;
        inner.core.check_open()?;
        let plan = inner.core.plan();
        let kind = role.kind();
        if kind != Kind::Subscription {
            plan.complete(&mut settings);
        }
        settings.check()?;
        plan.check(kind, &settings, None)?;
        check_status(kind, settings.status)?;
        self.delete_idle();
        let mut entities = inner.core.queues_for_change();
        let changed = inner.refresh(&mut entities);
        let created = self.create_among(&mut entities, name, settings, role);
        drop(entities);
        for entity in &changed {
            entity.wake_all();
        }
        // Others may have waited for an entity of that name.
        created.inspect(|entity| entity.tick(inner.core.clock().moment()))
    }

    /// The same among the entities that there are.
    fn create_among(
        &self,
        entities: &mut BTreeMap<String, Arc<Queue>>,
        name: &EntityName,
        settings: QueueSettings,
        role: EntityRole,
    ) -> Result<Arc<Queue>> {
        let inner = &self.inner;
        let plan = inner.core.plan();
        let kind = role.kind();
        check_destinations(name, &settings, entities)?;
        if entities.contains_key(name.key()) {
            let detail = format!(
                "an entity of that name exists; choose another name or update that one: `{}`",
                name.as_str()
            );
            return Err(Error::new(ErrorKind::EntityAlreadyExists, detail));
        }
        if kind != Kind::Subscription {
            let counted = entities.values().filter(|entity| !entity.is_subscription());
            let partitioned = counted.clone().filter(|entity| entity.is_partitioned()).count();
            plan.check_count(counted.count(), partitioned, settings.enable_partitioning)?;
        }
        let home = match &role {
            // Beside its topic, so that both meet in one shard.
            EntityRole::Subscription { topic, .. } => Inner::home_of(entities, *topic)?,
            _ => partition_of(name.key().as_bytes(), self.partitions().into()) as u16,
        };
        let shards = inner.shards_of(&settings, home);
        check_health(&shards, "create")?;
        let now = inner.core.clock().now();
        let mut entry = EntityEntry {
            id: 0,
            name: name.as_str().to_owned(),
            home,
            created_at_ms: now.0,
            updated_at_ms: now.0,
            accessed_at_ms: None,
            settings,
            role,
        };
        // Before the catalog says so: what does not compile is refused without a trace.
        inner.entity_of(&entry, entities)?;
        match &inner.stores {
            None => entry.id = inner.next_entity.fetch_add(1, Ordering::Relaxed),
            Some(stores) => stores.change(|contents| {
                entry.id = contents.next_entity;
                contents.next_entity += 1;
                contents.queues.push(entry.clone());
            })?,
        }
        let entity = inner.entity_of(&entry, entities)?;
        entities.insert(name.key().to_owned(), Arc::clone(&entity));
        subscribe_all(entities);
        link_all(entities);
        Ok(entity)
    }

    /// The queue of that name.
    pub fn queue(&self, name: &str) -> Result<Arc<Queue>> {
        self.entity_that(name, "queue", Queue::is_queue)
    }

    /// The entity of that path, if it is what is asked for (B-019).
    fn entity_that(&self, path: &str, what: &str, is_it: impl Fn(&Queue) -> bool) -> Result<Arc<Queue>> {
        self.inner.core.check_open()?;
        self.inner.refresh_shared();
        self.delete_idle();
        let found = self.inner.core.queues().get(&EntityName::key_of(path)).cloned();
        found.filter(|entity| is_it(entity)).ok_or_else(|| {
            let create = what.replace(' ', "_");
            let detail = format!("no {what} of that name; create it with create_{create}: `{path}`");
            Error::new(ErrorKind::EntityNotFound, detail)
        })
    }

    /// Any entity.
    pub fn entity(&self, path: &str) -> Result<Arc<Queue>> {
        let what = if path.to_ascii_lowercase().contains("/subscriptions/") {
            "subscription"
        } else {
            "queue"
        };
        self.entity_that(path, what, |_| true)
    }

    /// Changes the settings of a queue; `change` edits a copy of those that hold.
    pub fn update_queue(&self, name: &str, change: impl FnOnce(&mut QueueSettings)) -> Result<()> {
        let queue = self.queue(name)?;
        self.update(&queue, |settings, _| {
            change(settings);
            Ok(())
        })
    }

    /// Changes the settings of an entity, and what its role says; `change` edits copies of those that hold.
    fn update(
        &self,
        entity: &Arc<Queue>,
        change: impl FnOnce(&mut QueueSettings, &mut EntityRole) -> Result<()>,
    ) -> Result<()> {
        // What happened before goes by the settings that held then.
        entity.tick(self.inner.core.clock().moment());
        // Taken for writing, so that two updates do not undo each other.
        let entities = self.inner.core.queues_for_change();
        entity.check_alive()?;
        let held = entity.settings();
        let mut next = (*held).clone();
        let mut role = entity.role_entry();
        change(&mut next, &mut role)?;
        held.check_change(&next)?;
        let plan = self.inner.core.plan();
        plan.check(role.kind(), &next, Some(&held))?;
        if next.status != held.status {
            check_status(role.kind(), next.status)?;
        }
        check_destinations(entity.name(), &next, &entities)?;
        check_all_serve(entity, "update")?;
        let now = self.inner.core.clock().now();
        if let Some(stores) = &self.inner.stores {
            stores.change(|contents| {
                contents.update(entity.id(), now, |entry| {
                    entry.settings = next.clone();
                    entry.role = role.clone();
                });
            })?;
        }
        match role {
            EntityRole::Queue => {}
            EntityRole::Topic { support_ordering } => entity.set_support_ordering(support_ordering),
            EntityRole::Subscription { bury_failed, .. } => entity.set_buries_failed(bury_failed),
        }
        entity.apply(next, now);
        if let Some(topic) = entity.topic() {
            topic.touch(now);
        }
        link_all(&entities);
        drop(entities);
        entity.wake_all();
        // What is there already goes, too; what is not forwarded any more can be received.
        entity.forward_anew();
        entity.announce_ready();
        // It may take now what it refused.
        entity.tick(self.inner.core.clock().moment());
        Ok(())
    }

    /// Deletes a queue with its messages.
    pub fn delete_queue(&self, name: &str) -> Result<()> {
        self.delete(&self.queue(name)?)
    }

    /// Deletes an entity with its messages; a topic with its subscriptions.
    fn delete(&self, entity: &Arc<Queue>) -> Result<()> {
        entity.check_alive()?;
        self.delete_if(entity, |_| true)
    }

    fn delete_if(&self, entity: &Arc<Queue>, is_wanted: impl Fn(&Queue) -> bool) -> Result<()> {
        let mut entities = self.inner.core.queues_for_change();
        if !entities.contains_key(entity.name().key()) || !is_wanted(entity) {
            return Ok(());
        }
        check_all_serve(entity, "delete")?;
        let mut gone = entity.subscriptions();
        gone.push(Arc::clone(entity));
        if let Some(stores) = &self.inner.stores {
            // Its messages go with it: the journals forget an entity that the catalog does not know.
            let is_gone = |id: u64| gone.iter().any(|entity| entity.id().0 == id);
            stores.change(|contents| contents.queues.retain(|entry| !is_gone(entry.id)))?;
        }
        for entity in &gone {
            entities.remove(entity.name().key());
            entity.remove();
        }
        subscribe_all(&entities);
        drop(entities);
        for entity in &gone {
            entity.wake_all();
        }
        Ok(())
    }

    /// Deletes the entities that nobody has used for as long as their settings allow (B-382).
    fn delete_idle(&self) {
        let idle: Vec<Arc<Queue>> = {
            let entities = self.inner.core.queues();
            entities.values().filter(|entity| entity.is_idle()).cloned().collect()
        };
        for entity in idle {
            // One whose partition is out of service goes later; until then its handles refuse.
            let _ = self.delete_if(&entity, Queue::is_idle);
        }
    }

    /// All queues by name.
    pub fn list_queues(&self) -> Result<Vec<Arc<Queue>>> {
        self.list(Queue::is_queue)
    }

    /// All entities by path: queues, topics, subscriptions.
    pub fn list_entities(&self) -> Result<Vec<Arc<Queue>>> {
        self.list(|_| true)
    }

    fn list(&self, is_one: impl Fn(&Queue) -> bool) -> Result<Vec<Arc<Queue>>> {
        self.inner.core.check_open()?;
        self.inner.refresh_shared();
        self.delete_idle();
        let entities = self.inner.core.queues();
        Ok(entities.values().filter(|entity| is_one(entity)).cloned().collect())
    }

    /// Counts of a queue.
    pub fn queue_counts(&self, name: &str) -> Result<QueueCounts> {
        Ok(self.queue(name)?.counts())
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

    /// Accepts a session of a queue or a subscription. `owner` names the receiver.
    pub fn acceptor(&self, path: &str, wanted: Wanted, options: ReceiverOptions, owner: String) -> Result<Acceptor> {
        let entity = self.entity(path)?;
        entity.check_receivable()?;
        Acceptor::new(entity, wanted, options, owner)
    }

    /// A transaction in which nothing was done. It may touch several entities when `cross_entity` says so.
    pub fn transaction(&self, cross_entity: bool) -> Result<Transaction> {
        self.inner.core.check_open()?;
        self.inner.core.plan().check_transactions()?;
        Ok(Transaction::new(Arc::clone(&self.inner.core), cross_entity))
    }

    /// Health of every partition.
    pub fn partition_health(&self) -> Vec<PartitionHealth> {
        self.inner
            .shards
            .iter()
            .map(|shard| PartitionHealth {
                partition: shard.id(),
                fault: shard.health().fault(),
                reason: shard.health().reason(),
            })
            .collect()
    }

    /// Makes a partition fail after that many operations on it, or calls of its disk. For tests.
    pub fn inject_fault(&self, partition: PartitionId, fault: Injected, after: u64) -> Result<()> {
        let shard = self.shard(partition)?;
        if let Some(fault) = shard.health().fault().filter(|fault| fault.is_final()) {
            return Err(cannot_heal(shard, fault));
        }
        match fault {
            Injected::Shard(fault) => shard.health().inject(fault, after),
            Injected::Disk(DiskFault::Stall) if self.stores().is_none() => {
                self.inner.core.let_wait();
                shard.health().inject(Fault::Stalled, after);
            }
            Injected::Disk(fault) => {
                let store = self.stores().and_then(|stores| stores.shard(partition.0));
                let store = store.ok_or_else(|| {
                    let detail = "the fault needs a disk; open the namespace with a path, or use `unavailable`, `busy`, `enospc` or `stall`";
                    Error::new(ErrorKind::InvalidOperation, detail)
                })?;
                store.injection().begin(fault, after);
            }
        }
        Ok(())
    }

    /// Ends the fault of a partition; one whose store failed is written anew.
    pub fn heal(&self, partition: PartitionId) -> Result<()> {
        let shard = self.shard(partition)?;
        if let Some(fault) = shard.health().fault().filter(|fault| fault.is_final()) {
            return Err(cannot_heal(shard, fault));
        }
        if let Some(store) = self.stores().and_then(|stores| stores.shard(partition.0)) {
            store.injection().end();
            // A call that hung comes back now. Until it has, the disk would seem to hang still.
            let patience = Alarm::after(Some(Duration::from_millis(STORE_SUSPECT_MS)));
            while store.log().is_at_disk() && !patience.is_over() {
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }
        self.inner.heal(shard)
    }

    fn shard(&self, partition: PartitionId) -> Result<&Arc<Shard>> {
        self.inner.core.check_open()?;
        self.inner.shards.get(usize::from(partition.0)).ok_or_else(|| {
            let detail = format!(
                "partition_id is out of range; use 0 to {}: {partition}",
                self.partitions() - 1
            );
            Error::new(ErrorKind::InvalidArgument, detail)
        })
    }
}

fn cannot_heal(shard: &Shard, fault: Fault) -> Error {
    let reason = shard.health().reason().unwrap_or_default();
    let advice = if fault == Fault::Elsewhere {
        "heal it in the process that owns it"
    } else {
        "salvage or restore it and open the namespace again"
    };
    let detail = format!("the partition is offline: {reason}; {advice}: partition={}", shard.id());
    Error::new(ErrorKind::PartitionUnavailable, detail)
}

/// Refuses a status that is none of the entity's kind (B-396).
fn check_status(kind: Kind, status: EntityStatus) -> Result<()> {
    let (what, others) = match (kind, status) {
        (Kind::Topic, EntityStatus::ReceiveDisabled) => ("a topic is not received from", "SendDisabled"),
        (Kind::Subscription, EntityStatus::SendDisabled) => ("a subscription is not sent to", "ReceiveDisabled"),
        _ => return Ok(()),
    };
    let detail = format!("{what}; use Active, Disabled or {others} as its status: {status:?}");
    Err(Error::new(ErrorKind::InvalidOperation, detail))
}

/// Refuses to forward to the entity itself, to what is not there, and to a subscription (B-033, B-332).
fn check_destinations(
    name: &EntityName,
    settings: &QueueSettings,
    entities: &BTreeMap<String, Arc<Queue>>,
) -> Result<()> {
    let options = [
        ("forward_to", &settings.forward_to),
        ("forward_dead_lettered_messages_to", &settings.forward_dead_letters_to),
    ];
    for (option, path) in options {
        let Some(path) = path else { continue };
        let key = EntityName::key_of(path);
        let detail = if key == name.key() {
            format!("an entity cannot forward to itself; name another one in {option}: `{path}`")
        } else if entities.get(&key).is_none_or(|entity| entity.is_subscription()) {
            format!(
                "The auto forwarding destination entity doesn't exist. Create the queue or topic first, or leave {option} out: `{path}`"
            )
        } else {
            continue;
        };
        return Err(Error::new(ErrorKind::InvalidOperation, detail));
    }
    Ok(())
}

/// Refuses to change an entity while one of its partitions is out of service.
fn check_all_serve(entity: &Queue, what: &str) -> Result<()> {
    check_health(
        (0..usize::from(entity.partitions())).map(|index| entity.shard(index)),
        what,
    )
}

/// Management touches all partitions of an entity, so one that fails stops it (B-096).
fn check_health<'a>(shards: impl IntoIterator<Item = &'a Arc<Shard>>, what: &str) -> Result<()> {
    for shard in shards {
        if let Some(reason) = shard.health().reason() {
            let detail = format!(
                "cannot {what} the entity: {reason}; heal the partition and try again: partition={}",
                shard.id()
            );
            return Err(Error::new(ErrorKind::PartitionUnavailable, detail));
        }
    }
    Ok(())
}
