// SPDX-License-Identifier: Apache-2.0
//! What a consumer asks for and what it gets.

use std::time::Duration;

use oxbus_model::Timestamp;

/// Where a consumer begins that was never here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartPosition {
    /// At the first message that is there.
    Earliest,
    /// Behind those that are there.
    Latest,
}

/// A consumer in the hands of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcquiredConsumer {
    /// To be named in every later call; an earlier one is refused from now on.
    pub epoch: u64,
    /// The highest number that was completed; 0 before the first.
    pub done: u64,
}

/// How much a new reservation may take.
#[derive(Debug, Clone)]
pub struct ReserveOptions {
    /// At most so many messages.
    pub messages: usize,
    /// At most so many bytes; one message may have more.
    pub bytes: u64,
    /// By partition, no message whose counter is this or higher.
    pub upto: Option<Vec<u64>>,
    /// How long it holds unless it is renewed.
    pub lock: Duration,
    /// How long to wait for a first message.
    pub wait: Duration,
}

/// What a reservation has of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionPlan {
    /// Which partition; 0 of an entity that is not partitioned.
    pub partition: u16,
    /// Sequence numbers, from and to, both included, rising.
    pub ranges: Vec<(u64, u64)>,
    /// Messages in these.
    pub messages: u64,
    /// Bytes of their records.
    pub bytes: u64,
}

/// What a reservation has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationPlan {
    /// Names the reservation where its messages are read and settled; empty without messages.
    pub id: String,
    /// Whose it is.
    pub epoch: u64,
    /// Its number.
    pub n: u64,
    /// What it has, by partition; those without messages are left out.
    pub partitions: Vec<PartitionPlan>,
    /// Messages that it had and others took meanwhile, or that were buried.
    pub missing: u64,
    /// When it lapses unless it is renewed.
    pub expires_at: Timestamp,
}

impl ReservationPlan {
    /// Messages of all partitions.
    pub fn messages(&self) -> u64 {
        self.partitions.iter().map(|it| it.messages).sum()
    }
}

/// What a completion did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Completion {
    /// Messages that are gone by it.
    pub completed: u64,
    /// Messages that others took after a lapse: those are handled twice.
    pub late: u64,
}

/// Where a reservation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservationStatus {
    /// Its messages are locked.
    Live,
    /// Its time is over and its messages are anybody's.
    Expired,
}

/// A reservation as management shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationInfo {
    /// The consumer.
    pub consumer: String,
    /// Its epoch.
    pub epoch: u64,
    /// The highest number that it completed.
    pub done: u64,
    /// The number of the reservation.
    pub n: u64,
    /// Its messages.
    pub messages: u64,
    /// Where it stands.
    pub status: ReservationStatus,
    /// When it lapses; `None` when it has.
    pub expires_at: Option<Timestamp>,
}
