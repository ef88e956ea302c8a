// SPDX-License-Identifier: Apache-2.0
//! The front door: a namespace, its shards, and the queues in them.
//!
//! Queues are found by name without case. Handles keep their queue alive; a deleted queue refuses every call,
//! and a queue of the same name created later is another incarnation.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use oxbus_model::caps::{PARTITIONS_DEFAULT, PARTITIONS_MAX};
use oxbus_model::hash::partition_of;
use oxbus_model::name::EntityName;
use oxbus_model::options::{LockPolicy, QueueSettings};
use oxbus_model::{Clock, Error, ErrorKind, PartitionId, Result, TokenKey};

use crate::client::{Receiver, ReceiverOptions, Sender};
use crate::clock::{ManualClock, SystemClock, random_bytes};
use crate::entity::{Queue, QueueCounts, QueueDescription};
use crate::shard::{Fault, Shard};

/// How to open a namespace.
pub struct NamespaceOptions {
    /// Shards, and cells of a partitioned entity.
    pub partitions: u16,
    /// Policy of receivers that name none.
    pub lock_policy: LockPolicy,
    /// Bytes the messages may take; `None` without a bound.
    pub memory_limit_bytes: Option<u64>,
    /// A clock moved by hand; `None` for the machine's.
    pub clock: Option<Arc<ManualClock>>,
}

impl Default for NamespaceOptions {
    fn default() -> Self {
        Self {
            partitions: PARTITIONS_DEFAULT,
            lock_policy: LockPolicy::default(),
            memory_limit_bytes: None,
            clock: None,
        }
    }
}

/// What every queue of a namespace shares.
pub struct Core {
    clock: Arc<dyn Clock>,
    token_key: TokenKey,
    lock_policy: LockPolicy,
    memory_limit_bytes: Option<u64>,
    /// Bytes appended since the last exact count, plus that count: an upper bound. Moves only with a limit.
    stored_bytes_bound: AtomicU64,
    turns: AtomicU64,
    open: AtomicBool,
    queues: RwLock<BTreeMap<String, Arc<Queue>>>,
}

impl Core {
    /// The namespace's clock.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// The secret of its lock tokens.
    pub fn token_key(&self) -> &TokenKey {
        &self.token_key
    }

    /// Policy of receivers that name none.
    pub fn lock_policy(&self) -> LockPolicy {
        self.lock_policy
    }

    /// Where the next sender begins its turns.
    pub fn next_turn(&self) -> u64 {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }

