// SPDX-License-Identifier: Apache-2.0
//! An event count: a notification wakes a given number of waiters, oldest first. Without waiters it costs only a fence
//! and a load.
//!
//! A waiter registers, looks for work again, and only then sleeps (`step`). A notifier makes its work visible, then
//! notifies. Each side has a sequentially consistent fence between its two steps, so either the waiter finds the work,
//! or the notifier finds the waiter.
//!
//! Invariants
//! - `waiting` is the length of the queue, and no waiter in the queue is notified;
//! - a waiter takes its notification, or passes it to the next waiter when it is dropped, so no waiter's notification
//!   is lost.

mod step;

use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

pub use self::step::{LookResult, Looks};
use crate::sync::{Arc, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, fence, lock};

/// A function that the notifier's thread calls. It must be short and must not use the queue.
pub type NotifyCallback = std::sync::Arc<dyn Fn() + Send + Sync>;

/// A queue of waiters for work.
#[derive(Debug, Default)]
pub struct WaitQueue {
    waiting: AtomicUsize,
    nodes: Mutex<VecDeque<Arc<WaiterNode>>>,
}

/// A registration in the queue. It is notified at most once. Register again for the next notification.
#[derive(Debug)]
pub struct Waiter<Q: Deref<Target = WaitQueue>> {
    queue: Q,
    node: Arc<WaiterNode>,
}

struct WaiterNode {
    state: Mutex<WaiterState>,
    notified: Condvar,
    callback: Option<NotifyCallback>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaiterState {
    Waiting,
    Notified,
    Taken,
}

impl WaitQueue {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes the `n` waiters that registered first. Call it after the work is visible.
    #[inline]
    pub fn notify(&self, n: usize) {
        fence(Ordering::SeqCst);
        self.notify_after_fence(n);
    }

    /// Does what [`notify`](Self::notify) does, without the fence: the caller has executed a sequentially consistent
    /// fence or read-modify-write after the work became visible.
    #[inline]
    pub fn notify_after_fence(&self, n: usize) {
        if n > 0 && self.waiting.load(Ordering::SeqCst) > 0 {
            self.wake(n);
        }
    }

    /// Wakes every waiter.
    pub fn notify_all(&self) {
        self.notify(usize::MAX);
    }

    /// Number of waiters.
    #[inline]
    pub fn waiters(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Registers a waiter for a thread. Look for work again before sleeping in [`Waiter::wait`].
    pub fn register(&self) -> Waiter<&Self> {
        Waiter::register(self, None)
    }

    #[cold]
    fn wake(&self, n: usize) {
        for _ in 0..n {
            let node = {
                let mut nodes = lock(&self.nodes);
                let Some(node) = nodes.pop_front() else { return };
                self.waiting.store(nodes.len(), Ordering::Relaxed);
                // Set under the queue's mutex, so that a waiter that left the queue has its notification.
                *lock(&node.state) = WaiterState::Notified;
                node
            };
            match &node.callback {
                Some(callback) => callback(),
                None => node.notified.notify_one(),
            }
        }
    }

    /// Removes `node` from the queue. Returns false if it was notified before.
    fn remove(&self, node: &Arc<WaiterNode>) -> bool {
        let mut nodes = lock(&self.nodes);
        let Some(position) = nodes.iter().position(|other| Arc::ptr_eq(other, node)) else {
            return false;
        };
        nodes.remove(position);
        self.waiting.store(nodes.len(), Ordering::Relaxed);
        true
    }
}

impl<Q: Deref<Target = WaitQueue>> Waiter<Q> {
    /// Registers a waiter that keeps a reference to the queue. A notification calls `callback`; without one it wakes a
    /// thread in [`wait`](Self::wait). Look for work again before sleeping.
    pub fn register(queue: Q, callback: Option<NotifyCallback>) -> Self {
        let node = Arc::new(WaiterNode {
            state: Mutex::new(WaiterState::Waiting),
            notified: Condvar::new(),
            callback,
        });
        {
            let mut nodes = lock(&queue.nodes);
            nodes.push_back(Arc::clone(&node));
            queue.waiting.store(nodes.len(), Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
        Self { queue, node }
    }

    /// Sleeps until notified or until `timeout` passes. Returns true if it takes the notification. After a timeout the
    /// waiter stays in the queue. Returns false at once if the notification was taken before.
    pub fn wait(&mut self, timeout: Option<Duration>) -> bool {
        let mut state = lock(&self.node.state);
        if *state == WaiterState::Waiting {
            state = match timeout {
                None => self.node.wait(state),
                Some(timeout) => self.node.wait_for(state, timeout),
            };
        }
        take(&mut state)
    }

    /// Returns true and takes the notification if there is one. Look for work afterwards. Does not sleep.
    pub fn take_notification(&mut self) -> bool {
        take(&mut lock(&self.node.state))
    }
}

impl<Q: Deref<Target = WaitQueue>> Drop for Waiter<Q> {
    fn drop(&mut self) {
        let state = *lock(&self.node.state);
        if state != WaiterState::Taken && !self.queue.remove(&self.node) {
            self.queue.notify(1);
        }
    }
}

fn take(state: &mut WaiterState) -> bool {
    let notified = *state == WaiterState::Notified;
    if notified {
        *state = WaiterState::Taken;
    }
    notified
}

impl WaiterNode {
    fn wait<'a>(&self, mut state: MutexGuard<'a, WaiterState>) -> MutexGuard<'a, WaiterState> {
        while *state == WaiterState::Waiting {
            state = self.notified.wait(state).expect("a thread panicked in the wait queue");
        }
        state
    }

