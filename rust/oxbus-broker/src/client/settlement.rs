// SPDX-License-Identifier: Apache-2.0
//! Settles received messages and renews their locks (B-150 … B-170). `settle_list` settles lists.

use std::sync::Arc;

use oxbus_log::event;
use oxbus_model::caps::{ABANDON_DELAY_MS_MAX, DEAD_LETTER_TEXT_CHARS_MAX};
use oxbus_model::message::Value;
use oxbus_model::name::SubQueue;
use oxbus_model::options::{ReceiveMode, in_range};
use oxbus_model::{Effect, Error, ErrorKind, LockToken, Moment, Result, Timestamp};
use oxbus_store::{LockKey, LockLost, Outcome, PeekedMessage, Record, StoredRecord, Wait};

use super::numbered_error::with_sequence_numbers;
use super::receiver::Receiver;
use crate::entity::Entity;
use crate::record::{with_dead_letter, with_properties};
use crate::shard::{Cell, Delay};
use crate::write::{CommittedWrite, LockEnd, ShardWrite, Ticket, WriteError, WriteOperation};

/// Identifies a lock among all cells of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettleKey {
    /// Index of the cell.
    pub index: usize,
    /// The lock in that cell.
    pub key: LockKey,
}

/// Changes of application properties: key and value.
pub(super) type PropertyChanges<'a> = &'a [(&'a str, Value<'a>)];

