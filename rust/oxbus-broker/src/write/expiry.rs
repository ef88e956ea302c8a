// SPDX-License-Identifier: Apache-2.0
//! Expiry of messages, locks, sessions and reservations, and activation of scheduled messages.
//!
//! The entries are not awaited, except for deferred messages that a caller asked for. If the process ends before an
//! entry is written, the same happens again: a message expires again, locks end with the process, and a reservation
//! expires again.

use oxbus_model::name::SubQueue;
use oxbus_model::options::Durability;
use oxbus_model::{Counter, Moment, Ticks, Timestamp};
use oxbus_store::{
    ClaimMode, ClaimedMessage, LockKey, MessageStore, NewMessage, Outcome, RemovedMessage, SettleResult, Wait,
};

use super::DeadLetterReason;
use super::error::WriteError;
use super::shard_write::{DeliveryEffect, LockEnd, Removal, ShardWrite, WriteOperation};
use super::ticket::{CommittedWrite, Ticket};
use crate::shard::journal::DeliveryRecord;
use crate::shard::{CallKind, Cell, DeliveryPolicy, Meter, ReadyCounts, ReservedMessage};

/// For writes whose events contain no time.
const NO_MOMENT: Moment = Moment {
    now: Timestamp(0),
    ticks: Ticks(0),
};

