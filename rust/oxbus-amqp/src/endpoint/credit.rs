// SPDX-License-Identifier: Apache-2.0
//! Credit of a link (AMQP 1.0, part 2, 2.6.7).

use crate::performative::Flow;

/// Credit of a link, in either direction. Counts wrap.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LinkCredit {
    pub(crate) delivery_count: u32,
    /// Messages that the sender may send.
    pub(crate) credit: u32,
    pub(crate) drain: bool,
}

impl LinkCredit {
    pub(crate) fn starting_at(delivery_count: u32) -> Self {
        Self {
            delivery_count,
            credit: 0,
            drain: false,
        }
    }

    /// Counts a message that was sent or that has arrived.
    pub(crate) fn take(&mut self) {
        self.delivery_count = self.delivery_count.wrapping_add(1);
        self.credit = self.credit.saturating_sub(1);
    }

    /// Uses up the credit, as a drain demands.
    pub(crate) fn use_up(&mut self) {
        self.delivery_count = self.delivery_count.wrapping_add(self.credit);
        self.credit = 0;
    }

    /// Applies the flow of a receiver, which sets the credit. Returns true if the sender has to know.
    pub(crate) fn set_by_receiver(&mut self, flow: &Flow) -> bool {
        let credit = flow.link_credit.map_or(self.credit, |credit| {
            // A limit below the delivery count means no credit.
            let limit = flow.delivery_count.unwrap_or(0).wrapping_add(credit);
            let left = limit.wrapping_sub(self.delivery_count);
            if left as i32 >= 0 { left } else { 0 }
        });
        let is_changed = credit != self.credit || flow.drain;
        self.credit = credit;
        self.drain = flow.drain;
        is_changed
    }

    /// Applies the flow of a sender, which may have used up credit without messages.
    pub(crate) fn advanced_by_sender(&mut self, flow: &Flow) {
        if let Some(count) = flow.delivery_count {
            let skipped = count.wrapping_sub(self.delivery_count);
            if skipped as i32 > 0 {
                self.delivery_count = count;
                self.credit = self.credit.saturating_sub(skipped);
            }
        }
    }
}
