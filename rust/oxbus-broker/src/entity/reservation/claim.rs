// SPDX-License-Identifier: Apache-2.0
//! Choosing the messages of a new reservation: the next ones of each partition, in equal shares.
//!
//! In each round every partition that may have more gets an equal part of what is left of messages and bytes; what it does
//! not use is there for the others. A share of bytes is passed by one message at most, the whole by none, unless it is the
//! only one.

use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Timestamp};
use oxbus_store::Wait;
use oxbus_store::{ClaimedMessage, MessagePhase};

use super::consumer::PartitionReservation;
use crate::entity::Entity;
use crate::shard::{Cell, RESERVATION_LOCK, ReadyCounts, ReservedMessage};

/// Messages taken from a cell at once. What they have too much goes back.
const RUN_MAX: usize = 256;
/// Messages taken from a cell first: bytes may end sooner than messages.
const RUN_MIN: usize = 16;

/// How much may be taken, and from where.
#[derive(Debug)]
pub(super) struct Bounds<'a> {
    pub(super) messages: usize,
    pub(super) bytes: u64,
    /// By cell, no number below; empty for none.
    pub(super) starts: &'a [Counter],
    /// By cell, no number from here on; empty for none.
    pub(super) ends: &'a [Counter],
}

/// A cell that is taken from.
struct CellClaim<'a> {
    entity: &'a Entity,
    sub_queue: SubQueue,
    index: usize,
    cell: &'a Cell,
    /// Where to look; moved on only when there are numbers to be left alone.
    from: Counter,
    /// No number from here on.
    end: Counter,
    locked: Vec<ReservedMessage>,
    ended: ReadyCounts,
}

/// What is left to take.
#[derive(Clone, Copy)]
struct ClaimBudget {
    messages: usize,
    bytes: u64,
}

impl Entity {
    /// True when a partition that works has something for whoever asks.
    pub(crate) fn has_ready(&self, sub_queue: SubQueue) -> bool {
        self.cells()
            .any(|(index, cell)| self.shard(index).health().serves() && cell.store(sub_queue).has_ready())
    }

    /// Takes hold of messages within bounds; nothing where nothing is.
    pub(super) fn claim_fairly(
        &self,
        sub_queue: SubQueue,
        bounds: &Bounds<'_>,
        wait: &Wait<'_>,
    ) -> Vec<PartitionReservation> {
        // What stands in a cache has a lower number than what is ready.
        self.recall_all(sub_queue, wait);
        let now = self.now();
        let bound = |bounds: &[Counter], index: usize, default| bounds.get(index).copied().unwrap_or(default);
        let serving = self
            .cells()
            .filter(|(index, cell)| self.shard(*index).health().serves() && cell.store(sub_queue).has_ready());
        let mut cells: Vec<CellClaim<'_>> = serving
            .map(|(index, cell)| CellClaim {
                entity: self,
                sub_queue,
                index,
                cell,
                from: first_counter(cell, sub_queue, bound(bounds.starts, index, Counter::FIRST)),
                end: bound(bounds.ends, index, Counter::MAX),
                locked: Vec::new(),
                ended: ReadyCounts::default(),
            })
            .collect();
        if cells.is_empty() {
            return Vec::new();
        }
        // The one that comes first changes, for when there is less to take than there are partitions.
        let first = self.receivable(sub_queue).next_rotation() as usize % cells.len();
        cells.rotate_left(first);
        let mut left = ClaimBudget {
            messages: bounds.messages,
            bytes: bounds.bytes,
        };
        let mut open: Vec<usize> = (0..cells.len()).collect();
        let mut is_first = true;
        while !open.is_empty() && left.messages > 0 && left.bytes > 0 {
            let mut still_open = Vec::with_capacity(open.len());
            let mut any_taken = false;
            let equal = ClaimBudget {
                messages: left.messages.div_ceil(open.len()),
                bytes: left.bytes.div_ceil(open.len() as u64),
            };
            for at in &open {
                let share = ClaimBudget {
                    messages: equal.messages.min(left.messages),
                    bytes: equal.bytes.min(left.bytes),
                };
                let (taken, has_more) = cells[*at].take(share, left, is_first, now, wait);
                left.messages -= taken.messages;
                left.bytes = left.bytes.saturating_sub(taken.bytes);
                is_first &= taken.messages == 0;
                any_taken |= taken.messages > 0;
                if has_more {
                    still_open.push(*at);
                }
                if left.messages == 0 || left.bytes == 0 {
                    break;
                }
            }
            if !any_taken {
                break;
            }
            open = still_open;
        }
        let mut parts = Vec::new();
        for mut cell_claim in cells {
            self.announce(cell_claim.index, cell_claim.ended, wait);
            if !cell_claim.locked.is_empty() {
                cell_claim.locked.sort_unstable_by_key(|it| it.key.counter);
                parts.push(PartitionReservation::of(cell_claim.index, cell_claim.locked));
            }
        }
        parts.sort_unstable_by_key(|part| part.index);
        parts
    }
}

