// SPDX-License-Identifier: Apache-2.0
//! The front door: a namespace, its shards, and the queues in them.
//!
//! In memory, or in a directory (`durable`). Queues are found by name without case. Handles keep their queue alive; a deleted queue refuses every call,
//! and a queue of the same name created later is another incarnation.

mod core;
mod inner;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use oxbus_model::caps::PARTITIONS_MAX;
use oxbus_model::hash::partition_of;
use oxbus_model::name::EntityName;
use oxbus_model::options::{LockPolicy, QueueSettings};
use oxbus_model::{Clock, Error, ErrorKind, PartitionId, Result};

pub use self::core::{Core, WakeHandle};
pub use self::inner::CloseHandle;
use self::inner::Inner;
use crate::client::{Acceptor, Receiver, ReceiverOptions, Sender, Wanted};
use crate::clock::ManualClock;
use crate::durable::{QueueEntry, Recovery, StoreOptions, Stores};
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

    /// True when messages are kept in a directory.
    pub fn is_durable(&self) -> bool {
        self.inner.core.is_durable()
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
        self.inner.close();
    }

    /// Writes a snapshot of every healthy partition and lets go of the journals before it.
    pub fn checkpoint(&self) -> Result<()> {
        self.inner.core.check_open()?;
        self.inner.forget_seen();
        let healthy = |shard: &&Arc<Shard>| shard.health().serves();
        self.inner
            .shards
            .iter()
            .filter(healthy)
            .try_for_each(|shard| shard.save(|| self.inner.cells_of(shard), false))
    }

    /// Creates a queue.
    pub fn create_queue(&self, name: &str, settings: QueueSettings) -> Result<QueueDescription> {
        let inner = &self.inner;
        inner.core.check_open()?;
        let name = EntityName::parse(name)?;
        settings.check()?;
        let mut queues = inner.core.queues_for_change();
        inner.refresh(&mut queues);
        if queues.contains_key(name.key()) {
            let detail = format!(
                "an entity of that name exists; choose another name or update that one: `{}`",
                name.as_str()
            );
            return Err(Error::new(ErrorKind::EntityAlreadyExists, detail));
        }
        let home = partition_of(name.key().as_bytes(), self.partitions().into()) as u16;
        let shards = inner.shards_of(&settings, home);
        check_health(&shards, "create")?;
        let now = inner.core.clock().now();
        let mut entry = QueueEntry {
            id: 0,
            name: name.as_str().to_owned(),
            home,
            created_at_ms: now.0,
            updated_at_ms: now.0,
            settings,
        };
        match &inner.stores {
            None => entry.id = inner.next_entity.fetch_add(1, Ordering::Relaxed),
            Some(stores) => stores.change(|contents| {
                entry.id = contents.next_entity;
                contents.next_entity += 1;
                contents.queues.push(entry.clone());
            })?,
        }
        let queue = inner.queue_of(&entry)?;
        let description = queue.describe();
        queues.insert(name.key().to_owned(), queue);
        Ok(description)
    }

    /// The queue of that name.
    pub fn queue(&self, name: &str) -> Result<Arc<Queue>> {
        self.inner.core.check_open()?;
        self.inner.refresh_shared();
        self.inner
            .core
            .queues()
            .get(&EntityName::key_of(name))
            .cloned()
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::EntityNotFound,
                    format!("no queue of that name; create it with create_queue: `{name}`"),
                )
            })
    }

    /// Changes the settings of a queue; `change` edits a copy of those that hold.
    pub fn update_queue(&self, name: &str, change: impl FnOnce(&mut QueueSettings)) -> Result<()> {
        let queue = self.queue(name)?;
        // Taken for writing, so that two updates do not undo each other.
        let _guard = self.inner.core.queues_for_change();
        queue.check_alive()?;
        let held = queue.settings();
        let mut next = (*held).clone();
        change(&mut next);
        held.check_change(&next)?;
        check_health(
            (0..usize::from(queue.partitions())).map(|index| queue.shard(index)),
            "update",
        )?;
        let now = self.inner.core.clock().now();
        if let Some(stores) = &self.inner.stores {
            stores.change(|contents| {
                for entry in contents.queues.iter_mut().filter(|entry| entry.id == queue.id().0) {
                    entry.settings = next.clone();
                    entry.updated_at_ms = now.0;
                }
            })?;
        }
        queue.apply(next, now);
        Ok(())
    }

    /// Deletes a queue with its messages.
    pub fn delete_queue(&self, name: &str) -> Result<()> {
        let queue = self.queue(name)?;
        let mut queues = self.inner.core.queues_for_change();
        queue.check_alive()?;
        check_health(
            (0..usize::from(queue.partitions())).map(|index| queue.shard(index)),
            "delete",
        )?;
        if let Some(stores) = &self.inner.stores {
            // Its messages go with it: the journals forget an entity that the catalog does not know.
            stores.change(|contents| contents.queues.retain(|entry| entry.id != queue.id().0))?;
        }
        queues.remove(queue.name().key());
        queue.remove();
        Ok(())
    }

    /// All queues by name.
    pub fn list_queues(&self) -> Result<Vec<Arc<Queue>>> {
        self.inner.core.check_open()?;
        self.inner.refresh_shared();
        Ok(self.inner.core.queues().values().cloned().collect())
    }

    /// Counts of a queue.
    pub fn queue_counts(&self, name: &str) -> Result<QueueCounts> {
        Ok(self.queue(name)?.counts())
    }

    /// A sender to a queue.
    pub fn sender(&self, queue: &str) -> Result<Sender> {
        Ok(Sender::new(self.queue(queue)?))
    }

    /// A receiver from a queue or its dead-letter queue.
    pub fn receiver(&self, queue: &str, options: ReceiverOptions) -> Result<Receiver> {
        Receiver::new(self.queue(queue)?, options, None)
    }

    /// Accepts a session of a queue. `owner` names the receiver.
    pub fn acceptor(&self, queue: &str, wanted: Wanted, options: ReceiverOptions, owner: String) -> Result<Acceptor> {
        Acceptor::new(self.queue(queue)?, wanted, options, owner)
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
            Injected::Disk(fault) => {
                let store = self.stores().and_then(|stores| stores.shard(partition.0));
                let store = store.ok_or_else(|| {
                    let detail = "the fault needs a disk; open the namespace with a path, or use `unavailable`, `busy` or `enospc`";
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

/// Management touches all partitions of an entity, so one that fails stops it (B-096).
fn check_health<'a>(shards: impl IntoIterator<Item = &'a Arc<Shard>>, what: &str) -> Result<()> {
    for shard in shards {
        if let Some(reason) = shard.health().reason() {
            let detail = format!(
                "cannot {what} the queue: {reason}; heal the partition and try again: partition={}",
                shard.id()
            );
            return Err(Error::new(ErrorKind::PartitionUnavailable, detail));
        }
    }
    Ok(())
}
