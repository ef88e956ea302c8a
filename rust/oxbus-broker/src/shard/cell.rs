// SPDX-License-Identifier: Apache-2.0
//! A cell: one entity's part of one shard.
//!
//! Holds always
//! - `next_due` is never later than the earliest scheduled message;
//! - a message is in the main store or in the dead-letter queue, never in both; on the way it is owned by the
//!   one thread that won its settlement, for as long as it takes to rewrite its reason.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, ErrorKind, Moment, PartitionId, Ticks, Timestamp};
use oxbus_store::{CellStore, Claimed, LockKey, LockLost, MessageStore, NewMessage, Outcome, Record, Removed, Settled};

use super::{CellNo, DeadLetters, Shard};
use crate::record::with_dead_letter;

/// Why the system dead-letters a message, in the service's words (B-267).
#[derive(Debug, Clone, Copy)]
pub(super) enum Burial {
    /// Its deliveries are used up.
    DeliveriesExhausted,
    /// Its time to live is over.
    Expired,
}

/// What became ready when locks ended or a schedule came due.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ended {
    /// Messages ready in the entity.
    pub main: usize,
    /// Messages ready in its dead-letter queue.
    pub dead_letters: usize,
}

/// One entity's part of one shard.
#[derive(Debug)]
pub struct Cell {
    shard: Arc<Shard>,
    no: CellNo,
    main: CellStore,
    dead_letters: DeadLetters,
    next_due: AtomicU64,
    /// Bytes of records appended since the last exact count, plus that count: an upper bound.
    stored_bytes_bound: AtomicU64,
}

impl Cell {
    /// An empty cell of a shard.
    pub fn new(shard: &Arc<Shard>) -> Self {
        let no = shard.add_cell();
        Self {
            shard: Arc::clone(shard),
            no,
            main: CellStore::new(),
            dead_letters: DeadLetters {
                shard: Arc::clone(shard),
                no,
            },
            next_due: AtomicU64::new(Timestamp::NEVER.0),
            stored_bytes_bound: AtomicU64::new(0),
        }
    }

    /// The shard it is part of.
    pub fn partition(&self) -> PartitionId {
        self.shard.id()
    }

    /// The messages of the entity, or of its dead-letter queue.
    pub fn store(&self, sub_queue: SubQueue) -> &dyn MessageStore {
        match sub_queue {
            SubQueue::Main => &self.main,
            SubQueue::DeadLetter => &self.dead_letters,
        }
    }

    /// The messages of the entity, without a virtual call.
    #[inline]
    pub fn main(&self) -> &CellStore {
        &self.main
    }

    /// Bytes of all records of the cell plus what the store needs for them.
    pub fn stored_bytes(&self) -> u64 {
        let records = self.main.counts().record_bytes + self.dead_letters.counts().record_bytes;
        records + self.overhead_bytes()
    }

    /// Bytes of slots, segments and maps beyond the records.
    pub fn overhead_bytes(&self) -> u64 {
        (self.main.overhead_bytes() + self.dead_letters.overhead_bytes()) as u64
    }

    /// True when `bytes` more keep the records of this cell within `max`. Counts exactly only near the bound.
    #[inline]
    pub fn has_room(&self, bytes: u64, max: u64) -> bool {
        let bound = self.stored_bytes_bound.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if bound <= max {
            return true;
        }
        let exact = self.main.counts().record_bytes + self.dead_letters.counts().record_bytes;
        let fits = exact + bytes <= max;
        self.stored_bytes_bound
            .store(if fits { exact + bytes } else { exact }, Ordering::Relaxed);
        fits
    }

    /// Ends a hold of the main store or of the dead-letter queue; a message whose deliveries are used up is buried.
    /// Returns what became ready.
    pub fn settle(&self, sub_queue: SubQueue, key: LockKey, outcome: Outcome, ticks: Ticks) -> Result<Ended, LockLost> {
        if sub_queue == SubQueue::DeadLetter {
            let settled = self.dead_letters.settle(key, outcome, ticks)?;
            return Ok(Ended {
                main: 0,
                dead_letters: usize::from(matches!(settled, Settled::Ready)),
            });
        }
        match self.main.settle(key, outcome, ticks)? {
            Settled::Exhausted(message) => Ok(Ended {
                main: 0,
                dead_letters: self.bury(vec![message], Burial::DeliveriesExhausted),
            }),
            settled => Ok(Ended {
                main: usize::from(matches!(settled, Settled::Ready)),
                dead_letters: 0,
            }),
        }
    }

    /// Moves a locked message to the dead-letter queue with `record` in place of its bytes, in one step.
    pub fn dead_letter(&self, key: LockKey, record: Record, ticks: Ticks) -> Result<(), LockLost> {
        self.shard.with(self.no, |state| {
            let Settled::Removed(message) = self.main.settle(key, Outcome::Remove, ticks)? else {
                unreachable!("remove removes");
            };
            let stored = state.dead_letters.insert(Removed { record, ..message });
            debug_assert!(stored, "a number is in one place at a time");
            Ok(())
        })
    }

    /// Puts messages that left the main store into the dead-letter queue with the system's reason. Returns how many.
    fn bury(&self, messages: Vec<Removed>, burial: Burial) -> usize {
        let count = messages.len();
        if count == 0 {
            return 0;
        }
        let mark = |message| Removed {
            record: mark(&message, burial),
            ..message
        };
        let marked: Vec<Removed> = messages.into_iter().map(mark).collect();
        self.shard.with(self.no, |state| {
            for message in marked {
                let stored = state.dead_letters.insert(message);
                debug_assert!(stored, "a number is in one place at a time");
            }
        });
        count
    }

