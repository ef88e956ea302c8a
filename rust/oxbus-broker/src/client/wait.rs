// SPDX-License-Identifier: Apache-2.0
//! Waits for messages, a session or a reservation: one step of a wait, and the wait of a thread.
//!
//! A wait is a sequence of steps with sleeps between them (`oxbus_store::wait_queue`). All waits use the same step.
//! `until_found` lets a thread sleep on the condition variable of its waiter; other callers sleep until their callback
//! runs.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use oxbus_model::Result;
use oxbus_model::name::SubQueue;
use oxbus_store::wait_queue::{self, NotifyCallback, Waiter};
use oxbus_store::{Wait, WaitQueue};

use crate::clock::Deadline;
use crate::entity::Entity;
use crate::shard::AcceptedSession;

/// When a wait ends.
#[derive(Clone, Copy, Debug)]
pub struct WaitOptions<'a> {
    /// Ends the wait at this time.
    pub deadline: Deadline,
    /// Ends the wait when this one is over.
    pub cancellation: &'a Wait<'a>,
    /// Interval at which to check `cancellation`; `None` when its end notifies the waiters.
    pub poll_interval: Option<Duration>,
}

/// A source of messages, sessions or reservations that a call can wait for.
pub trait WaitSource {
    /// The queue of its waiters.
    fn wait_queue(&self) -> WaitQueueRef;

    /// Maximum wait for a notification; `None` when one is certain.
    fn recheck_after(&self) -> Option<Duration>;
}

/// A wait queue and its owner, which it keeps alive.
pub struct WaitQueueRef(WaitQueueOwner);

enum WaitQueueOwner {
    Entity(Arc<Entity>, SubQueue),
    Session(Arc<AcceptedSession>),
}

impl WaitQueueRef {
    /// The queue of calls that receive from an entity or accept its sessions.
    pub(super) fn of_entity(entity: &Arc<Entity>, sub_queue: SubQueue) -> Self {
        Self(WaitQueueOwner::Entity(Arc::clone(entity), sub_queue))
    }

    /// The queue of calls that receive from a session.
    pub(super) fn of_session(accepted: &Arc<AcceptedSession>) -> Self {
        Self(WaitQueueOwner::Session(Arc::clone(accepted)))
    }
}

impl Deref for WaitQueueRef {
    type Target = WaitQueue;

    fn deref(&self) -> &WaitQueue {
        match &self.0 {
            WaitQueueOwner::Entity(entity, sub_queue) => &entity.receivable(*sub_queue).wait_queue,
            WaitQueueOwner::Session(accepted) => accepted.wait_queue(),
        }
    }
}

/// A waiter between two steps. Dropping it passes an unused notification to the next waiter.
pub struct WaitRegistration {
    waiter: Waiter<WaitQueueRef>,
    /// Maximum sleep; `None` to sleep until notified.
    pub sleep_max: Option<Duration>,
}

/// Result of a step.
pub type WaitStep<T> = wait_queue::LookResult<T, WaitRegistration>;

/// One step of a wait, for a call that looks by itself: it looks again after each look without success, until the step
/// has a result. The notifying thread calls `callback` once; it must be short and must not receive. Without a callback
/// the caller sleeps on the waiter.
pub struct Looks<'a, S> {
    source: &'a S,
    options: &'a WaitOptions<'a>,
    callback: Option<NotifyCallback>,
    below: wait_queue::Looks<WaitQueueRef>,
}

impl<'a, S: WaitSource> Looks<'a, S> {
    /// Begins a step.
    #[inline]
    pub fn begin(
        source: &'a S,
        earlier: Option<WaitRegistration>,
        options: &'a WaitOptions<'a>,
        callback: Option<NotifyCallback>,
    ) -> Self {
        Self {
            source,
            options,
            callback,
            below: wait_queue::Looks::begin(earlier.map(|earlier| earlier.waiter)),
        }
    }

