// SPDX-License-Identifier: Apache-2.0
//! Duplicate detection: the identities of messages that arrived within the window (B-218 … B-231).
//!
//! The identity of a message is *pending* until the message is stored. A copy that arrives in that time waits for the
//! result: if the first message fails, the copy takes its place.
//!
//! Invariants
//! - an identity is in `by_age` once for each time it is remembered, and pending for one admission at most;
//! - a call that holds pending identities never waits for those of another call, so there is no deadlock.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar};
use std::time::Duration;

use oxbus_model::{Effect, Error, ErrorKind, Identity, Result, Timestamp};
use oxbus_store::Wait;
use oxbus_store::suspended::{Wakers, run_now, until};

use super::Shard;
use super::guarded::{Guarded, StateGuard};

/// Collections below this size are not shrunk.
const SPARE_MIN: usize = 64;

/// Interval between checks whether the caller still waits.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The identities of one cell.
#[derive(Debug)]
pub struct History {
    shard: Arc<Shard>,
    known: Guarded<KnownIdentities>,
    /// Notified when a pending identity is remembered or dropped.
    decided: Condvar,
}

#[derive(Debug, Default)]
struct KnownIdentities {
    states: HashMap<Identity, IdentityState, BuildHasherDefault<PassThroughHasher>>,
    /// Remembered identities, oldest first.
    by_age: VecDeque<(Timestamp, Identity)>,
    /// Suspended calls to wake when a pending identity is remembered or dropped.
    suspended: Wakers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IdentityState {
    Pending,
    Since(Timestamp),
}

/// Passes identities through, because they are already hashes.
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

/// Which messages of a call are new. Their identities are pending until `remember`. Dropping the admission before that
/// forgets them.
#[derive(Debug)]
pub struct Admission<'a> {
    history: &'a History,
    /// For each message of the call, true if it is new.
    fresh: Vec<bool>,
    /// Identities of the new messages, in order.
    identities: Vec<Identity>,
    at: Timestamp,
    is_remembered: AtomicBool,
}

impl History {
    /// The history of a cell as read from the journal.
    pub fn restore(shard: &Arc<Shard>, remembered: impl Iterator<Item = (Identity, Timestamp)>) -> Self {
        let mut by_age: VecDeque<_> = remembered.map(|(identity, since)| (since, identity)).collect();
        by_age.make_contiguous().sort_unstable();
        let states = by_age
            .iter()
            .map(|(since, identity)| (*identity, IdentityState::Since(*since)));
        let known = KnownIdentities {
            states: states.collect(),
            by_age,
            suspended: Wakers::default(),
        };
        Self {
            shard: Arc::clone(shard),
            known: Guarded::new(known),
            decided: Condvar::new(),
        }
    }

    fn guard(&self) -> StateGuard<'_, KnownIdentities> {
        self.known.lock(&self.shard.health)
    }

    /// Finds out which messages are new at `now` and makes their identities pending. `None` is a message without an
    /// identity, which is always new. Of equal identities in one call only the first is new. Fails once `wait` is over
    /// while another call has one of the identities pending.
    pub fn admit(
        &self,
        identities: &[Option<Identity>],
        now: Timestamp,
        window_ms: u64,
        wait: &Wait<'_>,
    ) -> Result<Admission<'_>> {
        run_now(self.admit_async(identities, now, window_ms, wait))
    }

    /// [`History::admit`] for a call that may be suspended.
    pub async fn admit_async(
        &self,
        identities: &[Option<Identity>],
        now: Timestamp,
        window_ms: u64,
        wait: &Wait<'_>,
    ) -> Result<Admission<'_>> {
        loop {
            if let Some(admission) = self.try_admit(identities, now, window_ms) {
                return Ok(admission);
            }
            if wait.is_over() {
                let detail = "the store did not answer in time and nothing was stored: an earlier copy of the message is still being \
                              stored; send it again with the same message id";
                return Err(Error::new(ErrorKind::Timeout, detail).with_effect(Effect::None));
            }
            self.until_decided(identities, wait).await;
        }
    }

    /// Waits until none of the identities is pending, or for a short time.
    async fn until_decided(&self, identities: &[Option<Identity>], wait: &Wait<'_>) {
        if !wait.suspends() {
            let known = self.guard();
            if known.has_pending(identities) {
                drop(known.wait_timeout(&self.decided, POLL_INTERVAL));
            }
            return;
        }
        until(wait, |waker| {
            let mut known = self.guard();
            let is_decided = !known.has_pending(identities);
            if !is_decided {
                known.suspended.add(waker);
            }
            is_decided
        })
        .await;
    }

    /// [`History::admit`] without a wait; `None` if another call has one of the identities pending.
    fn try_admit(&self, identities: &[Option<Identity>], now: Timestamp, window_ms: u64) -> Option<Admission<'_>> {
        let mut known = self.guard();
        known.forget(now, window_ms);
        if known.has_pending(identities) {
            return None;
        }
        let mut pending = Vec::new();
        let mut admit = |identity: &Option<Identity>| {
            let Some(identity) = identity else { return true };
            match known.states.entry(*identity) {
                Entry::Occupied(_) => false,
                Entry::Vacant(vacant) => {
                    vacant.insert(IdentityState::Pending);
                    pending.push(*identity);
                    true
                }
            }
        };
        let fresh = identities.iter().map(&mut admit).collect();
        Some(Admission {
            history: self,
            fresh,
            identities: pending,
            at: now,
            is_remembered: AtomicBool::new(false),
        })
    }

    /// Wakes those that wait for pending identities.
    fn decide(&self, mut known: StateGuard<'_, KnownIdentities>) {
        let suspended = std::mem::take(&mut known.suspended);
        drop(known);
        self.decided.notify_all();
        suspended.wake();
    }

    /// True if an identity is remembered, even beyond its window.
    pub fn contains(&self, identity: Identity) -> bool {
        matches!(self.guard().states.get(&identity), Some(IdentityState::Since(_)))
    }

    /// Forgets identities older than the window and frees memory.
    pub fn forget(&self, now: Timestamp, window_ms: u64) {
        let mut known = self.guard();
        known.forget(now, window_ms);
        let (states, remembered) = (known.states.len(), known.by_age.len());
        if known.states.capacity() > 4 * states.max(SPARE_MIN) {
            known.states.shrink_to(2 * states);
        }
        if known.by_age.capacity() > 4 * remembered.max(SPARE_MIN) {
            known.by_age.shrink_to(2 * remembered);
        }
    }

    /// All remembered identities with their times, including some beyond the window.
    pub fn remembered(&self) -> Vec<(Timestamp, Identity)> {
        self.guard().by_age.iter().copied().collect()
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        let known = self.guard();
        known.states.capacity() * (size_of::<(Identity, IdentityState)>() + 1)
            + known.by_age.capacity() * size_of::<(Timestamp, Identity)>()
    }
}

