// SPDX-License-Identifier: Apache-2.0
//! Messages on their way to several cells of a shard, all in one entry of the journal: those of a topic to its subscriptions
//! (B-343), and those of a transaction.
//!
//! A topic has numbers of its own, which its messages keep as the number of their first submission (B-113), and a store
//! only for those that wait for their time. A record that goes to several subscriptions as it is, is kept and written once.
//!
//! In a durable namespace: the numbers of all copies are reserved and the entry is appended in one step, the commit is waited
//! for, then the copies are published; as for a queue (`append`).

use std::sync::atomic::Ordering;

use oxbus_model::options::Durability;
use oxbus_model::{Counter, Timestamp};
use oxbus_store::extent::Place;
use oxbus_store::shard_log::Room;
use oxbus_store::{MessageStore, NewMessage, NumberedStore, Record, Removed, Stored};

use super::journal::{Changed, Event, FannedOut, Journal, Pending, Ranges, push_append};
use super::promise::Ahead;
use super::spill::places;
use super::{Admission, Arrival, Cell, Refusal};
use crate::memory::SPILL_BYTES_MIN;

/// A record and the subscriptions that get it.
#[derive(Debug)]
pub struct Fan {
    /// Its bytes.
    pub record: Record,
    /// The position of each subscription, and when its copy expires.
    pub copies: Vec<(usize, Timestamp)>,
}

/// What a call brings to some cells of one shard.
#[derive(Debug, Default)]
pub struct FanOut<'a> {
    /// The cells, by position.
    pub cells: Vec<&'a Cell>,
    /// What is active.
    pub fans: Vec<Fan>,
    /// Copies that go to the dead-letter queue of their subscription, with their reason in them.
    pub failed: Vec<(usize, NewMessage)>,
    /// What waits for its time: the position of its cell, and the number that was taken for it.
    pub scheduled: Vec<(usize, Counter, Arrival)>,
    /// A message that waited until now.
    pub due: Option<Counter>,
    /// No numbers are set aside beyond those of the messages, and none is shown before the caller has synced them: nobody
    /// goes on in this process, or it is not open yet.
    pub exact_numbers: bool,
    /// What else happens with it, as events.
    pub events: Vec<u8>,
    /// These events add to what is stored.
    pub adds: bool,
}

/// An entry that is on its way, with the numbers in it.
struct Appended {
    ranges: Vec<Range>,
    pending: Pending,
    entry: Vec<u8>,
}

/// Numbers of one subscription.
struct Range {
    first: Counter,
    active: usize,
    failed: usize,
}

impl FanOut<'_> {
    /// Copies that each subscription gets: active ones, and failed ones.
    pub fn counts(&self) -> Vec<(usize, usize)> {
        let mut counts = vec![(0, 0); self.cells.len()];
        for (to, _) in self.fans.iter().flat_map(|fan| &fan.copies) {
            counts[*to].0 += 1;
        }
        for (to, _) in &self.failed {
            counts[*to].1 += 1;
        }
        counts
    }

    /// Bytes of the entry, about.
    fn bytes(&self) -> usize {
        let fans = self
            .fans
            .iter()
            .map(|fan| fan.record.len() + 16 * fan.copies.len() + 32);
        let failed = self.failed.iter().map(|(_, message)| message.record.len() + 64);
        let scheduled = self.scheduled.iter().map(|(_, _, it)| it.message.record.len() + 64);
        fans.chain(failed).chain(scheduled).sum::<usize>() + self.events.len()
    }
}

impl Cell {
    /// Takes numbers of a topic for messages that come in. Each is used, or given up.
    pub fn take_numbers(&self, count: usize) -> Counter {
        match self.shard.journal() {
            None => self.main.reserve(count),
            Some(journal) => {
                let order = journal.order();
                let first = self.main.reserve(count);
                drop(order);
                first
            }
        }
    }

    /// Gives numbers up that no message has.
    pub fn give_up_numbers(&self, first: Counter, count: usize) {
        self.main.give_up(first, count);
    }

