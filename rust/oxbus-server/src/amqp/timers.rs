// SPDX-License-Identifier: Apache-2.0
//! When links want to be looked at again.

use std::collections::{BTreeSet, HashMap};

use oxbus_amqp::engine::LinkId;
use tokio::time::Instant;

/// One time for each link, the earliest first.
#[derive(Default)]
pub(super) struct Timers {
    queue: BTreeSet<(Instant, LinkId)>,
    by_link: HashMap<LinkId, Instant>,
}

impl Timers {
    /// Sets the time of a link, or takes it away.
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

    /// A link whose time has come; its time is taken away.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<LinkId> {
        let (_, link) = *self.queue.first().filter(|(at, _)| *at <= now)?;
        self.set(link, None);
        Some(link)
    }
}
