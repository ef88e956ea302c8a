// SPDX-License-Identifier: Apache-2.0
//! What was done in a transaction becomes one unit of work of its shard.
//!
//! Copies of earlier messages are told here and not before, so that a rollback leaves no trace of an id.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use oxbus_model::message::Fields;
use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Effect, Error, ErrorKind, Identity, Moment, Result, SequenceNumber};
use oxbus_store::{NewMessage, Outcome};

use super::batch::Entry;
use super::transaction::{Sent, Settled, StateSet, Work};
use crate::entity::Entity;
use crate::entity::departure::Departure;
use crate::entity::role::Subscribers;
use crate::shard::journal::EntityId;
use crate::shard::{Accepted, Admission, Arrival, Cell, Ending, Held, StateChange, Unit, UnitError};

/// Numbers that were taken for messages. Those that no message has are given up when it is dropped.
#[derive(Default)]
struct Taken<'a> {
    /// Of topics: their messages do not keep them.
    passing: Vec<(&'a Cell, Counter)>,
    /// Of messages that wait for their time.
    waiting: Vec<(&'a Cell, Counter)>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        for (cell, counter) in self.passing.drain(..).chain(self.waiting.drain(..)) {
            cell.give_up_numbers(counter, 1);
        }
    }
}

/// Which messages to an entity are new; the position of the next one.
struct Admitted<'a> {
    cell: &'a Cell,
    admission: Admission<'a>,
    next: usize,
}

/// What comes to one entity.
struct Asked<'a> {
    entity: &'a Entity,
    index: usize,
    bytes: usize,
    messages: usize,
    /// Of each message, where the entity drops copies.
    identities: Vec<Option<Identity>>,
}

impl<'a> Asked<'a> {
    fn new(sent: &'a Sent) -> Self {
        Self {
            entity: &sent.entity,
            index: sent.index,
            bytes: 0,
            messages: 0,
            identities: Vec::new(),
        }
    }
}

/// The name under which the messages of a work are attached to a partition.
pub(super) struct Attached<'a> {
    pub(super) cell: &'a Cell,
    pub(super) admission: &'a Admission<'a>,
    /// No numbers are set aside beyond those of its messages, and none is shown before they are synced.
    pub(super) exact_numbers: bool,
}

/// The sessions that the work is about. Until it is dropped nobody but their holders has them.
#[derive(Default)]
struct InSessions<'a>(Vec<(&'a Entity, usize, &'a Arc<Accepted>)>);

impl<'a> InSessions<'a> {
    fn enter(work: &'a Work, moment: Moment) -> Result<Self> {
        let settled = work.settled.iter();
        let settled = settled.filter_map(|it| Some((&*it.entity, it.at.index, it.session.as_ref()?)));
        let states = work.states.iter().map(|it| (&*it.entity, it.index, &it.accepted));
        let mut entered = Self::default();
        for (entity, index, accepted) in settled.chain(states) {
            if entered.0.iter().any(|(.., known)| Arc::ptr_eq(known, accepted)) {
                continue;
            }
            let sessions = cell_of(entity, index)?.sessions();
            let is_held = sessions.is_some_and(|it| it.enter_unit(accepted, moment.ticks).is_ok());
            if !is_held {
                return Err(session_lost(entity));
            }
            entered.0.push((entity, index, accepted));
        }
        Ok(entered)
    }
}

impl Drop for InSessions<'_> {
    fn drop(&mut self) {
        for (entity, index, accepted) in self.0.drain(..) {
            if let Some(cell) = entity.cell(index) {
                let moment = entity.core().clock().moment();
                entity.announce(index, cell.leave_unit(accepted, moment, entity.rules()));
            }
        }
    }
}

/// Lets the work happen, or nothing of it.
pub(super) fn commit(mut work: Work, attached: Option<&Attached<'_>>) -> Result<()> {
    let core = Arc::clone(work.entity.core());
    let moment = Moment {
        now: core.clock().now(),
        ..core.clock().moment()
    };
    let done = commit_at(&mut work, moment, attached);
    if done.is_err() {
        // The locks are as they were, and may be over by now.
        let now = core.clock().moment();
        for it in &work.settled {
            it.entity.tick(now);
        }
    }
    done
}

