// SPDX-License-Identifier: Apache-2.0
//! Calls that hold no thread while a store takes its time.
//!
//! A call is an async function. Whether its thread waits, or the call is suspended, is a matter of its
//! [`Wait`](crate::Wait): the former never returns pending, so one poll makes the whole call ([`run_now`]); the latter
//! returns pending until the journal wakes it ([`SuspendedCall`]). So both are one path.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use crate::Wait;

/// How often a thread that waits for a suspended call looks whether its wait is over.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Suspends a call until `is_done` returns true, or its wait is over. `is_done` gets what to wake when to ask again.
pub async fn until(wait: &Wait<'_>, mut is_done: impl FnMut(&Waker) -> bool) {
    poll_fn(|context| {
        if wait.is_over() || is_done(context.waker()) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// Suspended calls that wait for one change.
#[derive(Debug, Default)]
pub struct Wakers(Vec<Waker>);

impl Wakers {
    /// Adds a call, unless it still waits: a call also goes on to see whether its wait is over.
    pub fn add(&mut self, waker: &Waker) {
        if !self.0.iter().any(|known| known.will_wake(waker)) {
            self.0.push(waker.clone());
        }
    }

    /// Wakes the calls. The caller holds no lock that they need.
    pub fn wake(self) {
        self.0.into_iter().for_each(Waker::wake);
    }
}

/// Makes a call on this thread.
#[inline]
pub fn run_now<T>(call: impl Future<Output = T>) -> T {
    let mut call = pin!(call);
    match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        // Its wait would have let it be suspended.
        Poll::Pending => wait_for(call),
    }
}

/// Waits for a suspended call.
#[cold]
fn wait_for<T>(mut call: Pin<&mut impl Future<Output = T>>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        if let Poll::Ready(done) = call.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        std::thread::park_timeout(CHECK_INTERVAL);
    }
}

/// A call that is suspended while it waits for a store. A call that has begun always ends, because its entry may be in
/// the journal: if it is dropped before its end, the dropping thread waits for it.
pub struct SuspendedCall<T> {
    /// `None` after its end.
    call: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    has_begun: bool,
}

impl<T> SuspendedCall<T> {
    /// A call, which begins with the first [`SuspendedCall::go_on`].
    pub fn new(call: impl Future<Output = T> + Send + 'static) -> Self {
        Self {
            call: Some(Box::pin(call)),
            has_begun: false,
        }
    }

    /// Begins the call or goes on with it. Returns the call itself while it is suspended; `waker` is woken when to go
    /// on.
    pub fn go_on(mut self, waker: &Waker) -> Result<T, Self> {
        self.has_begun = true;
        let call = self.call.as_mut().expect("a call is gone after its end");
        match call.as_mut().poll(&mut Context::from_waker(waker)) {
            Poll::Ready(done) => {
                self.call = None;
                Ok(done)
            }
            Poll::Pending => Err(self),
        }
    }
}

impl<T> std::fmt::Debug for SuspendedCall<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SuspendedCall")
            .field("has_begun", &self.has_begun)
            .finish_non_exhaustive()
    }
}

impl<T> Drop for SuspendedCall<T> {
    fn drop(&mut self) {
        // After a panic the call must not be polled again.
        let is_suspended = self.has_begun && !std::thread::panicking();
        if let Some(mut call) = self.call.take().filter(|_| is_suspended) {
            drop(wait_for(pin!(&mut call)));
        }
    }
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Is pending for the first `polls` polls, and counts all polls.
    async fn pending_for(polls: usize, count: Arc<AtomicUsize>) -> usize {
        std::future::poll_fn(|_| {
            if count.fetch_add(1, Ordering::Relaxed) < polls {
                Poll::Pending
            } else {
                Poll::Ready(polls)
            }
        })
        .await
    }

    #[test]
    fn a_call_goes_on_where_it_was_suspended() {
        let count = Arc::new(AtomicUsize::new(0));
        let mut call = SuspendedCall::new(pending_for(2, Arc::clone(&count)));
        for _ in 0..2 {
            call = call.go_on(Waker::noop()).expect_err("it is suspended");
        }
        assert_eq!(call.go_on(Waker::noop()).ok(), Some(2));
        assert_eq!(
            count.load(Ordering::Relaxed),
            3,
            "a call that has ended is not polled again"
        );
    }

    #[test]
    fn a_dropped_call_ends_if_it_has_begun() {
        let count = Arc::new(AtomicUsize::new(0));
        let call = SuspendedCall::new(pending_for(3, Arc::clone(&count)));
        drop(call.go_on(Waker::noop()).expect_err("it is suspended"));
        assert_eq!(count.load(Ordering::Relaxed), 4);
        drop(SuspendedCall::new(pending_for(0, Arc::clone(&count))));
        assert_eq!(count.load(Ordering::Relaxed), 4, "the other one never began");
    }

    #[test]
    fn a_thread_makes_a_whole_call() {
        for polls in [0, 1, 3] {
            assert_eq!(run_now(pending_for(polls, Arc::default())), polls);
        }
    }
}
