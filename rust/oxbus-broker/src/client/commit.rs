// SPDX-License-Identifier: Apache-2.0
//! Committing a transaction as one write to its shard.
//!
//! The commit, not an earlier step, detects duplicates, so that a rollback leaves no id in the history.

use std::collections::BTreeMap;
use std::sync::Arc;

use oxbus_log::event;
use oxbus_model::name::SubQueue;
use oxbus_model::sync::ignore_poison;
use oxbus_model::{Counter, Effect, Error, ErrorKind, Identity, Moment, Result, SequenceNumber};
use oxbus_store::{NewMessage, Outcome, Wait};

use super::transaction::{SessionStateChange, TransactionSend, TransactionSettlement, TransactionWork};
use crate::entity::Entity;
use crate::entity::kind::Subscribers;
use crate::entity::write_batch::{Notifications, WriteBatch};
use crate::shard::journal::EntityId;
use crate::shard::{AcceptedSession, Admission, Cell, Meter};
use crate::write::{Cause, LockEnd, WriteError, WriteOperation};

/// Reserved numbers. Dropping this gives up those that are still listed.
#[derive(Default)]
struct TransactionNumbers<'a> {
    /// Numbers that a topic shows to its subscriptions; its cell stores no message under them.
    fanned_out: Vec<(&'a Cell, Counter)>,
    /// Numbers of scheduled messages; cleared once these are stored.
    scheduled: Vec<(&'a Cell, Counter)>,
}

impl Drop for TransactionNumbers<'_> {
    fn drop(&mut self) {
        for (cell, counter) in self.fanned_out.drain(..).chain(self.scheduled.drain(..)) {
            cell.give_up_numbers(counter, 1);
        }
    }
}

/// The messages to an entity that are not duplicates, and the position of the next message.
struct EntityAdmission<'a> {
    cell: &'a Cell,
    admission: Admission<'a>,
    next: usize,
}

/// Messages that a transaction sends to one entity.
struct SendDemand<'a> {
    entity: &'a Entity,
    index: usize,
    bytes: usize,
    messages: usize,
    /// The identity of each message, if the entity detects duplicates.
    identities: Vec<Option<Identity>>,
}

impl<'a> SendDemand<'a> {
    fn new(sent: &'a TransactionSend) -> Self {
        Self {
            entity: &sent.entity,
            index: sent.index,
            bytes: 0,
            messages: 0,
            identities: Vec::new(),
        }
    }
}

/// The name under which messages are attached to a partition.
pub(super) struct Attachment<'a> {
    pub(super) cell: &'a Cell,
    pub(super) admission: &'a Admission<'a>,
    /// True to reserve no numbers beyond those of its messages. Callers see none of them before a sync.
    pub(super) exact_numbers: bool,
}

/// The pinned sessions of the transaction: they stay with their holders until this is dropped.
struct PinnedSessions<'a> {
    pinned: Vec<(&'a Entity, usize, &'a Arc<AcceptedSession>)>,
    wait: &'a Wait<'a>,
}

impl<'a> PinnedSessions<'a> {
    fn pin_all(work: &'a TransactionWork, moment: Moment, wait: &'a Wait<'a>) -> Result<Self> {
        let settled = work.settled.iter();
        let settled = settled.filter_map(|it| Some((&*it.entity, it.at.index, it.session.as_ref()?)));
        let states = work.states.iter().map(|it| (&*it.entity, it.index, &it.accepted));
        let mut guard = Self {
            pinned: Vec::new(),
            wait,
        };
        for (entity, index, accepted) in settled.chain(states) {
            if guard.pinned.iter().any(|(.., known)| Arc::ptr_eq(known, accepted)) {
                continue;
            }
            let sessions = cell_of(entity, index, wait)?.sessions();
            let is_pinned = sessions.is_some_and(|it| it.pin(accepted, moment.ticks).is_ok());
            if !is_pinned {
                return Err(session_lost(entity));
            }
            guard.pinned.push((entity, index, accepted));
        }
        Ok(guard)
    }
}

impl Drop for PinnedSessions<'_> {
    fn drop(&mut self) {
        for (entity, index, accepted) in self.pinned.drain(..) {
            if let Some(cell) = entity.cell(index) {
                let moment = entity.core().clock().moment();
                let ended = cell.unpin(accepted, moment, entity.delivery_policy(), self.wait);
                entity.announce(index, ended, self.wait);
            }
        }
    }
}

