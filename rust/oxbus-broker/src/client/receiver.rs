// SPDX-License-Identifier: Apache-2.0
//! A receiver: its user sees one queue; it receives from all partitions.

use oxbus_store::Wait;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oxbus_model::caps::{PREFETCH_COUNT_MAX, RECEIVE_MESSAGES_MAX};
use oxbus_model::name::SubQueue;
use oxbus_model::options::{LockPolicy, ReceiveMode, in_range};
use oxbus_model::sync::ignore_poison;
use oxbus_model::{Error, ErrorKind, Moment, PartitionId, Result, Ticks, Timestamp};
use oxbus_store::ClaimedMessage;
use oxbus_store::suspended::run_now;
use smallvec::SmallVec;

use super::browse::BrowseCursor;
use super::delivery_journal::DeliveryFailure;
use super::session::ReceiverSession;
use super::wait::{WaitOptions, WaitQueueRef, WaitSource, until_found};
use crate::entity::Entity;
use crate::entity::receive_cache::{ReceiveCache, return_cached};
use crate::shard::Meter;

/// Options of a receiver.
#[derive(Debug, Clone, Copy)]
pub struct ReceiverOptions {
    /// The main queue or the dead-letter queue.
    pub sub_queue: SubQueue,
    /// Receive from the transfer dead-letter queue. It is always empty: messages that cannot be forwarded go to the
    /// dead-letter queue of their source (B-268, B-273).
    pub transfer: bool,
    /// Lock messages for settlement, or delete them when they are received.
    pub mode: ReceiveMode,
    /// Messages to cache in addition to the requested ones.
    pub prefetch: usize,
    /// Lock policy of cached messages; `None` for that of the namespace.
    pub lock_policy: Option<LockPolicy>,
    /// Receive from this partition only.
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

/// A delivered message.
#[derive(Debug)]
pub struct Delivery {
    /// Index of its cell.
    pub index: usize,
    /// The message and its lock.
    pub claimed: ClaimedMessage,
    /// Wall time at which its lock expires; `None` when the lock ends with that of a session.
    pub locked_until: Option<Timestamp>,
}

/// Messages delivered together. Most receives deliver one, which needs no allocation.
pub type Deliveries = SmallVec<[Delivery; 1]>;

/// A receiver of a main queue or a dead-letter queue.
pub struct Receiver {
    pub(super) entity: Arc<Entity>,
    pub(super) sub_queue: SubQueue,
    pub(super) mode: ReceiveMode,
    pub(super) policy: LockPolicy,
    pub(super) prefetch: usize,
    pub(super) cache: Arc<ReceiveCache>,
    pub(super) cursor: BrowseCursor,
    /// Cells that it may receive from, one bit each; none for the transfer dead-letter queue.
    pub(super) allowed: u64,
    /// Maximum lag of the clock, in milliseconds.
    lag_ms: u64,
    /// The cell at which the last round started.
    rotation: AtomicU64,
    /// The accepted session, if messages are received by session.
    pub(super) session: Option<ReceiverSession>,
    /// True for reservations, which hold sessions themselves.
    of_reservations: bool,
    /// Failure of an earlier receive, whose messages may have been removed; the next receive reports it. It is set in
    /// one step, so it is consistent after a panic.
    pub(super) unreported: Mutex<Option<DeliveryFailure>>,
    closed: AtomicBool,
    /// What to call once the last owner has dropped it.
    on_dropped: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl ReceiverOptions {
    /// Checks the options. Returns the cells that a receiver may receive from, one bit each.
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
            of_reservations: false,
            lag_ms: entity.core().clock().lag_ms(),
            unreported: Mutex::default(),
            closed: AtomicBool::new(false),
            on_dropped: Mutex::default(),
            entity,
        })
    }

    /// A receiver that settles messages of reservations.
    pub(super) fn of_reservations(entity: Arc<Entity>, options: ReceiverOptions) -> Result<Self> {
        let mut receiver = Self::new(entity, options, None)?;
        receiver.of_reservations = true;
        Ok(receiver)
    }

    /// The entity that it receives from.
    #[inline]
    pub fn entity(&self) -> &Arc<Entity> {
        &self.entity
    }

    /// The main queue or the dead-letter queue.
    #[inline]
    pub fn sub_queue(&self) -> SubQueue {
        self.sub_queue
    }

    /// True if it receives from the transfer dead-letter queue.
    pub fn is_of_transfer(&self) -> bool {
        self.allowed == 0
    }

    /// The receive mode: messages are locked or deleted.
    #[inline]
    pub fn mode(&self) -> ReceiveMode {
        self.mode
    }

    /// True after [`Receiver::close`].
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Fails if receiving is not possible now.
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

    /// Fails if the entity requires sessions and the receiver has none (B-187). Such a receiver may still browse
    /// (B-217).
    #[inline]
    pub(super) fn check_has_session(&self) -> Result<()> {
        let has_session = self.session.is_some() || self.of_reservations;
        if self.entity.requires_session() && !has_session && self.sub_queue == SubQueue::Main {
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

    /// Receives up to `max` messages without waiting. Returns `None` if no message is ready.
    pub fn receive_now(&self, max: usize, wait: &Wait<'_>) -> Result<Option<Deliveries>> {
        let mut deliveries = Deliveries::new();
        self.receive_into(max, &mut deliveries, wait)?;
        Ok((!deliveries.is_empty()).then_some(deliveries))
    }

    /// [`Receiver::receive_now`] into an empty list.
    pub fn receive_into(&self, max: usize, deliveries: &mut Deliveries, wait: &Wait<'_>) -> Result<()> {
        self.check_receive_of(max)?;
        let received = match &self.session {
            None if !self.entity.core().is_durable() => {
                self.take_in_memory(max, deliveries, wait);
                Ok(())
            }
            _ => run_now(self.take(max, deliveries, wait)),
        };
        self.meter_received(deliveries);
        received
    }

    /// [`Receiver::receive_now`] for a call that may be suspended.
    pub async fn receive_now_async(&self, max: usize, wait: &Wait<'_>) -> Result<Option<Deliveries>> {
        self.check_receive_of(max)?;
        let mut deliveries = Deliveries::new();
        let received = self.take(max, &mut deliveries, wait).await;
        self.meter_received(&deliveries);
        received?;
        Ok((!deliveries.is_empty()).then_some(deliveries))
    }

    /// Fails if up to `max` messages cannot be received now.
    #[inline]
    fn check_receive_of(&self, max: usize) -> Result<()> {
        in_range(
            "max_message_count",
            max as u64,
            1,
            RECEIVE_MESSAGES_MAX as u64,
            "messages",
        )?;
        self.check_receives()?;
        self.entity.note_use();
        Ok(())
    }

    /// Receives from the session or from all partitions.
    async fn take(&self, max: usize, deliveries: &mut Deliveries, wait: &Wait<'_>) -> Result<()> {
        match &self.session {
            Some(session) => self.receive_from_session(session, max, deliveries, wait).await,
            None => self.take_messages(max, deliveries, wait).await,
        }
    }

    /// Counts delivered messages, if metrics are on.
    #[inline]
    pub(super) fn meter_received(&self, deliveries: &Deliveries) {
        let is_counted = |delivery: &Delivery| self.entity.shard(delivery.index).is_metered();
        if deliveries.first().is_some_and(is_counted) {
            for run in deliveries.chunk_by(|a, b| a.index == b.index) {
                match self.entity.cell(run[0].index) {
                    Some(cell) if self.mode == ReceiveMode::PeekLock => {
                        cell.meter_delivered(run.iter().map(|delivery| delivery.claimed.key));
                    }
                    Some(cell) => cell.meter(Meter::Received, run.len()),
                    None => {}
                }
            }
        }
    }

    /// Receives up to `max` messages and waits until at least one is ready (B-135). Returns `None` if the wait ends
    /// first. `options` bound the wait for messages, and `wait` bounds waits for the store.
    pub fn receive_until(&self, max: usize, options: &WaitOptions<'_>, wait: &Wait<'_>) -> Result<Option<Deliveries>> {
        until_found(self, options, || self.receive_now(max, wait))
    }

    /// The cells that this receiver may receive from now, one bit each: allowed, ready, and in a shard in service.
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

    /// The cell of `ready` (not 0) at which this round starts: the next one after that of the last round.
    pub(super) fn next_first(&self, ready: u64) -> u64 {
        let last = self.rotation.load(Ordering::Relaxed);
        let after_last = ready & !(u64::MAX >> (63 - last));
        let first = u64::from(if after_last == 0 { ready } else { after_last }.trailing_zeros());
        self.rotation.store(first, Ordering::Relaxed);
        first
    }

    /// Duration of a lock that starts now, in milliseconds.
    #[inline]
    pub(super) fn lock_ms(&self) -> u64 {
        self.entity.settings().lock_duration_ms + self.lag_ms
    }

    /// Wall time of a deadline, given the current wall time and ticks; `None` when the lock ends with that of a
    /// session.
    pub(super) fn locked_until(deadline: Ticks, now: Timestamp, ticks: Ticks) -> Option<Timestamp> {
        (deadline < Ticks::OPEN_END).then(|| now.plus_ms(deadline.0.saturating_sub(ticks.0)))
    }

    /// Closes the receiver. Under the fresh policy cached messages return to their cells. Under the faithful policy
    /// they stay locked until their locks expire (B-129), or, in receive-and-delete mode, are lost (B-144).
    pub fn close(&self, wait: &Wait<'_>) {
        if self.closed.swap(true, Ordering::SeqCst) {
            return;
        }
        self.close_session(wait);
        let messages = self.cache.close();
        return_cached(&self.entity, self.sub_queue, messages, wait);
        self.entity.receivable(self.sub_queue).wait_queue.notify_all();
    }

    /// Calls `callback` once the last owner has dropped the receiver. Its session is free then.
    pub fn on_dropped(&self, callback: impl FnOnce() + Send + 'static) {
        *ignore_poison(self.on_dropped.lock()) = Some(Box::new(callback));
    }
}

/// Maximum wait for a notification, so that the end of a lock or of a schedule is noticed; `None` under a manual clock,
/// which notifies. At most one lock duration, because a lock that starts later expires at least one lock duration
/// later.
pub(super) fn recheck_after(entity: &Entity) -> Option<Duration> {
    let clock = entity.core().clock();
    if !clock.is_real_time() {
        return None;
    }
    let Moment { now, ticks } = clock.moment();
    // The receiver looks again well before the entity becomes idle, because looking counts as a use.
    let idle_ms = entity.idle_ms().unwrap_or(u64::MAX);
    let (lock_end, due) = entity.next_event();
    let ms = entity
        .settings()
        .lock_duration_ms
        .min(idle_ms / 2)
        .min(lock_end.0.saturating_sub(ticks.0))
        .min(due.0.saturating_sub(now.0));
    // The time is rounded up: a receiver that wakes early finds nothing and sleeps again.
    Some(Duration::from_millis(ms + 1))
}

/// A receiver waits in the wait queue of its session, or in that of the entity.
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
        let callback = ignore_poison(self.on_dropped.get_mut()).take();
        if let Some(callback) = callback {
            callback();
        }
    }
}
