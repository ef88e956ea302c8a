// SPDX-License-Identifier: Apache-2.0
//! Settlements and removals. They take effect in memory first and are journaled afterwards.
//!
//! The store decides which settlement of a message wins, and the winner is journaled. In the other order a snapshot
//! could cover a removal whose message is still stored, and a settled message would return. An abandon without new
//! properties needs no event: the delivery was counted when it began.

use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Ticks, Timestamp};
use oxbus_store::{LockKey, LockLost, MessagePhase, MessageStore, Outcome, PeekedMessage, SettleResult, Wait};

use super::DeadLetterReason;
use super::error::{Cause, WriteError};
use super::shard_write::Removal;
use super::ticket::CommittedWrite;
use crate::shard::journal::{JournalEvent, Ranges, RecordChange, StoredPhase};
use crate::shard::{Cell, Delay, Meter, ReadyCounts};

/// Writes the event of removed messages.
pub(super) fn removed(
    cell: &Cell,
    sub_queue: SubQueue,
    counters: impl IntoIterator<Item = Counter>,
    entry: &mut Vec<u8>,
) {
    let counters = counters.into_iter().collect::<Ranges>();
    JournalEvent::Remove { sub_queue, counters }.encode(cell.entity, entry);
}

/// Writes the event of a message that stays. Call it while the lock holds, so that the message cannot change.
pub(super) fn event_of(
    cell: &Cell,
    sub_queue: SubQueue,
    key: LockKey,
    (outcome, delay): (&Outcome, Option<&Delay>),
    entry: &mut Vec<u8>,
) -> Result<(), WriteError> {
    let (replacement, defers, counts) = match outcome {
        Outcome::Abandon { replacement: None, .. } => return Ok(()),
        Outcome::Abandon { replacement, .. } | Outcome::Hold { replacement, .. } => (replacement.as_ref(), false, true),
        Outcome::Defer { replacement } => (replacement.as_ref(), true, false),
        Outcome::Release | Outcome::Complete | Outcome::Remove => (None, false, false),
    };
    let mut found: Vec<PeekedMessage> = Vec::new();
    cell.store(sub_queue).peek(key.counter, 1, &mut found);
    let message = found.pop().filter(|message| message.counter == key.counter);
    let message = message.ok_or(LockLost)?;
    let fetched = message.phase == MessagePhase::DeferredLocked;
    let event = JournalEvent::Return {
        sub_queue,
        counter: key.counter,
        generation: key.generation,
        // The delivery of a deferred message was counted when it was fetched.
        delivery_count: message.delivery_count + u32::from(counts && !fetched),
        phase: match delay {
            Some(Delay { until, .. }) => StoredPhase::Delayed {
                until: *until,
                deferred: fetched,
            },
            None if defers || fetched => StoredPhase::Deferred,
            None => StoredPhase::Ready,
        },
        record: replacement
            .and_then(|record| record.in_memory())
            .map(|record| RecordChange::of(record, message.record.in_memory())),
    };
    event.encode(cell.entity, entry);
    Ok(())
}

/// Ends a lock of a message that stays. An exhausted message is dead-lettered instead.
pub(super) fn settle_return(
    (cell, sub_queue, key): (&Cell, SubQueue, LockKey),
    (outcome, delay): (Outcome, Option<&Delay>),
    ticks: Ticks,
    entry: Option<&mut Vec<u8>>,
    done: &mut CommittedWrite,
    wait: &Wait<'_>,
) -> Result<(), WriteError> {
    let mut event = Vec::new();
    if entry.is_some() {
        event_of(cell, sub_queue, key, (&outcome, delay), &mut event)?;
    }
    match end_lock(cell, sub_queue, key, (outcome, delay), ticks)? {
        SettleResult::Exhausted(message) => {
            done.ended.dead_letters =
                cell.dead_letter_removed(vec![message], DeadLetterReason::DeliveriesExhausted, wait);
            return Ok(());
        }
        SettleResult::Ready => done.ended = ReadyCounts::of(sub_queue, 1),
        SettleResult::Held(_) => done.delayed = true,
        SettleResult::Completed | SettleResult::Deferred | SettleResult::Removed(_) => {}
    }
    if let Some(entry) = entry {
        entry.append(&mut event);
    }
    Ok(())
}

