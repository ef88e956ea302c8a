// SPDX-License-Identifier: Apache-2.0
//! An event count: wakes as many waiters as there is work, oldest first, and costs almost nothing while nobody waits.
//!
//! A waiter registers, looks again for work, and only then sleeps. A ringer makes its work visible, then rings.
//! Both sides put a sequentially consistent fence between their two steps, so at least one of them sees the other:
//! either the waiter finds the work, or the ringer finds the waiter.
//!
//! Holds always
//! - `waiting` is the length of the queue, and every ticket in it is unrung;
//! - a ring taken from the queue is consumed by its ticket or, when the ticket is dropped, passed on to the next one:
//!   a ring that met a waiter is never lost.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use crate::sync::{Arc, AtomicUsize, Condvar, Mutex, Ordering, fence, lock};

/// Called by the ringer's thread; must be short and must not touch the doorbell.
pub type Callback = std::sync::Arc<dyn Fn() + Send + Sync>;

/// Where waiters queue.
#[derive(Debug, Default)]
pub struct Doorbell {
    waiting: AtomicUsize,
    queue: Mutex<VecDeque<Arc<Waiter>>>,
}

/// One place in the queue. Rung at most once; register again for the next ring.
#[derive(Debug)]
pub struct Ticket<B: Deref<Target = Doorbell>> {
    bell: B,
    waiter: Arc<Waiter>,
}

/// A ticket that keeps its doorbell alive.
pub type OwnedTicket = Ticket<Arc<Doorbell>>;

struct Waiter {
    state: Mutex<State>,
    rung: Condvar,
    callback: Option<Callback>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Rung,
    Consumed,
}

impl Doorbell {
    /// A doorbell nobody waits at.
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes the `n` waiters that wait longest. Call it after the work is visible.
    #[inline]
    pub fn ring(&self, n: usize) {
        fence(Ordering::SeqCst);
        self.ring_after_fence(n);
    }

    /// The same for a caller whose work comes before sequentially consistent loads already: behind it stands a fence or
    /// a sequentially consistent read-modify-write.
    #[inline]
    pub fn ring_after_fence(&self, n: usize) {
        if n > 0 && self.waiting.load(Ordering::SeqCst) > 0 {
            self.wake(n);
        }
    }

    /// Wakes every waiter.
    pub fn ring_all(&self) {
        self.ring(usize::MAX);
    }

