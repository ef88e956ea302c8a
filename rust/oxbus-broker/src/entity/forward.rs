// SPDX-License-Identifier: Apache-2.0
//! Auto-forwarding: what is ready in an entity, or in its dead-letter queue, is moved to another entity (B-331 … B-342, B-269).
//!
//! Within a shard a message moves in one entry of the journal. Into another shard it is stored at its destination with its
//! origin, then removed, then the origin is forgotten (`shard::arrived`). What cannot be taken now stays and is tried again
//! when somebody looks at the source or at the destination; what will not be taken is dead-lettered where it is (B-268).

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};

use oxbus_model::caps::HOPS_MAX;
use oxbus_model::hash::partition_of;
use oxbus_model::message::Fields;
use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Error, ErrorKind, Moment, Result, SequenceNumber, Ticks};
use oxbus_store::{Claimed, Hold, Outcome, Record};

use super::Queue;
use super::departure::Departure;
use super::role::Subscribers;
use crate::record::{encode, with_dead_letter};
use crate::shard::journal::Origin;
use crate::shard::{Admission, Cell, Ended, Ending, Held, Unit};

/// Messages moved at once.
const RUN: usize = 32;

/// What becomes of a message that is to be forwarded.
enum Fate {
    /// To this cell of the destination, as these bytes.
    Goes(usize, Record),
    /// To the dead-letter queue of its entity: why, and more of it.
    Buried(&'static str, String),
    /// It stays, and is tried again.
    Waits,
}

/// A message on its way, with the hold on it.
struct Moving {
    claimed: Claimed,
    fate: Fate,
}

impl Moving {
    fn record(&self) -> Option<&Record> {
        match &self.fate {
            Fate::Goes(_, record) => Some(record),
            Fate::Buried(..) | Fate::Waits => None,
        }
    }
}

/// Messages as the destination gets them.
struct Arriving<'a> {
    departure: Departure<'a>,
    /// Which are new, where copies are dropped.
    admission: Option<Admission<'a>>,
    /// Numbers of a topic that its messages do not keep.
    numbers: Vec<Counter>,
}

impl Queue {
    /// Where the messages of a sub-queue are moved to.
    pub(crate) fn forwards_to(&self, sub_queue: SubQueue) -> Option<String> {
        let settings = self.settings();
        match sub_queue {
            SubQueue::Main => settings.forward_to.clone(),
            SubQueue::DeadLetter => settings.forward_dead_letters_to.clone(),
        }
    }

    /// Notes an entity that moves its messages here: it is looked at when this one is.
    pub(crate) fn add_source(&self, source: &Arc<Self>) {
        let mut sources = self.sources.write().unwrap_or_else(PoisonError::into_inner);
        sources.retain(|known| known.strong_count() > 0);
        if !sources.iter().any(|known| known.ptr_eq(&Arc::downgrade(source))) {
            sources.push(Arc::downgrade(source));
        }
    }

    /// Looks at the entities that move their messages here.
    pub(super) fn tick_sources(&self, moment: Moment) {
        let sources: Vec<Weak<Self>> = {
            let known = self.sources.read().unwrap_or_else(PoisonError::into_inner);
            if known.is_empty() {
                return;
            }
            known.clone()
        };
        for source in sources.iter().filter_map(Weak::upgrade) {
            source.tick(moment);
        }
    }

    /// Tries again to move what stayed.
    pub(crate) fn forward_ready(&self) {
        for sub_queue in [SubQueue::Main, SubQueue::DeadLetter] {
            if !self.is_forwarding(sub_queue) {
                continue;
            }
            for (index, cell) in self.cells() {
                if self.shard(index).health().serves() && cell.store(sub_queue).has_ready() {
                    self.forward(sub_queue, index);
                }
            }
        }
    }

    /// Moves what is ready in a cell to the destination.
    pub(super) fn forward(&self, sub_queue: SubQueue, index: usize) {
        let (Some(path), Some(cell)) = (self.forwards_to(sub_queue), self.cell(index)) else {
            return;
        };
        self.forwards_wanted.fetch_add(1, Ordering::SeqCst);
        loop {
            // One after the other, so that messages arrive in order. Who is at it already, this thread perhaps because the
            // destination forwards in turn, looks again.
            let Ok(moving) = self.forwarding.try_lock() else { return };
            let wanted = self.forwards_wanted.load(Ordering::SeqCst);
            let destination = self.core().entity(&path);
            while self.forward_run(sub_queue, index, cell, destination.as_ref()) {}
            drop(moving);
            if self.forwards_wanted.load(Ordering::SeqCst) == wanted {
                return;
            }
        }
    }

