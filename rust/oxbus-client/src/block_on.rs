// SPDX-License-Identifier: Apache-2.0
//! Waits for a future on the caller's thread.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use crate::error::Result;
use crate::runtime;

struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for the result of a call. The thread drives the runtime meanwhile, or sleeps if another one does.
pub fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    block_on_until(future, None, || Ok(()))
}

/// Waits for the result of a call, and calls `check` at each interval. An error of `check` drops the call.
pub fn block_on_until<T>(
    future: impl Future<Output = Result<T>>,
    interval: Option<Duration>,
    mut check: impl FnMut() -> Result<()>,
) -> Result<T> {
    // Sockets and timers that the call creates belong to the runtime.
    let _inside = runtime::enter()?;
    let mut future = pin!(future);
    if let Some(blocking) = runtime::driven()?.begin_blocking() {
        loop {
            let done = blocking.block_on(async {
                match interval {
                    Some(interval) => tokio::time::timeout(interval, future.as_mut()).await.ok(),
                    None => Some(future.as_mut().await),
                }
            });
            if let Some(result) = done {
                return result;
            }
            check()?;
        }
    }
    let waker = Waker::from(Arc::new(ThreadWaker(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return result;
        }
        match interval {
            Some(interval) => std::thread::park_timeout(interval),
            None => std::thread::park(),
        }
        check()?;
    }
}
