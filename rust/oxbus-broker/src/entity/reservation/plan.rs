// SPDX-License-Identifier: Apache-2.0
//! Options and results of reservations.

use std::time::Duration;

use oxbus_model::Timestamp;

/// Where a new consumer starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartPosition {
    /// At the first existing message.
    Earliest,
    /// After all existing messages.
    Latest,
}

/// Result of acquiring a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcquiredConsumer {
    /// Required in every later call; earlier epochs are fenced.
    pub epoch: u64,
    /// The highest number that was completed; 0 before the first.
    pub done: u64,
}

/// Limits of a new reservation.
#[derive(Debug, Clone)]
pub struct ReserveOptions {
    /// Maximum number of messages.
    pub messages: usize,
    /// Maximum number of bytes. A single message may have more.
    pub bytes: u64,
    /// Maximum number of sessions; `None` for no limit. Only for an entity that requires sessions.
    pub sessions: Option<usize>,
    /// By partition, the sequence number after the last message to reserve.
    pub upto: Option<Vec<u64>>,
    /// Lock duration, unless renewed.
    pub lock: Duration,
    /// Maximum wait for the first message.
    pub wait: Duration,
    /// Attempts that count already, because the messages were in an earlier reservation that failed.
    pub attempts: u64,
}

/// Messages of a reservation in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionPlan {
    /// The partition; 0 for an entity that is not partitioned.
    pub partition: u16,
    /// Ranges of sequence numbers, first and last inclusive, ascending.
    pub ranges: Vec<(u64, u64)>,
    /// Number of locked messages.
    pub messages: u64,
    /// Bytes of their records.
    pub bytes: u64,
}

/// A live reservation and its messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationPlan {
    /// Identifies the reservation when its messages are read and settled; empty without messages.
    pub id: String,
    /// Epoch of the consumer.
    pub epoch: u64,
    /// Number of the reservation.
    pub n: u64,
    /// Its messages by partition; only partitions with messages.
    pub partitions: Vec<PartitionPlan>,
    /// Which acquisition of the consumer works on it: 1 for the one that created it, or more if earlier attempts count.
    /// A program that fails and restarts acquires the consumer again.
    pub attempt: u64,
    /// Messages that the reservation lost: taken by other receivers after it expired, or dead-lettered.
    pub missing: u64,
    /// Time at which it expires unless renewed.
    pub expires_at: Timestamp,
}

impl ReservationPlan {
    /// Messages of all partitions.
    pub fn messages(&self) -> u64 {
        self.partitions.iter().map(|it| it.messages).sum()
    }
}

/// Result of a completion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Completion {
    /// Number of messages that the call completed.
    pub completed: u64,
    /// Number of messages that other receivers took after the reservation expired. They are processed twice.
    pub late: u64,
}

/// Status of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservationStatus {
    /// Its messages are locked.
    Live,
    /// Its deadline has passed, and other receivers may take its messages.
    Expired,
}

/// A reservation as management lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationInfo {
    /// Name of the consumer.
    pub consumer: String,
    /// Epoch of the consumer.
    pub epoch: u64,
    /// The highest number that the consumer completed; 0 before the first.
    pub done: u64,
    /// Number of the reservation.
    pub n: u64,
    /// Number of its messages.
    pub messages: u64,
    /// Its status. The golden descriptions of directories print the name of this field.
    pub standing: ReservationStatus,
    /// Time at which it expires; `None` once expired.
    pub expires_at: Option<Timestamp>,
}
