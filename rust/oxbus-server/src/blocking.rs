// SPDX-License-Identifier: Apache-2.0
//! Broker calls that may block, with a timeout.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use oxbus_broker::Namespace;
use oxbus_broker::clock::{Deadline, with_timeout};
use oxbus_model::caps::CALL_MS_DEFAULT;
use oxbus_model::{Effect, Error, ErrorKind, Result};
use oxbus_store::Wait;
use oxbus_store::suspended::SuspendedCall;
use tokio::sync::{Notify, Semaphore};
use tokio::task::{JoinError, spawn_blocking};

/// How often a suspended call looks whether its wait is over.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// How long a call that goes on waits for one of its threads.
const THREAD_WAIT: Duration = Duration::from_secs(1);

/// Runs `work` with a wait that gives up on an unresponsive store after `CALL_MS_DEFAULT`.
pub(crate) fn with_call_timeout<T>(work: impl FnOnce(&Wait<'_>) -> T) -> T {
    with_timeout(CALL_MS_DEFAULT, &Wait::FOREVER, work)
}

/// A call with the timeout of [`with_call_timeout`] that is suspended while it waits for a store.
pub(crate) async fn call_with_timeout<T>(work: impl AsyncFnOnce(&Wait<'_>) -> T) -> T {
    let deadline = Deadline::after(Some(Duration::from_millis(CALL_MS_DEFAULT)));
    let is_over = || deadline.is_over();
    work(&Wait::until(&is_over).suspending()).await
}

/// Makes a call. It runs on blocking threads, one of `threads` at a time, and holds none while it is suspended. Fails if
/// the call panics.
pub(crate) async fn run_call<T: Send + 'static>(
    mut call: SuspendedCall<T>,
    threads: Arc<Semaphore>,
) -> std::result::Result<T, JoinError> {
    let woken = Arc::new(Woken(Notify::new()));
    let waker = Waker::from(Arc::clone(&woken));
    let mut thread = threads.clone().acquire_owned().await.ok();
    loop {
        let waker = waker.clone();
        match spawn_blocking(move || call.go_on(&waker)).await? {
            Ok(done) => return Ok(done),
            Err(suspended) => call = suspended,
        }
        // Not on the thread: the next call would find it busy, and start one more.
        drop(thread);
        tokio::select! {
            () = woken.0.notified() => {}
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
        }
        // The threads may be held by calls that wait for this one.
        let acquired = tokio::time::timeout(THREAD_WAIT, threads.clone().acquire_owned()).await;
        thread = acquired.ok().and_then(std::result::Result::ok);
    }
}

struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// Runs `work` on a blocking thread, with the timeout of [`with_call_timeout`].
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce(&Wait<'_>) -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = spawn_blocking(|| with_call_timeout(work)).await;
    done.unwrap_or_else(|_| {
        // The panic hook has already reported it. The effect of the call is unknown.
        let detail = "the server panicked during the call; see its error output";
        Err(Error::new(ErrorKind::Storage, detail).with_effect(Effect::Unknown))
    })
}

/// Runs short `work` that may wait for the namespace's catalog: in place for a namespace in memory, else on a
/// blocking thread.
pub(crate) async fn run_lookup<T: Send + 'static>(
    namespace: &Namespace,
    work: impl FnOnce(&Wait<'_>) -> Result<T> + Send + 'static,
) -> Result<T> {
    if namespace.may_wait() {
        run_blocking(work).await
    } else {
        with_call_timeout(work)
    }
}