fn commit_at(work: &mut Work, moment: Moment, attached: Option<&Attached<'_>>) -> Result<()> {
    let take = |settled: &mut Settled| {
        let mut ending = std::mem::replace(&mut settled.ending, Ending::Outcome(Outcome::Release));
        if let Ending::Outcome(Outcome::Abandon { max_delivery_count, .. }) = &mut ending
            && settled.sub_queue == SubQueue::Main
        {
            // It happens now, and by the settings of now.
            *max_delivery_count = settled.entity.max_delivery_count();
        }
        ending
    };
    let endings: Vec<Ending> = work.settled.iter_mut().map(take).collect();
    let work = &*work;
    let sessions = InSessions::enter(work, moment)?;
    let subscribers: Vec<Arc<Subscribers>> = work.sends.iter().map(|sent| sent.entity.subscribers()).collect();
    let mut taken = Taken::default();
    // Before any number is taken: a commit that is refused leaves no gap (B-105).
    for settled in &work.settled {
        check_held(settled, moment)?;
    }
    for set in &work.states {
        check_session(set, moment)?;
    }
    let is_decided = attached.is_some();
    let mut admitted = admit_all(&work.sends, moment, is_decided)?;
    let mut departure = Departure::new(moment.now);
    let mut numbers = Vec::new();
    for (sent, subscribers) in work.sends.iter().zip(&subscribers) {
        let shown = add_sent(&mut departure, &mut taken, &mut admitted, sent, subscribers, moment)?;
        if attached.is_some() {
            // The name is noted also when all its messages are copies of earlier ones.
            departure.take_part(&sent.entity, sent.index);
        }
        numbers.push((&sent.numbers, shown));
    }
    let (mut sends, notices) = departure.finish();
    for it in admitted.values() {
        it.cell.push_seen(Some(&it.admission), &mut sends.events);
    }
    if let Some(Attached {
        cell,
        admission,
        exact_numbers,
    }) = attached
    {
        sends.exact_numbers = *exact_numbers;
        cell.push_attached(admission, &mut sends.events);
    }
    let mut unit = Unit {
        sends,
        admitted: admitted
            .values()
            .map(|it| &it.admission)
            .chain(attached.map(|it| it.admission))
            .collect(),
        ..Unit::default()
    };
    for (settled, ending) in work.settled.iter().zip(endings) {
        unit.held.push(held(settled, ending)?);
    }
    for set in &work.states {
        unit.states.push(StateChange {
            cell: cell_of(&set.entity, set.index)?,
            accepted: Arc::clone(&set.accepted),
            state: set.state.clone(),
        });
    }
    let any = unit.held.iter().map(|held| held.cell);
    let any = any.chain(unit.states.iter().map(|change| change.cell));
    let any = any.chain(unit.sends.cells.iter().copied()).next();
    if let Some(cell) = any {
        let done = cell.commit_unit(unit, moment, cell.durability(None).max(work.durability));
        let ended = done.map_err(|error| failed(work, error))?;
        for (settled, ended) in work.settled.iter().zip(ended) {
            let Settled {
                entity, at, session, ..
            } = settled;
            if let (Some(accepted), Some(sessions)) = (session, entity.cell(at.index).and_then(Cell::sessions)) {
                sessions.unlock(accepted, [at.key]);
            }
            entity.announce(at.index, ended);
        }
    }
    // These are messages now.
    taken.waiting.clear();
    drop(taken);
    drop(sessions);
    for (known, shown) in numbers {
        *known.lock().unwrap_or_else(PoisonError::into_inner) = shown;
    }
    for sent in &work.sends {
        sent.entity.touch(moment.now);
    }
    notices.announce();
    for sent in &work.sends {
        // What was due already is active at once.
        if sent
            .entries
            .iter()
            .any(|entry| entry.due.is_some_and(|due| due <= moment.now))
        {
            sent.entity.tick(moment);
        }
    }
    Ok(())
}

/// A cell that takes part.
fn cell_of(entity: &Entity, index: usize) -> Result<&Cell> {
    entity.check_alive()?;
    let shard = entity.shard(index);
    shard.health().check_serves(shard.id())?;
    Ok(entity.cell_for_append(index))
}

/// Checks what may refuse the messages, unless that is decided, and tells which are new. Entities are asked in the order of their numbers, so that no
/// two transactions wait for each other.
fn admit_all(sends: &[Sent], moment: Moment, is_decided: bool) -> Result<BTreeMap<EntityId, Admitted<'_>>> {
    let mut asked: BTreeMap<EntityId, Asked<'_>> = BTreeMap::new();
    for sent in sends {
        let all = asked.entry(sent.entity.id()).or_insert_with(|| Asked::new(sent));
        for Entry { record, .. } in &sent.entries {
            all.bytes += record.len();
            all.messages += 1;
            if sent.entity.detects_duplicates() {
                all.identities.push(sent.entity.identity_of(&Fields::decode(record)?)?);
            }
        }
    }
    for asked in asked.values() {
        if is_decided {
            asked.entity.enter_decided(asked.index, asked.bytes)?;
            continue;
        }
        asked.entity.check_sends()?;
        // All at once: what fits one by one may be too much together.
        asked.entity.admit(asked.index, asked.bytes, asked.messages)?;
    }
    let mut admitted = BTreeMap::new();
    for (id, asked) in asked {
        let cell = cell_of(asked.entity, asked.index)?;
        if let Some(history) = cell.history() {
            let window_ms = asked.entity.duplicate_window_ms();
            let admission = history.admit(&asked.identities, moment.now, window_ms)?;
            let next = 0;
            admitted.insert(id, Admitted { cell, admission, next });
        }
    }
    Ok(admitted)
}