    /// Stores what comes to cells of this cell's shard, all or nothing.
    pub fn fan_out(
        &self,
        out: FanOut<'_>,
        now: Timestamp,
        durability: Durability,
        admitted: Option<&Admission<'_>>,
    ) -> Result<(), Refusal> {
        let counts = out.counts();
        let Some(journal) = self.shard.journal() else {
            let ranges = reserve_all(&out.cells, &counts);
            admitted.inspect(|it| it.keep());
            self.publish_fan_out(out, &ranges, now, None);
            return Ok(());
        };
        let _in_flight = self.enter()?;
        let Some(appended) = self.append_fan_out(journal, &out, &counts, now, admitted)? else {
            return Ok(());
        };
        let Appended { ranges, pending, entry } = appended;
        let spills = self.shard.memory.spills();
        let durability = if spills { Durability::Fsync } else { durability };
        let waited = if out.exact_numbers {
            pending.wait(durability)
        } else {
            let mut cells = std::iter::once(self).chain(out.cells.iter().copied());
            cells.try_for_each(|cell| cell.wait_shown(&pending, durability))
        };
        if let Err(error) = waited {
            // First: once its numbers are settled, the shard may heal, and would be put out of service again.
            let refusal = self.refusal_of(&pending, &error);
            for (cell, range) in out.cells.iter().zip(&ranges) {
                cell.main.give_up(range.first, range.active + range.failed);
            }
            return Err(refusal);
        }
        admitted.inspect(|it| it.keep());
        let written = pending.place.as_ref().filter(|_| spills);
        self.publish_fan_out(out, &ranges, now, written.map(|place| places(&entry, place)));
        Ok(())
    }

    /// Reserves the numbers of all copies and appends the entry, in one step. `None` when there is nothing to store: no
    /// subscription wants the messages (B-344).
    fn append_fan_out(
        &self,
        journal: &Journal,
        out: &FanOut<'_>,
        counts: &[(usize, usize)],
        now: Timestamp,
        admitted: Option<&Admission<'_>>,
    ) -> Result<Option<Appended>, Refusal> {
        let mut entry = Vec::with_capacity(out.bytes());
        // Bytes enough also for what is added below, about.
        let order = journal.order_for(Room::Adds, 2 * out.bytes() + 1024);
        let order = order.map_err(|error| self.refusal(&error))?;
        let ahead = if out.exact_numbers {
            Ahead::Nothing
        } else {
            Ahead::Usual
        };
        let mut told = Vec::new();
        let mut ends: Vec<(&Cell, u64)> = Vec::with_capacity(out.cells.len() + 1);
        ends.extend(out.cells.iter().zip(counts).map(|(cell, (active, failed))| {
            let end = cell.main.next().0 + (active + failed) as u64;
            (*cell, end)
        }));
        if !out.cells.iter().any(|cell| std::ptr::eq(*cell, self)) {
            // The numbers that a topic took for what comes.
            ends.push((self, self.main.next().0));
        }
        for (cell, end) in ends {
            let tells = cell.promise.due(end, ahead);
            if let Some(next) = tells {
                Event::Number { next }.encode(cell.entity, &mut entry);
            }
            told.push((cell, end, tells));
        }
        self.push_fan_out(out, counts, now, &mut entry);
        self.push_seen(admitted, &mut entry);
        if entry.is_empty() {
            return Ok(None);
        }
        let adds = out.adds || !(out.fans.is_empty() && out.failed.is_empty() && out.scheduled.is_empty());
        let room = if adds { Room::Adds } else { Room::Frees };
        let pending = order.append(room, &entry).map_err(|error| self.refusal(&error))?;
        for (cell, end, tells) in told {
            cell.promise.note(end, tells, pending.lsn);
        }
        let ranges = reserve_all(&out.cells, counts);
        Ok(Some(Appended { ranges, pending, entry }))
    }

