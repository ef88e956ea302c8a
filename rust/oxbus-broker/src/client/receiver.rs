// SPDX-License-Identifier: Apache-2.0
//! A receiver: one ordinary queue to its user, all partitions behind it.

use oxbus_store::Wait;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oxbus_model::caps::{PREFETCH_COUNT_MAX, RECEIVE_MESSAGES_MAX};
use oxbus_model::name::SubQueue;
use oxbus_model::options::{LockPolicy, ReceiveMode, in_range};
use oxbus_model::{Error, ErrorKind, Moment, PartitionId, Result, Ticks, Timestamp};
use oxbus_store::ClaimedMessage;
use smallvec::SmallVec;

use super::browse::BrowseCursor;
use super::delivery_journal::DeliveryFailure;
use super::session::ReceiverSession;
use super::wait::{WaitOptions, WaitQueueRef, WaitSource, until_found};
use crate::entity::Entity;
use crate::entity::receive_cache::{ReceiveCache, return_cached};

/// How to receive.
#[derive(Debug, Clone, Copy)]
pub struct ReceiverOptions {
    /// The queue or its dead-letter queue.
    pub sub_queue: SubQueue,
    /// Receive from the dead-letter queue of what could not be transferred, which is always empty: what could not be
    /// forwarded is in the dead-letter queue of its source (B-268, B-273).
    pub transfer: bool,
    /// Settle, or gone when received.
    pub mode: ReceiveMode,
    /// Messages to hold ready beyond those asked for.
    pub prefetch: usize,
    /// Which clock the cache is under; `None` for the namespace's.
    pub lock_policy: Option<LockPolicy>,
    /// Take from this partition only.
    pub partition: Option<PartitionId>,
}

impl Default for ReceiverOptions {
    fn default() -> Self {
        Self {
            sub_queue: SubQueue::Main,
            transfer: false,
            mode: ReceiveMode::default(),
            prefetch: 0,
            lock_policy: None,
            partition: None,
        }
    }
}

/// A message handed out.
#[derive(Debug)]
pub struct Delivery {
    /// Index of its cell.
    pub index: usize,
    /// The message and its hold.
    pub claimed: ClaimedMessage,
    /// End of its lock; `None` when it has none.
    pub locked_until: Option<Timestamp>,
}

/// Messages handed out together. Most receives bring one, which takes no list.
pub type Deliveries = SmallVec<[Delivery; 1]>;

/// A receiver of one message stream.
pub struct Receiver {
    pub(super) entity: Arc<Entity>,
    pub(super) sub_queue: SubQueue,
    pub(super) mode: ReceiveMode,
    pub(super) policy: LockPolicy,
    pub(super) prefetch: usize,
    pub(super) cache: Arc<ReceiveCache>,
    pub(super) cursor: BrowseCursor,
    /// Cells it may take from, one bit each; none of the transfer dead-letter queue.
    pub(super) allowed: u64,
    /// How far the clock may be behind.
    lag_ms: u64,
    /// The cell at which the last round began.
    rotation: AtomicU64,
    /// The session that it receives from, where messages are received by session.
    pub(super) session: Option<ReceiverSession>,
    /// What an earlier receive could not hand out, and may be gone. Set in one step: whole after a panic.
    pub(super) unreported: Mutex<Option<DeliveryFailure>>,
    closed: AtomicBool,
}

impl ReceiverOptions {
    /// The cells that a receiver may look at, one bit each.
    pub(super) fn check(&self, entity: &Entity) -> Result<u64> {
        in_range(
            "prefetch_count",
            self.prefetch as u64,
            0,
            PREFETCH_COUNT_MAX as u64,
            "messages",
        )?;
        let all = u64::MAX >> (64 - u32::from(entity.partitions()));
        match self.partition {
            None if self.transfer => Ok(0),
            None => Ok(all),
            Some(partition) if self.transfer && entity.is_partitioned() && partition.0 < entity.partitions() => Ok(0),
            Some(partition) if entity.is_partitioned() && partition.0 < entity.partitions() => Ok(1 << partition.0),
            Some(partition) => {
                let detail = format!(
                    "the queue has no such partition; leave partition_id out, or use one of its {} partitions: partition_id={partition}",
                    if entity.is_partitioned() {
                        entity.partitions()
                    } else {
                        0
                    }
                );
                Err(Error::new(ErrorKind::InvalidArgument, detail))
            }
        }
    }
}