    /// Moves a run of messages; true when there may be more that go.
    fn forward_run(&self, sub_queue: SubQueue, index: usize, cell: &Cell, destination: Option<&Arc<Self>>) -> bool {
        let moment = Moment {
            now: self.now(),
            ..self.core().clock().moment()
        };
        let hold = Hold::Lock { deadline: Ticks::NEVER };
        let mut claims = Vec::new();
        let (_, buried) = cell.claim(sub_queue, RUN, hold, moment.now, self.buries_expired(), &mut claims);
        let mut ended = Ended {
            dead_letters: buried,
            ..Ended::default()
        };
        let moving: Vec<Moving> = claims
            .into_iter()
            .map(|claimed| {
                let number = Self::sequence_number(index, claimed.key.counter);
                let fate = self.fate((sub_queue, index, cell), &claimed, number, destination);
                Moving { claimed, fate }
            })
            .collect();
        let mut stays = moving.is_empty();
        let is_run =
            |a: &Moving, b: &Moving| matches!((&a.fate, &b.fate), (Fate::Goes(a, _), Fate::Goes(b, _)) if a == b);
        for run in moving.chunk_by(is_run) {
            // None overtakes one that stays.
            let went = !stays
                && match (&run[0].fate, destination) {
                    (Fate::Goes(to, _), Some(destination)) => {
                        self.move_run((sub_queue, index, cell), (destination, *to), run, moment)
                    }
                    (Fate::Buried(reason, description), _) => {
                        let done =
                            Self::bury_unforwarded(sub_queue, cell, &run[0].claimed, reason, description, moment);
                        ended.dead_letters += usize::from(done);
                        done
                    }
                    _ => false,
                };
            if !went {
                stays = true;
                for Moving { claimed, .. } in run {
                    let _ = cell.settle(sub_queue, claimed.key, Outcome::Release, moment.ticks);
                }
            }
        }
        self.announce(index, ended);
        !stays
    }

    /// What becomes of a message at its destination.
    fn fate(
        &self,
        (sub_queue, index, cell): (SubQueue, usize, &Cell),
        claimed: &Claimed,
        number: SequenceNumber,
        destination: Option<&Arc<Self>>,
    ) -> Fate {
        let Ok(record) = cell.load(&claimed.record) else {
            return Fate::Waits;
        };
        let Ok(mut fields) = Fields::decode(&record) else {
            return Fate::Waits;
        };
        let Some(destination) = destination.filter(|it| it.check_alive().is_ok()) else {
            return Fate::Buried(
                "MessagingEntityNotFound",
                "The auto forwarding destination entity doesn't exist.".to_owned(),
            );
        };
        let hops = fields.hops.unwrap_or(0);
        if hops >= HOPS_MAX {
            let detail = format!("The message was forwarded {HOPS_MAX} times, which is the most.");
            return Fate::Buried("MaxTransferHopCountExceeded", detail);
        }
        let key = self.key_of(&fields).ok().flatten().map(ToOwned::to_owned);
        fields.hops = Some(hops + 1);
        fields.enqueued_number = fields.enqueued_number.or(Some(number));
        if sub_queue == SubQueue::DeadLetter {
            fields.dead_letter_source = Some(self.name().as_str());
        }
        let to = destination.index_for(key.as_deref(), self.shard(index).id().0.into());
        if !destination.shard(to).health().serves() {
            return Fate::Waits;
        }
        let checked = destination
            .check_sends()
            .and_then(|()| destination.check_session(fields.session_id))
            .and_then(|()| destination.check_fits(record.len()))
            .and_then(|()| destination.admit(to, record.len(), 1).map(drop));
        match checked {
            Ok(()) => Fate::Goes(to, encode(&fields)),
            Err(error) if error.kind() == ErrorKind::PartitionUnavailable || error.kind() == ErrorKind::ServerBusy => {
                Fate::Waits
            }
            Err(error) => Fate::Buried("AutoForwardFailed", error.detail().to_owned()),
        }
    }

    /// The cell for a message with this key (B-086); without one, that of the given shard.
    fn index_for(&self, key: Option<&str>, shard: usize) -> usize {
        let partitions = usize::from(self.partitions());
        match key {
            _ if !self.is_partitioned() => 0,
            Some(key) => partition_of(key.as_bytes(), partitions as u32) as usize,
            None => shard % partitions,
        }
    }

    fn check_fits(&self, bytes: usize) -> Result<()> {
        let max = self.message_size_bytes_max();
        if bytes <= max {
            return Ok(());
        }
        let detail = format!("the message is too large for the destination: size={bytes} bytes, limit={max} bytes");
        Err(Error::new(ErrorKind::MessageSizeExceeded, detail))
    }

