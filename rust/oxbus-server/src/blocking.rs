// SPDX-License-Identifier: Apache-2.0
//! Broker calls that may block, with a timeout.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use oxbus_broker::Namespace;
use oxbus_broker::clock::{Deadline, with_timeout};
use oxbus_model::caps::{CALL_MS_DEFAULT, SERVER_CHANGES_MAX};
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

/// Makes a call. It runs on blocking threads, one of `threads` at a time if there are such, and holds none while it is
/// suspended. Fails if the call panics.
pub async fn run_call<T: Send + 'static>(
    mut call: SuspendedCall<T>,
    threads: Option<Arc<Semaphore>>,
) -> std::result::Result<T, JoinError> {
    let woken = Arc::new(Woken(Notify::new()));
    let waker = Waker::from(Arc::clone(&woken));
    let acquire = async || match &threads {
        Some(threads) => Arc::clone(threads).acquire_owned().await.ok(),
        None => None,
    };
    let mut thread = acquire().await;
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
        thread = tokio::time::timeout(THREAD_WAIT, acquire()).await.ok().flatten();
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
    done.unwrap_or_else(|_| Err(panicked()))
}

/// The threads that [`run_change`] may hold.
static CHANGES: Semaphore = Semaphore::const_new(SERVER_CHANGES_MAX);

/// Like [`run_blocking`], for a change that holds its thread while it waits for the catalog or a stage. Few of them run
/// at a time, so that other calls always find a thread. Once it has begun it ends, also if the returned future is
/// dropped.
pub(crate) async fn run_change<T: Send + 'static>(
    work: impl FnOnce(&Wait<'_>) -> Result<T> + Send + 'static,
) -> Result<T> {
    let turn = CHANGES.acquire().await.ok();
    let work = move |wait: &Wait<'_>| {
        let done = work(wait);
        drop(turn);
        done
    };
    run_blocking(work).await
}

/// Makes a call with the timeout of [`call_with_timeout`]. It holds no thread while a store takes its time. Once it has
/// begun it ends, also if the returned future is dropped, as when a client cancels its request.
pub(crate) async fn run_suspending<T: Send + 'static>(
    call: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let made = tokio::spawn(run_call(SuspendedCall::new(call), None)).await;
    made.flatten().unwrap_or_else(|_| Err(panicked()))
}

fn panicked() -> Error {
    // The panic hook has already reported it. The effect of the call is unknown.
    let detail = "the server panicked during the call; see its error output";
    Error::new(ErrorKind::Storage, detail).with_effect(Effect::Unknown)
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::task::Poll;

    use oxbus_model::caps::SERVER_CHANGES_MAX;

    use super::{run_blocking, run_change, run_suspending};

    /// Counts those that have begun and those that have ended.
    #[derive(Default)]
    struct Calls {
        begun: AtomicUsize,
        ended: AtomicUsize,
        has_answer: AtomicBool,
    }

    async fn call(calls: Arc<Calls>) -> oxbus_model::Result<()> {
        calls.begun.fetch_add(1, Ordering::SeqCst);
        poll_fn(|_| {
            if calls.has_answer.load(Ordering::SeqCst) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        calls.ended.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    #[test]
    fn suspended_requests_hold_no_thread_and_end_when_their_clients_are_gone() {
        const COUNT: usize = 100;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .max_blocking_threads(1)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let calls = Arc::new(Calls::default());
            let requests: Vec<_> = (0..COUNT)
                .map(|_| tokio::spawn(run_suspending(call(Arc::clone(&calls)))))
                .collect();
            while calls.begun.load(Ordering::SeqCst) < COUNT {
                tokio::task::yield_now().await;
            }
            requests.iter().take(COUNT / 2).for_each(tokio::task::JoinHandle::abort);
            calls.has_answer.store(true, Ordering::SeqCst);
            for (at, request) in requests.into_iter().enumerate() {
                assert_eq!(request.await.is_ok(), at >= COUNT / 2);
            }
            while calls.ended.load(Ordering::SeqCst) < COUNT {
                tokio::task::yield_now().await;
            }
        });
    }

    #[test]
    fn changes_that_wait_leave_threads_to_other_calls() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .max_blocking_threads(SERVER_CHANGES_MAX + 1)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let calls = Arc::new(Calls::default());
            let change = |calls: Arc<Calls>| {
                run_change(move |_| {
                    calls.begun.fetch_add(1, Ordering::SeqCst);
                    while !calls.has_answer.load(Ordering::SeqCst) {
                        std::thread::yield_now();
                    }
                    calls.ended.fetch_add(1, Ordering::SeqCst);
                    Ok(())
                })
            };
            let changes: Vec<_> = (0..2 * SERVER_CHANGES_MAX)
                .map(|_| tokio::spawn(change(Arc::clone(&calls))))
                .collect();
            while calls.begun.load(Ordering::SeqCst) < SERVER_CHANGES_MAX {
                tokio::task::yield_now().await;
            }
            assert!(run_blocking(|_| Ok(())).await.is_ok());
            assert_eq!(calls.begun.load(Ordering::SeqCst), SERVER_CHANGES_MAX);
            calls.has_answer.store(true, Ordering::SeqCst);
            for change in changes {
                assert!(change.await.is_ok_and(|done| done.is_ok()));
            }
            assert_eq!(calls.ended.load(Ordering::SeqCst), 2 * SERVER_CHANGES_MAX);
        });
    }
}