impl KnownIdentities {
    /// Forgets identities older than the window.
    fn forget(&mut self, now: Timestamp, window_ms: u64) {
        while let Some((since, identity)) = self.by_age.front().copied()
            && since.plus_ms(window_ms) <= now
        {
            self.by_age.pop_front();
            if self.states.get(&identity) == Some(&IdentityState::Since(since)) {
                self.states.remove(&identity);
            }
        }
    }

    fn has_pending(&self, identities: &[Option<Identity>]) -> bool {
        let mut some = identities.iter().flatten();
        some.any(|identity| self.states.get(identity) == Some(&IdentityState::Pending))
    }
}

impl Admission<'_> {
    /// For each message of the call, true if it is new.
    pub fn fresh(&self) -> &[bool] {
        &self.fresh
    }

    /// Number of messages of the call that are not new.
    pub fn duplicates(&self) -> usize {
        self.fresh.iter().filter(|is_fresh| !**is_fresh).count()
    }

    /// Identities of the new messages.
    pub fn identities(&self) -> &[Identity] {
        &self.identities
    }

    /// Identities of the new messages, with their times.
    pub fn dated(&self) -> Vec<(Timestamp, Identity)> {
        self.identities.iter().map(|identity| (self.at, *identity)).collect()
    }

    /// Remembers the identities. Call once the messages are stored.
    pub fn remember(&self) {
        if self.is_remembered.swap(true, Ordering::Relaxed) || self.identities.is_empty() {
            return;
        }
        let mut known = self.history.guard();
        // Times must rise even after the clock was set back.
        let since = known.by_age.back().map_or(self.at, |(last, _)| self.at.max(*last));
        for identity in &self.identities {
            known.states.insert(*identity, IdentityState::Since(since));
            known.by_age.push_back((since, *identity));
        }
        self.history.decide(known);
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if self.is_remembered.load(Ordering::Relaxed) || self.identities.is_empty() {
            return;
        }
        let mut known = self.history.guard();
        for identity in &self.identities {
            known.states.remove(identity);
        }
        self.history.decide(known);
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
            .expect("nothing is pending");
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
    fn memory_is_freed() {
        let history = of(std::iter::empty());
        for number in 0..10_000 {
            assert!(admit(&history, number, 0));
        }
        let most = history.bytes();
        history.forget(Timestamp(99), 100);
        assert_eq!(history.bytes(), most, "all are still known");
        history.forget(Timestamp(100), 100);
        assert!(history.bytes() < most / 20, "{} of {most}", history.bytes());
    }

    #[test]
    fn a_dropped_admission_leaves_no_trace() {
        let history = of(std::iter::empty());
        let identities = [Some(Identity(1)), None, Some(Identity(1)), None];
        let admission = history
            .try_admit(&identities, Timestamp(0), 100)
            .expect("nothing is pending");
        assert_eq!(admission.fresh(), [true, true, false, true]);
        drop(admission);
        assert!(admit(&history, 1, 0));
    }

    #[test]
    fn a_copy_waits_for_a_pending_identity() {
        for fails in [false, true] {
            let history = of(std::iter::empty());
            let first = history
                .try_admit(&[Some(Identity(1))], Timestamp(0), 100)
                .expect("nothing is pending");
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
    fn remembered_identities_survive_a_restart() {
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
