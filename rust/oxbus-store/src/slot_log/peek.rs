// SPDX-License-Identifier: Apache-2.0
//! Browsing and counting messages without claiming them.
//!
//! Both read the slots below `visible`, and the overflow map for the messages that moved to it.

use oxbus_model::Counter;

use super::epoch;
use super::segment::{locate, span};
use super::slot::{MOVED, Slot};
use super::{PeekedMessage, PhaseCounts, SlotLog};
use crate::StoredRecord;

impl SlotLog {
    pub(super) fn browse_from(&self, from: Counter, max: usize, out: &mut Vec<PeekedMessage>) {
        let guard = epoch::pin();
        let visible = self.visible();
        let end = out.len().saturating_add(max);
        let browsing = self.browsers.enter();
        let mut index = from.0.saturating_sub(1);
        // The first index after the last found message at which a message may be in the overflow map.
        let mut unknown: Option<u64> = None;
        // Skips the unlinked segments before the first one in a single step.
        let head = span(self.directory.head()).0.min(visible);
        if index < head {
            unknown = Some(index);
            index = head;
        }
        while index < visible && out.len() < end {
            let (number, offset) = locate(index);
            let (first, len) = span(number);
            let Some(segment) = self.directory.get(number, &guard) else {
                unknown.get_or_insert(index);
                index = first + len;
                continue;
            };
            let covered = (visible.min(segment.end()) - first) as usize;
            for (at, slot) in (index..).zip(&segment.slots[offset..covered]) {
                if out.len() >= end {
                    break;
                }
                if slot.state().phase() == MOVED {
                    unknown.get_or_insert(at);
                    continue;
                }
                // SAFETY: this thread is an active browser.
                let Some(peeked) = (unsafe { slot.peek(Counter(at + 1)) }) else {
                    continue;
                };
                if let Some(start) = unknown.take() {
                    self.overflow
                        .peek(Counter(start + 1), Counter(at + 1), end - out.len(), out);
                    if out.len() >= end {
                        break;
                    }
                }
                out.push(peeked);
            }
            index = segment.end();
        }
        if let Some(start) = unknown {
            self.overflow.peek(
                Counter(start + 1),
                Counter(visible + 1),
                end.saturating_sub(out.len()),
                out,
            );
        }
        drop(browsing);
    }

    pub(super) fn count_all(&self) -> PhaseCounts {
        let guard = epoch::pin();
        let visible = self.visible();
        let mut counts = self.overflow.counts();
        let browsing = self.browsers.enter();
        for number in self.directory.head()..=locate(visible).0 {
            let Some(segment) = self.directory.get(number, &guard) else {
                continue;
            };
            for slot in &segment.slots[..(visible.min(segment.end()) - segment.first) as usize] {
                if let Some(phase) = slot.state_seq_cst().visible_phase() {
                    // SAFETY: this thread is an active browser, and the state, read after it became one, owns a body.
                    counts.add(phase, unsafe { StoredRecord::len_raw(slot.body()) });
                }
            }
        }
        drop(browsing);
        counts
    }

    /// Number of messages in all phases. Takes one step per wholly visible segment, and one per visible slot of the
    /// last segment.
    pub(super) fn approximate_count(&self) -> u64 {
        let guard = epoch::pin();
        let visible = self.visible();
        let mut messages = self.overflow.len() as u64;
        for number in self.directory.head()..=locate(visible).0 {
            let Some(segment) = self.directory.get(number, &guard) else {
                continue;
            };
            messages += if segment.end() <= visible {
                segment.unfinished() as u64
            } else {
                let visible_slots = &segment.slots[..(visible - segment.first) as usize];
                let has_message = |slot: &&Slot| slot.state_seq_cst().visible_phase().is_some();
                visible_slots.iter().filter(has_message).count() as u64
            };
        }
        messages
    }
}

impl Slot {
    /// The message of the slot, if there is one.
    ///
    /// # Safety
    /// The caller is an active browser.
    unsafe fn peek(&self, counter: Counter) -> Option<PeekedMessage> {
        let mut state = self.state_seq_cst();
        loop {
            let phase = state.visible_phase()?;
            // SAFETY: the state, read after the caller became a browser, owns a body. A thread that removes or
            // replaces the body after that sees the browser and keeps a reference.
            let record = unsafe { StoredRecord::clone_raw(self.body()) };
            let peeked = PeekedMessage {
                counter,
                record,
                phase,
                is_delivered: state.is_delivered(),
                generation: state.generation(),
                delivery_count: self.delivery_count(state),
                enqueued_at: self.enqueued_at(),
                expires_at: self.expires_at(),
            };
            let again = self.state_seq_cst();
            if again == state {
                return Some(peeked);
            }
            state = again;
        }
    }
}