    /// Takes ready messages; those whose time is over are dropped, or buried when `bury_expired`.
    /// Returns how many were taken and how many were buried.
    pub fn claim(
        &self,
        sub_queue: SubQueue,
        max: usize,
        hold: oxbus_store::Hold,
        now: Timestamp,
        bury_expired: bool,
        out: &mut Vec<Claimed>,
    ) -> (usize, usize) {
        let mut expired = Vec::new();
        let taken = match sub_queue {
            SubQueue::Main => self.main.claim(max, hold, now, out, &mut expired),
            SubQueue::DeadLetter => self.dead_letters.claim(max, hold, now, out, &mut expired),
        };
        let buried = if bury_expired {
            self.bury(expired, Burial::Expired)
        } else {
            0
        };
        (taken, buried)
    }

    /// Ends the locks that are over and activates what is due.
    pub fn tick(&self, moment: Moment, max_delivery_count: u32) -> Ended {
        let Moment { now, ticks } = moment;
        let mut ended = Ended::default();
        if self.main.next_expiry() <= ticks {
            let mut exhausted = Vec::new();
            ended.main += self.main.expire(ticks, max_delivery_count, &mut exhausted);
            ended.dead_letters += self.bury(exhausted, Burial::DeliveriesExhausted);
        }
        if self.dead_letters.next_expiry() <= ticks {
            ended.dead_letters += self.dead_letters.expire(ticks, u32::MAX, &mut Vec::new());
        }
        if self.has_due(now) {
            ended.main += self.activate_due(now);
        }
        ended
    }

    /// The earliest tick and the earliest wall time at which [`Cell::tick`] may have something to do.
    pub fn next_event(&self) -> (Ticks, Timestamp) {
        let locks = self.main.next_expiry().min(self.dead_letters.next_expiry());
        (locks, Timestamp(self.next_due.load(Ordering::SeqCst)))
    }

    /// Stores a message that becomes active at `due`.
    pub fn schedule(&self, message: NewMessage, due: Timestamp, now: Timestamp) -> Counter {
        self.shard.with(self.no, |state| {
            let counter = self.main.append_scheduled(message, now);
            state.schedule.add(due, counter);
            self.next_due.fetch_min(due.0, Ordering::SeqCst);
            counter
        })
    }

    /// Removes scheduled messages: all of `counters`, or none and those that are not scheduled (B-238).
    pub fn cancel_scheduled(&self, counters: &[Counter]) -> Result<(), Vec<Counter>> {
        self.shard.with(self.no, |state| {
            let mut missing = Vec::new();
            let mut cancelled = Vec::new();
            for &counter in counters {
                match self.due_of(counter) {
                    Some(due) if state.schedule.remove(due, counter) => cancelled.push((due, counter)),
                    _ => missing.push(counter),
                }
            }
            if missing.is_empty() {
                for (_, counter) in cancelled {
                    self.main.take_scheduled(counter);
                }
                return Ok(());
            }
            for (due, counter) in cancelled {
                state.schedule.add(due, counter);
            }
            Err(missing)
        })
    }

    fn due_of(&self, counter: Counter) -> Option<Timestamp> {
        let mut found = Vec::new();
        self.main.peek(counter, 1, &mut found);
        let message = found
            .pop()
            .filter(|message| message.counter == counter && message.phase == oxbus_store::Phase::Scheduled)?;
        oxbus_model::message::Fields::decode(&message.record)
            .ok()?
            .scheduled_enqueue_time
    }

    /// True when messages wait for their time.
    #[inline]
    pub fn has_schedule(&self) -> bool {
        self.next_due.load(Ordering::Acquire) != Timestamp::NEVER.0
    }

    /// True when a scheduled message is due.
    #[inline]
    fn has_due(&self, now: Timestamp) -> bool {
        self.next_due.load(Ordering::SeqCst) <= now.0
    }

    /// Appends the messages that are due as if they were sent at their due time: new number, new enqueued time, and
    /// the time to live counts from there (B-235, B-243), however late somebody looks.
    fn activate_due(&self, now: Timestamp) -> usize {
        self.shard.with(self.no, |state| {
            let mut activated = 0;
            while let Some((due, counter)) = state.schedule.pop_due(now) {
                let Some(message) = self.main.take_scheduled(counter) else {
                    continue;
                };
                let expires_at = if message.expires_at == Timestamp::NEVER {
                    Timestamp::NEVER
                } else {
                    due.plus_ms(message.expires_at.0.saturating_sub(message.enqueued_at.0))
                };
                self.main.append_one(
                    NewMessage {
                        record: message.record,
                        expires_at,
                    },
                    due,
                );
                activated += 1;
            }
            self.next_due.store(state.schedule.next_due().0, Ordering::SeqCst);
            activated
        })
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.shard.remove_cell(self.no);
    }
}

/// The record of a message with the system's reason.
fn mark(message: &Removed, burial: Burial) -> Record {
    let (reason, description) = match burial {
        Burial::DeliveriesExhausted => (
            "MaxDeliveryCountExceeded",
            format!(
                "Message could not be consumed after {} delivery attempts.",
                message.delivery_count
            ),
        ),
        Burial::Expired => (
            "TTLExpiredException",
            "The message expired and was dead lettered.".to_owned(),
        ),
    };
    let marked = with_dead_letter(&message.record, Some(reason), Some(&description), &[]);
    // Bytes that do not decode are kept as they are: better without a reason than gone.
    debug_assert!(
        !matches!(&marked, Err(error) if error.kind() != ErrorKind::Corrupt),
        "only corrupt bytes fail"
    );
    marked.unwrap_or_else(|_| message.record.clone())
}
