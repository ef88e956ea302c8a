// SPDX-License-Identifier: Apache-2.0
//! Reservations: messages that a consumer holds under a number until it completes that number.
//!
//! The messages of a reservation are fixed when it is created. It outlives the process, and every caller that knows its
//! id can read it repeatedly, so a retried batch has the same messages (docs/decisions/0014-reservations.md).
//! The calls here check access and arguments; `entity::reservation` does the work, `read` reads messages, and `sessions`
//! reads and sets the states of sessions.

mod read;
mod sessions;

use std::sync::Arc;
use std::time::Duration;

use oxbus_model::caps::{
    CONSUMER_CHARS_MAX, RESERVATION_LOCK_MS_MAX, RESERVATION_LOCK_MS_MIN, RESERVATION_MESSAGES_MAX,
    RESERVATION_NUMBER_MAX,
};
use oxbus_model::name::SubQueue;
use oxbus_model::options::in_range;
use oxbus_model::{Error, ErrorKind, Result, Timestamp};
use oxbus_store::Wait;

pub use self::read::ReadPage;
pub use self::sessions::{ReservedSession, SessionPage, SessionStates};
use super::receiver::{Receiver, ReceiverOptions};
use super::settle_list::SettleListError;
use super::settlement::{SettleKey, Settlement};
use super::wait::{WaitOptions, WaitQueueRef, WaitSource, until_found};
use crate::clock::Deadline;
use crate::entity::Entity;
use crate::entity::reservation::{
    AcquiredConsumer, Completion, LockedMessages, ReservationInfo, ReservationPlan, ReserveOptions, StartPosition,
};
use crate::shard::ReservedMessage;
use crate::write::{ShardWrite, finish_all};

/// The reservations of an entity, or of its dead-letter queue.
pub struct Reservations {
    /// Settles single messages.
    receiver: Receiver,
}

impl Reservations {
    pub(crate) fn new(entity: Arc<Entity>, sub_queue: SubQueue) -> Result<Self> {
        let options = ReceiverOptions {
            sub_queue,
            ..ReceiverOptions::default()
        };
        Ok(Self {
            receiver: Receiver::of_reservations(entity, options)?,
        })
    }

    /// The entity.
    pub fn entity(&self) -> &Arc<Entity> {
        self.receiver.entity()
    }

    /// The main queue or the dead-letter queue.
    pub fn sub_queue(&self) -> SubQueue {
        self.receiver.sub_queue()
    }

    /// Acquires a consumer, which fences earlier holders. `start` applies to a new consumer only.
    pub fn acquire(&self, consumer: &str, start: StartPosition, wait: &Wait<'_>) -> Result<AcquiredConsumer> {
        self.check_reserves()?;
        check_consumer(consumer)?;
        self.entity().acquire(self.sub_queue(), consumer, start, wait)
    }

    /// Reserves messages under the number after the last one, or returns the existing reservation with this number.
    /// Waits up to `options.wait` for a first message. A plan without messages is not stored, and its number stays
    /// free.
    pub fn reserve(
        &self,
        consumer: &str,
        epoch: u64,
        n: u64,
        options: &ReserveOptions,
        wait: &Wait<'_>,
    ) -> Result<ReservationPlan> {
        let until = WaitOptions {
            deadline: Deadline::after(Some(options.wait)),
            cancellation: &Wait::FOREVER,
            poll_interval: None,
        };
        let plan = self.reserve_until(consumer, (epoch, n), options, &until, wait)?;
        Ok(plan.unwrap_or_else(|| self.empty_plan(epoch, n)))
    }

    /// [`Reservations::reserve`] with the caller's wait. Returns `None` if the wait ends without messages; the caller
    /// can then use [`Reservations::empty_plan`].
    pub fn reserve_until(
        &self,
        consumer: &str,
        number: (u64, u64),
        options: &ReserveOptions,
        until: &WaitOptions<'_>,
        wait: &Wait<'_>,
    ) -> Result<Option<ReservationPlan>> {
        until_found(self, until, || self.reserve_now(consumer, number, options, wait))
    }

