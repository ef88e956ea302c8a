// SPDX-License-Identifier: Apache-2.0
//! A unit of work: messages that come in, holds that end and session states that change, all or nothing (B-306 … B-330).
//!
//! All of it is one entry of the journal. Before it is written, every hold is made to last, so that none can be lost on the
//! way; after it is committed, nothing can fail any more. A snapshot does not look in between: it waits until a unit that is
//! written has had its effect.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, RwLockReadGuard};

use oxbus_model::name::SubQueue;
use oxbus_model::options::Durability;
use oxbus_model::{Moment, Ticks};
use oxbus_store::{LockKey, LockLost, MessageStore, Outcome, Peeked, Record, Removed, Settled};

use super::journal::{EntityId, Event};
use super::settle::{Burial, SettleError};
use super::{Accepted, Cell, Ended, FanOut, Refusal, Shard, State};

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

/// A session whose state changes with a unit.
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

/// One hold of a shard.
type HoldKey = (EntityId, SubQueue, LockKey);

/// Holds that units end which are not done yet.
pub(super) type Endings = Mutex<HashSet<HoldKey>>;

/// The holds of one unit among them, until it is dropped.
struct Claimed<'a> {
    endings: &'a Endings,
    keys: Vec<HoldKey>,
}

impl<'a> Claimed<'a> {
    /// Makes the holds those of one unit, or none and the position of one that is another's.
    fn new(endings: &'a Endings, held: &[Held<'_>]) -> Result<Self, usize> {
        let mut claimed = Self {
            endings,
            keys: Vec::with_capacity(held.len()),
        };
        let mut all = endings.lock().unwrap_or_else(PoisonError::into_inner);
        for (position, held) in held.iter().enumerate() {
            let key = (held.cell.entity, held.sub_queue, held.key);
            if !all.insert(key) {
                drop(all);
                return Err(position);
            }
            claimed.keys.push(key);
        }
        drop(all);
        Ok(claimed)
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        let mut all = self.endings.lock().unwrap_or_else(PoisonError::into_inner);
        for key in &self.keys {
            all.remove(key);
        }
    }
}

impl Shard {
    /// Keeps snapshots from looking while a unit is written and has its effect.
    fn unit(&self) -> RwLockReadGuard<'_, ()> {
        self.units.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cell {
    /// Lets a unit happen; this is any cell of its shard. What each held message became, by position.
    pub fn commit_unit(
        &self,
        mut unit: Unit<'_>,
        moment: Moment,
        durability: Durability,
    ) -> Result<Vec<Ended>, UnitError> {
        let shard = Arc::clone(&self.shard);
        let claimed = Claimed::new(&shard.ending, &unit.held).map_err(UnitError::LockLost)?;
        let mut deadlines = Vec::with_capacity(unit.held.len());
        for (position, held) in unit.held.iter().enumerate() {
            let Ok(deadline) = held.keep(Ticks::NEVER, moment.ticks) else {
                give_back(&unit.held, &deadlines, moment.ticks);
                return Err(UnitError::LockLost(position));
            };
            deadlines.push(deadline);
        }
        let written = shard.unit();
        let sends = std::mem::take(&mut unit.sends);
        let done = self.write(&unit, sends, moment, durability);
        if let Err(error) = done {
            give_back(&unit.held, &deadlines, moment.ticks);
            return Err(error);
        }
        let ended = unit.held.into_iter().map(|held| held.end(moment.ticks)).collect();
        for change in unit.states {
            if let Some(sessions) = change.cell.sessions() {
                // One that is lost by now has another holder: the state is the last one's that was written.
                let _ = sessions.set_state(&change.accepted, change.state, moment.ticks);
            }
        }
        drop(written);
        drop(claimed);
        Ok(ended)
    }

    fn write(
        &self,
        unit: &Unit<'_>,
        mut sends: FanOut<'_>,
        moment: Moment,
        durability: Durability,
    ) -> Result<(), UnitError> {
        for change in &unit.states {
            let sessions = change.cell.sessions().ok_or(UnitError::SessionLost)?;
            let held = sessions.state(&change.accepted, moment.ticks);
            held.map_err(|_| UnitError::SessionLost)?;
        }
        if self.shard.journal().is_some() {
            for (position, held) in unit.held.iter().enumerate() {
                match held.event() {
                    Ok(event) => sends.events.extend(event),
                    Err(SettleError::LockLost) => return Err(UnitError::LockLost(position)),
                    Err(SettleError::Store(error)) => return Err(UnitError::Refused(error.into())),
                }
            }
            for change in &unit.states {
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

/// The unit failed: the holds go on until the ends that they had.
fn give_back(held: &[Held<'_>], deadlines: &[Ticks], ticks: Ticks) {
    for (held, deadline) in held.iter().zip(deadlines) {
        // Whoever settled it meanwhile has had his way.
        let _ = held.keep(*deadline, ticks);
    }
}

impl Held<'_> {
    /// Moves the end of the hold and returns the one before.
    fn keep(&self, deadline: Ticks, ticks: Ticks) -> Result<Ticks, LockLost> {
        self.cell.store(self.sub_queue).renew(self.key, deadline, ticks)
    }

    /// What the journal says about it.
    fn event(&self) -> Result<Vec<u8>, SettleError> {
        let record = match &self.ending {
            Ending::Outcome(outcome) => {
                let event = self.cell.event_of(self.sub_queue, self.key, outcome)?;
                return Ok(event.unwrap_or_default());
            }
            Ending::DeadLetter(record) => record,
        };
        let mut found: Vec<Peeked> = Vec::new();
        self.cell.main.peek(self.key.counter, 1, &mut found);
        let message = found.pop().filter(|it| it.counter == self.key.counter);
        let message = message.ok_or(SettleError::LockLost)?;
        let mut entry = Vec::new();
        let event = Event::DeadLetter {
            counter: message.counter,
            enqueued_at: message.enqueued_at,
            expires_at: message.expires_at,
            delivery_count: message.delivery_count,
            bytes: record,
        };
        event.encode(self.cell.entity, &mut entry);
        Ok(entry)
    }

    /// Ends the hold; what became ready by it.
    fn end(self, ticks: Ticks) -> Ended {
        let mut ended = Ended::default();
        let (outcome, marked) = match self.ending {
            Ending::Outcome(outcome) => (outcome, None),
            Ending::DeadLetter(record) => (Outcome::Remove, Some(record)),
        };
        match self.cell.store(self.sub_queue).settle(self.key, outcome, ticks) {
            Ok(Settled::Removed(message)) => {
                if let Some(record) = marked {
                    let record = record.into();
                    let message = Removed { record, ..message };
                    let (shard, no) = (&self.cell.shard, self.cell.no);
                    shard.with(no, |state| state.dead_letters.insert(message));
                    ended.dead_letters = 1;
                }
            }
            Ok(Settled::Exhausted(message)) => {
                ended.dead_letters = self.cell.bury(vec![message], Burial::DeliveriesExhausted);
            }
            Ok(Settled::Ready) if self.sub_queue == SubQueue::DeadLetter => ended.dead_letters = 1,
            Ok(Settled::Ready) => ended.main = 1,
            // Its holder settled it by another call meanwhile.
            Ok(Settled::Completed | Settled::Deferred) | Err(LockLost) => {}
        }
        ended
    }
}
