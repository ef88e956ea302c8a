// SPDX-License-Identifier: Apache-2.0
//! The identities of messages that came in: a copy that comes within the window is dropped (B-218 … B-231).
//!
//! A message that is on its way to the disk holds its identity without being remembered yet. Who brings a copy meanwhile
//! waits until that is decided: if the first one fails, the copy is the message.
//!
//! Holds always
//! - an identity is in `order` once for each time it is remembered, and under way for one admission at most;
//! - who holds identities under way waits for nobody's, so no two wait for each other.

use std::cell::Cell;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Condvar};
use std::time::Duration;

use oxbus_model::{Effect, Error, ErrorKind, Identity, Result, Timestamp};
use oxbus_store::Wait;

use super::Shard;
use super::guarded::{Guarded, StateGuard};

/// Room for so few is not worth giving back.
const SPARE_MIN: usize = 64;

/// Between two questions whether to leave.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The identities of one cell.
#[derive(Debug)]
pub struct History {
    shard: Arc<Shard>,
    seen: Guarded<KnownIdentities>,
    /// Notified when something under way was decided.
    decided: Condvar,
}

#[derive(Debug, Default)]
struct KnownIdentities {
    known: HashMap<Identity, IdentityState, BuildHasherDefault<PassThroughHasher>>,
    /// What is remembered, oldest first.
    order: VecDeque<(Timestamp, Identity)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IdentityState {
    Pending,
    Since(Timestamp),
}

/// An identity is a keyed hash already.
#[derive(Debug, Default)]
struct PassThroughHasher(u64);

impl Hasher for PassThroughHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, identity: u128) {
        self.0 = identity as u64;
    }
}

/// Which messages of a call are new. Their identities are under way until it is kept, or dropped: then they never came.
#[derive(Debug)]
pub struct Admission<'a> {
    history: &'a History,
    /// By the position of the message.
    fresh: Vec<bool>,
    /// Of the new ones that have one, in order.
    identities: Vec<Identity>,
    at: Timestamp,
    is_remembered: Cell<bool>,
}

impl History {
    /// What was remembered in a cell of that shard when the journal was read.
    pub fn restore(shard: &Arc<Shard>, remembered: impl Iterator<Item = (Identity, Timestamp)>) -> Self {
        let mut order: VecDeque<_> = remembered.map(|(identity, since)| (since, identity)).collect();
        order.make_contiguous().sort_unstable();
        let known = order
            .iter()
            .map(|(since, identity)| (*identity, IdentityState::Since(*since)));
        let seen = KnownIdentities {
            known: known.collect(),
            order,
        };
        Self {
            shard: Arc::clone(shard),
            seen: Guarded::new(seen),
            decided: Condvar::new(),
        }
    }

    fn guard(&self) -> StateGuard<'_, KnownIdentities> {
        self.seen.lock(&self.shard.health)
    }

    /// Tells which messages are new at `now`, and keeps their identities from others. `None` stands for a message without
    /// an identity, which is always new. Of equal ones the first is. An error when the caller leaves the wait for a copy
    /// that is on its way to a store which does not answer.
    pub fn admit(
        &self,
        identities: &[Option<Identity>],
        now: Timestamp,
        window_ms: u64,
        wait: &Wait<'_>,
    ) -> Result<Admission<'_>> {
        let mut guarded = self.guard();
        guarded.forget(now, window_ms);
        while guarded.has_pending(identities) {
            drop(guarded.wait_timeout(&self.decided, POLL_INTERVAL));
            // With no guard: who is asked may call Python.
            if wait.is_over() {
                let detail = "the store did not answer in time and nothing was stored: a copy of the message is on its way there; send \
                              it again with the same message id";
                return Err(Error::new(ErrorKind::Timeout, detail).with_effect(Effect::None));
            }
            guarded = self.guard();
        }
        let mut taken = Vec::new();
        let mut admit = |identity: &Option<Identity>| {
            let Some(identity) = identity else { return true };
            match guarded.known.entry(*identity) {
                Entry::Occupied(_) => false,
                Entry::Vacant(place) => {
                    place.insert(IdentityState::Pending);
                    taken.push(*identity);
                    true
                }
            }
        };
        let fresh = identities.iter().map(&mut admit).collect();
        Ok(Admission {
            history: self,
            fresh,
            identities: taken,
            at: now,
            is_remembered: Cell::new(false),
        })
    }

    /// True when an identity is remembered, whatever the time.
    pub fn contains(&self, identity: Identity) -> bool {
        matches!(self.guard().known.get(&identity), Some(IdentityState::Since(_)))
    }

    /// Forgets what was seen a window ago, and gives back the memory.
    pub fn forget(&self, now: Timestamp, window_ms: u64) {
        let mut seen = self.guard();
        seen.forget(now, window_ms);
        let (known, order) = (seen.known.len(), seen.order.len());
        if seen.known.capacity() > 4 * known.max(SPARE_MIN) {
            seen.known.shrink_to(2 * known);
        }
        if seen.order.capacity() > 4 * order.max(SPARE_MIN) {
            seen.order.shrink_to(2 * order);
        }
    }

    /// All that is remembered, with the time since when; more of it may be over.
    pub fn remembered(&self) -> Vec<(Timestamp, Identity)> {
        self.guard().order.iter().copied().collect()
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> usize {
        let seen = self.guard();
        seen.known.capacity() * (size_of::<(Identity, IdentityState)>() + 1)
            + seen.order.capacity() * size_of::<(Timestamp, Identity)>()
    }
}

