// SPDX-License-Identifier: Apache-2.0
//! A unit of work: messages that come in, holds that end and session states that change, all or nothing (B-306 … B-330).
//!
//! All of it is one entry of the journal. Before it is written, every hold gets a key that only the unit knows, and no end: so
//! nobody can settle a message of it on the way, and nothing can fail once it is committed. Its sessions stay with their
//! holders meanwhile ([`Sessions::enter_unit`](super::Sessions::enter_unit)). A snapshot does not look in between: it waits
//! until a unit that is written has had its effect.

use std::sync::{Arc, PoisonError, RwLockReadGuard};

use oxbus_model::name::SubQueue;
use oxbus_model::options::Durability;
use oxbus_model::{Moment, Ticks};
use oxbus_store::{LockKey, LockLost, MessageStore, Outcome, Record, Removed, Settled};

use super::journal::{Changed, Event};
use super::settle::{Burial, SettleError};
use super::{Accepted, Admission, Cell, Ended, FanOut, Refusal, Shard, State};

/// How a hold ends.
#[derive(Debug)]
pub enum Ending {
    /// As a settlement does.
    Outcome(Outcome),
    /// The message goes to the dead-letter queue with this record.
    DeadLetter(Record),
}

/// A hold that ends with a unit.
#[derive(Debug)]
pub struct Held<'a> {
    /// Where.
    pub cell: &'a Cell,
    /// In which queue of it.
    pub sub_queue: SubQueue,
    /// Which hold.
    pub key: LockKey,
    /// How it ends.
    pub ending: Ending,
}

/// A hold in the hands of a unit.
struct Seized<'a> {
    held: Held<'a>,
    /// Its key meanwhile.
    key: LockKey,
    /// The end that it had.
    deadline: Ticks,
}

/// A session whose state changes with a unit. The unit has entered it.
#[derive(Debug)]
pub struct StateChange<'a> {
    /// Where.
    pub cell: &'a Cell,
    /// Whose.
    pub accepted: Arc<Accepted>,
    /// To what.
    pub state: Option<State>,
}

/// What happens together. All cells are of one shard.
#[derive(Debug, Default)]
pub struct Unit<'a> {
    /// What comes in.
    pub sends: FanOut<'a>,
    /// What is settled.
    pub held: Vec<Held<'a>>,
    /// What sessions keep.
    pub states: Vec<StateChange<'a>>,
    /// What is remembered of the messages that come in.
    pub admitted: Vec<&'a Admission<'a>>,
}

/// Why nothing of a unit happened, or may not have.
#[derive(Debug)]
pub enum UnitError {
    /// The hold at that position is over.
    LockLost(usize),
    /// A session is not its receiver's any more.
    SessionLost,
    /// The journal did not take it.
    Refused(Refusal),
}