impl Cell {
    /// Writes one operation without waiting for its entry. A failure takes the shard out of service.
    pub(crate) fn write_unawaited<'a>(
        &'a self,
        operation: WriteOperation<'a>,
        wait: &Wait<'_>,
    ) -> Result<CommittedWrite, WriteError> {
        let mut write = ShardWrite::of(operation, NO_MOMENT);
        self.shard
            .begin(&mut write, Durability::Memory, wait)
            .map(Ticket::detach)
    }

    /// Ends a lock without waiting for its entry. If the entry is lost, the delivery counts as one that ended with the
    /// process.
    pub(crate) fn settle_unawaited(
        &self,
        sub_queue: SubQueue,
        key: LockKey,
        outcome: Outcome,
        moment: Moment,
        wait: &Wait<'_>,
    ) -> Result<ReadyCounts, WriteError> {
        let settle = LockEnd::Outcome(outcome);
        let mut write = ShardWrite::of(WriteOperation::settle(self, sub_queue, key, settle), moment);
        let ticket = self.shard.begin(&mut write, Durability::Memory, wait)?;
        Ok(ticket.detach().ended)
    }

    /// Claims ready messages. Expired ones are removed, or dead-lettered with `dead_letter_expired`.
    /// Returns how many were claimed and how many were dead-lettered.
    pub fn claim_or_expire(
        &self,
        sub_queue: SubQueue,
        max: usize,
        mode: ClaimMode,
        (now, dead_letter_expired): (Timestamp, bool),
        out: &mut Vec<ClaimedMessage>,
        wait: &Wait<'_>,
    ) -> (usize, usize) {
        let mut expired = Vec::new();
        let taken = match sub_queue {
            SubQueue::Main => self.main.claim(max, mode, now, out, &mut expired),
            SubQueue::DeadLetter => self.dead_letters.claim(max, mode, now, out, &mut expired),
        };
        (
            taken,
            self.remove_expired(sub_queue, expired, dead_letter_expired, wait),
        )
    }

    /// Claims those of the given messages that are ready. Returns how many expired ones were dead-lettered.
    pub fn claim_these_or_expire(
        &self,
        sub_queue: SubQueue,
        counters: &[Counter],
        mode: ClaimMode,
        (now, dead_letter_expired): (Timestamp, bool),
        out: &mut Vec<ClaimedMessage>,
        wait: &Wait<'_>,
    ) -> usize {
        let mut expired = Vec::new();
        self.store(sub_queue)
            .claim_these(counters, mode, now, out, &mut expired);
        self.remove_expired(sub_queue, expired, dead_letter_expired, wait)
    }

    /// Removes or dead-letters those of the given messages that are deferred, unlocked and expired. Returns how many
    /// were dead-lettered.
    pub fn expire_deferred(
        &self,
        sub_queue: SubQueue,
        counters: &[Counter],
        now: Timestamp,
        dead_letter_expired: bool,
        wait: &Wait<'_>,
    ) -> usize {
        let mut expired = Vec::new();
        self.store(sub_queue).take_expired(counters, now, &mut expired);
        if expired.is_empty() {
            return 0;
        }
        let dead_lettered = self.remove_expired(sub_queue, expired, dead_letter_expired, wait);
        // Awaited: after a crash nothing would expire them before they are fetched again. A failure takes the shard
        // out of service.
        let _ = self.shard.await_all(Durability::Os, CallKind::Change, wait);
        dead_lettered
    }

    /// Removes expired messages, or dead-letters them. Returns how many were dead-lettered.
    #[inline]
    pub(super) fn remove_expired(
        &self,
        sub_queue: SubQueue,
        expired: Vec<RemovedMessage>,
        dead_letter_expired: bool,
        wait: &Wait<'_>,
    ) -> usize {
        if expired.is_empty() {
            return 0;
        }
        self.remove_all_expired(sub_queue, expired, dead_letter_expired, wait)
    }

    #[cold]
    fn remove_all_expired(
        &self,
        sub_queue: SubQueue,
        expired: Vec<RemovedMessage>,
        dead_letter_expired: bool,
        wait: &Wait<'_>,
    ) -> usize {
        if dead_letter_expired {
            return self.dead_letter_removed(expired, DeadLetterReason::Expired, wait);
        }
        self.meter(Meter::ExpiredRemoved, expired.len());
        let gone = expired.iter().map(|message| message.counter).collect();
        let removal = Removal::AlreadyRemoved(gone);
        let cell = self;
        // Not awaited: if the entry is lost, the messages expire again.
        let _ = self.write_unawaited(
            WriteOperation::Remove {
                cell,
                sub_queue,
                removal,
            },
            wait,
        );
        0
    }

    /// Ends expired locks and sessions and activates due messages.
    pub fn tick(&self, moment: Moment, policy: DeliveryPolicy, wait: &Wait<'_>) -> ReadyCounts {
        let Moment { now, ticks } = moment;
        let mut ended = ReadyCounts::default();
        if self.main.next_expiry() <= ticks {
            let mut exhausted = Vec::new();
            ended.main += self.main.expire(ticks, policy.max_delivery_count, &mut exhausted);
            let reason = DeadLetterReason::DeliveriesExhausted;
            ended.dead_letters += self.dead_letter_removed(exhausted, reason, wait);
        }
        if self.dead_letters.next_expiry() <= ticks {
            ended.dead_letters += self.dead_letters.expire(ticks, u32::MAX, &mut Vec::new());
        }
        if self.has_due(now) && !self.fans_out {
            ended.main += self.activate_due(now, wait);
        }
        if self.has_ended_delay(now) {
            ended = ended.and(self.return_delayed(moment, policy, wait));
        }
        ended.and(self.expire_sessions(moment, policy, wait))
    }

    /// Makes the messages available whose delay has ended.
    #[cold]
    fn return_delayed(&self, moment: Moment, policy: DeliveryPolicy, wait: &Wait<'_>) -> ReadyCounts {
        let (mut ended, in_sessions) = self.end_delays(moment.now, moment.ticks);
        let Some(sessions) = self.sessions.as_ref().filter(|_| !in_sessions.is_empty()) else {
            return ended;
        };
        // They are in their sessions before later messages can be received.
        let filled = self.fill_sessions(moment.now, policy, wait);
        ended = ended.and(filled);
        for (id, counter) in in_sessions {
            ended.sessions += sessions.end_delay(&id, counter);
        }
        ended
    }

    /// Appends due messages as if they were sent at their due time: with a new number, a new enqueued time, and a time
    /// to live that starts there, even if they are activated late. Returns how many are ready.
    fn activate_due(&self, now: Timestamp, wait: &Wait<'_>) -> usize {
        let mut activated = 0;
        self.for_each_due(now, |due_at, counter| -> Result<(), WriteError> {
            activated += self.activate(due_at, counter, wait)?;
            Ok(())
        });
        activated
    }

    /// Activates one message. Returns how many are ready: 0 if it was cancelled.
    fn activate(&self, due: Timestamp, counter: Counter, wait: &Wait<'_>) -> Result<usize, WriteError> {
        let Some((record, lives)) = self.scheduled(counter)? else {
            return Ok(0);
        };
        let expires_at = lives.map_or(Timestamp::NEVER, |ms| due.plus_ms(ms));
        let message = Some(NewMessage {
            record: record.into(),
            expires_at,
        });
        let at_due = Moment { now: due, ..NO_MOMENT };
        let mut write = ShardWrite::into_cells([self], at_due);
        let cell = self;
        write.push(WriteOperation::Activate { cell, counter, message });
        let ticket = self.shard.begin(&mut write, Durability::Os, wait)?;
        Ok(ticket.finish(wait)?.ready)
    }

    /// Ends the locks of an expired reservation. A delivery of each is counted, and exhausted messages are
    /// dead-lettered.
    pub fn expire_reservation(
        &self,
        sub_queue: SubQueue,
        held: &[ReservedMessage],
        max_delivery_count: u32,
        ticks: Ticks,
        wait: &Wait<'_>,
    ) -> ReadyCounts {
        let mut ready = Vec::with_capacity(held.len());
        let mut exhausted = Vec::new();
        for reserved in held {
            let outcome = Outcome::Abandon {
                max_delivery_count,
                replacement: None,
            };
            match self.store(sub_queue).settle(reserved.key, outcome, ticks) {
                Ok(SettleResult::Exhausted(message)) => exhausted.push(message),
                Ok(_) => ready.push(*reserved),
                Err(_) => {}
            }
        }
        if !ready.is_empty() {
            // Not awaited: if the entry is lost, the reservation expires again.
            let _ = self.write_unawaited(self.delivery_count_operation(sub_queue, &ready), wait);
        }
        let reason = DeadLetterReason::DeliveriesExhausted;
        let dead_lettered = self.dead_letter_removed(exhausted, reason, wait);
        ReadyCounts::of(sub_queue, ready.len()).and(ReadyCounts::of(SubQueue::DeadLetter, dead_lettered))
    }

    /// The operation that counts one delivery of each message.
    pub fn delivery_count_operation(&self, sub_queue: SubQueue, held: &[ReservedMessage]) -> WriteOperation<'_> {
        let counted = |reserved: &ReservedMessage| DeliveryRecord {
            counter: reserved.key.counter,
            generation: reserved.key.generation,
            count_after: reserved.delivery_count.saturating_add(1),
            deferred: false,
        };
        WriteOperation::HandOut {
            cell: self,
            sub_queue,
            messages: held.iter().map(counted).collect(),
            then: DeliveryEffect::Charged,
        }
    }
}
