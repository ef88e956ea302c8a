// SPDX-License-Identifier: Apache-2.0
//! Removes many messages, and sends dead-lettered messages again.
//!
//! Each partition is one step: one journal entry contains all its selected messages. Messages are selected page by page
//! without a guard, and only selected ones are locked, so receivers continue with the others.

use std::sync::Arc;

use oxbus_model::caps::PURGE_PAGE_MESSAGES;
use oxbus_model::message::{Fields, PropertiesBuilder};
use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Effect, Error, ErrorKind, Moment, Result, Ticks, Timestamp};
use oxbus_store::suspended::run_now;
use oxbus_store::{
    ClaimMode, ClaimedMessage, LockKey, MessagePhase, NumberedStore, Outcome, PeekedMessage, Record, Wait,
};

use super::Entity;
use super::write_batch::WriteBatch;
use crate::filter::{RuleInput, SqlFilter};
use crate::record::{DEAD_LETTER_DESCRIPTION, DEAD_LETTER_REASON, encode};
use crate::shard::{Cell, ReadyCounts};
use crate::write::{LockEnd, Removal, ShardWrite, WriteOperation};

/// Selects messages of an entity.
#[derive(Debug, Default)]
pub struct MessageSelector {
    /// Only messages that the filter selects.
    pub filter: Option<SqlFilter>,
    /// Only messages that were enqueued before this time.
    pub before: Option<Timestamp>,
    /// Maximum number of messages.
    pub limit: Option<usize>,
}

impl MessageSelector {
    /// True if the message is selected. With `needs_session`, a message without a session is never selected.
    fn matches(&self, cell: &Cell, message: &PeekedMessage, index: usize, needs_session: bool) -> Result<bool> {
        if self.before.is_some_and(|before| message.enqueued_at >= before) {
            return Ok(false);
        }
        if self.filter.is_none() && !needs_session {
            return Ok(true);
        }
        let record = cell.load(&message.record)?;
        let fields = Fields::decode(&record)?;
        if needs_session && fields.session_id.is_none() {
            return Ok(false);
        }
        let Some(filter) = &self.filter else { return Ok(true) };
        let input = RuleInput {
            fields: &fields,
            enqueued_at: message.enqueued_at,
            enqueued_number: Some(Entity::sequence_number(index, message.counter)),
            expires_at: message.expires_at,
            size_bytes: record.len(),
            delivery_count: message.delivery_count,
        };
        // A message for which the filter cannot be evaluated is not selected.
        Ok(filter.selects(&input).unwrap_or(false))
    }
}

impl Entity {
    /// Removes selected messages of a sub-queue. Returns their number. Locked, deferred and scheduled messages stay
    /// (B-402).
    pub fn purge(&self, sub_queue: SubQueue, selector: &MessageSelector, wait: &Wait<'_>) -> Result<usize> {
        run_now(self.purge_async(sub_queue, selector, wait))
    }

    /// [`Entity::purge`] for a call that may be suspended.
    pub async fn purge_async(&self, sub_queue: SubQueue, selector: &MessageSelector, wait: &Wait<'_>) -> Result<usize> {
        self.check_bulk_access(sub_queue, wait)?;
        let mut removed = 0;
        for (index, cell) in self.cells().filter(|(index, _)| self.shard(*index).health().serves()) {
            let left = selector.limit.map_or(usize::MAX, |limit| limit - removed);
            if left == 0 {
                break;
            }
            let locked = self.lock_selected(
                (sub_queue, index, cell),
                left,
                |message| selector.matches(cell, message, index, false),
                wait,
            );
            let locked = locked.map_err(|error| error.after_partial(removed > 0))?;
            let keys: Vec<LockKey> = locked.iter().map(|claimed| claimed.key).collect();
            let removal = Removal::Completed(&keys);
            let operation = WriteOperation::Remove {
                cell,
                sub_queue,
                removal,
            };
            let mut write = ShardWrite::of(operation, self.core().clock().moment());
            let done = write.commit_async(cell, cell.durability(None), wait).await;
            let done = done.map_err(|error| Error::from(error).after_partial(removed > 0))?;
            removed += keys.len() - done.lost.len();
        }
        Ok(removed)
    }

    /// Sends dead-lettered messages to the entity again as new messages, without their reason. Returns their number.
    /// If the entity requires sessions, a message without one stays: it would be dead-lettered again at once (B-185).
    pub fn resubmit(self: &Arc<Self>, selector: &MessageSelector, wait: &Wait<'_>) -> Result<usize> {
        run_now(self.resubmit_async(selector, wait))
    }

