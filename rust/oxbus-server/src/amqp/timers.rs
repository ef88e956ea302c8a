// SPDX-License-Identifier: Apache-2.0
//! When links want to be looked at again.

use std::collections::{BTreeSet, HashMap};

use oxbus_amqp::engine::LinkId;
use tokio::time::Instant;

/// One time for each link, the earliest first.
#[derive(Default)]
pub(super) struct Timers {
    times: BTreeSet<(Instant, LinkId)>,
    of: HashMap<LinkId, Instant>,
}

impl Timers {
    /// Sets the time of a link, or takes it away.
    pub(super) fn set(&mut self, link: LinkId, at: Option<Instant>) {
        let before = match at {
            Some(at) => self.of.insert(link, at),
            None => self.of.remove(&link),
        };
        if let Some(before) = before {
            self.times.remove(&(before, link));
        }
        if let Some(at) = at {
            self.times.insert((at, link));
        }
    }

    /// The earliest time.
    pub(super) fn first(&self) -> Option<Instant> {
        self.times.first().map(|(at, _)| *at)
    }

    /// A link whose time has come; its time is taken away.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<LinkId> {
        let (_, link) = *self.times.first().filter(|(at, _)| *at <= now)?;
        self.set(link, None);
        Some(link)
    }
}