/// Adds the messages to one entity; the numbers of those that wait for their time, and of copies.
fn add_sent<'a>(
    departure: &mut Departure<'a>,
    taken: &mut Taken<'a>,
    admitted: &mut BTreeMap<EntityId, Admitted<'_>>,
    sent: &'a Sent,
    subscribers: &'a Subscribers,
    moment: Moment,
) -> Result<Vec<SequenceNumber>> {
    let (entity, index) = (&*sent.entity, sent.index);
    let cell = cell_of(entity, index)?;
    if entity.is_topic() {
        // Its numbers and identities are in the journal also when no subscription wants the messages.
        departure.take_part(entity, index);
    }
    let mut shown = Vec::new();
    for entry in &sent.entries {
        let is_new = admitted.get_mut(&entity.id()).is_none_or(|it| {
            it.next += 1;
            it.admission.fresh()[it.next - 1]
        });
        if !is_new {
            // Names no message (B-227).
            shown.push(Entity::sequence_number(index, Counter::MAX));
            continue;
        }
        let expires_at = entity.expires_at(entry.time_to_live_ms, moment.now);
        let record = entry.record.clone();
        if entry.due.is_some() {
            let counter = cell.take_numbers(1);
            taken.waiting.push((cell, counter));
            let message = NewMessage {
                record: record.into(),
                expires_at,
            };
            // A time in the past is now, as in a plain send (B-234).
            let due = entry.due.map(|due| due.max(moment.now));
            departure.schedule(entity, index, counter, Arrival { message, due });
            shown.push(Entity::sequence_number(index, counter));
        } else if entity.is_topic() {
            let counter = cell.take_numbers(1);
            taken.passing.push((cell, counter));
            let number = Entity::sequence_number(index, counter);
            departure.add_to_all(subscribers, index, &record, expires_at, number)?;
        } else {
            departure.add(entity, index, record, expires_at);
        }
    }
    Ok(shown)
}

/// Refuses a settlement of a message that its receiver does not hold any more.
fn check_held(settled: &Settled, moment: Moment) -> Result<()> {
    let cell = cell_of(&settled.entity, settled.at.index)?;
    let ticks = moment.ticks;
    if let (Some(accepted), Some(sessions)) = (&settled.session, cell.sessions()) {
        let has = sessions.has_locked(accepted, settled.at.key, ticks);
        if !has.map_err(|_| session_lost(&settled.entity))? {
            return Err(lock_lost(settled));
        }
    }
    if cell.store(settled.sub_queue).holds(settled.at.key, ticks) {
        Ok(())
    } else {
        Err(lock_lost(settled))
    }
}

/// Refuses the state of a session that its receiver does not hold any more.
fn check_session(set: &StateSet, moment: Moment) -> Result<()> {
    let cell = cell_of(&set.entity, set.index)?;
    let held = cell
        .sessions()
        .is_some_and(|sessions| sessions.state(&set.accepted, moment.ticks).is_ok());
    if held { Ok(()) } else { Err(session_lost(&set.entity)) }
}

/// A message whose hold ends.
fn held(settled: &Settled, ending: Ending) -> Result<Held<'_>> {
    Ok(Held {
        cell: cell_of(&settled.entity, settled.at.index)?,
        sub_queue: settled.sub_queue,
        key: settled.at.key,
        ending,
    })
}

fn failed(work: &Work, error: UnitError) -> Error {
    match error {
        UnitError::LockLost(position) => lock_lost(&work.settled[position]),
        UnitError::SessionLost => {
            let set = work.states.first().map(|set| &set.entity);
            set.or(work.settled.first().map(|settled| &settled.entity)).map_or_else(
                || {
                    Error::new(
                        ErrorKind::SessionLockLost,
                        "The session lock has expired on the MessageSession.",
                    )
                    .with_effect(Effect::None)
                },
                |entity| session_lost(entity),
            )
        }
        UnitError::Refused(refusal) => refusal.error,
    }
}

fn session_lost(entity: &Entity) -> Error {
    let detail = format!(
        "The session lock has expired on the MessageSession; the transaction was rolled back. Accept a new MessageSession: queue=`{}`",
        entity.name().as_str()
    );
    Error::new(ErrorKind::SessionLockLost, detail).with_effect(Effect::None)
}

fn lock_lost(settled: &Settled) -> Error {
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
