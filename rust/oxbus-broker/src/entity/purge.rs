// SPDX-License-Identifier: Apache-2.0
//! Removing many messages, and sending dead-lettered ones again.
//!
//! Each partition is one step: all of what is chosen there goes in one entry of the journal.

use std::sync::Arc;

use oxbus_model::message::{Fields, PropertiesBuilder};
use oxbus_model::name::SubQueue;
use oxbus_model::{Error, ErrorKind, Moment, Result, Ticks, Timestamp};
use oxbus_store::{Claimed, Hold, LockKey, Outcome, Peeked, Phase, Record};

use super::Queue;
use super::departure::Departure;
use crate::filter::{SqlFilter, Subject};
use crate::record::{DEAD_LETTER_DESCRIPTION, DEAD_LETTER_REASON, encode};
use crate::shard::{Cell, Ending, Held, Unit, UnitError};

/// Which messages.
#[derive(Debug, Default)]
pub struct Choice {
    /// Only those that it selects.
    pub filter: Option<SqlFilter>,
    /// Only those that were accepted before.
    pub before: Option<Timestamp>,
    /// At most so many.
    pub limit: Option<usize>,
}

impl Choice {
    fn takes(&self, cell: &Cell, claimed: &Claimed, index: usize) -> Result<bool> {
        if self.before.is_some_and(|before| claimed.enqueued_at >= before) {
            return Ok(false);
        }
        let Some(filter) = &self.filter else { return Ok(true) };
        let record = cell.load(&claimed.record)?;
        let fields = Fields::decode(&record)?;
        let subject = Subject {
            fields: &fields,
            enqueued_at: claimed.enqueued_at,
            enqueued_number: Some(Queue::sequence_number(index, claimed.key.counter)),
            expires_at: claimed.expires_at,
            size_bytes: record.len(),
            delivery_count: claimed.delivery_count,
        };
        // What cannot be evaluated is not selected.
        Ok(filter.selects(&subject).unwrap_or(false))
    }
}

impl Queue {
    /// Removes messages of a sub-queue that nobody has; how many. Locked, deferred and scheduled ones stay (B-402).
    pub fn purge(&self, sub_queue: SubQueue, choice: &Choice) -> Result<usize> {
        self.check_alive()?;
        self.tick(self.core().clock().moment());
        let mut removed = 0;
        for (index, cell) in self.cells().filter(|(index, _)| self.shard(*index).health().serves()) {
            let left = choice.limit.map_or(usize::MAX, |limit| limit - removed);
            if left == 0 {
                break;
            }
            let chosen = self.choose((sub_queue, index, cell), choice, left)?;
            let keys: Vec<LockKey> = chosen.iter().map(|claimed| claimed.key).collect();
            let mut lost = Vec::new();
            let ticks = self.core().clock().ticks();
            let pending = cell.complete(sub_queue, &keys, ticks, &mut lost)?;
            cell.finish(pending.as_ref())?;
            removed += keys.len() - lost.len();
        }
        Ok(removed)
    }

    /// Puts dead-lettered messages back into the entity as new ones, without the reason; how many.
    pub fn resubmit(self: &Arc<Self>, choice: &Choice) -> Result<usize> {
        self.check_alive()?;
        self.tick(self.core().clock().moment());
        let mut sent = 0;
        for (index, cell) in self.cells().filter(|(index, _)| self.shard(*index).health().serves()) {
            let left = choice.limit.map_or(usize::MAX, |limit| limit - sent);
            if left == 0 {
                break;
            }
            let chosen = self.choose((SubQueue::DeadLetter, index, cell), choice, left)?;
            if !chosen.is_empty() {
                sent += chosen.len();
                self.resubmit_all(index, cell, &chosen)?;
            }
        }
        Ok(sent)
    }

