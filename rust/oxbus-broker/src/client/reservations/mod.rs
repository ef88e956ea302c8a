// SPDX-License-Identifier: Apache-2.0
//! Reservations: many messages in the hands of one consumer, under a number, until that number is completed.
//!
//! What a number has is frozen when it is reserved, outlives the process, and can be read again and again by whoever knows
//! its id: so a batch that is tried again has the same messages (docs/decisions/0014-reservations.md).

mod terms;

use std::sync::Arc;
use std::time::Duration;

use oxbus_model::name::SubQueue;
use oxbus_model::{Error, ErrorKind, Result, Timestamp};

pub use self::terms::{Acquired, Completed, PartitionPlan, Plan, ReadPage, ReservationInfo, Standing, Start, Wish};
use super::receiver::{Receiver, ReceiverOptions};
use super::settlement::Settlement;
use super::wait::Waited;
use crate::clock::Alarm;
use crate::entity::Queue;

/// The reservations of an entity, or of its dead-letter queue.
pub struct Reservations {
    receiver: Receiver,
}

impl Reservations {
    pub(crate) fn new(queue: Arc<Queue>, sub_queue: SubQueue) -> Result<Self> {
        let options = ReceiverOptions {
            sub_queue,
            ..ReceiverOptions::default()
        };
        Ok(Self {
            receiver: Receiver::new(queue, options, None)?,
        })
    }

    /// The entity.
    pub fn queue(&self) -> &Arc<Queue> {
        self.receiver.queue()
    }

    /// Makes the caller the one who speaks for a consumer. `start` counts when it was never here.
    pub fn acquire(&self, consumer: &str, start: Start) -> Result<Acquired> {
        let _ = (consumer, start);
        Err(self.not_yet())
    }

    /// Reserves messages under the number behind the last one, or returns what that number has. Waits for a first message as
    /// long as the wish says; a plan without messages stores nothing, and the number stays free.
    pub fn reserve(&self, consumer: &str, epoch: u64, n: u64, wish: &Wish) -> Result<Plan> {
        let _ = (consumer, epoch, n, wish);
        Err(self.not_yet())
    }

    /// The same in pieces: waits until `alarm`, not longer than `slice` at a time, and not after `cancelled` says so. Whoever
    /// finds nothing in the end gets the plan without messages from [`Reservations::reserve`] with a wish that waits for none.
    pub fn reserve_until(
        &self,
        (consumer, epoch, n): (&str, u64, u64),
        wish: &Wish,
        alarm: Alarm,
        slice: Duration,
        cancelled: impl Fn() -> bool,
    ) -> Result<Waited<Plan>> {
        let _ = (consumer, epoch, n, wish, alarm, slice, cancelled());
        Err(self.not_yet())
    }

    /// What a number has. It may have less than before, never more.
    pub fn plan(&self, consumer: &str, epoch: u64, n: u64, lock: Duration) -> Result<Plan> {
        let _ = (consumer, epoch, n, lock);
        Err(self.not_yet())
    }

    /// Reads messages of one partition, from one sequence number to another, up to so many bytes but at least one message.
    pub fn read(&self, id: &str, epoch: u64, partition: u16, from: u64, to: u64, bytes_max: usize) -> Result<ReadPage> {
        let _ = (id, epoch, partition, from, to, bytes_max);
        Err(self.not_yet())
    }

    /// Moves the end of all that a consumer has to `lock` from now.
    pub fn renew(&self, consumer: &str, epoch: u64, lock: Duration) -> Result<Timestamp> {
        let _ = (consumer, epoch, lock);
        Err(self.not_yet())
    }

    /// Completes all that a consumer has up to a number. Doing it again does nothing.
    pub fn complete_up_to(&self, consumer: &str, epoch: u64, n: u64) -> Result<Completed> {
        let _ = (consumer, epoch, n);
        Err(self.not_yet())
    }

    /// Settles single messages of a reservation, which are not its any more; how many.
    pub fn settle(&self, id: &str, epoch: u64, sequence_numbers: &[u64], how: Settlement<'_>) -> Result<u64> {
        let _ = (id, epoch, sequence_numbers, how);
        Err(self.not_yet())
    }

    /// All reservations, and the consumers that have none, by consumer and number.
    pub fn list(&self) -> Vec<ReservationInfo> {
        Vec::new()
    }

    /// Gives back all that a consumer has, nothing charged; how many messages. Its epoch and what it completed stay.
    pub fn cancel(&self, consumer: &str) -> Result<u64> {
        let _ = consumer;
        Err(self.not_yet())
    }

    /// By partition, the counter that the next message gets.
    pub fn ends(&self) -> Result<Vec<u64>> {
        Err(self.not_yet())
    }

    fn not_yet(&self) -> Error {
        let detail = format!("reservations do not work yet: `{}`", self.queue().name().as_str());
        Error::new(ErrorKind::NotSupported, detail)
    }
}