impl Receiver {
    pub(crate) fn new(entity: Arc<Entity>, options: ReceiverOptions, session: Option<ReceiverSession>) -> Result<Self> {
        let allowed = options.check(&entity)?;
        entity.note_open();
        let receivable = entity.receivable(options.sub_queue);
        let policy = options.lock_policy.unwrap_or(entity.core().lock_policy());
        let cache = Arc::new(ReceiveCache::new(policy, options.prefetch));
        if session.is_none() {
            // Messages of a session are never cached.
            receivable.add_cache(&cache);
        }
        Ok(Self {
            rotation: AtomicU64::new(receivable.next_rotation() % u64::from(entity.partitions())),
            policy,
            sub_queue: options.sub_queue,
            mode: options.mode,
            prefetch: options.prefetch,
            cursor: BrowseCursor::default(),
            cache,
            allowed,
            session,
            lag_ms: entity.core().clock().lag_ms(),
            unreported: Mutex::default(),
            closed: AtomicBool::new(false),
            entity,
        })
    }

    /// The queue it receives from.
    #[inline]
    pub fn entity(&self) -> &Arc<Entity> {
        &self.entity
    }

    /// The queue itself or its dead-letter queue.
    #[inline]
    pub fn sub_queue(&self) -> SubQueue {
        self.sub_queue
    }

    /// True for one of the transfer dead-letter queue.
    pub fn is_of_transfer(&self) -> bool {
        self.allowed == 0
    }

    /// Settle, or gone when received.
    #[inline]
    pub fn mode(&self) -> ReceiveMode {
        self.mode
    }

    /// True after [`Receiver::close`].
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Refuses when nothing can be received now.
    #[inline]
    pub fn check_receives(&self) -> Result<()> {
        self.check_open()?;
        self.entity.check_receivable()?;
        if self.allowed != 0 {
            self.entity.check_not_forwarding(self.sub_queue)?;
        }
        self.entity.check_receives()?;
        self.check_has_session()
    }

    /// Refuses a receiver without a session where messages are received by session (B-187). It may browse (B-217).
    #[inline]
    pub(super) fn check_has_session(&self) -> Result<()> {
        if self.entity.requires_session() && self.session.is_none() && self.sub_queue == SubQueue::Main {
            return Err(self.entity.requires_session_error());
        }
        Ok(())
    }

    #[inline]
    pub(super) fn check_open(&self) -> Result<()> {
        if self.is_closed() {
            return Err(Error::new(
                ErrorKind::Closed,
                "the receiver was closed; get a new one from the client",
            ));
        }
        Ok(())
    }

    /// Takes up to `max` messages without waiting; `None` when there is none.
    pub fn receive_now(&self, max: usize, wait: &Wait<'_>) -> Result<Option<Deliveries>> {
        let mut deliveries = Deliveries::new();
        self.receive_into(max, &mut deliveries, wait)?;
        Ok((!deliveries.is_empty()).then_some(deliveries))
    }

    /// The same into an empty list.
    pub fn receive_into(&self, max: usize, deliveries: &mut Deliveries, wait: &Wait<'_>) -> Result<()> {
        in_range(
            "max_message_count",
            max as u64,
            1,
            RECEIVE_MESSAGES_MAX as u64,
            "messages",
        )?;
        self.check_receives()?;
        self.entity.note_use();
        if let Some(session) = &self.session {
            return self.receive_from_session(session, max, deliveries, wait);
        }
        self.take_messages(max, deliveries, wait)
    }

