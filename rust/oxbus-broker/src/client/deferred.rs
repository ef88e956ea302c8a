// SPDX-License-Identifier: Apache-2.0
//! Receives deferred messages by number (B-276 … B-287). An expired message stays until a call requests it; that call
//! removes or dead-letters it (B-255).

use oxbus_model::caps::DEFERRED_RECEIVE_MAX;
use oxbus_model::name::SubQueue;
use oxbus_model::options::{ReceiveMode, in_range};
use oxbus_model::{Counter, Effect, Error, ErrorKind, Result, SequenceNumber, Timestamp};
use oxbus_store::ClaimMode;
use oxbus_store::Wait;
use oxbus_store::suspended::run_now;

use super::receiver::{Deliveries, Delivery, Receiver};
use super::settlement::SettleKey;
use crate::shard::{Cell, REMOVAL_LOCK, ReadyCounts};

impl Receiver {
    /// Receives deferred messages: all of `numbers`, or none (B-278). All must be in one partition (B-279).
    pub fn receive_deferred(&self, numbers: &[SequenceNumber], wait: &Wait<'_>) -> Result<Deliveries> {
        run_now(self.receive_deferred_async(numbers, wait))
    }

    /// [`Receiver::receive_deferred`] for a call that may be suspended.
    pub async fn receive_deferred_async(&self, numbers: &[SequenceNumber], wait: &Wait<'_>) -> Result<Deliveries> {
        self.check_receives()?;
        self.entity.note_use();
        if self.session.is_some() {
            // Fails if the session is lost.
            self.session_state(wait)?;
        }
        let Some(first) = numbers.first() else {
            return Ok(Deliveries::new());
        };
        if numbers.iter().any(|number| number.partition() != first.partition()) {
            let detail = "ReceiveBatch of sequence numbers from different partitions is not supported for an entity with partitioning \
                          enabled. Make one call per partition.";
            return Err(Error::new(ErrorKind::InvalidOperation, detail));
        }
        let claim_mode = self.deferred_mode(numbers.len())?;
        let not_found = |number: SequenceNumber| {
            let detail = format!(
                "Failed to lock one or more specified messages. Either the message is already locked or does not exist. \
                 Ask for deferred messages only: sequence_number={number}"
            );
            Error::new(ErrorKind::MessageNotFound, detail)
                .with_effect(Effect::None)
                .with_numbers([number])
        };
        let Some(index) = self.entity.index_of(*first).filter(|_| !self.is_of_transfer()) else {
            return Err(not_found(*first));
        };
        let shard = self.entity.shard(index);
        shard.health().check_serves(shard.id(), wait)?;
        let Some(cell) = self.entity.cell(index) else {
            return Err(not_found(*first));
        };
        let moment = self.moment();
        self.entity.tick(moment, wait);
        let counters: Vec<Counter> = numbers.iter().map(|number| number.counter()).collect();
        if self.session.is_some() {
            let mut in_session = Vec::with_capacity(counters.len());
            let mut other = None;
            for &counter in &counters {
                if self.has_in_session(cell, counter)? {
                    in_session.push(counter);
                } else {
                    other = other.or(Some(counter));
                }
            }
            if let Some(other) = other {
                self.dispose_expired(index, cell, &in_session, moment.now, wait);
                return Err(not_found(SequenceNumber::new(first.partition(), other)));
            }
        }
        let mut claims = Vec::with_capacity(counters.len());
        let is_durable = self.entity.core().is_durable();
        // The delivery counts once it is journaled.
        let fetch_mode = if is_durable { REMOVAL_LOCK } else { claim_mode };
        cell.store(self.sub_queue)
            .lock_deferred(&counters, fetch_mode, moment.now, &mut claims)
            .map_err(|counter| {
                self.dispose_expired(index, cell, &counters, moment.now, wait);
                not_found(SequenceNumber::new(first.partition(), counter))
            })?;
        let deliver = |mut claimed: oxbus_store::ClaimedMessage| {
            if let ClaimMode::Lock { deadline } = claim_mode
                && is_durable
                && !self.removes_on_receive()
            {
                claimed.deadline = deadline;
                claimed.delivery_count = claimed.delivery_count.saturating_add(1);
            }
            let locked_until = Self::locked_until(claimed.deadline, moment.now, moment.ticks);
            Delivery {
                index,
                claimed,
                locked_until,
            }
        };
        let mut deliveries: Deliveries = claims.into_iter().map(deliver).collect();
        if let Err(error) = self.note_fetched(&deliveries, moment.ticks, wait) {
            // The session was lost in the meantime, and no other code releases these locks.
            let keys = deliveries.iter().map(|it| SettleKey {
                index,
                key: it.claimed.key,
            });
            self.release(&keys.collect::<Vec<_>>(), wait);
            return Err(error);
        }
        if is_durable && let Some(failure) = self.journal_deliveries(&mut deliveries, moment.ticks, wait).await {
            return Err(failure.into_error());
        }
        self.meter_received(&deliveries);
        Ok(deliveries)
    }

    /// How `count` deferred messages are claimed once their delivery is journaled.
    fn deferred_mode(&self, count: usize) -> Result<ClaimMode> {
        match self.mode {
            ReceiveMode::PeekLock if self.session.is_some() => Ok(self.session_mode()),
            ReceiveMode::PeekLock => {
                let ticks = self.entity.core().clock().ticks();
                Ok(ClaimMode::Lock {
                    deadline: ticks.plus_ms(self.lock_ms()),
                })
            }
            ReceiveMode::ReceiveAndDelete => {
                in_range(
                    "the number of deferred messages taken at once",
                    count as u64,
                    1,
                    DEFERRED_RECEIVE_MAX as u64,
                    "messages",
                )?;
                Ok(self.removal_mode())
            }
        }
    }

    /// Removes or dead-letters expired messages among the requested ones, which no other code does.
    #[cold]
    fn dispose_expired(&self, index: usize, cell: &Cell, counters: &[Counter], now: Timestamp, wait: &Wait<'_>) {
        let dead_lettered = cell.expire_deferred(
            self.sub_queue,
            counters,
            now,
            self.entity.settings().dead_lettering_on_message_expiration,
            wait,
        );
        self.entity
            .announce(index, ReadyCounts::of(SubQueue::DeadLetter, dead_lettered), wait);
    }

    /// True if the message with this number is in the receiver's session.
    fn has_in_session(&self, cell: &Cell, counter: Counter) -> Result<bool> {
        let Some(message) = cell.peek_one(counter) else {
            return Ok(false);
        };
        Ok(self.is_of_session(&cell.load(&message.record)?))
    }
}
