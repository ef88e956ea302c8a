// SPDX-License-Identifier: Apache-2.0
//! What ends by itself: messages whose time is over, locks, sessions and reservations; and schedules that come due.
//!
//! None of it is waited for, but for deferred messages that somebody asked for. What is lost with the process happens again:
//! a message expires again, the locks of a process that is gone have ended, and a reservation is live again and lapses again.

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
use crate::shard::{CallKind, Cell, ReadyCounts, ReservedMessage, Rules};

/// A write that asks for no time: its operations have none in their events.
const NO_MOMENT: Moment = Moment {
    now: Timestamp(0),
    ticks: Ticks(0),
};

impl Cell {
    /// Writes one operation without a wait for its entry. A failure takes the shard out of service.
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

    /// Ends a lock without a wait for its entry: if that is lost, the delivery counts as one that ended with the process.
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

    /// Takes ready messages; those whose time is over are dropped, or dead-lettered when `dead_letter_expired`.
    /// Returns how many were taken and how many were dead-lettered.
    pub fn claim_or_expire(
        &self,
        sub_queue: SubQueue,
        max: usize,
        hold: ClaimMode,
        (now, dead_letter_expired): (Timestamp, bool),
        out: &mut Vec<ClaimedMessage>,
        wait: &Wait<'_>,
    ) -> (usize, usize) {
        let mut expired = Vec::new();
        let taken = match sub_queue {
            SubQueue::Main => self.main.claim(max, hold, now, out, &mut expired),
            SubQueue::DeadLetter => self.dead_letters.claim(max, hold, now, out, &mut expired),
        };
        (
            taken,
            self.remove_expired(sub_queue, expired, dead_letter_expired, wait),
        )
    }

    /// Takes those of the given messages that are ready. Returns how many were dead-lettered because their time is over.
    pub fn claim_these_or_expire(
        &self,
        sub_queue: SubQueue,
        counters: &[Counter],
        hold: ClaimMode,
        (now, dead_letter_expired): (Timestamp, bool),
        out: &mut Vec<ClaimedMessage>,
        wait: &Wait<'_>,
    ) -> usize {
        let mut expired = Vec::new();
        self.store(sub_queue)
            .claim_these(counters, hold, now, out, &mut expired);
        self.remove_expired(sub_queue, expired, dead_letter_expired, wait)
    }

    /// Ends those of the given messages that are deferred, that nobody holds and whose time is over, as those that expire
    /// while they wait. Returns how many were dead-lettered.
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
        // Waited for: nobody looks by himself after a crash. A failure takes the shard out of service.
        let _ = self.shard.await_all(Durability::Os, CallKind::Change, wait);
        dead_lettered
    }

    /// Drops messages whose time is over, or dead-letters them. Returns how many were dead-lettered.
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
        let gone = expired.iter().map(|message| message.counter).collect();
        let removal = Removal::AlreadyRemoved(gone);
        let cell = self;
        // Not waited for: if it is lost, the messages expire again.
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

    /// Ends the locks that are over and activates what is due.
    pub fn tick(&self, moment: Moment, rules: Rules, wait: &Wait<'_>) -> ReadyCounts {
        let Moment { now, ticks } = moment;
        let mut ended = ReadyCounts::default();
        if self.main.next_expiry() <= ticks {
            let mut exhausted = Vec::new();
            ended.main += self.main.expire(ticks, rules.max_delivery_count, &mut exhausted);
            let reason = DeadLetterReason::DeliveriesExhausted;
            ended.dead_letters += self.dead_letter_removed(exhausted, reason, wait);
        }
        if self.dead_letters.next_expiry() <= ticks {
            ended.dead_letters += self.dead_letters.expire(ticks, u32::MAX, &mut Vec::new());
        }
        if self.has_due(now) && !self.fans_out {
            ended.main += self.activate_due(now, wait);
        }
        ended.and(self.expire_sessions(moment, rules, wait))
    }

    /// Appends the messages that are due as if they were sent at their due time: new number, new enqueued time, and
    /// the time to live counts from there, however late somebody looks. Returns how many are active.
    fn activate_due(&self, now: Timestamp, wait: &Wait<'_>) -> usize {
        let mut activated = 0;
        self.for_each_due(now, |due_at, counter| -> Result<(), WriteError> {
            activated += self.activate(due_at, counter, wait)?;
            Ok(())
        });
        activated
    }

    /// Activates one message; how many are ready by that: none when it was cancelled.
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

    /// Ends the locks of a reservation that is over: each is charged a delivery, and a message that has none left is
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
            // Not waited for: if it is lost, the reservation is live again and lapses again.
            let _ = self.write_unawaited(self.charge_operation(sub_queue, &ready), wait);
        }
        let reason = DeadLetterReason::DeliveriesExhausted;
        let dead_lettered = self.dead_letter_removed(exhausted, reason, wait);
        ReadyCounts::of(sub_queue, ready.len()).and(ReadyCounts::of(SubQueue::DeadLetter, dead_lettered))
    }

    /// Charges a delivery to locks that stay. A message that has none left is dead-lettered and leaves `held`. Write the
    /// operation and wait for it, so that the delivery counts whatever becomes of the holder.
    pub fn charge(
        &self,
        sub_queue: SubQueue,
        held: &mut Vec<ReservedMessage>,
        max_delivery_count: u32,
        ticks: Ticks,
        wait: &Wait<'_>,
    ) -> (ReadyCounts, Option<WriteOperation<'_>>) {
        let mut exhausted = Vec::new();
        let store = self.store(sub_queue);
        held.retain(|reserved| match store.charge(reserved.key, max_delivery_count, ticks) {
            Ok(None) => true,
            Ok(Some(message)) => {
                exhausted.push(message);
                false
            }
            Err(_) => false,
        });
        let charged = (!held.is_empty()).then(|| self.charge_operation(sub_queue, held));
        for reserved in held {
            reserved.delivery_count = reserved.delivery_count.saturating_add(1);
        }
        let reason = DeadLetterReason::DeliveriesExhausted;
        let dead_lettered = self.dead_letter_removed(exhausted, reason, wait);
        (ReadyCounts::of(SubQueue::DeadLetter, dead_lettered), charged)
    }

    /// The operation of a delivery that was charged to messages.
    pub fn charge_operation(&self, sub_queue: SubQueue, held: &[ReservedMessage]) -> WriteOperation<'_> {
        let charged = |reserved: &ReservedMessage| DeliveryRecord {
            counter: reserved.key.counter,
            generation: reserved.key.generation,
            count_after: reserved.delivery_count.saturating_add(1),
            deferred: false,
        };
        WriteOperation::HandOut {
            cell: self,
            sub_queue,
            messages: held.iter().map(charged).collect(),
            then: DeliveryEffect::Charged,
        }
    }
}