    #[cfg(not(loom))]
    fn wait_for<'a>(&self, state: MutexGuard<'a, WaiterState>, timeout: Duration) -> MutexGuard<'a, WaiterState> {
        let waited = self
            .notified
            .wait_timeout_while(state, timeout, |state| *state == WaiterState::Waiting);
        waited.expect("a thread panicked in the wait queue").0
    }

    /// loom has no clock: a wait with a timeout ends at once.
    #[cfg(loom)]
    fn wait_for<'a>(&self, state: MutexGuard<'a, WaiterState>, _timeout: Duration) -> MutexGuard<'a, WaiterState> {
        state
    }
}

impl fmt::Debug for WaiterNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaiterNode")
            .field("callback", &self.callback.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::{WaitQueue, Waiter};
    use crate::slot_log::loom_tests::check;
    use crate::sync::{Arc, AtomicUsize, Ordering};

    /// Sleeps forever if either side lacks the fence.
    #[test]
    fn waiter_finds_the_work_or_is_notified() {
        check(|| {
            let shared = Arc::new((WaitQueue::new(), AtomicUsize::new(0)));
            let other = loom::thread::spawn({
                let shared = Arc::clone(&shared);
                move || {
                    shared.1.store(1, Ordering::Relaxed);
                    shared.0.notify(1);
                }
            });
            let mut waiter = shared.0.register();
            if shared.1.load(Ordering::Relaxed) == 0 {
                assert!(waiter.wait(None));
            }
            drop(waiter);
            other.join().expect("no panic");
            assert_eq!(shared.0.waiters(), 0);
        });
    }

    /// Sleeps forever if a dropped waiter keeps its notification.
    #[test]
    fn dropped_waiter_passes_its_notification_on() {
        check(|| {
            let queue = Arc::new(WaitQueue::new());
            let first = queue.register();
            let second = loom::thread::spawn({
                let mut second = Waiter::register(Arc::clone(&queue), None);
                move || assert!(second.wait(None))
            });
            let notifier = loom::thread::spawn({
                let queue = Arc::clone(&queue);
                move || queue.notify(1)
            });
            drop(first);
            notifier.join().expect("no panic");
            second.join().expect("no panic");
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::{Arc, WaitQueue, Waiter};

    const SHORT: Option<Duration> = Some(Duration::from_millis(5));

    #[test]
    fn notifications_wake_the_oldest_waiters() {
        let queue = WaitQueue::new();
        let mut waiters: Vec<_> = (0..3).map(|_| queue.register()).collect();
        queue.notify(2);
        assert_eq!(queue.waiters(), 1);
        assert!(waiters[0].wait(None));
        assert!(waiters[1].wait(None));
        assert!(!waiters[2].wait(SHORT));
        queue.notify_all();
        assert!(waiters[2].take_notification());
        assert!(!waiters[2].wait(None), "a waiter that was notified does not sleep");
    }

    #[test]
    fn notification_without_waiters_is_dropped() {
        let queue = WaitQueue::new();
        queue.notify(5);
        assert!(!queue.register().wait(SHORT));
        assert_eq!(queue.waiters(), 0);
    }

    #[test]
    fn notification_of_a_dropped_waiter_goes_to_the_next() {
        let queue = WaitQueue::new();
        let first = queue.register();
        let mut second = queue.register();
        queue.notify(1);
        assert!(!second.take_notification());
        drop(first);
        assert!(second.take_notification());
    }

    #[test]
    fn callback_is_called_once() {
        let queue = Arc::new(WaitQueue::new());
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let callback = Arc::new(move || {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        let mut waiter = Waiter::register(Arc::clone(&queue), Some(callback));
        queue.notify(2);
        queue.notify(2);
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        assert!(waiter.take_notification());
    }
}
