// SPDX-License-Identifier: Apache-2.0
//! A sender: validates messages, selects their partition, stores and announces them.
//!
//! All checks precede the reservation of a number, so that numbers have no gaps (B-105).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use oxbus_model::caps::{MESSAGE_SIZE_BYTES_MAX, STORE_ANSWER_MS_MAX};
use oxbus_model::message::Fields;
use oxbus_model::name::SubQueue;
use oxbus_model::options::Durability;
use oxbus_model::tier::Tier;
use oxbus_model::{Counter, Effect, Error, ErrorKind, PartitionId, Result, SequenceNumber, Timestamp};
use oxbus_store::Wait;
use oxbus_store::suspended::run_now;

use super::batch::Batch;
use super::duplicates::SendReceipt;
use crate::clock::Deadline;
use crate::entity::Entity;
use crate::routing::{PartitionRoute, RoundRobin};
use crate::shard::Cell;
use crate::write::{Cause, EncodedMessage, Removal, ShardWrite, WriteError, WriteOperation};

/// A sender of one queue or topic.
pub struct Sender {
    pub(super) entity: Arc<Entity>,
    round_robin: RoundRobin,
    /// 1 + durability of the last send; 0 before the first.
    reached: AtomicU8,
    closed: AtomicBool,
}

/// Messages of one call for one partition.
pub(super) struct RoutedMessages {
    pub(super) route: PartitionRoute,
    /// Their size in total.
    pub(super) bytes: usize,
    pub(super) messages: Vec<EncodedMessage>,
    pub(super) now: Timestamp,
    /// `None` for that of the partition.
    pub(super) durability: Option<Durability>,
}

impl RoutedMessages {
    /// True if some may be duplicates.
    pub(super) fn have_identities(&self) -> bool {
        self.messages.iter().any(|message| message.identity.is_some())
    }
}

/// A message that was sent on its own.
enum OneSend {
    /// It is in memory.
    Stored(SequenceNumber),
    /// It is to be stored.
    Encoded(RoutedMessages),
}

/// Messages that were not stored, or may not have been.
pub(super) struct NotStored {
    pub(super) error: WriteError,
    pub(super) messages: Vec<EncodedMessage>,
}