/// Commits the work, all or nothing.
pub(super) async fn commit(
    mut work: TransactionWork,
    attachment: Option<&Attachment<'_>>,
    wait: &Wait<'_>,
) -> Result<()> {
    let core = Arc::clone(work.entity.core());
    let moment = Moment {
        now: core.clock().now(),
        ..core.clock().moment()
    };
    let done = commit_at(&mut work, moment, attachment, wait).await;
    if done.is_err() {
        // The locks are unchanged, and may have expired by now.
        let now = core.clock().moment();
        for it in &work.settled {
            it.entity.tick(now, wait);
        }
    }
    done
}

/// Takes how a settlement ends its lock.
fn take_settlement(settled: &mut TransactionSettlement) -> LockEnd {
    let mut settle = std::mem::replace(&mut settled.settle, LockEnd::Outcome(Outcome::Release));
    if let LockEnd::Outcome(Outcome::Abandon { max_delivery_count, .. })
    | LockEnd::Delayed(Outcome::Hold { max_delivery_count, .. }, _) = &mut settle
        && settled.sub_queue == SubQueue::Main
    {
        // The settings at the time of the commit apply.
        *max_delivery_count = settled.entity.settings().max_delivery_count;
    }
    settle
}

async fn commit_at(
    work: &mut TransactionWork,
    moment: Moment,
    attachment: Option<&Attachment<'_>>,
    wait: &Wait<'_>,
) -> Result<()> {
    let settles: Vec<LockEnd> = work.settled.iter_mut().map(take_settlement).collect();
    let is_complete = |settle: &LockEnd| matches!(settle, LockEnd::Outcome(Outcome::Complete));
    let completes: Vec<bool> = settles.iter().map(is_complete).collect();
    let has_delays = settles.iter().any(|settle| matches!(settle, LockEnd::Delayed(..)));
    let work = &*work;
    let sessions = PinnedSessions::pin_all(work, moment, wait)?;
    let subscribers: Vec<Arc<Subscribers>> = work.sends.iter().map(|sent| sent.entity.subscribers()).collect();
    let mut reserved = TransactionNumbers::default();
    // Before a number is reserved, so that a rejected commit leaves no gap (B-105).
    for settled in &work.settled {
        check_lock(settled, moment, wait)?;
    }
    for set in &work.states {
        check_session(set, moment, wait)?;
    }
    let is_decided = attachment.is_some();
    let mut admitted = admit_all(&work.sends, moment, is_decided, wait).await?;
    let mut batch = WriteBatch::new(moment);
    let mut numbers = Vec::new();
    for (sent, subscribers) in work.sends.iter().zip(&subscribers) {
        let reported = add_send(
            &mut batch,
            &mut reserved,
            &mut admitted,
            sent,
            subscribers,
            moment,
            wait,
        )?;
        if attachment.is_some() {
            // The name is journaled even if all its messages are duplicates.
            batch.add_participant(&sent.entity, sent.index);
        }
        numbers.push((&sent.numbers, reported));
    }
    let notifications = if let Some(coordinator) = coordinating_cell(work, &batch, wait)? {
        let (mut write, notifications) = batch.finish(coordinator);
        write.set_atomic();
        for it in admitted.values() {
            write.push(WriteOperation::Seen(it.cell, &it.admission));
        }
        if let Some(attachment) = attachment {
            write.set_exact_numbers(attachment.exact_numbers);
            write.push(WriteOperation::Attached(attachment.cell, attachment.admission));
        }
        for (settled, settle) in work.settled.iter().zip(settles) {
            let cell = cell_of(&settled.entity, settled.at.index, wait)?;
            write.push(WriteOperation::settle(cell, settled.sub_queue, settled.at.key, settle));
        }
        for set in &work.states {
            write.push(WriteOperation::SessionState {
                cell: cell_of(&set.entity, set.index, wait)?,
                accepted: Arc::clone(&set.accepted),
                state: set.state.clone(),
            });
        }
        let level = coordinator.durability(None).max(work.durability);
        let done = write.commit_async(coordinator, level, wait).await;
        let done = done.map_err(|error| commit_error(work, error))?;
        for ((settled, ended), completes) in work.settled.iter().zip(done.each).zip(completes) {
            let TransactionSettlement {
                entity, at, session, ..
            } = settled;
            if let Some(cell) = entity.cell(at.index).filter(|_| completes) {
                cell.meter_settled(Meter::Completed, [at.key]);
            }
            if let (Some(accepted), Some(sessions)) = (session, entity.cell(at.index).and_then(Cell::sessions)) {
                sessions.unlock(accepted, [at.key]);
            }
            entity.announce(at.index, ended, wait);
            if has_delays {
                entity.announce_delay(settled.sub_queue, at.index);
            }
        }
        notifications
    } else {
        Notifications::default()
    };
    meter_sends(&reserved, &admitted);
    // The scheduled messages are stored.
    reserved.scheduled.clear();
    drop(reserved);
    drop(sessions);
    for (known, reported) in numbers {
        *ignore_poison(known.lock()) = reported;
    }
    for sent in &work.sends {
        sent.entity.touch(moment.now);
    }
    notifications.announce(wait);
    for sent in &work.sends {
        // Activates messages that are due already.
        if sent
            .messages
            .iter()
            .any(|message| message.due.is_some_and(|due| due <= moment.now))
        {
            sent.entity.tick(moment, wait);
        }
    }
    Ok(())
}

