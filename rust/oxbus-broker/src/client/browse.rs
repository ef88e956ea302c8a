// SPDX-License-Identifier: Apache-2.0
//! Browsing: reading messages without locking them (B-290 … B-305).
//!
//! Without a number, a browse continues where this receiver's last browse ended, so a loop until the result is empty
//! sees each message once. The peek policy of the namespace selects the messages: all partitions merged by enqueued
//! time, then partition id, or one partition. With a number, a browse starts at that message and continues in the
//! following partitions (B-301). A message that was abandoned with a delay looks like a scheduled one. In a namespace with a tier, a browse returns no more bytes than a batch may have.

use oxbus_store::Wait;
use std::sync::Mutex;

use oxbus_model::caps::PEEK_MESSAGES_MAX;
use oxbus_model::message::Fields;
use oxbus_model::options::{PeekPolicy, in_range};
use oxbus_model::sync::ignore_poison;
use oxbus_model::{Counter, Result, SequenceNumber, Timestamp};
use oxbus_store::{MessagePhase, PeekedMessage};

use super::receiver::Receiver;
use crate::record::encode;

/// A browsed message.
#[derive(Debug)]
pub struct BrowseItem {
    /// Index of its cell.
    pub index: usize,
    /// The message.
    pub message: PeekedMessage,
}

/// Where the next browse starts in each cell. Every position is valid, so the cursor is usable after a panic.
#[derive(Debug, Default)]
pub(super) struct BrowseCursor(Mutex<Vec<Counter>>);

impl Receiver {
    /// Browses up to `max` messages, at most 250 (B-295), starting at `from` or where the last browse ended.
    pub fn browse(&self, max: usize, from: Option<SequenceNumber>, wait: &Wait<'_>) -> Result<Vec<BrowseItem>> {
        self.check_open()?;
        self.entity.check_alive()?;
        self.entity.note_use();
        in_range("max_message_count", max as u64, 1, u64::MAX, "messages")?;
        let max = max.min(PEEK_MESSAGES_MAX);
        let moment = self.moment();
        self.entity.tick(moment, wait);
        let mut next = ignore_poison(self.cursor.0.lock());
        next.resize(usize::from(self.entity.partitions()), Counter::FIRST);
        let mut items = match from {
            Some(from) => self.browse_upwards(max, from),
            None => match self.entity.core().peek_policy() {
                PeekPolicy::Merged => self.browse_merged(max, &next),
                PeekPolicy::Faithful => self.browse_partition(max, &next),
            },
        };
        if let Some(bytes) = self.entity.core().plan().peek_size_bytes_max() {
            truncate_to_bytes(&mut items, bytes);
        }
        self.entity.check_owned(wait)?;
        for browsed in &items {
            next[browsed.index] = Counter(browsed.message.counter.0 + 1);
        }
        Ok(items)
    }

    fn browse_merged(&self, max: usize, next: &[Counter]) -> Vec<BrowseItem> {
        let mut items = Vec::new();
        for (index, &from) in next.iter().enumerate() {
            self.browse_cell(index, from, max, &mut items);
        }
        // The order within a cell is kept: numbers ascend there, and messages with equal times keep their order.
        let mut heads: Vec<_> = items.into_iter().map(Some).collect();
        let mut order: Vec<usize> = (0..heads.len()).collect();
        let sort_time = running_maximum(&heads);
        order.sort_by_key(|&at| (sort_time[at], at));
        order.truncate(max);
        order.into_iter().filter_map(|at| heads[at].take()).collect()
    }

    /// Returns the next messages of the first partition in the rotation that has any.
    fn browse_partition(&self, max: usize, next: &[Counter]) -> Vec<BrowseItem> {
        let cells = next.len();
        let first = self.entity.receivable(self.sub_queue).next_rotation() as usize % cells;
        let mut items = Vec::new();
        for index in (first..cells).chain(0..first) {
            self.browse_cell(index, next[index], max, &mut items);
            if !items.is_empty() {
                break;
            }
        }
        items
    }

    fn browse_upwards(&self, max: usize, from: SequenceNumber) -> Vec<BrowseItem> {
        let mut items = Vec::new();
        let first = usize::from(from.partition().0);
        for index in first..usize::from(self.entity.partitions()) {
            let from = if index == first {
                from.counter().max(Counter::FIRST)
            } else {
                Counter::FIRST
            };
            let left = max - items.len();
            self.browse_cell(index, from, left, &mut items);
            if items.len() == max {
                break;
            }
        }
        items
    }

    fn browse_cell(&self, index: usize, from: Counter, max: usize, items: &mut Vec<BrowseItem>) {
        let allowed = self.allowed & 1 << index != 0;
        if max == 0 || !allowed || !self.entity.shard(index).health().serves() {
            return;
        }
        let Some(cell) = self.entity.cell(index) else { return };
        let end = items.len() + max;
        let mut from = from;
        while items.len() < end {
            let mut messages = Vec::new();
            cell.store(self.sub_queue).peek(from, end - items.len(), &mut messages);
            let Some(last) = messages.last() else { return };
            from = last.counter.next();
            for mut message in messages {
                if cell.load_in_place(&mut message.record).is_err() {
                    // The read error took the partition out of service, so its other messages are skipped, too.
                    return;
                }
                if message.phase == MessagePhase::Locked
                    && let Some(until) = cell.delay_of(self.sub_queue, &message)
                {
                    show_as_scheduled(&mut message, until);
                }
                let record = message.record.in_memory();
                if record.is_some_and(|record| self.is_of_session(record)) {
                    items.push(BrowseItem { index, message });
                }
            }
        }
    }
}

/// Shows a delayed message like a scheduled one that is due when the delay ends. The stored message does not change.
#[cold]
fn show_as_scheduled(message: &mut PeekedMessage, until: Timestamp) {
    message.phase = MessagePhase::Scheduled;
    let record = message.record.in_memory();
    if let Some(fields) = record.and_then(|record| Fields::decode(record).ok()) {
        let shown = Fields {
            scheduled_enqueue_time: Some(until),
            ..fields
        };
        message.record = encode(&shown).into();
    }
}

/// Truncates to the first messages with at most `bytes` in total, but keeps at least one (B-295).
fn truncate_to_bytes(items: &mut Vec<BrowseItem>, bytes: usize) {
    let mut left = bytes;
    let mut fits = |browsed: &BrowseItem| {
        let size = browsed.message.record.in_memory().map_or(0, |record| record.len());
        let fits = size <= left;
        left = left.saturating_sub(size);
        fits
    };
    let kept = items.iter().take_while(|it| fits(it)).count();
    items.truncate(kept.max(1));
}

/// The sort time of each message: the maximum of its enqueued time and those of lower numbers in its cell. The
/// messages of a cell thus stay in the order of their numbers, even if the wall clock went back.
fn running_maximum(items: &[Option<BrowseItem>]) -> Vec<u64> {
    let mut last = (usize::MAX, 0);
    let time_of = |browsed: &Option<BrowseItem>| {
        let (index, time) = browsed
            .as_ref()
            .map_or((usize::MAX, 0), |it| (it.index, it.message.enqueued_at.0));
        last = (index, if last.0 == index { last.1.max(time) } else { time });
        last.1
    };
    items.iter().map(time_of).collect()
}