impl KnownIdentities {
    /// Forgets what was seen a window ago.
    fn forget(&mut self, now: Timestamp, window_ms: u64) {
        while let Some((since, identity)) = self.order.front().copied()
            && since.plus_ms(window_ms) <= now
        {
            self.order.pop_front();
            if self.known.get(&identity) == Some(&IdentityState::Since(since)) {
                self.known.remove(&identity);
            }
        }
    }

    fn has_pending(&self, identities: &[Option<Identity>]) -> bool {
        let mut some = identities.iter().flatten();
        some.any(|identity| self.known.get(identity) == Some(&IdentityState::Pending))
    }
}

impl Admission<'_> {
    /// By the position of each message: true when it is new.
    pub fn fresh(&self) -> &[bool] {
        &self.fresh
    }

    /// The identities of the new ones, to be journaled with them.
    pub fn identities(&self) -> &[Identity] {
        &self.identities
    }

    /// The same, each with the time when it came.
    pub fn dated(&self) -> Vec<(Timestamp, Identity)> {
        self.identities.iter().map(|identity| (self.at, *identity)).collect()
    }

    /// Remembers the identities: the messages are stored.
    pub fn remember(&self) {
        if self.is_remembered.replace(true) || self.identities.is_empty() {
            return;
        }
        let mut seen = self.history.guard();
        // A clock that was set back must not have later ones forgotten sooner.
        let since = seen.order.back().map_or(self.at, |(last, _)| self.at.max(*last));
        for identity in &self.identities {
            seen.known.insert(*identity, IdentityState::Since(since));
            seen.order.push_back((since, *identity));
        }
        drop(seen);
        self.history.decided.notify_all();
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if self.is_remembered.get() || self.identities.is_empty() {
            return;
        }
        let mut seen = self.history.guard();
        for identity in &self.identities {
            seen.known.remove(identity);
        }
        drop(seen);
        self.history.decided.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use oxbus_model::PartitionId;

    use super::*;

    fn of(remembered: impl Iterator<Item = (Identity, Timestamp)>) -> History {
        History::restore(&Arc::new(Shard::in_memory(PartitionId(0))), remembered)
    }

    fn admit(history: &History, number: u128, now: u64) -> bool {
        let admission = history
            .admit(&[Some(Identity(number))], Timestamp(now), 100, &Wait::FOREVER)
            .expect("decided");
        admission.remember();
        admission.fresh()[0]
    }

    #[test]
    fn an_identity_is_known_for_a_window_from_its_first_time() {
        let history = of(std::iter::empty());
        assert!(admit(&history, 1, 0));
        for now in [0, 50, 99] {
            assert!(!admit(&history, 1, now), "{now}");
        }
        assert!(admit(&history, 1, 100));
        assert!(!admit(&history, 1, 199));
    }

    #[test]
    fn memory_is_given_back() {
        let history = of(std::iter::empty());
        for number in 0..10_000 {
            assert!(admit(&history, number, 0));
        }
        let most = history.bytes();
        history.forget(Timestamp(99), 100);
        assert_eq!(history.bytes(), most, "all are known still");
        history.forget(Timestamp(100), 100);
        assert!(history.bytes() < most / 20, "{} of {most}", history.bytes());
    }

    #[test]
    fn what_is_not_kept_never_came() {
        let history = of(std::iter::empty());
        let identities = [Some(Identity(1)), None, Some(Identity(1)), None];
        let admission = history
            .admit(&identities, Timestamp(0), 100, &Wait::FOREVER)
            .expect("decided");
        assert_eq!(admission.fresh(), [true, true, false, true]);
        drop(admission);
        assert!(admit(&history, 1, 0));
    }

    #[test]
    fn a_copy_waits_for_what_is_under_way() {
        for fails in [false, true] {
            let history = of(std::iter::empty());
            let first = history
                .admit(&[Some(Identity(1))], Timestamp(0), 100, &Wait::FOREVER)
                .expect("decided");
            std::thread::scope(|scope| {
                let copy = scope.spawn(|| admit(&history, 1, 1));
                assert!(!copy.is_finished());
                if !fails {
                    first.remember();
                }
                drop(first);
                assert_eq!(copy.join().expect("no panic"), fails);
            });
        }
    }

    #[test]
    fn what_was_remembered_is_known_after_a_restart() {
        let history = of(std::iter::empty());
        for number in 0..10 {
            assert!(admit(&history, number, 10 * number as u64));
        }
        let remembered = history
            .remembered()
            .into_iter()
            .map(|(since, identity)| (identity, since));
        let history = of(remembered);
        assert!(!admit(&history, 5, 149));
        assert!(admit(&history, 5, 150));
        assert!(!admit(&history, 9, 189));
    }
}