/// Counts what was sent to topics, and the duplicates; stored messages count where they are published.
fn meter_sends(reserved: &TransactionNumbers<'_>, admitted: &BTreeMap<EntityId, EntityAdmission<'_>>) {
    for (cell, _) in &reserved.fanned_out {
        cell.meter(Meter::Sent, 1);
    }
    for it in admitted.values() {
        it.cell.meter(Meter::Duplicate, it.admission.duplicates());
    }
}

/// Returns the cell that writes the work: one with settled messages, else one with changed sessions, else one that
/// messages are sent to.
fn coordinating_cell<'a>(
    work: &'a TransactionWork,
    batch: &WriteBatch<'a>,
    wait: &Wait<'_>,
) -> Result<Option<&'a Cell>> {
    let settled = work.settled.first().map(|it| (&*it.entity, it.at.index));
    let cell = settled.or(work.states.first().map(|it| (&*it.entity, it.index)));
    match cell {
        Some((entity, index)) => cell_of(entity, index, wait).map(Some),
        None => Ok(batch.first_cell()),
    }
}

/// Returns a cell of the transaction. Fails if it is out of service.
fn cell_of<'a>(entity: &'a Entity, index: usize, wait: &Wait<'_>) -> Result<&'a Cell> {
    entity.check_alive()?;
    let shard = entity.shard(index);
    shard.health().check_serves(shard.id(), wait)?;
    Ok(entity.cell_for_append(index))
}

/// Checks whether the entities accept the messages, and detects duplicates. If the send is already decided, only a
/// deleted entity or a failed store rejects them. Visits entities in the order of their ids, so that transactions
/// cannot deadlock.
async fn admit_all<'a>(
    sends: &'a [TransactionSend],
    moment: Moment,
    is_decided: bool,
    wait: &Wait<'_>,
) -> Result<BTreeMap<EntityId, EntityAdmission<'a>>> {
    let mut demands: BTreeMap<EntityId, SendDemand<'_>> = BTreeMap::new();
    for sent in sends {
        let all = demands.entry(sent.entity.id()).or_insert_with(|| SendDemand::new(sent));
        for message in &sent.messages {
            all.bytes += message.bytes();
            all.messages += 1;
            if sent.entity.detects_duplicates() {
                all.identities.push(message.identity);
            }
        }
    }
    for demand in demands.values() {
        if is_decided {
            demand.entity.admit_decided(demand.index, demand.bytes, wait)?;
            continue;
        }
        demand.entity.check_sends()?;
        // Checks the sum: messages that fit one by one may not fit together.
        demand.entity.admit(demand.index, demand.bytes, demand.messages, wait)?;
    }
    let mut admitted = BTreeMap::new();
    for (id, demand) in demands {
        let cell = cell_of(demand.entity, demand.index, wait)?;
        if let Some(history) = cell.history() {
            let window_ms = demand.entity.settings().duplicate_window_ms;
            let admission = history
                .admit_async(&demand.identities, moment.now, window_ms, wait)
                .await?;
            let next = 0;
            admitted.insert(id, EntityAdmission { cell, admission, next });
        }
    }
    Ok(admitted)
}

