// SPDX-License-Identifier: Apache-2.0
//! One step of a wait: look for work, register, look again.
//!
//! Every wait of the broker consists of such steps with sleeps between them. Threads, server tasks, AMQP links and
//! Python event loops differ only in how they sleep. They sleep until the waiter is notified, for at most as long as
//! the source of the work allows, and then take the next step with that waiter.
//!
//! Invariants
//! - a step that returns a waiter has looked for work, and for the end of the wait, after it registered. So it sees
//!   what happened before the registration, and later events notify the waiter;
//! - a step that takes a notification looks for work afterwards;
//! - a step that finds work, fails, or ends the wait leaves the queue. A notification that arrived during the step
//!   goes to the next waiter.

use std::ops::Deref;

use super::{WaitQueue, Waiter};
use crate::Wait;

/// Result of a step.
#[derive(Debug)]
pub enum LookResult<T, W> {
    /// The work.
    Found(T),
    /// There is no work, and the wait is over.
    Over,
    /// There is no work yet. Sleep until the waiter is notified, then take the next step with it.
    Waiting(W),
}

/// A step of a wait, which says what follows a look that finds no work: register a waiter and look again, or sleep.
pub struct Looks<Q: Deref<Target = WaitQueue>>(Option<Waiter<Q>>);

impl<Q: Deref<Target = WaitQueue>> Looks<Q> {
    /// Begins a step. `earlier` is the waiter of the previous step.
    #[inline]
    pub fn begin(earlier: Option<Waiter<Q>>) -> Self {
        if let Some(mut earlier) = earlier {
            earlier.take_notification();
        }
        Self(None)
    }

    /// Follows a look without work. Returns `None` to look again, else the result of the step. The wait ends when
    /// `wait` is over.
    #[inline]
    pub fn found_nothing<T>(
        &mut self,
        register: impl FnOnce() -> Waiter<Q>,
        wait: &Wait<'_>,
    ) -> Option<LookResult<T, Waiter<Q>>> {
        if wait.is_over() {
            return Some(LookResult::Over);
        }
        if let Some(waiter) = self.0.take() {
            return Some(LookResult::Waiting(waiter));
        }
        self.0 = Some(register());
        None
    }
}