    /// [`Entity::resubmit`] for a call that may be suspended.
    pub async fn resubmit_async(self: &Arc<Self>, selector: &MessageSelector, wait: &Wait<'_>) -> Result<usize> {
        self.check_bulk_access(SubQueue::DeadLetter, wait)?;
        self.check_sends()?;
        let mut sent = 0;
        for (index, cell) in self.cells().filter(|(index, _)| self.shard(*index).health().serves()) {
            let left = selector.limit.map_or(usize::MAX, |limit| limit - sent);
            if left == 0 {
                break;
            }
            let locked = self.lock_selected(
                (SubQueue::DeadLetter, index, cell),
                left,
                |message| selector.matches(cell, message, index, self.requires_session()),
                wait,
            );
            let locked = locked.map_err(|error| error.after_partial(sent > 0))?;
            if !locked.is_empty() {
                let done = self.resubmit_all(index, cell, &locked, wait).await;
                done.map_err(|error| error.after_partial(sent > 0))?;
                sent += locked.len();
            }
        }
        Ok(sent)
    }

    /// Fails if a receive from the sub-queue would fail. Counts as a use, like a receive (B-383).
    pub(super) fn check_bulk_access(&self, sub_queue: SubQueue, wait: &Wait<'_>) -> Result<()> {
        self.check_receivable()?;
        self.check_not_forwarding(sub_queue)?;
        self.check_receives()?;
        self.note_use();
        self.tick(self.core().clock().moment(), wait);
        Ok(())
    }

    async fn resubmit_all(&self, index: usize, cell: &Cell, locked: &[ClaimedMessage], wait: &Wait<'_>) -> Result<()> {
        let moment = Moment {
            now: self.now(),
            ..self.core().clock().moment()
        };
        let sent = self.resubmit_locked(index, cell, locked, moment, wait).await;
        if sent.is_err() {
            self.release_all(
                (SubQueue::DeadLetter, index, cell),
                locked.iter().map(|claimed| claimed.key),
                wait,
            );
        }
        sent
    }

    /// Moves locked messages of the dead-letter queue into the entity, all or none.
    async fn resubmit_locked(
        &self,
        index: usize,
        cell: &Cell,
        locked: &[ClaimedMessage],
        moment: Moment,
        wait: &Wait<'_>,
    ) -> Result<()> {
        // The size of the entity includes dead-lettered messages, so moving them needs no more room.
        self.admit(index, 0, locked.len(), wait)?;
        let mut batch = WriteBatch::new(moment);
        let mut identities = Vec::new();
        for claimed in locked {
            let record = as_resubmitted(&cell.load(&claimed.record)?, self.kind.renumbers())?;
            let fields = Fields::decode(&record)?;
            // The history does not remember a message without a key.
            identities.push(self.identity_of(&fields).unwrap_or_default());
            let expires_at = self.expires_at(fields.time_to_live_ms, moment.now);
            batch.add(self, index, record, expires_at);
        }
        // A resubmitted message is never dropped as a duplicate, which would lose it, but later duplicates of it are.
        let window_ms = self.settings().duplicate_window_ms;
        let admission = match cell.history() {
            Some(history) => Some(history.admit_async(&identities, moment.now, window_ms, wait).await?),
            None => None,
        };
        let (mut write, notifications) = batch.finish(cell);
        write.set_atomic();
        if let Some(admission) = &admission {
            write.push(WriteOperation::Seen(cell, admission));
        }
        for claimed in locked {
            let complete = LockEnd::Outcome(Outcome::Complete);
            write.push(WriteOperation::settle(
                cell,
                SubQueue::DeadLetter,
                claimed.key,
                complete,
            ));
        }
        let committed = write.commit_async(cell, cell.durability(None), wait).await;
        committed.map_err(|error| {
            error.or_lost(|_| {
                let detail = "another call took one of the messages; repeat the call";
                Error::new(ErrorKind::MessageLockLost, detail).with_effect(Effect::None)
            })
        })?;
        self.touch(moment.now);
        notifications.announce(wait);
        Ok(())
    }