    /// Moves messages to one cell of the destination, all or none.
    fn move_run(
        &self,
        (sub_queue, index, cell): (SubQueue, usize, &Cell),
        (destination, to): (&Arc<Self>, usize),
        run: &[Moving],
        moment: Moment,
    ) -> bool {
        let target = destination.cell_for_append(to);
        let origin = |moving: &Moving| Origin {
            entity: self.id(),
            partition: self.shard(index).id().0,
            is_dead_letter: sub_queue == SubQueue::DeadLetter,
            counter: moving.claimed.key.counter,
        };
        let is_here = self.shard(index).id() == destination.shard(to).id();
        let is_coming = |moving: &&Moving| is_here || !target.has_arrived(&origin(moving));
        let coming: Vec<&Moving> = run.iter().filter(is_coming).collect();
        let records: Vec<&Record> = coming.iter().filter_map(|moving| moving.record()).collect();
        let subscribers = destination.subscribers();
        let Ok(Arriving {
            departure,
            admission,
            numbers,
        }) = destination.arriving(&subscribers, (target, to), &records, moment)
        else {
            return false;
        };
        let (mut sends, notices) = departure.finish();
        target.push_seen(admission.as_ref(), &mut sends.events);
        let durability = target.durability(None);
        let done = if is_here {
            let held = run.iter().map(|moving| Held {
                cell,
                sub_queue,
                key: moving.claimed.key,
                ending: Ending::Outcome(Outcome::Complete),
            });
            let unit = Unit {
                sends,
                held: held.collect(),
                admitted: admission.iter().collect(),
                ..Unit::default()
            };
            cell.commit_unit(unit, moment, durability).is_ok()
        } else {
            let origins: Vec<Origin> = coming.iter().map(|moving| origin(moving)).collect();
            sends.events.extend(target.note_arrival(origins.clone()));
            let is_stored = target.fan_out(sends, moment.now, durability, None).is_ok();
            if !is_stored {
                target.forget_arrival(origins);
            }
            is_stored
        };
        for counter in numbers {
            target.give_up_numbers(counter, 1);
        }
        if !done {
            return false;
        }
        admission.inspect(Admission::keep);
        if !is_here {
            Self::remove_moved((sub_queue, cell), run, target, &origin, moment);
        }
        destination.touch(moment.now);
        notices.announce();
        true
    }

    /// Messages for a cell of this entity, which is a queue or a topic.
    fn arriving<'a>(
        &'a self,
        subscribers: &'a Subscribers,
        (cell, index): (&'a Cell, usize),
        records: &[&Record],
        moment: Moment,
    ) -> Result<Arriving<'a>> {
        let fields: Vec<Fields<'_>> = records
            .iter()
            .map(|record| Fields::decode(record))
            .collect::<Result<_>>()?;
        let identities: Vec<_> = fields.iter().map(|it| self.identity_of(it)).collect::<Result<_>>()?;
        let admission = cell
            .history()
            .map(|history| history.admit(&identities, moment.now, self.duplicate_window_ms()));
        let mut departure = Departure::new(moment.now);
        let mut numbers = Vec::new();
        for (position, (record, fields)) in records.iter().zip(&fields).enumerate() {
            if admission.as_ref().is_some_and(|it| !it.fresh()[position]) {
                continue;
            }
            let expires_at = self.expires_at(fields.time_to_live_ms, moment.now);
            if self.is_topic() {
                let counter = cell.take_numbers(1);
                numbers.push(counter);
                let number = fields.enqueued_number.unwrap_or(Self::sequence_number(index, counter));
                departure.add_to_all(subscribers, index, record, expires_at, number)?;
            } else {
                departure.add(self, index, (*record).clone(), expires_at);
            }
        }
        Ok(Arriving {
            departure,
            admission,
            numbers,
        })
    }

    /// Removes messages that are stored at their destination; then nobody need know where they came from.
    fn remove_moved(
        (sub_queue, cell): (SubQueue, &Cell),
        run: &[Moving],
        target: &Cell,
        origin: &dyn Fn(&Moving) -> Origin,
        moment: Moment,
    ) {
        let keys: Vec<_> = run.iter().map(|moving| moving.claimed.key).collect();
        let mut lost = Vec::new();
        let removed = cell.complete(sub_queue, &keys, moment.ticks, &mut lost);
        let is_written = removed.is_ok_and(|pending| cell.finish(pending.as_ref()).is_ok());
        if is_written {
            target.forget_arrival(run.iter().map(origin).collect());
        }
    }

    /// Moves a message that will not be taken to the dead-letter queue of its entity. One of that queue stays.
    fn bury_unforwarded(
        sub_queue: SubQueue,
        cell: &Cell,
        claimed: &Claimed,
        reason: &str,
        description: &str,
        moment: Moment,
    ) -> bool {
        if sub_queue == SubQueue::DeadLetter {
            return false;
        }
        let marked = cell
            .load(&claimed.record)
            .and_then(|record| with_dead_letter(&record, Some(reason), Some(description), &[]));
        marked.is_ok_and(|record| cell.dead_letter(claimed.key, record, moment.ticks).is_ok())
    }

    /// True when it moves what is ready in a sub-queue on.
    #[inline]
    pub(crate) fn is_forwarding(&self, sub_queue: SubQueue) -> bool {
        let flag = match sub_queue {
            SubQueue::Main => &self.forwards,
            SubQueue::DeadLetter => &self.forwards_dead_letters,
        };
        flag.load(Ordering::Acquire)
    }

    /// Refuses to receive what is moved on (B-137).
    pub(crate) fn check_not_forwarding(&self, sub_queue: SubQueue) -> Result<()> {
        if !self.is_forwarding(sub_queue) {
            return Ok(());
        }
        let detail = format!(
            "Cannot create a message receiver on an entity with auto-forwarding enabled. Receive from the entity that it forwards to: \
             `{}`",
            self.name().as_str()
        );
        Err(Error::new(ErrorKind::InvalidOperation, detail))
    }
}