impl Shard {
    /// Keeps snapshots from looking while a unit is written and has its effect.
    pub(super) fn unit(&self) -> RwLockReadGuard<'_, ()> {
        self.units.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cell {
    /// Lets a unit happen; this is any cell of its shard. What each held message became, by position.
    pub fn commit_unit(&self, unit: Unit<'_>, moment: Moment, durability: Durability) -> Result<Vec<Ended>, UnitError> {
        let ticks = moment.ticks;
        let mut seized: Vec<Seized<'_>> = Vec::with_capacity(unit.held.len());
        for (position, held) in unit.held.into_iter().enumerate() {
            let Ok(one) = held.seize(ticks) else {
                give_back(seized, ticks);
                return Err(UnitError::LockLost(position));
            };
            seized.push(one);
        }
        let written = self.shard.unit();
        if let Err(error) = self.write(&seized, &unit.states, unit.sends, moment, durability) {
            drop(written);
            give_back(seized, ticks);
            return Err(error);
        }
        let ended = seized.into_iter().map(|it| it.end(ticks)).collect();
        for StateChange { cell, accepted, state } in unit.states {
            if let Some(sessions) = cell.sessions() {
                sessions.set_state_of_unit(&accepted, state);
            }
        }
        // Before a snapshot looks: it has the messages, so it must know their identities.
        unit.admitted.into_iter().for_each(Admission::keep);
        drop(written);
        Ok(ended)
    }

    fn write(
        &self,
        seized: &[Seized<'_>],
        states: &[StateChange<'_>],
        mut sends: FanOut<'_>,
        moment: Moment,
        durability: Durability,
    ) -> Result<(), UnitError> {
        for change in states {
            let sessions = change.cell.sessions().ok_or(UnitError::SessionLost)?;
            let held = sessions.state(&change.accepted, moment.ticks);
            held.map_err(|_| UnitError::SessionLost)?;
            sends.adds |= change.state.is_some();
        }
        if self.shard.journal().is_some() {
            for (position, it) in seized.iter().enumerate() {
                match it.event() {
                    Ok(event) => sends.events.extend(event),
                    Err(SettleError::LockLost) => return Err(UnitError::LockLost(position)),
                    Err(SettleError::Store(error)) => return Err(UnitError::Refused(error.into())),
                }
            }
            for change in states {
                let event = Event::SessionState {
                    id: change.accepted.id(),
                    set_at: moment.now,
                    state: change.state.as_ref().map(|state| &*state.bytes),
                };
                event.encode(change.cell.entity, &mut sends.events);
            }
        }
        self.fan_out(sends, moment.now, durability, None)
            .map_err(UnitError::Refused)
    }
}

/// The unit failed: the holds are their receivers' again, until the ends that they had.
fn give_back(seized: Vec<Seized<'_>>, ticks: Ticks) {
    for Seized { held, key, deadline } in seized {
        let store = held.cell.store(held.sub_queue);
        let back = store.rekey(key, held.key.generation, deadline, ticks);
        debug_assert!(back.is_ok(), "nobody else knows the key");
    }
}

impl<'a> Held<'a> {
    /// Makes the hold the unit's own, without an end of its own. It is a delivery still.
    fn seize(self, ticks: Ticks) -> Result<Seized<'a>, LockLost> {
        let key = self.key.next();
        let store = self.cell.store(self.sub_queue);
        let deadline = store.rekey(self.key, key.generation, Ticks::OPEN_END, ticks)?;
        Ok(Seized {
            held: self,
            key,
            deadline,
        })
    }
}

impl Seized<'_> {
    /// What the journal says about it.
    fn event(&self) -> Result<Vec<u8>, SettleError> {
        let Held {
            cell,
            sub_queue,
            ending,
            ..
        } = &self.held;
        let record = match ending {
            Ending::Outcome(outcome) => {
                let event = cell.event_of(*sub_queue, self.key, outcome)?;
                return Ok(event.unwrap_or_default());
            }
            Ending::DeadLetter(record) => record,
        };
        let message = cell.peek_one(self.key.counter).ok_or(SettleError::LockLost)?;
        let mut entry = Vec::new();
        let event = Event::DeadLetter {
            counter: message.counter,
            enqueued_at: message.enqueued_at,
            expires_at: message.expires_at,
            delivery_count: message.delivery_count,
            record: Changed::of(record, message.record.in_memory()),
        };
        event.encode(cell.entity, &mut entry);
        Ok(entry)
    }

    /// Ends the hold; what became ready by it.
    fn end(self, ticks: Ticks) -> Ended {
        let Held {
            cell,
            sub_queue,
            ending,
            ..
        } = self.held;
        let mut ended = Ended::default();
        let settled = match ending {
            Ending::Outcome(outcome) => cell.store(sub_queue).settle(self.key, outcome, ticks),
            Ending::DeadLetter(record) => {
                ended.dead_letters = 1;
                // In one step: nobody sees it in neither place.
                cell.shard.with(cell.no, |state| {
                    let settled = cell.main.settle(self.key, Outcome::Remove, ticks)?;
                    if let Settled::Removed(message) = settled {
                        let record = record.into();
                        state.dead_letters.insert(Removed { record, ..message });
                    }
                    Ok(Settled::Completed)
                })
            }
        };
        debug_assert!(settled.is_ok(), "nobody else knows the key");
        match settled {
            Ok(Settled::Exhausted(message)) => {
                ended.dead_letters = cell.bury(vec![message], Burial::DeliveriesExhausted);
            }
            Ok(Settled::Ready) if sub_queue == SubQueue::DeadLetter => ended.dead_letters = 1,
            Ok(Settled::Ready) => ended.main = 1,
            Ok(Settled::Completed | Settled::Deferred | Settled::Removed(_)) | Err(LockLost) => {}
        }
        ended
    }
}
