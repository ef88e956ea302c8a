// SPDX-License-Identifier: Apache-2.0
//! Claims the messages of a new reservation: the next messages of each partition, in equal shares.
//!
//! Each round divides the remaining messages and bytes equally among the partitions that may have more messages.
//! Unused parts of a share are available to the others. The last message of a partition may exceed its share of bytes.
//! No message exceeds the total, unless it is the only one of the reservation.

use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Timestamp};
use oxbus_store::Wait;
use oxbus_store::{ClaimedMessage, MessagePhase};

use super::consumer::PartitionReservation;
use crate::entity::Entity;
use crate::shard::{Cell, Meter, RESERVATION_LOCK, ReadyCounts, ReservedMessage};

/// Messages claimed from a cell at once. Those that exceed a limit are released.
const CLAIM_MAX: usize = 256;
/// Messages claimed from a cell first, in case few of them use up the bytes.
const FIRST_CLAIM_MAX: usize = 16;

/// Limits and number ranges of a new reservation.
#[derive(Debug)]
pub(super) struct Bounds<'a> {
    pub(super) messages: usize,
    pub(super) bytes: u64,
    pub(super) sessions: usize,
    /// By cell, the first number; empty for no bound.
    pub(super) starts: &'a [Counter],
    /// By cell, the number after the last one; empty for no bound.
    pub(super) ends: &'a [Counter],
}

/// Claims in one cell.
struct CellClaim<'a> {
    entity: &'a Entity,
    sub_queue: SubQueue,
    index: usize,
    cell: &'a Cell,
    /// The number at which to look. It advances only if lower numbers must not be claimed.
    from: Counter,
    /// The number after the last one.
    end: Counter,
    locked: Vec<ReservedMessage>,
    ended: ReadyCounts,
}

impl Bounds<'_> {
    /// The first number of a cell, and the number after its last one.
    pub(super) fn range(&self, index: usize) -> (Counter, Counter) {
        let of = |bounds: &[Counter], default| bounds.get(index).copied().unwrap_or(default);
        (of(self.starts, Counter::FIRST), of(self.ends, Counter::MAX))
    }
}

/// A number of messages and of bytes.
#[derive(Clone, Copy)]
struct ClaimBudget {
    messages: usize,
    bytes: u64,
}

impl Entity {
    /// True if a partition in service has ready messages, or an available session.
    pub(crate) fn has_ready(&self, sub_queue: SubQueue) -> bool {
        let has_ready = |cell: &Cell| match cell.sessions() {
            Some(sessions) if sub_queue == SubQueue::Main => sessions.has_available(),
            _ => cell.store(sub_queue).has_ready(),
        };
        self.cells()
            .any(|(index, cell)| self.shard(index).health().serves() && has_ready(cell))
    }