    /// Follows a look without success. Returns `None` to look again, else the result of the step.
    #[inline]
    pub fn found_nothing<T>(&mut self) -> Option<WaitStep<T>> {
        let deadline = self.options.deadline;
        let is_past_deadline = || deadline.is_over();
        let callback = &mut self.callback;
        let register = || Waiter::register(self.source.wait_queue(), callback.take());
        let wait = self.options.cancellation.or_until(&is_past_deadline);
        Some(match self.below.found_nothing(register, &wait)? {
            wait_queue::LookResult::Found(found) => WaitStep::Found(found),
            wait_queue::LookResult::Over => WaitStep::Over,
            wait_queue::LookResult::Waiting(waiter) => {
                let times = [
                    deadline.remaining(),
                    self.source.recheck_after(),
                    self.options.poll_interval,
                ];
                let sleep_max = times.into_iter().flatten().min();
                WaitStep::Waiting(WaitRegistration { waiter, sleep_max })
            }
        })
    }
}

/// One step of a wait: looks, registers a waiter, and looks again.
#[inline]
pub fn step<T>(
    source: &impl WaitSource,
    earlier: Option<WaitRegistration>,
    options: &WaitOptions<'_>,
    callback: Option<NotifyCallback>,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<WaitStep<T>> {
    let mut looks = Looks::begin(source, earlier, options, callback);
    loop {
        if let Some(found) = look()? {
            return Ok(WaitStep::Found(found));
        }
        if let Some(result) = looks.found_nothing() {
            return Ok(result);
        }
    }
}

/// Looks repeatedly and sleeps in between, until `look` finds something. Returns `None` if the wait ends first.
pub(super) fn until_found<T>(
    source: &impl WaitSource,
    options: &WaitOptions<'_>,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<Option<T>> {
    let mut earlier = None;
    loop {
        match step(source, earlier, options, None, &mut look)? {
            WaitStep::Found(found) => return Ok(Some(found)),
            WaitStep::Over => return Ok(None),
            WaitStep::Waiting(mut waiting) => {
                waiting.waiter.wait(waiting.sleep_max);
                earlier = Some(waiting);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::{Arc, Condvar, Mutex};
    use std::time::Duration;

    use oxbus_model::message::{Body, Fields};
    use oxbus_model::sync::ignore_poison;
    use oxbus_store::Wait;

    use super::{WaitOptions, WaitSource, WaitStep, step};
    use crate::clock::Deadline;
    use crate::{Namespace, NamespaceOptions, Receiver, ReceiverOptions};

    const FOREVER: WaitOptions<'static> = WaitOptions {
        deadline: Deadline::Never,
        cancellation: &Wait::FOREVER,
        poll_interval: None,
    };

    fn namespace() -> Namespace {
        let namespace = Namespace::open(NamespaceOptions::default()).expect("a namespace in memory");
        let entity = namespace.create_queue_with("q", Vec::new(), &Wait::FOREVER);
        entity.expect("a queue");
        namespace
    }

    fn receiver(namespace: &Namespace) -> Receiver {
        let receiver = namespace.receiver("q", ReceiverOptions::default());
        receiver.expect("a receiver")
    }

    fn send(namespace: &Namespace) {
        let fields = Fields {
            body: Body::Data(b"x"),
            ..Fields::default()
        };
        let sender = namespace.sender("q").expect("a sender");
        sender.send(&fields, None, &Wait::FOREVER).expect("sent");
    }

    #[test]
    fn waiting_thread_receives_a_sent_message() {
        let namespace = namespace();
        let receiver = receiver(&namespace);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| receiver.receive_until(1, &FOREVER, &Wait::FOREVER));
            while receiver.wait_queue().waiters() == 0 {
                std::thread::yield_now();
            }
            send(&namespace);
            let received = waiting.join().expect("no panic").expect("received");
            assert_eq!(received.map(|deliveries| deliveries.len()), Some(1));
        });
    }

    #[test]
    fn deadline_and_cancellation_end_a_wait_and_remove_its_waiter() {
        let namespace = namespace();
        let receiver = receiver(&namespace);
        let soon = WaitOptions {
            deadline: Deadline::after(Some(Duration::from_millis(5))),
            ..FOREVER
        };
        assert!(
            receiver
                .receive_until(1, &soon, &Wait::FOREVER)
                .expect("no fault")
                .is_none()
        );
        assert!(soon.deadline.is_over());
        // Nothing notifies, so the wait polls its cancellation.
        let polls = AtomicUsize::new(0);
        let is_over = || polls.fetch_add(1, Ordering::Relaxed) > 4;
        let cancelled = WaitOptions {
            cancellation: &Wait::until(&is_over),
            poll_interval: Some(Duration::from_millis(1)),
            ..FOREVER
        };
        assert!(
            receiver
                .receive_until(1, &cancelled, &Wait::FOREVER)
                .expect("no fault")
                .is_none()
        );
        assert_eq!(receiver.wait_queue().waiters(), 0);
    }

    #[test]
    fn wait_that_is_over_receives_a_ready_message() {
        let namespace = namespace();
        send(&namespace);
        let over = WaitOptions {
            deadline: Deadline::after(Some(Duration::ZERO)),
            ..FOREVER
        };
        let received = receiver(&namespace).receive_until(1, &over, &Wait::FOREVER);
        assert!(received.expect("no fault").is_some());
    }

    #[test]
    fn cancelled_waits_lose_no_message() {
        // Threads cancel between looks, registration and sleep; all messages are still received.
        const MESSAGES: usize = 200;
        let namespace = namespace();
        let receivers: Vec<Receiver> = (0..3).map(|_| receiver(&namespace)).collect();
        let (done, received) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for receiver in &receivers[1..] {
                let (done, received) = (&done, &received);
                scope.spawn(move || {
                    let mut steps = 0usize;
                    while !done.load(Ordering::Relaxed) {
                        let look = || receiver.receive_now(1, &Wait::FOREVER);
                        let stepped = step(receiver, None, &FOREVER, None, look);
                        steps += 1;
                        match stepped.expect("no fault") {
                            WaitStep::Found(_) => drop(received.fetch_add(1, Ordering::Relaxed)),
                            WaitStep::Over => unreachable!("the wait has no end"),
                            // Cancelled, sometimes after it was notified.
                            WaitStep::Waiting(waiting) => {
                                if steps.is_multiple_of(2) {
                                    std::thread::yield_now();
                                }
                                drop(waiting);
                            }
                        }
                    }
                });
            }
            let (receiver, done, received) = (&receivers[0], &done, &received);
            scope.spawn(move || {
                let is_over = || done.load(Ordering::Relaxed);
                let options = WaitOptions {
                    cancellation: &Wait::until(&is_over),
                    ..FOREVER
                };
                while let Ok(Some(_)) = receiver.receive_until(1, &options, &Wait::FOREVER) {
                    received.fetch_add(1, Ordering::Relaxed);
                }
            });
            for sent in 1..=MESSAGES {
                send(&namespace);
                while received.load(Ordering::Relaxed) < sent {
                    std::thread::yield_now();
                }
            }
            done.store(true, Ordering::Relaxed);
            receivers[0].wait_queue().notify_all();
        });
        assert_eq!(received.load(Ordering::Relaxed), MESSAGES);
    }

    #[test]
    fn callback_replaces_a_sleeping_thread() {
        let namespace = namespace();
        let receiver = receiver(&namespace);
        let called = Arc::new((Mutex::new(false), Condvar::new()));
        let callback = {
            let called = Arc::clone(&called);
            Arc::new(move || {
                *ignore_poison(called.0.lock()) = true;
                called.1.notify_one();
            })
        };
        let look = || receiver.receive_now(1, &Wait::FOREVER);
        let stepped = step(&receiver, None, &FOREVER, Some(callback), look).expect("no fault");
        let WaitStep::Waiting(waiting) = stepped else {
            panic!("no message was sent");
        };
        assert!(waiting.sleep_max.is_some(), "a lock may end without a notification");
        send(&namespace);
        let called = ignore_poison(called.1.wait_while(ignore_poison(called.0.lock()), |called| !*called));
        assert!(*called);
        let stepped = step(&receiver, Some(waiting), &FOREVER, None, look).expect("no fault");
        assert!(matches!(stepped, WaitStep::Found(_)));
    }
}