    /// Locks up to `max` selected messages in the order of their numbers. Messages sent after the call began are not
    /// considered.
    fn lock_selected(
        &self,
        (sub_queue, index, cell): (SubQueue, usize, &Cell),
        max: usize,
        is_selected: impl Fn(&PeekedMessage) -> Result<bool>,
        wait: &Wait<'_>,
    ) -> Result<Vec<ClaimedMessage>> {
        let end = cell.main().next();
        let mut locked = Vec::new();
        let mut from = Counter(0);
        while locked.len() < max {
            let mut page: Vec<PeekedMessage> = Vec::new();
            cell.store(sub_queue).peek(from, PURGE_PAGE_MESSAGES, &mut page);
            let Some(last) = page.last().map(|message| message.counter) else {
                break;
            };
            from = last.next();
            let mut is_last = last >= end;
            page.retain(|message| {
                message.counter < end && matches!(message.phase, MessagePhase::Ready | MessagePhase::Cached)
            });
            let mut selected = Vec::new();
            for message in page {
                if locked.len() + selected.len() == max {
                    // Selected messages may turn out to be expired, so the search continues from here.
                    (from, is_last) = (message.counter, false);
                    break;
                }
                match is_selected(&message) {
                    Ok(true) => selected.push(message),
                    Ok(false) => {}
                    Err(error) => {
                        let keys = locked.iter().map(|claimed: &ClaimedMessage| claimed.key);
                        self.release_all((sub_queue, index, cell), keys, wait);
                        return Err(error);
                    }
                }
            }
            self.lock_available((sub_queue, index, cell), selected, &mut locked, wait);
            if is_last {
                break;
            }
        }
        Ok(locked)
    }

    /// Locks those of the messages that are still undelivered: ready ones, and those in a receive cache or in a
    /// session. Expired messages are removed or dead-lettered.
    pub(super) fn lock_available(
        &self,
        (sub_queue, index, cell): (SubQueue, usize, &Cell),
        selected: Vec<PeekedMessage>,
        locked: &mut Vec<ClaimedMessage>,
        wait: &Wait<'_>,
    ) {
        let claim_mode = ClaimMode::Lock { deadline: Ticks::NEVER };
        let before = locked.len();
        let (ready, cached): (Vec<PeekedMessage>, Vec<PeekedMessage>) = selected
            .into_iter()
            .partition(|message| message.phase == MessagePhase::Ready);
        let ready: Vec<Counter> = ready.iter().map(|it| it.counter).collect();
        let now = self.now();
        let mut dead_lettered = cell.claim_these_or_expire(
            sub_queue,
            &ready,
            claim_mode,
            (now, self.settings().dead_lettering_on_message_expiration),
            locked,
            wait,
        );
        let key_of = |message: &PeekedMessage| LockKey {
            counter: message.counter,
            generation: message.generation,
        };
        if sub_queue == SubQueue::Main {
            cell.withdraw_from_sessions(cached.iter().map(key_of));
        }
        let mut expired = Vec::new();
        for message in cached {
            let is_expired = sub_queue == SubQueue::Main && message.expires_at <= now;
            let mut claimed = ClaimedMessage {
                key: key_of(&message),
                record: message.record,
                delivery_count: message.delivery_count,
                enqueued_at: message.enqueued_at,
                expires_at: message.expires_at,
                deadline: Ticks::NEVER,
                deferred: false,
            };
            if is_expired {
                expired.push(claimed);
            } else if let Some(key) = cell.store(sub_queue).deliver_cached(claimed.key, claim_mode) {
                claimed.key = key;
                locked.push(claimed);
            }
        }
        dead_lettered += cell.dispose_expired(expired, self.delivery_policy(), wait);
        locked[before..].sort_by_key(|claimed| claimed.key.counter);
        self.announce(
            index,
            ReadyCounts {
                dead_letters: dead_lettered,
                ..ReadyCounts::default()
            },
            wait,
        );
    }

    /// Releases messages without counting a delivery.
    pub(super) fn release_all(
        &self,
        (sub_queue, index, cell): (SubQueue, usize, &Cell),
        keys: impl Iterator<Item = LockKey>,
        wait: &Wait<'_>,
    ) {
        let ticks = self.core().clock().ticks();
        let mut ready = 0;
        for key in keys {
            ready += usize::from(cell.store(sub_queue).settle(key, Outcome::Release, ticks).is_ok());
        }
        if ready > 0 {
            self.notify(sub_queue, index, ready, wait);
        }
    }
}

/// Returns the message as if it had never been received: without dead-letter reason and description, and without the
/// entities that forwarded it. In a subscription it keeps the number that the topic assigned.
fn as_resubmitted(record: &Record, forgets_number: bool) -> Result<Record> {
    let mut fields = Fields::decode(record)?;
    fields.hops = None;
    fields.dead_letter_source = None;
    if forgets_number {
        fields.enqueued_number = None;
    }
    let Some(properties) = fields.application_properties else {
        return Ok(encode(&fields));
    };
    let mut remaining = PropertiesBuilder::default();
    for (name, value) in properties.entries() {
        if name != DEAD_LETTER_REASON && name != DEAD_LETTER_DESCRIPTION {
            remaining.push_stored(name, value);
        }
    }
    fields.application_properties = Some(remaining.properties());
    Ok(encode(&fields))
}