/// Adds the messages to one entity. Returns the numbers of scheduled messages and of duplicates.
fn add_send<'a>(
    batch: &mut WriteBatch<'a>,
    reserved: &mut TransactionNumbers<'a>,
    admitted: &mut BTreeMap<EntityId, EntityAdmission<'_>>,
    sent: &'a TransactionSend,
    subscribers: &'a Subscribers,
    moment: Moment,
    wait: &Wait<'_>,
) -> Result<Vec<SequenceNumber>> {
    let (entity, index) = (&*sent.entity, sent.index);
    let cell = cell_of(entity, index, wait)?;
    entity.join_batch(index, batch);
    let mut reported = Vec::new();
    for message in &sent.messages {
        let is_new = admitted.get_mut(&entity.id()).is_none_or(|it| {
            it.next += 1;
            it.admission.fresh()[it.next - 1]
        });
        if !is_new {
            // The number of a duplicate identifies no message (B-227).
            reported.push(Entity::sequence_number(index, Counter::MAX));
            continue;
        }
        let expires_at = entity.expires_at(message.time_to_live_ms, moment.now);
        let record = message.record.clone();
        if let Some(due) = message.due {
            let counter = cell.take_numbers(1);
            reserved.scheduled.push((cell, counter));
            let message = NewMessage {
                record: record.into(),
                expires_at,
            };
            // A time in the past means now, as in a send without a transaction (B-234).
            batch.schedule((entity, index), counter, due.max(moment.now), message);
            reported.push(Entity::sequence_number(index, counter));
        } else {
            let counter = entity.add_message((index, cell), subscribers, batch, (record, expires_at), None)?;
            reserved.fanned_out.extend(counter.map(|counter| (cell, counter)));
        }
    }
    Ok(reported)
}

/// Fails if its receiver no longer has the lock of a message to be settled.
fn check_lock(settled: &TransactionSettlement, moment: Moment, wait: &Wait<'_>) -> Result<()> {
    let cell = cell_of(&settled.entity, settled.at.index, wait)?;
    let ticks = moment.ticks;
    if let (Some(accepted), Some(sessions)) = (&settled.session, cell.sessions()) {
        let is_locked = sessions.has_locked(accepted, settled.at.key, ticks);
        if !is_locked.map_err(|_| session_lost(&settled.entity))? {
            return Err(lock_lost(settled));
        }
    }
    if cell.store(settled.sub_queue).is_claimed_by(settled.at.key, ticks) {
        Ok(())
    } else {
        Err(lock_lost(settled))
    }
}

/// Fails if its receiver no longer has the lock of a session whose state changes.
fn check_session(set: &SessionStateChange, moment: Moment, wait: &Wait<'_>) -> Result<()> {
    let cell = cell_of(&set.entity, set.index, wait)?;
    let is_locked = cell
        .sessions()
        .is_some_and(|sessions| sessions.state(&set.accepted, moment.ticks).is_ok());
    if is_locked {
        Ok(())
    } else {
        Err(session_lost(&set.entity))
    }
}

fn commit_error(work: &TransactionWork, error: WriteError) -> Error {
    error.or_lost(|cause| {
        if let Cause::LockLost(position) = cause {
            return lock_lost(&work.settled[*position]);
        }
        let of_state = work.states.first().map(|set| &set.entity);
        let entity = of_state.or(work.settled.first().map(|settled| &settled.entity));
        session_lost(entity.unwrap_or(&work.entity))
    })
}

fn session_lost(entity: &Entity) -> Error {
    event!(SESSION_LOST, entity = entity.name().as_str(), reason = "call_refused");
    let detail = format!(
        "The session lock has expired on the MessageSession; the transaction was rolled back. Accept a new MessageSession: queue=`{}`",
        entity.name().as_str()
    );
    Error::new(ErrorKind::SessionLockLost, detail).with_effect(Effect::None)
}

fn lock_lost(settled: &TransactionSettlement) -> Error {
    event!(
        LOCK_LOST,
        entity = settled.entity.name().as_str(),
        partition = settled.entity.shard(settled.at.index).id().0,
        sequence_number = Entity::sequence_number(settled.at.index, settled.at.key.counter).0
    );
    let detail = format!(
        "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue. The \
         transaction was rolled back. Receive the message again: queue=`{}` sequence_number={}",
        settled.entity.name().as_str(),
        Entity::sequence_number(settled.at.index, settled.at.key.counter)
    );
    let number = Entity::sequence_number(settled.at.index, settled.at.key.counter);
    Error::new(ErrorKind::MessageLockLost, detail)
        .with_effect(Effect::None)
        .with_numbers([number])
}