    /// Adds the events of what came in. The numbers of the copies are those that come next.
    fn push_fan_out(&self, out: &FanOut<'_>, counts: &[(usize, usize)], now: Timestamp, entry: &mut Vec<u8>) {
        let mut next: Vec<Counter> = out.cells.iter().map(|cell| cell.main.next()).collect();
        let mut next_failed: Vec<Counter> = next
            .iter()
            .zip(counts)
            .map(|(next, (active, _))| Counter(next.0 + *active as u64))
            .collect();
        let stays_here = |fan: &Fan| matches!(fan.copies[..], [(0, _)]);
        let is_plain = matches!(out.cells[..], [cell] if std::ptr::eq(cell, self)) && out.fans.iter().all(stays_here);
        let (plain, fanned): (&[Fan], &[Fan]) = if is_plain { (&out.fans, &[]) } else { (&[], &out.fans) };
        if !plain.is_empty() {
            // Shorter, and read back faster.
            let messages = plain.iter().map(|fan| (fan.copies[0].1, &fan.record[..]));
            push_append(self.entity, next[0], now, messages, entry);
        }
        for fan in fanned {
            let copy = |(to, expires_at): &(usize, Timestamp)| {
                let counter = take_next(&mut next[*to]);
                FannedOut {
                    entity: out.cells[*to].entity,
                    counter,
                    expires_at: *expires_at,
                }
            };
            let event = Event::FanOut {
                enqueued_at: now,
                bytes: &fan.record,
                copies: fan.copies.iter().map(copy).collect(),
            };
            event.encode(self.entity, entry);
        }
        for (to, message) in &out.failed {
            let counter = take_next(&mut next_failed[*to]);
            let event = Event::DeadLetter {
                counter,
                enqueued_at: now,
                expires_at: message.expires_at,
                delivery_count: 0,
                record: Changed::Whole(message.record.in_memory().expect("what comes in is in memory")),
            };
            event.encode(out.cells[*to].entity, entry);
        }
        for (to, counter, arrival) in &out.scheduled {
            out.cells[*to].push_arrival(*counter, arrival, now, entry);
        }
        if let Some(counter) = out.due {
            let (sub_queue, counters) = (oxbus_model::name::SubQueue::Main, Ranges::from_iter([counter]));
            Event::Remove { sub_queue, counters }.encode(self.entity, entry);
        }
        entry.extend_from_slice(&out.events);
    }

    /// Puts what came in where it belongs, under the numbers that were reserved.
    fn publish_fan_out(&self, out: FanOut<'_>, ranges: &[Range], now: Timestamp, mut places: Option<Vec<Place>>) {
        if let Some(counter) = out.due {
            // Out of its old place first: a snapshot that sees the new numbers settled does not see the old one.
            self.main.take_scheduled(counter);
        }
        let mut batches: Vec<Vec<NewMessage>> = ranges.iter().map(|range| Vec::with_capacity(range.active)).collect();
        let mut places = places.as_mut().map(|places| places.drain(..));
        let mut stored = |record: Record| match places.as_mut().and_then(Iterator::next) {
            Some(place) if record.len() >= SPILL_BYTES_MIN => Stored::on_disk(record.len(), place),
            _ => record.into(),
        };
        for fan in out.fans {
            let record = stored(fan.record);
            for (to, expires_at) in fan.copies {
                let record = record.clone();
                batches[to].push(NewMessage { record, expires_at });
            }
        }
        for ((cell, range), mut batch) in out.cells.iter().zip(ranges).zip(batches) {
            if range.active > 0 {
                cell.main.publish(range.first, &mut batch, now);
            }
        }
        let mut next_failed: Vec<Counter> = ranges.iter().map(|it| Counter(it.first.0 + it.active as u64)).collect();
        for (to, message) in out.failed {
            let cell = out.cells[to];
            let counter = take_next(&mut next_failed[to]);
            let removed = Removed {
                counter,
                record: message.record,
                delivery_count: 0,
                enqueued_at: now,
                expires_at: message.expires_at,
            };
            cell.shard.with(cell.no, |state| state.dead_letters.insert(removed));
            cell.main.give_up(counter, 1);
        }
        for (to, counter, Arrival { message, due }) in out.scheduled {
            let (cell, due) = (out.cells[to], due.unwrap_or(now));
            cell.shard.with(cell.no, |state| {
                cell.main.publish_scheduled(counter, message, now);
                state.schedule.add(due, counter);
                cell.next_due.fetch_min(due.0, Ordering::SeqCst);
            });
        }
    }
}

fn reserve_all(cells: &[&Cell], counts: &[(usize, usize)]) -> Vec<Range> {
    let reserve = |(cell, &(active, failed)): (&&Cell, &(usize, usize))| {
        let first = if active + failed > 0 {
            cell.main.reserve(active + failed)
        } else {
            cell.main.next()
        };
        Range { first, active, failed }
    };
    cells.iter().zip(counts).map(reserve).collect()
}

fn take_next(next: &mut Counter) -> Counter {
    let counter = *next;
    *next = counter.next();
    counter
}