    /// [`Reservations::reserve`] without waiting. Returns `None` if no message is ready.
    pub fn reserve_now(
        &self,
        consumer: &str,
        (epoch, n): (u64, u64),
        options: &ReserveOptions,
        wait: &Wait<'_>,
    ) -> Result<Option<ReservationPlan>> {
        check_number(n)?;
        self.check_options(options)?;
        self.check_reserves()?;
        let (entity, sub_queue) = (self.entity(), self.sub_queue());
        let plan = entity.reserve(sub_queue, consumer, (epoch, n), options, wait)?;
        // Passes the notification on: this call may have been notified of messages outside its bounds.
        let wait_queue = &entity.receivable(sub_queue).wait_queue;
        if wait_queue.waiters() > 0 && entity.has_ready(sub_queue) {
            wait_queue.notify(1);
            return Ok(Some(plan.unwrap_or_else(|| self.empty_plan(epoch, n))));
        }
        Ok(plan)
    }

    /// The plan without messages.
    pub fn empty_plan(&self, epoch: u64, n: u64) -> ReservationPlan {
        ReservationPlan {
            id: String::new(),
            epoch,
            n,
            partitions: Vec::new(),
            attempt: 1,
            missing: 0,
            expires_at: self.entity().now(),
        }
    }

    /// Resumes the reservation with this number. It may have fewer messages than before, never more.
    pub fn plan(&self, consumer: &str, epoch: u64, n: u64, lock: Duration, wait: &Wait<'_>) -> Result<ReservationPlan> {
        self.check_reserves()?;
        check_number(n)?;
        check_lock(lock)?;
        self.entity().plan(self.sub_queue(), consumer, (epoch, n), lock, wait)
    }

    /// Renews all live reservations of a consumer: they expire `lock` from now.
    pub fn renew(&self, consumer: &str, epoch: u64, lock: Duration, wait: &Wait<'_>) -> Result<Timestamp> {
        self.check_alive()?;
        check_lock(lock)?;
        self.entity()
            .renew_reservations(self.sub_queue(), consumer, epoch, lock, wait)
    }

    /// Completes all reservations of a consumer up to a number. Repeating the call has no effect.
    pub fn complete_up_to(&self, consumer: &str, epoch: u64, n: u64, wait: &Wait<'_>) -> Result<Completion> {
        self.check_alive()?;
        in_range("n", n, 0, RESERVATION_NUMBER_MAX, "")?;
        self.entity()
            .complete_up_to(self.sub_queue(), consumer, (epoch, n), wait)
    }

    /// Settles single messages of a reservation and removes them from it. Returns their number. Skips messages that
    /// the reservation does not have.
    pub fn settle(
        &self,
        id: &str,
        epoch: u64,
        sequence_numbers: &[u64],
        settlement: Settlement<'_>,
        wait: &Wait<'_>,
    ) -> Result<u64> {
        self.check_alive()?;
        self.entity().settle_reserved(
            self.sub_queue(),
            (id, epoch),
            sequence_numbers,
            |locked| {
                let keys: Vec<SettleKey> = locked
                    .iter()
                    .map(|(index, reserved)| SettleKey {
                        index: *index,
                        key: reserved.key,
                    })
                    .collect();
                // Unsettled messages stay in the reservation; the call fails after the settled ones are removed from
                // it.
                let (unsettled, error) = match self.receiver.settle_many(&keys, settlement, wait) {
                    Ok(lost) => (lost, None),
                    Err(SettleListError { error, positions, .. }) => (positions, Some(error)),
                };
                if matches!(settlement, Settlement::Abandon(_)) {
                    self.note_abandoned(locked, &unsettled, wait)?;
                }
                Ok((unsettled, error))
            },
            wait,
        )
    }

    /// Removes messages from a reservation without counting a delivery: they are available again. Returns their number.
    pub fn release(&self, id: &str, epoch: u64, sequence_numbers: &[u64], wait: &Wait<'_>) -> Result<u64> {
        self.check_alive()?;
        let release = |locked: &LockedMessages| {
            let keys = locked.iter().map(|(index, reserved)| SettleKey {
                index: *index,
                key: reserved.key,
            });
            self.receiver.release(&keys.collect::<Vec<_>>(), wait);
            Ok((Vec::new(), None))
        };
        self.entity()
            .settle_reserved(self.sub_queue(), (id, epoch), sequence_numbers, release, wait)
    }

    /// True if reservations hold sessions.
    fn has_sessions(&self) -> bool {
        self.entity().requires_session() && self.sub_queue() == SubQueue::Main
    }

