// SPDX-License-Identifier: Apache-2.0
//! The timers of links.

use std::collections::{BTreeSet, HashMap};

use oxbus_amqp::engine::LinkId;
use tokio::time::Instant;

/// The timers, at most one per link, ordered by time.
#[derive(Default)]
pub(super) struct Timers {
    queue: BTreeSet<(Instant, LinkId)>,
    by_link: HashMap<LinkId, Instant>,
}

impl Timers {
    /// Sets the timer of a link, or removes it.
    pub(super) fn set(&mut self, link: LinkId, at: Option<Instant>) {
        let previous = match at {
            Some(at) => self.by_link.insert(link, at),
            None => self.by_link.remove(&link),
        };
        if let Some(previous) = previous {
            self.queue.remove(&(previous, link));
        }
        if let Some(at) = at {
            self.queue.insert((at, link));
        }
    }

    /// The earliest time.
    pub(super) fn first(&self) -> Option<Instant> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// Removes and returns a link whose timer is due.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<LinkId> {
        let (_, link) = *self.queue.first().filter(|(at, _)| *at <= now)?;
        self.set(link, None);
        Some(link)
    }
}