impl Sender {
    pub(crate) fn new(entity: Arc<Entity>) -> Self {
        let first = entity.core().next_round_robin_start();
        Self {
            entity,
            round_robin: RoundRobin::starting_at(first),
            reached: AtomicU8::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// The queue or topic it sends to.
    #[inline]
    pub fn entity(&self) -> &Arc<Entity> {
        &self.entity
    }

    /// Closes the sender. Later sends fail.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// True after [`Sender::close`].
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Fails if the sender is closed or the entity does not accept messages.
    #[inline]
    pub fn check_sends(&self) -> Result<()> {
        if self.is_closed() {
            return Err(Error::new(
                ErrorKind::Closed,
                "the sender was closed; get a new one from the client",
            ));
        }
        self.entity.check_sends()
    }

    /// Durability of the last send; `None` before the first.
    pub fn last_durability(&self) -> Option<Durability> {
        match self.reached.load(Ordering::Relaxed) {
            1 => Some(Durability::Memory),
            2 => Some(Durability::Os),
            3 => Some(Durability::Fsync),
            _ => None,
        }
    }

    pub(super) fn reach(&self, durability: Durability) {
        self.reached.store(1 + durability as u8, Ordering::Relaxed);
    }

    /// Stores one message.
    pub fn send(&self, fields: &Fields<'_>, durability: Option<Durability>, wait: &Wait<'_>) -> Result<SequenceNumber> {
        match self.store_or_encode(fields, durability, wait)? {
            OneSend::Stored(number) => Ok(number),
            OneSend::Encoded(message) => Ok(run_now(self.store_new(message, wait))?.numbers(1)[0]),
        }
    }

    /// [`Sender::send`] for a call that may be suspended.
    pub async fn send_async(
        &self,
        fields: &Fields<'_>,
        durability: Option<Durability>,
        wait: &Wait<'_>,
    ) -> Result<SequenceNumber> {
        match self.store_or_encode(fields, durability, wait)? {
            OneSend::Stored(number) => Ok(number),
            OneSend::Encoded(message) => Ok(self.store_new(message, wait).await?.numbers(1)[0]),
        }
    }

    /// Stores a message in memory, or encodes it if that may need more steps.
    #[inline]
    fn store_or_encode(&self, fields: &Fields<'_>, durability: Option<Durability>, wait: &Wait<'_>) -> Result<OneSend> {
        self.check_sends()?;
        fields.check()?;
        let route = self.entity.route_of(fields)?;
        let len = fields.encoded_len();
        self.check_size(len)?;
        let core = self.entity.core();
        let now = core.clock().now();
        let identity = self.entity.identity_of(fields)?;
        if core.is_durable() || identity.is_some() || fields.scheduled_enqueue_time.is_some_and(|due| due > now) {
            let mut message = EncodedMessage::new(fields, len);
            (message.partition, message.identity) = (route.partition(), identity);
            return Ok(OneSend::Encoded(RoutedMessages {
                route,
                bytes: len,
                messages: vec![message],
                now,
                durability,
            }));
        }
        let (index, cell) = self.admit(route, len, 1, wait)?;
        let counter = self.entity.store_one((index, cell), fields, len, now, wait)?;
        self.reach(Durability::Memory);
        Ok(OneSend::Stored(Entity::sequence_number(index, counter)))
    }

    /// Stores all messages of a batch in one partition, or none. Returns their numbers in order.
    pub fn send_batch(
        &self,
        batch: Batch,
        durability: Option<Durability>,
        wait: &Wait<'_>,
    ) -> Result<Vec<SequenceNumber>> {
        let routed = self.routed(batch, durability)?;
        let count = routed.messages.len();
        if count == 0 {
            return Ok(Vec::new());
        }
        Ok(run_now(self.store_new(routed, wait))?.numbers(count))
    }

    /// [`Sender::send_batch`] for a call that may be suspended.
    pub async fn send_batch_async(
        &self,
        batch: Batch,
        durability: Option<Durability>,
        wait: &Wait<'_>,
    ) -> Result<Vec<SequenceNumber>> {
        let routed = self.routed(batch, durability)?;
        let count = routed.messages.len();
        if count == 0 {
            return Ok(Vec::new());
        }
        Ok(self.store_new(routed, wait).await?.numbers(count))
    }

    /// The messages of a batch with their partition.
    #[inline]
    fn routed(&self, mut batch: Batch, durability: Option<Durability>) -> Result<RoutedMessages> {
        self.check_sends()?;
        self.check_size(batch.largest_message_bytes())?;
        self.check_batch_size(&batch)?;
        let route = self.route_batch(&mut batch)?;
        Ok(RoutedMessages {
            route,
            bytes: batch.size_bytes(),
            messages: batch.messages,
            now: self.entity.core().clock().now(),
            durability,
        })
    }

    /// The partitions in the order in which a keyless message tries them.
    pub fn partition_order(&self) -> impl Iterator<Item = PartitionId> + use<> {
        self.round_robin.next_order(self.entity.partitions())
    }

    /// Stores messages of `bytes` in total in one partition, all or none, in order.
    pub(super) async fn send_to(
        &self,
        partition: PartitionId,
        messages: Vec<EncodedMessage>,
        bytes: usize,
        wait: &Wait<'_>,
    ) -> std::result::Result<(), NotStored> {
        if let Err(error) = self.check_sends() {
            let error = error.into();
            return Err(NotStored { error, messages });
        }
        let now = self.entity.core().clock().now();
        if messages.iter().any(|message| message.identity.is_some()) {
            let routed = RoutedMessages {
                route: PartitionRoute::Keyed(partition),
                bytes,
                messages: messages.clone(),
                now,
                durability: None,
            };
            let stored = self.store_new(routed, wait).await;
            return stored.map(drop).map_err(|error| NotStored { error, messages });
        }
        let index = usize::from(partition.0);
        let mut pending = self.entity.pending_send(messages, now);
        let stored = match self.admit_to(index, bytes, pending.count, wait) {
            Ok(cell) => {
                let durability = cell.durability(None);
                let at = (index, cell);
                let stored = self.entity.append(at, &mut pending, durability, None, wait).await;
                stored.map(|_| self.reach(durability))
            }
            Err(error) => Err(error.into()),
        };
        stored.map_err(|error| NotStored {
            error: self
                .retryable_error(partition, error, wait)
                .map_or_else(|error| error, WriteError::from),
            messages: pending.into_messages(),
        })
    }

    /// Cancels scheduled messages of one partition, all or none (B-238).
    pub fn cancel_scheduled(&self, numbers: &[SequenceNumber], wait: &Wait<'_>) -> Result<()> {
        run_now(self.cancel_scheduled_async(numbers, wait))
    }

    /// [`Sender::cancel_scheduled`] for a call that may be suspended.
    pub async fn cancel_scheduled_async(&self, numbers: &[SequenceNumber], wait: &Wait<'_>) -> Result<()> {
        self.check_sends()?;
        let Some(first) = numbers.first() else { return Ok(()) };
        if numbers.iter().any(|number| number.partition() != first.partition()) {
            let detail =
                "sequence numbers of different partitions cannot be cancelled in one call; make one call per partition";
            return Err(Error::new(ErrorKind::InvalidOperation, detail));
        }
        let missing = |counters: &[Counter]| {
            let numbers = counters
                .iter()
                .map(|counter| SequenceNumber::new(first.partition(), *counter));
            let texts: Vec<String> = counters.iter().map(|counter| counter.0.to_string()).collect();
            let detail = format!("Messages not found. Missing sequence numbers: {}", texts.join(", "));
            Error::new(ErrorKind::MessageNotFound, detail)
                .with_effect(Effect::None)
                .with_numbers(numbers)
        };
        let counters: Vec<Counter> = numbers.iter().map(|number| number.counter()).collect();
        let Some(index) = self.entity.index_of(*first) else {
            return Err(missing(&counters));
        };
        self.entity
            .shard(index)
            .health()
            .check_serves(first.partition(), wait)?;
        let Some(cell) = self.entity.cell(index) else {
            return Err(missing(&counters));
        };
        let moment = self.entity.core().clock().moment();
        self.entity.tick(moment, wait);
        let cancel = WriteOperation::Remove {
            cell,
            sub_queue: SubQueue::Main,
            removal: Removal::Cancelled(&counters),
        };
        let mut write = ShardWrite::of(cancel, moment);
        let cancelled = write.commit_async(cell, cell.durability(None), wait).await;
        cancelled.map(drop).map_err(|error| {
            error.or_lost(|cause| match cause {
                Cause::NotScheduled(counters) => missing(counters),
                _ => missing(&[]),
            })
        })
    }

    /// Stores messages in the partition of their key or, without one, in the first partition of the round robin that
    /// accepts them.
    pub(super) async fn store(
        &self,
        routed: RoutedMessages,
        wait: &Wait<'_>,
    ) -> std::result::Result<SendReceipt, WriteError> {
        let RoutedMessages { bytes, durability, .. } = routed;
        let (keyed, partitions) = match routed.route {
            PartitionRoute::Keyed(partition) => (Some(partition), None),
            PartitionRoute::Keyless => (None, Some(self.partition_order())),
        };
        let mut pending = self.entity.pending_send(routed.messages, routed.now);
        let (mut refused, mut reached) = (None, Durability::Memory);
        for partition in keyed.into_iter().chain(partitions.into_iter().flatten()) {
            let index = usize::from(partition.0);
            let may_go_elsewhere = keyed.is_none() && self.entity.may_wait();
            let store_answer_max = Duration::from_millis(STORE_ANSWER_MS_MAX);
            let deadline = Deadline::after(may_go_elsewhere.then_some(store_answer_max));
            let is_past_deadline = || deadline.is_over();
            let one_wait = wait.or_until(&is_past_deadline);
            let tried = match self.admit_to(index, bytes, pending.count, &one_wait) {
                Ok(cell) => {
                    reached = cell.durability(durability);
                    let at = (index, cell);
                    self.entity.append(at, &mut pending, reached, None, &one_wait).await
                }
                Err(error) => Err(error.into()),
            };
            match tried {
                Ok(first) => {
                    self.reach(reached);
                    let fresh = None;
                    return Ok(SendReceipt { index, first, fresh });
                }
                Err(error) => refused = Some(self.retryable_error(partition, error, wait)?),
            }
        }
        Err(refused.expect("an entity has at least one partition").into())
    }

    /// Returns the error of a partition if the messages can be stored in another one without being duplicated. Fails
    /// with that error if they cannot, or if the wait has ended.
    fn retryable_error(
        &self,
        partition: PartitionId,
        failed: WriteError,
        wait: &Wait<'_>,
    ) -> std::result::Result<Error, WriteError> {
        let kind = match &failed.cause {
            Cause::Refused(error) => error.kind(),
            _ => return Err(failed),
        };
        if kind == ErrorKind::Timeout {
            if wait.is_over() {
                return Err(failed);
            }
            self.entity.shard(partition.0.into()).mark_unresponsive();
        }
        if failed.is_definite() {
            return Ok(failed.into());
        }
        // The outcome is unknown: storing the messages elsewhere may duplicate them, unless the entry is fenced.
        match failed.unconfirmed {
            Some(entry) if self.entity.core().fence(partition, entry).is_ok() => {
                Ok(Error::from(failed).with_effect(Effect::None))
            }
            _ => Err(failed),
        }
    }

    /// Fails if the batch exceeds the limit of the tier (B-053, B-054). Only the message limit applies to a single
    /// message.
    pub(super) fn check_batch_size(&self, batch: &Batch) -> Result<()> {
        let bytes = batch.size_bytes();
        let tier = self.entity.core().plan().tier.filter(|_| batch.len() > 1);
        let Some(max) = tier.map(Tier::batch_size_bytes_max).filter(|max| bytes > *max) else {
            return Ok(());
        };
        let detail =
            format!("the batch is too large for the tier; send less at once: size={bytes} bytes, limit={max} bytes");
        Err(Error::new(ErrorKind::MessageSizeExceeded, detail))
    }

    pub(super) fn check_size(&self, bytes: usize) -> Result<()> {
        let max = self.entity.settings().message_size_bytes_max;
        if bytes <= max {
            return Ok(());
        }
        let advice = match self.entity.core().plan().tier {
            Some(tier @ (Tier::Basic | Tier::Standard)) if max == tier.message_size_bytes_default() => {
                ", or open the namespace with another tier"
            }
            _ if max < MESSAGE_SIZE_BYTES_MAX => ", or raise max_message_size_in_kilobytes of the queue",
            _ => "",
        };
        let detail = format!("the message is too large; send less{advice}: size={bytes} bytes, limit={max} bytes");
        Err(Error::new(ErrorKind::MessageSizeExceeded, detail))
    }

    /// The cell for a message: that of its key or, without one, the first in the round robin that accepts it.
    fn admit(&self, route: PartitionRoute, bytes: usize, messages: usize, wait: &Wait<'_>) -> Result<(usize, &Cell)> {
        match route {
            PartitionRoute::Keyed(partition) => {
                let index = usize::from(partition.0);
                Ok((index, self.admit_to(index, bytes, messages, wait)?))
            }
            PartitionRoute::Keyless => {
                let mut refused = None;
                for partition in self.partition_order() {
                    let index = usize::from(partition.0);
                    match self.admit_to(index, bytes, messages, wait) {
                        Ok(cell) => return Ok((index, cell)),
                        Err(error) => refused = Some(error),
                    }
                }
                Err(refused.expect("an entity has at least one partition"))
            }
        }
    }

    pub(super) fn admit_to(&self, index: usize, bytes: usize, messages: usize, wait: &Wait<'_>) -> Result<&Cell> {
        self.entity.admit(index, bytes, messages, wait)
    }
}