    /// Locks messages within bounds. The result is empty if there are none.
    pub(super) fn claim_fairly(
        &self,
        sub_queue: SubQueue,
        bounds: &Bounds<'_>,
        wait: &Wait<'_>,
    ) -> Vec<PartitionReservation> {
        // Cached messages have lower numbers than ready ones.
        self.recall_all(sub_queue, wait);
        let now = self.now();
        let serving = self
            .cells()
            .filter(|(index, cell)| self.shard(*index).health().serves() && cell.store(sub_queue).has_ready());
        let mut cells: Vec<CellClaim<'_>> = serving
            .map(|(index, cell)| {
                let (start, end) = bounds.range(index);
                CellClaim {
                    entity: self,
                    sub_queue,
                    index,
                    cell,
                    from: first_counter(cell, sub_queue, start),
                    end,
                    locked: Vec::new(),
                    ended: ReadyCounts::default(),
                }
            })
            .collect();
        if cells.is_empty() {
            return Vec::new();
        }
        // The first cell rotates, in case the reservation has fewer messages than there are partitions.
        let first = self.receivable(sub_queue).next_rotation() as usize % cells.len();
        cells.rotate_left(first);
        let mut remaining = ClaimBudget {
            messages: bounds.messages,
            bytes: bounds.bytes,
        };
        let mut open: Vec<usize> = (0..cells.len()).collect();
        let mut is_first = true;
        while !open.is_empty() && remaining.messages > 0 && remaining.bytes > 0 {
            let mut still_open = Vec::with_capacity(open.len());
            let mut any_taken = false;
            let equal = ClaimBudget {
                messages: remaining.messages.div_ceil(open.len()),
                bytes: remaining.bytes.div_ceil(open.len() as u64),
            };
            for at in &open {
                let share = ClaimBudget {
                    messages: equal.messages.min(remaining.messages),
                    bytes: equal.bytes.min(remaining.bytes),
                };
                let (taken, has_more) = cells[*at].take(share, remaining, is_first, now, wait);
                remaining.messages -= taken.messages;
                remaining.bytes = remaining.bytes.saturating_sub(taken.bytes);
                is_first &= taken.messages == 0;
                any_taken |= taken.messages > 0;
                if has_more {
                    still_open.push(*at);
                }
                if remaining.messages == 0 || remaining.bytes == 0 {
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

/// Where to start: at the first message, unless there are messages below `start`, which must not be claimed. Numbers
/// only ascend, so no message appears below `start` later.
fn first_counter(cell: &Cell, sub_queue: SubQueue, start: Counter) -> Counter {
    let mut lowest = Vec::new();
    if start > Counter::FIRST {
        cell.store(sub_queue).peek(Counter::FIRST, 1, &mut lowest);
    }
    let is_below = lowest.first().is_some_and(|message| message.counter < start);
    if is_below { start } else { Counter::FIRST }
}

impl CellClaim<'_> {
    /// Claims a share of the remaining budget. Returns the claimed amount and whether the cell may have more.
    fn take(
        &mut self,
        share: ClaimBudget,
        remaining: ClaimBudget,
        is_first: bool,
        now: Timestamp,
        wait: &Wait<'_>,
    ) -> (ClaimBudget, bool) {
        let mut taken = ClaimBudget { messages: 0, bytes: 0 };
        let mut claim_max = FIRST_CLAIM_MAX;
        while taken.messages < share.messages && taken.bytes < share.bytes {
            let max = claim_max.min(share.messages - taken.messages);
            claim_max = CLAIM_MAX;
            let (claims, mut has_more) = self.claim(max, now, wait);
            if claims.is_empty() {
                return (taken, has_more);
            }
            let mut accepted = 0;
            for claimed in &claims {
                let bytes = claimed.record.len() as u64;
                let is_only = is_first && taken.messages == 0;
                if taken.bytes >= share.bytes {
                    break;
                }
                if taken.bytes + bytes > remaining.bytes && !is_only {
                    // The next message exceeds the total.
                    has_more = false;
                    break;
                }
                taken.messages += 1;
                taken.bytes += bytes;
                accepted += 1;
            }
            self.release_excess(&claims[accepted..], wait);
            self.cell.meter(Meter::Received, accepted);
            self.locked.extend(claims[..accepted].iter().map(ReservedMessage::from));
            if accepted < claims.len() || !has_more {
                return (taken, has_more);
            }
        }
        (taken, true)
    }

    /// Locks the next messages within the bounds. Returns them and whether there may be more.
    fn claim(&mut self, max: usize, now: Timestamp, wait: &Wait<'_>) -> (Vec<ClaimedMessage>, bool) {
        let dead_letter_expired = self.entity.settings().dead_lettering_on_message_expiration;
        let mut claims = Vec::with_capacity(max);
        if self.from > Counter::FIRST {
            return self.claim_from(max, now, wait);
        }
        let (taken, dead_lettered) = self.cell.claim_or_expire(
            self.sub_queue,
            max,
            RESERVATION_LOCK,
            (now, dead_letter_expired),
            &mut claims,
            wait,
        );
        self.ended.dead_letters += dead_lettered;
        let within = claims.partition_point(|claimed| claimed.key.counter < self.end);
        self.release_excess(&claims[within..], wait);
        claims.truncate(within);
        (claims, taken == max && within == taken)
    }

    /// [`CellClaim::claim`] from a start number: looks at the messages first and claims them by number.
    fn claim_from(&mut self, max: usize, now: Timestamp, wait: &Wait<'_>) -> (Vec<ClaimedMessage>, bool) {
        let dead_letter_expired = self.entity.settings().dead_lettering_on_message_expiration;
        let mut claims = Vec::with_capacity(max);
        while claims.len() < max {
            let mut page = Vec::new();
            self.cell
                .store(self.sub_queue)
                .peek(self.from, max - claims.len(), &mut page);
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

    /// Releases messages that exceed a limit, without counting a delivery.
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