    /// Takes up to `max` messages; waits while there is none, and returns as soon as there is something (B-135). `None` when
    /// the wait is over. `options` ends the sleep, `wait` bounds a wait for the store.
    pub fn receive_until(&self, max: usize, options: &WaitOptions<'_>, wait: &Wait<'_>) -> Result<Option<Deliveries>> {
        until_found(self, options, || self.receive_now(max, wait))
    }

    /// The cells this receiver may look at now, one bit each: allowed, ready, and in a shard that works.
    pub(super) fn ready_cells(&self) -> u64 {
        let mut ready = self.entity.receivable(self.sub_queue).ready() & self.allowed;
        let mut left = ready;
        while left != 0 {
            let index = left.trailing_zeros() as usize;
            left &= left - 1;
            if !self.entity.shard(index).health().serves() {
                ready &= !(1 << index);
            }
        }
        ready
    }

    /// The cell of `ready`, which is not 0, at which this round begins: the next one after the last round's.
    pub(super) fn next_first(&self, ready: u64) -> u64 {
        let last = self.rotation.load(Ordering::Relaxed);
        let behind = ready & !(u64::MAX >> (63 - last));
        let first = u64::from(if behind == 0 { ready } else { behind }.trailing_zeros());
        self.rotation.store(first, Ordering::Relaxed);
        first
    }

    /// Milliseconds for which a lock that is taken now is to hold.
    #[inline]
    pub(super) fn lock_ms(&self) -> u64 {
        self.entity.settings().lock_duration_ms + self.lag_ms
    }

    /// Ends a lock `ticks` from now, as wall time.
    pub(super) fn locked_until(deadline: Ticks, now: Timestamp, ticks: Ticks) -> Option<Timestamp> {
        (deadline < Ticks::OPEN_END).then(|| now.plus_ms(deadline.0.saturating_sub(ticks.0)))
    }

    /// Ends the receiver. Under the fresh policy its cache goes back; under the faithful one what it has locked stays
    /// locked until its locks end (B-129), and what it removed is lost (B-144).
    pub fn close(&self, wait: &Wait<'_>) {
        if self.closed.swap(true, Ordering::SeqCst) {
            return;
        }
        self.close_session(wait);
        let messages = self.cache.close();
        return_cached(&self.entity, self.sub_queue, messages, wait);
        self.entity.receivable(self.sub_queue).wait_queue.notify_all();
    }
}

/// How long to wait for a notification at most so as not to miss the end of a lock or the time of a schedule; `None` under a
/// clock that is moved by hand, which notifies. A lock taken later ends a lock duration later at the earliest, so one lock duration
/// is always early enough.
pub(super) fn recheck_after(entity: &Entity) -> Option<Duration> {
    let clock = entity.core().clock();
    if !clock.is_real_time() {
        return None;
    }
    let Moment { now, ticks } = clock.moment();
    // Who waits notes that it does well before the entity seems to be idle.
    let idle_ms = entity.idle_ms().unwrap_or(u64::MAX);
    let (lock_end, due) = entity.next_event();
    let ms = entity
        .settings()
        .lock_duration_ms
        .min(idle_ms / 2)
        .min(lock_end.0.saturating_sub(ticks.0))
        .min(due.0.saturating_sub(now.0));
    // Rounded up: waking a moment early would find nothing and sleep again.
    Some(Duration::from_millis(ms + 1))
}

/// It waits for its session, or with all who receive from the queue.
impl WaitSource for Receiver {
    fn wait_queue(&self) -> WaitQueueRef {
        match &self.session {
            Some(session) => WaitQueueRef::of_session(&session.accepted),
            None => WaitQueueRef::of_entity(&self.entity, self.sub_queue),
        }
    }

    fn recheck_after(&self) -> Option<Duration> {
        recheck_after(&self.entity)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.close(&Wait::FOREVER);
    }
}