    fn resubmit_all(&self, index: usize, cell: &Cell, chosen: &[Claimed]) -> Result<()> {
        let moment = Moment {
            now: self.now(),
            ..self.core().clock().moment()
        };
        let mut departure = Departure::new(moment.now);
        let mut bytes = 0;
        let done = chosen
            .iter()
            .try_for_each(|claimed| {
                let record = without_reason(&cell.load(&claimed.record)?)?;
                let lives = Fields::decode(&record)?.time_to_live_ms;
                bytes += record.len();
                departure.add(self, index, record, self.expires_at(lives, moment.now));
                Ok(())
            })
            .and_then(|()| self.admit(index, bytes, chosen.len()).map(drop));
        let held = chosen.iter().map(|claimed| Held {
            cell,
            sub_queue: SubQueue::DeadLetter,
            key: claimed.key,
            ending: Ending::Outcome(Outcome::Complete),
        });
        let (sends, notices) = departure.finish();
        let unit = Unit {
            sends,
            held: held.collect(),
            ..Unit::default()
        };
        let committed = done.and_then(|()| {
            let committed = cell.commit_unit(unit, moment, cell.durability(None));
            committed.map(drop).map_err(|error| match error {
                UnitError::Refused(refusal) => refusal.error,
                UnitError::LockLost(_) | UnitError::SessionLost => {
                    let detail = "a message was taken by somebody else meanwhile; make the call again";
                    Error::new(ErrorKind::MessageLockLost, detail)
                }
            })
        });
        if committed.is_err() {
            self.let_go(
                (SubQueue::DeadLetter, index, cell),
                chosen.iter().map(|claimed| claimed.key),
            );
        } else {
            notices.announce();
        }
        committed
    }

    /// Takes hold of the messages that are chosen, up to `max`; the others are as before.
    fn choose(
        &self,
        (sub_queue, index, cell): (SubQueue, usize, &Cell),
        choice: &Choice,
        max: usize,
    ) -> Result<Vec<Claimed>> {
        let hold = Hold::Lock { deadline: Ticks::NEVER };
        let mut claims = Vec::new();
        cell.claim(
            sub_queue,
            usize::MAX,
            hold,
            self.now(),
            self.buries_expired(),
            &mut claims,
        );
        Self::claim_put_aside((sub_queue, cell), hold, &mut claims);
        let mut chosen = Vec::new();
        let mut others = Vec::new();
        let mut failed = None;
        for claimed in claims {
            let takes = failed.is_none() && chosen.len() < max;
            let is_chosen = if takes {
                choice.takes(cell, &claimed, index)
            } else {
                Ok(false)
            };
            match is_chosen {
                Ok(true) => chosen.push(claimed),
                Ok(false) => others.push(claimed.key),
                Err(error) => {
                    failed = Some(error);
                    others.push(claimed.key);
                }
            }
        }
        if failed.is_some() {
            others.extend(chosen.drain(..).map(|claimed| claimed.key));
        }
        self.let_go((sub_queue, index, cell), others.into_iter());
        failed.map_or(Ok(chosen), Err)
    }

    /// Takes hold of messages that stand in a cache or in a session, handed out to nobody.
    fn claim_put_aside((sub_queue, cell): (SubQueue, &Cell), hold: Hold, claims: &mut Vec<Claimed>) {
        let mut found: Vec<Peeked> = Vec::new();
        let store = cell.store(sub_queue);
        store.peek(oxbus_model::Counter(0), usize::MAX, &mut found);
        for message in found.into_iter().filter(|message| message.phase == Phase::Cached) {
            let key = LockKey {
                counter: message.counter,
                generation: message.generation,
            };
            if let Some(key) = store.hand_out(key, hold) {
                claims.push(Claimed {
                    key,
                    record: message.record,
                    delivery_count: message.delivery_count,
                    enqueued_at: message.enqueued_at,
                    expires_at: message.expires_at,
                    deadline: Ticks::NEVER,
                    deferred: false,
                });
            }
        }
        claims.sort_by_key(|claimed| claimed.key.counter);
    }

    /// Gives messages back; nothing is charged.
    fn let_go(&self, (sub_queue, index, cell): (SubQueue, usize, &Cell), keys: impl Iterator<Item = LockKey>) {
        let ticks = self.core().clock().ticks();
        let mut ready = 0;
        for key in keys {
            ready += usize::from(cell.store(sub_queue).settle(key, Outcome::Release, ticks).is_ok());
        }
        if ready > 0 {
            self.publish(sub_queue, index, ready);
        }
    }
}

/// The same message without the reason and the description of its dead-lettering.
fn without_reason(record: &Record) -> Result<Record> {
    let mut fields = Fields::decode(record)?;
    let Some(properties) = fields.application_properties else {
        return Ok(record.clone());
    };
    let mut kept = PropertiesBuilder::default();
    for (name, value) in properties.iter() {
        if name != DEAD_LETTER_REASON && name != DEAD_LETTER_DESCRIPTION {
            kept.push(name, value);
        }
    }
    fields.application_properties = Some(kept.properties());
    Ok(encode(&fields))
}