    /// Refuses when the namespace was closed.
    pub fn check_open(&self) -> Result<()> {
        if self.open.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Closed,
            "the namespace was closed; open it again and make new handles",
        ))
    }

    /// Refuses a send of `bytes` that would take the messages over the memory limit. Counts exactly only near it.
    pub fn check_memory(&self, bytes: usize) -> Result<()> {
        let Some(limit) = self.memory_limit_bytes else {
            return Ok(());
        };
        let bytes = bytes as u64;
        let bound = self.stored_bytes_bound.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if bound <= limit {
            return Ok(());
        }
        let queues: Vec<Arc<Queue>> = self.queues().values().cloned().collect();
        let stored: u64 = queues
            .iter()
            .flat_map(|queue| queue.cells())
            .map(|(_, cell)| cell.stored_bytes())
            .sum();
        let fits = stored + bytes <= limit;
        self.stored_bytes_bound
            .store(if fits { stored + bytes } else { stored }, Ordering::Relaxed);
        if fits {
            return Ok(());
        }
        let detail = format!(
            "the namespace is full; receive and complete messages, or open it with a larger memory_limit_bytes: \
             stored={stored} bytes, limit={limit} bytes"
        );
        Err(Error::new(ErrorKind::QuotaExceeded, detail))
    }

    fn wake_all(&self) {
        self.queues().values().for_each(|queue| queue.wake_all());
    }

    fn queues(&self) -> RwLockReadGuard<'_, BTreeMap<String, Arc<Queue>>> {
        self.queues.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn queues_for_change(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Arc<Queue>>> {
        self.queues.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes everyone who waits in a namespace, without keeping it alive.
pub struct WakeHandle(Weak<Core>);

impl WakeHandle {
    /// False when the namespace is gone.
    pub fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Lets everyone who waits look again.
    pub fn wake_all(&self) {
        if let Some(core) = self.0.upgrade() {
            core.wake_all();
        }
    }
}

/// Health of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionHealth {
    /// Which partition.
    pub partition: PartitionId,
    /// What is wrong with it; `None` when it is healthy.
    pub fault: Option<Fault>,
}

/// A set of queues over a set of shards.
#[derive(Clone)]
pub struct Namespace {
    core: Arc<Core>,
    shards: Arc<[Arc<Shard>]>,
    incarnations: Arc<AtomicU64>,
    /// Kept alive for the clock, which knows it weakly.
    _on_advance: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Namespace {
    /// Opens an empty namespace in memory.
    pub fn in_memory(options: NamespaceOptions) -> Result<Self> {
        let NamespaceOptions {
            partitions,
            lock_policy,
            memory_limit_bytes,
            clock,
        } = options;
        if partitions == 0 || partitions > PARTITIONS_MAX {
            let detail = format!("partitions is out of range; use 1 to {PARTITIONS_MAX}: {partitions}");
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
        let core = Arc::new(Core {
            clock: match &clock {
                Some(manual) => Arc::<ManualClock>::clone(manual),
                None => Arc::new(SystemClock::default()),
            },
            token_key: TokenKey(random_bytes()?),
            lock_policy,
            memory_limit_bytes,
            stored_bytes_bound: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            open: AtomicBool::new(true),
            queues: RwLock::default(),
        });
        let on_advance = clock.map(|clock| {
            let handle = WakeHandle(Arc::downgrade(&core));
            let wake: Arc<dyn Fn() + Send + Sync> = Arc::new(move || handle.wake_all());
            clock.on_advance(&wake);
            wake
        });
        let shards = (0..partitions)
            .map(|id| Arc::new(Shard::new(PartitionId(id))))
            .collect();
        Ok(Self {
            core,
            shards,
            incarnations: Arc::default(),
            _on_advance: on_advance,
        })
    }

    /// Number of partitions.
    pub fn partitions(&self) -> u16 {
        self.shards.len() as u16
    }

    /// A handle that wakes who waits.
    pub fn wake_handle(&self) -> WakeHandle {
        WakeHandle(Arc::downgrade(&self.core))
    }

    /// True until [`Namespace::close`].
    pub fn is_open(&self) -> bool {
        self.core.check_open().is_ok()
    }

    /// The namespace's clock.
    pub fn clock(&self) -> &dyn Clock {
        self.core.clock()
    }

    /// Ends the namespace: every later call fails, and who waits learns it. In memory, the messages are gone.
    pub fn close(&self) {
        self.core.open.store(false, Ordering::SeqCst);
        let queues = std::mem::take(&mut *self.core.queues_for_change());
        for queue in queues.values() {
            queue.remove();
        }
    }

    /// Creates a queue.
    pub fn create_queue(&self, name: &str, settings: QueueSettings) -> Result<QueueDescription> {
        self.core.check_open()?;
        let name = EntityName::parse(name)?;
        settings.check()?;
        let mut queues = self.core.queues_for_change();
        if queues.contains_key(name.key()) {
            let detail = format!(
                "an entity of that name exists; choose another name or update that one: `{}`",
                name.as_str()
            );
            return Err(Error::new(ErrorKind::EntityAlreadyExists, detail));
        }
        let shards: Box<[Arc<Shard>]> = if settings.enable_partitioning {
            self.shards.iter().map(Arc::clone).collect()
        } else {
            let home = partition_of(name.key().as_bytes(), self.partitions().into());
            Box::new([Arc::clone(&self.shards[home as usize])])
        };
        check_health(&shards, "create")?;
        let incarnation = self.incarnations.fetch_add(1, Ordering::Relaxed) + 1;
        let key = name.key().to_owned();
        let queue = Arc::new(Queue::new(&self.core, name, settings, shards, incarnation));
        queues.insert(key, Arc::clone(&queue));
        Ok(queue.describe())
    }

    /// The queue of that name.
    pub fn queue(&self, name: &str) -> Result<Arc<Queue>> {
        self.core.check_open()?;
        self.core
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
        let _guard = self.core.queues_for_change();
        queue.check_alive()?;
        let held = queue.settings();
        let mut next = (*held).clone();
        change(&mut next);
        held.check_change(&next)?;
        check_health(
            (0..usize::from(queue.partitions())).map(|index| queue.shard(index)),
            "update",
        )?;
        queue.apply(next);
        Ok(())
    }

    /// Deletes a queue with its messages.
    pub fn delete_queue(&self, name: &str) -> Result<()> {
        let queue = self.queue(name)?;
        let mut queues = self.core.queues_for_change();
        queue.check_alive()?;
        check_health(
            (0..usize::from(queue.partitions())).map(|index| queue.shard(index)),
            "delete",
        )?;
        queues.remove(queue.name().key());
        queue.remove();
        Ok(())
    }

    /// All queues by name.
    pub fn list_queues(&self) -> Result<Vec<Arc<Queue>>> {
        self.core.check_open()?;
        Ok(self.core.queues().values().cloned().collect())
    }

    /// Counts of a queue.
    pub fn queue_counts(&self, name: &str) -> Result<QueueCounts> {
        Ok(self.queue(name)?.counts())
    }

    /// A sender to a queue.
    pub fn sender(&self, queue: &str) -> Result<Sender> {
        Sender::new(self.queue(queue)?)
    }

    /// A receiver from a queue or its dead-letter queue.
    pub fn receiver(&self, queue: &str, options: ReceiverOptions) -> Result<Receiver> {
        Receiver::new(self.queue(queue)?, options)
    }

    /// Health of every partition.
    pub fn partition_health(&self) -> Vec<PartitionHealth> {
        self.shards
            .iter()
            .map(|shard| PartitionHealth {
                partition: shard.id(),
                fault: shard.health().fault(),
            })
            .collect()
    }

    /// Makes a partition fail after that many operations on it. For tests.
    pub fn inject_fault(&self, partition: PartitionId, fault: Fault, after: u64) -> Result<()> {
        self.shard(partition)?.health().inject(fault, after);
        Ok(())
    }

    /// Ends the fault of a partition.
    pub fn heal(&self, partition: PartitionId) -> Result<()> {
        self.shard(partition)?.health().heal();
        let queues: Vec<Arc<Queue>> = self.core.queues().values().cloned().collect();
        for queue in queues {
            queue.revive(partition);
        }
        Ok(())
    }

    fn shard(&self, partition: PartitionId) -> Result<&Arc<Shard>> {
        self.core.check_open()?;
        self.shards.get(usize::from(partition.0)).ok_or_else(|| {
            let detail = format!(
                "partition_id is out of range; use 0 to {}: {partition}",
                self.partitions() - 1
            );
            Error::new(ErrorKind::InvalidArgument, detail)
        })
    }
}

/// Management touches all partitions of an entity, so one that fails stops it (B-096).
fn check_health<'a>(shards: impl IntoIterator<Item = &'a Arc<Shard>>, what: &str) -> Result<()> {
    for shard in shards {
        if let Some(fault) = shard.health().fault() {
            let detail = format!(
                "cannot {what} the queue: {}; heal the partition and try again: partition={}",
                fault.reason(),
                shard.id()
            );
            return Err(Error::new(ErrorKind::PartitionUnavailable, detail));
        }
    }
    Ok(())
}