/// Ends a lock in its store, or keeps the message until its delay ends.
pub(super) fn end_lock(
    cell: &Cell,
    sub_queue: SubQueue,
    key: LockKey,
    (outcome, delay): (Outcome, Option<&Delay>),
    ticks: Ticks,
) -> Result<SettleResult, LockLost> {
    let meter = match outcome {
        Outcome::Abandon { .. } | Outcome::Hold { .. } => Some(Meter::Abandoned),
        Outcome::Defer { .. } => Some(Meter::Deferred),
        Outcome::Release | Outcome::Complete | Outcome::Remove => None,
    };
    let settled = match delay {
        Some(delay) => cell.settle_delayed(sub_queue, key, outcome, delay, ticks),
        None => cell.store(sub_queue).settle(key, outcome, ticks),
    };
    if let Some(meter) = meter.filter(|_| settled.is_ok()) {
        cell.meter_settled(meter, [key]);
    }
    settled
}

/// Applies a removal, unless it takes effect after the wait, and writes its event.
#[inline]
pub(super) fn settle_remove(
    cell: &Cell,
    sub_queue: SubQueue,
    removal: &mut Removal<'_>,
    ticks: Ticks,
    entry: Option<&mut Vec<u8>>,
    done: &mut CommittedWrite,
) -> Result<(), WriteError> {
    match removal {
        Removal::One(key) => {
            cell.store(sub_queue).settle(*key, Outcome::Complete, ticks)?;
            cell.meter_settled(Meter::Completed, [*key]);
            if let Some(entry) = entry {
                removed(cell, sub_queue, [key.counter], entry);
            }
        }
        Removal::Completed(keys) => {
            cell.store(sub_queue).complete(keys, ticks, &mut done.lost);
            if let Some(entry) = entry
                && done.lost.len() < keys.len()
            {
                let completed = keys.iter().enumerate().filter(|(at, _)| !done.lost.contains(at));
                removed(cell, sub_queue, completed.map(|(_, key)| key.counter), entry);
            }
        }
        Removal::Received(keys) => {
            if let Some(entry) = entry {
                removed(cell, sub_queue, keys.iter().map(|key| key.counter), entry);
            }
        }
        Removal::Cancelled(counters) => {
            cancel(cell, counters)?;
            if let Some(entry) = entry {
                removed(cell, sub_queue, counters.iter().copied(), entry);
            }
        }
        Removal::AlreadyRemoved(counters) => {
            if let Some(entry) = entry {
                let counters = std::mem::take(counters);
                JournalEvent::Remove { sub_queue, counters }.encode(cell.entity, entry);
            }
        }
    }
    Ok(())
}

/// Cancels scheduled messages: all of `counters`, or none if one is not scheduled (B-238).
fn cancel(cell: &Cell, counters: &[Counter]) -> Result<(), WriteError> {
    cell.shard.with_cell_state(cell.state_id, |state| {
        let mut missing = Vec::new();
        let mut cancelled: Vec<(Timestamp, Counter)> = Vec::new();
        for &counter in counters {
            match cell.due_of(counter) {
                Some(due) if state.schedule.remove(due, counter) => cancelled.push((due, counter)),
                _ => missing.push(counter),
            }
        }
        if missing.is_empty() {
            for (_, counter) in cancelled {
                cell.main.take_scheduled(counter);
            }
            return Ok(());
        }
        for (due, counter) in cancelled {
            state.schedule.add(due, counter);
        }
        Err(WriteError::none(Cause::NotScheduled(missing)))
    })
}