    /// All reservations, by consumer and number.
    pub fn list(&self, wait: &Wait<'_>) -> Vec<ReservationInfo> {
        self.entity().list_reservations(self.sub_queue(), wait)
    }

    /// Releases all messages that a consumer has reserved, without counting a delivery. Returns their number. Its
    /// epoch and its highest completed number stay.
    pub fn cancel(&self, consumer: &str, wait: &Wait<'_>) -> Result<u64> {
        self.check_alive()?;
        self.entity().cancel_reservations(self.sub_queue(), consumer, wait)
    }

    /// By partition, the counter of the next message to be sent.
    pub fn ends(&self) -> Result<Vec<u64>> {
        self.check_alive()?;
        Ok(self.entity().next_counters().into_iter().map(|end| end.0).collect())
    }

    /// Journals the counted deliveries of abandoned messages, because the reservation did not journal them.
    fn note_abandoned(&self, locked: &LockedMessages, unsettled: &[usize], wait: &Wait<'_>) -> Result<()> {
        let moment = self.entity().core().clock().moment();
        let settled = locked
            .iter()
            .enumerate()
            .filter(|(at, _)| unsettled.binary_search(at).is_err());
        let settled: Vec<_> = settled.map(|(_, one)| *one).collect();
        let runs = settled.chunk_by(|a, b| a.0 == b.0).filter_map(|run| {
            let cell = self.entity().cell(run[0].0)?;
            let locked: Vec<ReservedMessage> = run.iter().map(|(_, reserved)| *reserved).collect();
            Some((
                cell,
                ShardWrite::of(cell.delivery_count_operation(self.sub_queue(), &locked), moment),
            ))
        });
        let mut writes: Vec<_> = runs.collect();
        let begun = writes
            .iter_mut()
            .map(|(cell, write)| write.begin(cell, cell.durability(None), wait));
        let tickets = begun.collect::<std::result::Result<Vec<_>, _>>()?;
        for done in finish_all(tickets, wait) {
            done?;
        }
        Ok(())
    }

    fn check_alive(&self) -> Result<()> {
        self.entity().check_alive()?;
        self.entity().note_use();
        self.receiver.check_has_session()
    }

    /// Fails if receiving is not possible now.
    fn check_reserves(&self) -> Result<()> {
        self.check_alive()?;
        self.receiver.check_receives()
    }

    fn check_options(&self, options: &ReserveOptions) -> Result<()> {
        let max = RESERVATION_MESSAGES_MAX as u64;
        in_range("max_messages", options.messages as u64, 1, max, "messages")?;
        in_range("max_bytes", options.bytes, 1, u64::MAX, "bytes")?;
        check_lock(options.lock)?;
        if let Some(sessions) = options.sessions {
            in_range("max_sessions", sessions as u64, 1, max, "sessions")?;
            if !self.has_sessions() {
                let detail = "max_sessions is for entities that require sessions; leave it out";
                return Err(Error::new(ErrorKind::InvalidArgument, detail));
            }
        }
        let partitions = usize::from(self.entity().partitions());
        match &options.upto {
            Some(upto) if upto.len() != partitions => {
                let detail = format!(
                    "upto needs a number for each partition of the entity; use its ends: {} numbers, {partitions} partitions",
                    upto.len()
                );
                Err(Error::new(ErrorKind::InvalidArgument, detail))
            }
            _ => Ok(()),
        }
    }
}

/// A reservation waits in the wait queue of the entity.
impl WaitSource for Reservations {
    fn wait_queue(&self) -> WaitQueueRef {
        WaitQueueRef::of_entity(self.entity(), self.sub_queue())
    }

    fn recheck_after(&self) -> Option<Duration> {
        self.receiver.recheck_after()
    }
}

fn check_consumer(consumer: &str) -> Result<()> {
    let (chars, max) = (consumer.chars().count() as u64, CONSUMER_CHARS_MAX as u64);
    in_range("consumer", chars, 1, max, "characters")
}

fn check_number(n: u64) -> Result<()> {
    in_range("n", n, 1, RESERVATION_NUMBER_MAX, "")
}

fn check_lock(lock: Duration) -> Result<()> {
    let ms = u64::try_from(lock.as_millis()).unwrap_or(u64::MAX);
    in_range(
        "lock_duration",
        ms,
        RESERVATION_LOCK_MS_MIN,
        RESERVATION_LOCK_MS_MAX,
        "ms",
    )
}