/// How a message is settled.
#[derive(Debug, Clone, Copy)]
pub enum Settlement<'a> {
    /// Remove the message.
    Complete,
    /// Make the message ready again and count one delivery.
    Abandon(PropertyChanges<'a>),
    /// Count one delivery and make the message ready again once a delay has passed.
    AbandonFor {
        /// Changes of its properties.
        changes: PropertyChanges<'a>,
        /// The delay.
        delay_ms: u64,
    },
    /// Defer the message: only a receive by number returns it.
    Defer(PropertyChanges<'a>),
    /// Move the message to the dead-letter queue.
    DeadLetter {
        /// Short reason.
        reason: Option<&'a str>,
        /// Description of the reason.
        description: Option<&'a str>,
        /// Further properties.
        changes: PropertyChanges<'a>,
    },
}

impl Receiver {
    /// Settles one message. Every receiver of the same entity and sub-queue can settle it.
    pub fn settle(&self, at: SettleKey, settlement: Settlement<'_>, wait: &Wait<'_>) -> Result<()> {
        self.check_settles()?;
        let begun = self.settle_write(at, settlement, wait);
        let done = begun.and_then(|(cell, mut write)| {
            let done = write.commit(cell, cell.durability(None), wait);
            self.settled(at, done, wait)
        });
        done.map_err(|error| with_number(at, error))
    }

    /// [`Receiver::settle`] for a call that may be suspended.
    pub async fn settle_async(&self, at: SettleKey, settlement: Settlement<'_>, wait: &Wait<'_>) -> Result<()> {
        self.check_settles()?;
        let done = match self.settle_write(at, settlement, wait) {
            Ok((cell, mut write)) => {
                let done = write.commit_async(cell, cell.durability(None), wait).await;
                self.settled(at, done, wait)
            }
            Err(error) => Err(error),
        };
        done.map_err(|error| with_number(at, error))
    }

    /// Releases unused messages without counting a delivery. Skips messages whose locks are lost.
    #[cold]
    pub fn release(&self, keys: &[SettleKey], wait: &Wait<'_>) {
        let moment = self.moment();
        for at in keys {
            let Ok(cell) = self.cell_of(*at, wait) else { continue };
            let release = Outcome::Release;
            if let Ok(ended) = cell.settle_unawaited(self.sub_queue, at.key, release, moment, wait) {
                self.note_settled(std::slice::from_ref(at));
                self.entity.announce(at.index, ended, wait);
            }
        }
    }

    /// Notes what a settlement did, and announces messages that became ready.
    #[inline]
    fn settled(
        &self,
        at: SettleKey,
        done: std::result::Result<CommittedWrite, WriteError>,
        wait: &Wait<'_>,
    ) -> Result<()> {
        if done.as_ref().err().is_none_or(|error| error.effect != Effect::None) {
            self.note_settled(&[at]);
        }
        let done = done.map_err(|error| error.or_lost(|_| self.lock_lost(at)))?;
        self.announce(at, &done, wait);
        Ok(())
    }

    /// Announces messages that became ready, and the end of a delay.
    #[inline]
    fn announce(&self, at: SettleKey, done: &CommittedWrite, wait: &Wait<'_>) {
        self.entity.announce(at.index, done.ended, wait);
        if done.delayed {
            self.entity.announce_delay(self.sub_queue, at.index);
        }
    }

    /// Checks a settlement. Returns its cell and its write.
    #[inline]
    pub(super) fn settle_write(
        &self,
        at: SettleKey,
        settlement: Settlement<'_>,
        wait: &Wait<'_>,
    ) -> Result<(&Cell, ShardWrite<'_>)> {
        // Settlement events contain no wall time.
        let moment = Moment {
            now: Timestamp(0),
            ticks: self.entity.core().clock().ticks(),
        };
        let cell = self.cell_of(at, wait)?;
        if !self.may_settle(at, moment.ticks, wait)? {
            return Err(self.lock_lost(at));
        }
        let settle = self.lock_end(cell, at, settlement)?;
        let operation = WriteOperation::settle(cell, self.sub_queue, at.key, settle);
        Ok((cell, ShardWrite::of(operation, moment)))
    }

    /// Begins a settlement, for which [`Receiver::finish`] waits.
    #[inline]
    pub(super) fn begin<'w, 'a>(
        &self,
        (at, cell): (SettleKey, &'a Cell),
        write: &'w mut ShardWrite<'a>,
        wait: &Wait<'_>,
    ) -> Result<Ticket<'w, 'a>> {
        let begun = write.begin(cell, cell.durability(None), wait);
        let ticket = begun.map_err(|error| error.or_lost(|_| self.lock_lost(at)))?;
        self.note_settled(&[at]);
        Ok(ticket)
    }

    /// Waits for a settlement and announces messages that became ready.
    #[inline]
    pub(super) async fn finish(&self, at: SettleKey, mut ticket: Ticket<'_, '_>, wait: &Wait<'_>) -> Result<()> {
        ticket.until_committed(wait).await;
        let done = ticket.finish(wait);
        let done = done.map_err(|error| error.or_lost(|_| self.lock_lost(at)))?;
        self.announce(at, &done, wait);
        Ok(())
    }

    /// Checks a settlement to be made later. Returns how it ends the lock.
    pub(super) fn prepare(&self, at: SettleKey, settlement: Settlement<'_>, wait: &Wait<'_>) -> Result<LockEnd> {
        self.check_settles()?;
        let ticks = self.entity.core().clock().ticks();
        self.entity.tick(self.moment(), wait);
        let cell = self.cell_of(at, wait)?;
        if !self.may_settle(at, ticks, wait)? || !cell.store(self.sub_queue).is_claimed_by(at.key, ticks) {
            return Err(self.lock_lost(at));
        }
        self.lock_end(cell, at, settlement)
    }

    /// How a settlement ends the lock of a message.
    #[inline]
    fn lock_end(&self, cell: &Cell, at: SettleKey, settlement: Settlement<'_>) -> Result<LockEnd> {
        Ok(LockEnd::Outcome(match settlement {
            Settlement::Complete => Outcome::Complete,
            Settlement::AbandonFor { changes, delay_ms } if delay_ms > 0 => {
                let outcome = Outcome::Hold {
                    max_delivery_count: self.max_delivery_count(),
                    replacement: self.with_changes(cell, at, changes)?.map(StoredRecord::from),
                };
                return Ok(LockEnd::Delayed(outcome, self.delay(cell, at, delay_ms)?));
            }
            Settlement::AbandonFor { changes, .. } => return self.lock_end(cell, at, Settlement::Abandon(changes)),
            Settlement::Abandon(changes) => Outcome::Abandon {
                max_delivery_count: self.max_delivery_count(),
                replacement: self.with_changes(cell, at, changes)?.map(StoredRecord::from),
            },
            Settlement::Defer(changes) => Outcome::Defer {
                replacement: self.with_changes(cell, at, changes)?.map(StoredRecord::from),
            },
            Settlement::DeadLetter {
                reason,
                description,
                changes,
            } => {
                if self.sub_queue == SubQueue::DeadLetter {
                    let detail =
                        "a message of a dead-letter queue cannot be dead-lettered again; complete or abandon it";
                    return Err(Error::new(ErrorKind::InvalidOperation, detail));
                }
                check_text("reason", reason)?;
                check_text("error_description", description)?;
                let stored = self.load_locked(cell, at)?;
                return Ok(LockEnd::DeadLetter(with_dead_letter(
                    &stored,
                    reason,
                    description,
                    changes,
                )?));
            }
        }))
    }

    /// The delay of an abandoned message. A message that expires earlier is available then, to be removed or
    /// dead-lettered.
    fn delay(&self, cell: &Cell, at: SettleKey, delay_ms: u64) -> Result<Delay> {
        in_range("delay", delay_ms, 0, ABANDON_DELAY_MS_MAX, "milliseconds")?;
        let until = self.entity.now().plus_ms(delay_ms);
        let expires_at = match self.sub_queue {
            SubQueue::Main => self.peek_locked(cell, at)?.expires_at,
            SubQueue::DeadLetter => Timestamp::NEVER,
        };
        Ok(Delay {
            until: until.min(expires_at),
            session: self.session_id().map(Arc::from),
        })
    }

    /// Renews a lock for one lock duration from now. Returns the wall time at which it expires (B-154).
    pub fn renew(&self, at: SettleKey, wait: &Wait<'_>) -> Result<Timestamp> {
        self.check_settles()?;
        if self.session.is_some() {
            let detail =
                "a message of a session has no separate lock; renew the session's lock: receiver.session.renew_lock()";
            return Err(Error::new(ErrorKind::InvalidOperation, detail));
        }
        let moment = self.moment();
        let deadline = moment.ticks.plus_ms(self.lock_ms());
        let cell = self.cell_of(at, wait)?;
        cell.store(self.sub_queue)
            .renew(at.key, deadline, moment.ticks)
            .map_err(|LockLost| self.lock_lost(at))?;
        self.entity.check_owned(wait)?;
        Ok(moment.now.plus_ms(self.lock_ms()))
    }

    /// The token of a lock of this receiver's sub-queue.
    #[inline]
    pub fn token(&self, at: SettleKey) -> LockToken {
        self.entity.seal_token(self.sub_queue, at.index, at.key)
    }

    /// Returns the lock of a token, or `None` for a token of another entity or sub-queue. Always returns `None` for
    /// the transfer dead-letter queue, which is empty.
    #[inline]
    pub fn open_token(&self, token: LockToken) -> Option<SettleKey> {
        if self.is_of_transfer() {
            return None;
        }
        let (index, key) = self.entity.open_token(self.sub_queue, token)?;
        Some(SettleKey { index, key })
    }

    /// The error of a lost lock (B-155).
    #[cold]
    pub fn lock_lost(&self, at: SettleKey) -> Error {
        event!(
            LOCK_LOST,
            entity = self.entity.name().as_str(),
            partition = self.entity.shard(at.index).id().0,
            sequence_number = Entity::sequence_number(at.index, at.key.counter).0
        );
        let detail = format!(
            "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue, or was \
             received by a different receiver instance. Receive the message again: queue=`{}` sequence_number={}",
            self.entity.name().as_str(),
            Entity::sequence_number(at.index, at.key.counter)
        );
        Error::new(ErrorKind::MessageLockLost, detail)
            .with_effect(Effect::None)
            .with_numbers([Entity::sequence_number(at.index, at.key.counter)])
    }

    pub(super) fn check_settles(&self) -> Result<()> {
        self.check_open()?;
        self.entity.check_alive()?;
        self.entity.note_use();
        self.check_has_session()?;
        match self.mode {
            ReceiveMode::PeekLock => Ok(()),
            ReceiveMode::ReceiveAndDelete => {
                let detail =
                    "a receiver in RECEIVE_AND_DELETE mode has nothing to settle; use PEEK_LOCK to settle messages";
                Err(Error::new(ErrorKind::InvalidArgument, detail))
            }
        }
    }

    fn max_delivery_count(&self) -> u32 {
        match self.sub_queue {
            SubQueue::Main => self.entity.settings().max_delivery_count,
            SubQueue::DeadLetter => u32::MAX,
        }
    }

    fn cell_of(&self, at: SettleKey, wait: &Wait<'_>) -> Result<&Cell> {
        let cell = self.entity.cell(at.index).ok_or_else(|| self.lock_lost(at))?;
        self.entity
            .shard(at.index)
            .health()
            .check_serves(cell.partition(), wait)?;
        Ok(cell)
    }

    /// Returns the record with `changes`, or `None` without changes.
    fn with_changes(&self, cell: &Cell, at: SettleKey, changes: PropertyChanges<'_>) -> Result<Option<Record>> {
        if changes.is_empty() {
            return Ok(None);
        }
        let record = with_properties(&self.load_locked(cell, at)?, changes)?;
        in_range(
            "the message with its new properties",
            record.len() as u64,
            0,
            self.entity.settings().message_size_bytes_max as u64,
            "bytes",
        )?;
        Ok(Some(record))
    }

    /// The record of a message that the caller has locked. Only the holder of the lock can change it.
    fn load_locked(&self, cell: &Cell, at: SettleKey) -> Result<Record> {
        cell.load(&self.peek_locked(cell, at)?.record)
    }

    fn peek_locked(&self, cell: &Cell, at: SettleKey) -> Result<PeekedMessage> {
        let mut peeked: Vec<PeekedMessage> = Vec::new();
        cell.store(self.sub_queue).peek(at.key.counter, 1, &mut peeked);
        let message = peeked.pop().filter(|message| message.counter == at.key.counter);
        message.ok_or_else(|| self.lock_lost(at))
    }
}

/// The error with the number of its message.
fn with_number(at: SettleKey, error: Error) -> Error {
    match error.effect() {
        Some(effect) if error.numbers().is_empty() => {
            let number = Entity::sequence_number(at.index, at.key.counter);
            with_sequence_numbers(&error, &[number], Some(effect))
        }
        _ => error,
    }
}

fn check_text(name: &str, text: Option<&str>) -> Result<()> {
    let chars = text.map_or(0, |text| text.chars().count());
    in_range(name, chars as u64, 0, DEAD_LETTER_TEXT_CHARS_MAX as u64, "characters")
}