/// One step of a wait.
#[cfg(test)]
fn look_or_register<T, E, Q: Deref<Target = WaitQueue>>(
    earlier: Option<Waiter<Q>>,
    mut look: impl FnMut() -> Result<Option<T>, E>,
    mut register: impl FnMut() -> Waiter<Q>,
    wait: &Wait<'_>,
) -> Result<LookResult<T, Waiter<Q>>, E> {
    let mut looks = Looks::begin(earlier);
    loop {
        if let Some(found) = look()? {
            return Ok(LookResult::Found(found));
        }
        if let Some(result) = looks.found_nothing(&mut register, wait) {
            return Ok(result);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use std::convert::Infallible;

    use super::{LookResult, WaitQueue, Waiter, look_or_register};
    use crate::Wait;
    use crate::slot_log::loom_tests::check;
    use crate::sync::{Arc, AtomicUsize, Ordering};

    /// A number of messages, and the waiters for them.
    #[derive(Default)]
    struct TestSource {
        messages: AtomicUsize,
        queue: WaitQueue,
    }

    impl TestSource {
        fn send(&self) {
            self.messages.fetch_add(1, Ordering::Relaxed);
            self.queue.notify(1);
        }

        fn take(&self) -> Result<Option<()>, Infallible> {
            let take = |messages: usize| messages.checked_sub(1);
            let taken = self.messages.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
            Ok(taken.ok().map(drop))
        }

        fn step<'a>(
            &'a self,
            earlier: Option<Waiter<&'a WaitQueue>>,
            wait: &Wait<'_>,
        ) -> LookResult<(), Waiter<&'a WaitQueue>> {
            let step = look_or_register(earlier, || self.take(), || self.queue.register(), wait);
            step.unwrap_or_else(|never| match never {})
        }

        /// Receives one message, without a timeout.
        fn receive(&self) {
            let mut earlier = None;
            loop {
                match self.step(earlier, &Wait::FOREVER) {
                    LookResult::Found(()) => return,
                    LookResult::Over => unreachable!("the wait has no end"),
                    LookResult::Waiting(mut waiter) => {
                        waiter.wait(None);
                        earlier = Some(waiter);
                    }
                }
            }
        }
    }

    /// Sleeps forever without the second look.
    #[test]
    fn message_between_look_and_registration_is_found() {
        check(|| {
            let source = Arc::new(TestSource::default());
            let sender = loom::thread::spawn({
                let source = Arc::clone(&source);
                move || source.send()
            });
            source.receive();
            sender.join().expect("no panic");
            assert_eq!(source.queue.waiters(), 0);
        });
    }

    /// Sleeps forever if a step that finds its message at the second look keeps a notification.
    #[test]
    fn two_receivers_get_two_messages() {
        check(|| {
            let source = Arc::new(TestSource::default());
            let spawn = |work: fn(&TestSource)| {
                let source = Arc::clone(&source);
                loom::thread::spawn(move || work(&source))
            };
            let others = [spawn(TestSource::receive), spawn(TestSource::send)];
            let mut looks = 0;
            let look = || {
                looks += 1;
                let found = source.take();
                if looks == 1 && found == Ok(None) {
                    // This happens between the look and the registration.
                    source.send();
                }
                found
            };
            let step = look_or_register(None, look, || source.queue.register(), &Wait::FOREVER);
            match step.unwrap_or_else(|never| match never {}) {
                // The first look took the message of the other receiver.
                LookResult::Found(()) if looks == 1 => source.send(),
                LookResult::Found(()) => {}
                // The other receiver took this one's message.
                LookResult::Waiting(waiter) => {
                    drop(waiter);
                    source.receive();
                }
                LookResult::Over => unreachable!("the wait has no end"),
            }
            others.into_iter().for_each(|thread| thread.join().expect("no panic"));
            assert_eq!(source.queue.waiters(), 0);
        });
    }

    /// Sleeps forever if a cancelled wait keeps a notification.
    #[test]
    fn cancelled_wait_leaves_its_message_to_the_next() {
        check(|| {
            let source = Arc::new(TestSource::default());
            let cancelled = source.step(None, &Wait::FOREVER);
            let receiver = loom::thread::spawn({
                let source = Arc::clone(&source);
                move || source.receive()
            });
            let sender = loom::thread::spawn({
                let source = Arc::clone(&source);
                move || source.send()
            });
            drop(cancelled);
            receiver.join().expect("no panic");
            sender.join().expect("no panic");
        });
    }

    /// Sleeps forever if a step does not check after its registration whether the wait is over.
    #[test]
    fn end_of_the_wait_between_look_and_registration_is_seen() {
        check(|| {
            let source = Arc::new(TestSource::default());
            let over = Arc::new(AtomicUsize::new(0));
            let canceller = loom::thread::spawn({
                let (source, over) = (Arc::clone(&source), Arc::clone(&over));
                move || {
                    over.store(1, Ordering::Relaxed);
                    source.queue.notify_all();
                }
            });
            let is_over = || over.load(Ordering::Relaxed) == 1;
            let mut earlier = None;
            while let LookResult::Waiting(mut waiter) = source.step(earlier, &Wait::until(&is_over)) {
                waiter.wait(None);
                earlier = Some(waiter);
            }
            canceller.join().expect("no panic");
            assert_eq!(source.queue.waiters(), 0);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{LookResult, WaitQueue, Waiter, look_or_register};
    use crate::Wait;

    type Stepped<'a> = Result<LookResult<u8, Waiter<&'a WaitQueue>>, &'static str>;

    /// A step whose looks return `looks`, in this order.
    fn step<'a>(
        queue: &'a WaitQueue,
        earlier: Option<Waiter<&'a WaitQueue>>,
        looks: &[Result<Option<u8>, &'static str>],
        wait: &Wait<'_>,
    ) -> Stepped<'a> {
        let mut looks = looks.iter().copied();
        let look = || looks.next().expect("the step looks no more often");
        let stepped = look_or_register(earlier, look, || queue.register(), wait);
        assert!(looks.next().is_none(), "the step looks as often");
        stepped
    }

    #[test]
    fn available_work_is_found_without_registering() {
        let register = || unreachable!("the first look finds work");
        let found = look_or_register(
            None::<Waiter<&WaitQueue>>,
            || Ok::<_, ()>(Some(1)),
            register,
            &Wait::FOREVER,
        );
        assert!(matches!(found, Ok(LookResult::Found(1))));
    }

    #[test]
    fn work_between_look_and_registration_is_found() {
        let queue = WaitQueue::new();
        let found = step(&queue, None, &[Ok(None), Ok(Some(7))], &Wait::FOREVER);
        assert!(matches!(found, Ok(LookResult::Found(7))));
        assert_eq!(queue.waiters(), 0);
    }

    #[test]
    fn step_without_work_registers_and_the_next_step_unregisters() {
        let queue = WaitQueue::new();
        let Ok(LookResult::Waiting(waiter)) = step(&queue, None, &[Ok(None), Ok(None)], &Wait::FOREVER) else {
            panic!("there is no work");
        };
        assert_eq!(queue.waiters(), 1);
        queue.notify(1);
        let mut other = queue.register();
        let found = step(&queue, Some(waiter), &[Ok(Some(1))], &Wait::FOREVER);
        assert!(matches!(found, Ok(LookResult::Found(1))));
        assert!(
            !other.take_notification(),
            "the step took the notification and looked for work"
        );
    }

    #[test]
    fn unneeded_notification_of_a_step_goes_to_the_next() {
        for second in [Ok(Some(1)), Err("broken")] {
            let queue = WaitQueue::new();
            let other = Cell::new(None);
            let looked = Cell::new(0);
            let look = || {
                looked.set(looked.get() + 1);
                if looked.get() == 1 {
                    return Ok(None);
                }
                // The step has registered, and it is notified before the second look ends.
                other.set(Some(queue.register()));
                queue.notify(1);
                second
            };
            let stepped = look_or_register(None, look, || queue.register(), &Wait::FOREVER);
            assert!(!matches!(stepped, Ok(LookResult::Waiting(_))));
            let mut other: Waiter<_> = other.take().expect("registered by the second look");
            assert!(other.take_notification(), "{second:?}");
        }
    }

    #[test]
    fn dropped_waiter_of_a_step_passes_its_notification_on() {
        let queue = WaitQueue::new();
        let waiting = step(&queue, None, &[Ok(None), Ok(None)], &Wait::FOREVER);
        let mut other = queue.register();
        queue.notify(1);
        drop(waiting);
        assert!(other.take_notification());
        assert_eq!(queue.waiters(), 0);
    }

    #[test]
    fn wait_that_is_over_looks_once_and_does_not_register() {
        let queue = WaitQueue::new();
        let is_over = || true;
        let waiting = step(&queue, None, &[Ok(None)], &Wait::until(&is_over));
        assert!(matches!(waiting, Ok(LookResult::Over)));
        let found = step(&queue, None, &[Ok(Some(1))], &Wait::until(&is_over));
        assert!(
            matches!(found, Ok(LookResult::Found(1))),
            "available work is found even when the wait is over"
        );
    }

    #[test]
    fn wait_that_ends_after_the_registration_leaves_the_queue() {
        let queue = WaitQueue::new();
        let checks = AtomicUsize::new(0);
        let is_over = || checks.fetch_add(1, Ordering::Relaxed) == 1;
        let stepped = step(&queue, None, &[Ok(None), Ok(None)], &Wait::until(&is_over));
        assert!(matches!(stepped, Ok(LookResult::Over)));
        assert_eq!(queue.waiters(), 0);
    }

    #[test]
    fn error_of_a_look_leaves_the_queue() {
        let queue = WaitQueue::new();
        assert!(step(&queue, None, &[Err("closed")], &Wait::FOREVER).is_err());
        assert!(step(&queue, None, &[Ok(None), Err("closed")], &Wait::FOREVER).is_err());
        assert_eq!(queue.waiters(), 0);
    }
}