/// Where to begin: at the first message, unless there are some below `start`, which are to be left alone. Numbers only rise, so
/// none comes below it afterwards.
fn first_counter(cell: &Cell, sub_queue: SubQueue, start: Counter) -> Counter {
    let mut lowest = Vec::new();
    if start > Counter::FIRST {
        cell.store(sub_queue).peek(Counter::FIRST, 1, &mut lowest);
    }
    let is_below = lowest.first().is_some_and(|message| message.counter < start);
    if is_below { start } else { Counter::FIRST }
}

impl CellClaim<'_> {
    /// Takes a share of what is left; how much, and whether there may be more.
    fn take(
        &mut self,
        share: ClaimBudget,
        left: ClaimBudget,
        is_first: bool,
        now: Timestamp,
        wait: &Wait<'_>,
    ) -> (ClaimBudget, bool) {
        let mut taken = ClaimBudget { messages: 0, bytes: 0 };
        let mut run = RUN_MIN;
        while taken.messages < share.messages && taken.bytes < share.bytes {
            let wanted = run.min(share.messages - taken.messages);
            run = RUN_MAX;
            let (claims, mut has_more) = self.claim(wanted, now, wait);
            if claims.is_empty() {
                return (taken, has_more);
            }
            let mut kept = 0;
            for claimed in &claims {
                let bytes = claimed.record.len() as u64;
                let is_only = is_first && taken.messages == 0;
                if taken.bytes >= share.bytes {
                    break;
                }
                if taken.bytes + bytes > left.bytes && !is_only {
                    // The next one does not fit into what all have together.
                    has_more = false;
                    break;
                }
                taken.messages += 1;
                taken.bytes += bytes;
                kept += 1;
            }
            self.release_excess(&claims[kept..], wait);
            self.locked.extend(claims[..kept].iter().map(ReservedMessage::from));
            if kept < claims.len() || !has_more {
                return (taken, has_more);
            }
        }
        (taken, true)
    }

    /// Takes hold of the next messages within the bounds, and says whether there may be more.
    fn claim(&mut self, wanted: usize, now: Timestamp, wait: &Wait<'_>) -> (Vec<ClaimedMessage>, bool) {
        let dead_letter_expired = self.entity.settings().dead_lettering_on_message_expiration;
        let mut claims = Vec::with_capacity(wanted);
        if self.from > Counter::FIRST {
            return self.claim_from(wanted, now, wait);
        }
        let (taken, dead_lettered) = self.cell.claim_or_expire(
            self.sub_queue,
            wanted,
            RESERVATION_LOCK,
            (now, dead_letter_expired),
            &mut claims,
            wait,
        );
        self.ended.dead_letters += dead_lettered;
        let within = claims.partition_point(|claimed| claimed.key.counter < self.end);
        self.release_excess(&claims[within..], wait);
        claims.truncate(within);
        (claims, taken == wanted && within == taken)
    }

    /// The same where lower numbers are left alone: looks first, and takes by number.
    fn claim_from(&mut self, wanted: usize, now: Timestamp, wait: &Wait<'_>) -> (Vec<ClaimedMessage>, bool) {
        let dead_letter_expired = self.entity.settings().dead_lettering_on_message_expiration;
        let mut claims = Vec::with_capacity(wanted);
        while claims.len() < wanted {
            let mut page = Vec::new();
            self.cell
                .store(self.sub_queue)
                .peek(self.from, wanted - claims.len(), &mut page);
            page.retain(|message| message.counter < self.end);
            let Some(last) = page.last() else {
                return (claims, false);
            };
            self.from = last.counter.next();
            let ready = page.iter().filter(|message| message.phase == MessagePhase::Ready);
            let ready: Vec<Counter> = ready.map(|message| message.counter).collect();
            self.ended.dead_letters += self.cell.claim_these_or_expire(
                self.sub_queue,
                &ready,
                RESERVATION_LOCK,
                (now, dead_letter_expired),
                &mut claims,
                wait,
            );
        }
        (claims, true)
    }

    /// Gives back what is too much; nothing is charged.
    fn release_excess(&mut self, claims: &[ClaimedMessage], wait: &Wait<'_>) {
        if claims.is_empty() {
            return;
        }
        self.from = if self.from > Counter::FIRST {
            self.from.min(claims[0].key.counter)
        } else {
            self.from
        };
        let locked: Vec<ReservedMessage> = claims.iter().map(ReservedMessage::from).collect();
        let ticks = self.entity.core().clock().ticks();
        let ready = self.cell.release_all(self.sub_queue, locked.iter(), ticks);
        if ready > 0 {
            self.entity.notify(self.sub_queue, self.index, ready, wait);
        }
    }
}