    /// How many wait now.
    #[inline]
    pub fn waiters(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Joins the queue. Look for work again before waiting.
    pub fn register(&self) -> Ticket<&Self> {
        Ticket {
            waiter: self.enqueue(None),
            bell: self,
        }
    }

    /// Joins the queue with a ticket that keeps the doorbell alive.
    pub fn register_owned(bell: &Arc<Self>) -> OwnedTicket {
        Ticket {
            waiter: bell.enqueue(None),
            bell: Arc::clone(bell),
        }
    }

    /// Joins the queue with something to call instead of a thread to wake.
    pub fn register_callback(&self, callback: Callback) -> Ticket<&Self> {
        Ticket {
            waiter: self.enqueue(Some(callback)),
            bell: self,
        }
    }

    /// The same with a ticket that keeps the doorbell alive.
    pub fn register_callback_owned(bell: &Arc<Self>, callback: Callback) -> OwnedTicket {
        Ticket {
            waiter: bell.enqueue(Some(callback)),
            bell: Arc::clone(bell),
        }
    }

    fn enqueue(&self, callback: Option<Callback>) -> Arc<Waiter> {
        let waiter = Arc::new(Waiter {
            state: Mutex::new(State::Waiting),
            rung: Condvar::new(),
            callback,
        });
        {
            let mut queue = lock(&self.queue);
            queue.push_back(Arc::clone(&waiter));
            self.waiting.store(queue.len(), Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
        waiter
    }

    #[cold]
    fn wake(&self, n: usize) {
        for _ in 0..n {
            let waiter = {
                let mut queue = lock(&self.queue);
                let Some(waiter) = queue.pop_front() else { return };
                self.waiting.store(queue.len(), Ordering::Relaxed);
                // Under the queue's mutex, so that a ticket that is not in the queue is rung.
                *lock(&waiter.state) = State::Rung;
                waiter
            };
            waiter.rung.notify_one();
            if let Some(callback) = &waiter.callback {
                callback();
            }
        }
    }

    /// Takes `waiter` out of the queue. False when it was rung before.
    fn forget(&self, waiter: &Arc<Waiter>) -> bool {
        let mut queue = lock(&self.queue);
        let Some(place) = queue.iter().position(|other| Arc::ptr_eq(other, waiter)) else {
            return false;
        };
        queue.remove(place);
        self.waiting.store(queue.len(), Ordering::Relaxed);
        true
    }
}

impl<B: Deref<Target = Doorbell>> Ticket<B> {
    /// Joins the queue at a doorbell that the ticket keeps, with something to call instead of a thread to wake.
    pub fn with_callback(bell: B, callback: Callback) -> Self {
        Self {
            waiter: bell.enqueue(Some(callback)),
            bell,
        }
    }

    /// Sleeps until rung or until `timeout` passes. True when rung, which consumes the ring.
    /// After false the ticket keeps its place in the queue; a consumed ticket answers false at once.
    pub fn wait(&mut self, timeout: Option<Duration>) -> bool {
        let mut state = lock(&self.waiter.state);
        if *state == State::Waiting {
            state = match timeout {
                None => self.waiter.wait(state),
                Some(timeout) => self.waiter.wait_for(state, timeout),
            };
        }
        consume(&mut state)
    }

    /// True when rung, which consumes the ring. Never sleeps.
    pub fn try_wait(&mut self) -> bool {
        consume(&mut lock(&self.waiter.state))
    }
}

impl<B: Deref<Target = Doorbell>> Drop for Ticket<B> {
    fn drop(&mut self) {
        let state = *lock(&self.waiter.state);
        if state != State::Consumed && !self.bell.forget(&self.waiter) {
            self.bell.ring(1);
        }
    }
}

fn consume(state: &mut State) -> bool {
    let rung = *state == State::Rung;
    if rung {
        *state = State::Consumed;
    }
    rung
}

impl Waiter {
    fn wait<'a>(&self, mut state: crate::sync::MutexGuard<'a, State>) -> crate::sync::MutexGuard<'a, State> {
        while *state == State::Waiting {
            state = self.rung.wait(state).expect("a thread panicked at the doorbell");
        }
        state
    }

    #[cfg(not(loom))]
    fn wait_for<'a>(
        &self,
        state: crate::sync::MutexGuard<'a, State>,
        timeout: Duration,
    ) -> crate::sync::MutexGuard<'a, State> {
        let waited = self
            .rung
            .wait_timeout_while(state, timeout, |state| *state == State::Waiting);
        waited.expect("a thread panicked at the doorbell").0
    }

    /// loom has no time: a bounded wait ends at once.
    #[cfg(loom)]
    fn wait_for<'a>(
        &self,
        state: crate::sync::MutexGuard<'a, State>,
        _timeout: Duration,
    ) -> crate::sync::MutexGuard<'a, State> {
        state
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter")
            .field("callback", &self.callback.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::Doorbell;
    use crate::slot_log::loom_tests::check;
    use crate::sync::{Arc, AtomicUsize, Ordering};

    /// Fails, by sleeping for ever, without the fence on either side.
    #[test]
    fn waiter_finds_the_work_or_the_ring() {
        check(|| {
            let shared = Arc::new((Doorbell::new(), AtomicUsize::new(0)));
            let other = loom::thread::spawn({
                let shared = Arc::clone(&shared);
                move || {
                    shared.1.store(1, Ordering::Relaxed);
                    shared.0.ring(1);
                }
            });
            let mut ticket = shared.0.register();
            if shared.1.load(Ordering::Relaxed) == 0 {
                assert!(ticket.wait(None));
            }
            drop(ticket);
            other.join().expect("no panic");
            assert_eq!(shared.0.waiters(), 0);
        });
    }

    /// Fails, by sleeping for ever, when a dropped ticket keeps its ring.
    #[test]
    fn dropped_ticket_passes_its_ring_on() {
        check(|| {
            let bell = Arc::new(Doorbell::new());
            let first = bell.register();
            let second = loom::thread::spawn({
                let bell = Arc::clone(&bell);
                let queued = Doorbell::register_owned(&bell);
                move || {
                    let mut queued = queued;
                    assert!(queued.wait(None));
                    drop(bell);
                }
            });
            let ringer = loom::thread::spawn({
                let bell = Arc::clone(&bell);
                move || bell.ring(1)
            });
            drop(first);
            ringer.join().expect("no panic");
            second.join().expect("no panic");
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::{Arc, Doorbell};

    const NOT_LONG: Option<Duration> = Some(Duration::from_millis(5));

    #[test]
    fn rings_go_to_those_who_wait_longest() {
        let bell = Doorbell::new();
        let mut tickets: Vec<_> = (0..3).map(|_| bell.register()).collect();
        bell.ring(2);
        assert_eq!(bell.waiters(), 1);
        assert!(tickets[0].wait(None));
        assert!(tickets[1].wait(None));
        assert!(!tickets[2].wait(NOT_LONG));
        bell.ring_all();
        assert!(tickets[2].try_wait());
        assert!(!tickets[2].wait(None), "a consumed ticket answers at once");
    }

    #[test]
    fn ring_without_waiters_is_not_kept() {
        let bell = Doorbell::new();
        bell.ring(5);
        assert!(!bell.register().wait(NOT_LONG));
        assert_eq!(bell.waiters(), 0);
    }

    #[test]
    fn unconsumed_ring_goes_to_the_next() {
        let bell = Doorbell::new();
        let first = bell.register();
        let mut second = bell.register();
        bell.ring(1);
        assert!(!second.try_wait());
        drop(first);
        assert!(second.try_wait());
    }

    #[test]
    fn callback_is_called_once() {
        let bell = Arc::new(Doorbell::new());
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let mut ticket = Doorbell::register_callback_owned(
            &bell,
            Arc::new(move || {
                counted.fetch_add(1, Ordering::SeqCst);
            }),
        );
        bell.ring(2);
        bell.ring(2);
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        assert!(ticket.try_wait());
    }
}
