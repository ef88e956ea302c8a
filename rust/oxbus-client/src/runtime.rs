// SPDX-License-Identifier: Apache-2.0
//! The runtime of all clients of the process, and who drives it: reads and writes sockets, and keeps timers.
//!
//! A call that blocks drives it on its own thread, so that an answer needs no switch to another thread. A background
//! thread drives it when no call does: in pauses, and while an event loop polls calls.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use oxbus_model::ErrorKind;
use oxbus_model::sync::ignore_poison;
use tokio::runtime::{EnterGuard, Handle, Runtime};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::error::{ClientError, Result};

/// Threads for callbacks that give tokens, beside those that drive.
const TOKEN_THREADS_MAX: usize = 4;
/// The background thread drives after a pause of this length between calls.
const PAUSE: Duration = Duration::from_millis(10);

const AWAKE: u8 = 0;
/// Until the pause is over.
const SHORT: u8 = 1;
/// Until a call that blocks for long ends.
const LONG: u8 = 2;

/// The runtime, and the process that it belongs to: a fork copies no threads.
struct ProcessRuntime {
    process: u32,
    driven: std::result::Result<Driven, String>,
}

/// The runtime and its drivers.
pub(crate) struct Driven {
    runtime: Runtime,
    /// Calls that block now.
    blocking: AtomicUsize,
    /// Calls that an event loop polls now.
    polled: AtomicUsize,
    /// Calls that have blocked.
    calls: AtomicU64,
    /// True while the background thread drives.
    is_background_driving: AtomicBool,
    /// Asks the background thread to leave the runtime to a call.
    leave: Notify,
    /// How the background thread sleeps: `AWAKE`, `SHORT` or `LONG`.
    sleep: AtomicU8,
    sleep_lock: Mutex<()>,
    wake: Condvar,
}

static RUNTIME: OnceLock<ProcessRuntime> = OnceLock::new();

fn start() -> ProcessRuntime {
    let built = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(TOKEN_THREADS_MAX)
        .thread_name("oxbus-token")
        .enable_io()
        .enable_time()
        .build();
    let driven = built.and_then(|runtime| {
        std::thread::Builder::new()
            .name("oxbus-client".to_owned())
            .spawn(drive_in_background)?;
        Ok(Driven {
            runtime,
            blocking: AtomicUsize::new(0),
            polled: AtomicUsize::new(0),
            calls: AtomicU64::new(0),
            is_background_driving: AtomicBool::new(false),
            leave: Notify::new(),
            sleep: AtomicU8::new(AWAKE),
            sleep_lock: Mutex::new(()),
            wake: Condvar::new(),
        })
    });
    ProcessRuntime {
        process: std::process::id(),
        driven: driven.map_err(|error| error.to_string()),
    }
}

/// The runtime of this process.
pub(crate) fn driven() -> Result<&'static Driven> {
    let runtime = RUNTIME.get_or_init(start);
    if runtime.process != std::process::id() {
        let detail = "this process was forked from one with open clients, which have no thread here; start processes \
                      with spawn, or open clients only after the fork";
        return Err(ClientError::broker(ErrorKind::Forked, detail));
    }
    runtime.driven.as_ref().map_err(|error| {
        let detail = format!("the client's thread cannot start; raise the limit of threads: {error}");
        ClientError::broker(ErrorKind::Storage, detail)
    })
}

/// The handle of the runtime of this process.
pub(crate) fn handle() -> Result<&'static Handle> {
    Ok(driven()?.runtime.handle())
}

/// Lets this thread create sockets and timers of the runtime.
pub fn enter() -> Result<EnterGuard<'static>> {
    Ok(handle()?.enter())
}

/// Runs a future on the threads that drive the runtime.
pub(crate) fn spawn<F>(future: F) -> Result<JoinHandle<F::Output>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Ok(handle()?.spawn(future))
}

/// While it lives, the background thread drives the runtime: an event loop polls a call, and no thread waits for it.
pub struct Polled(&'static Driven);

/// Announces a call that an event loop polls.
pub fn polled() -> Result<Polled> {
    let driven = driven()?;
    driven.polled.fetch_add(1, Ordering::SeqCst);
    if driven.sleep.load(Ordering::SeqCst) != AWAKE {
        driven.wake_background();
    }
    Ok(Polled(driven))
}

impl Drop for Polled {
    fn drop(&mut self) {
        self.0.polled.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A call that blocks, and drives the runtime meanwhile.
pub(crate) struct Blocking(&'static Driven);

impl Driven {
    /// Announces a call that blocks. `None` if the background thread drives for an event loop.
    pub(crate) fn begin_blocking(&'static self) -> Option<Blocking> {
        if self.polled.load(Ordering::SeqCst) > 0 {
            return None;
        }
        self.blocking.fetch_add(1, Ordering::SeqCst);
        if self.is_background_driving.load(Ordering::SeqCst) {
            self.leave.notify_one();
        }
        Some(Blocking(self))
    }

    fn wake_background(&self) {
        // The thread holds the lock from its last look at what it waits for until it sleeps.
        let _lock = ignore_poison(self.sleep_lock.lock());
        self.wake.notify_one();
    }

    /// Sleeps in the background until no call has blocked for a while, or until an event loop polls one.
    fn sleep_in_background(&self) {
        let mut seen = self.calls.load(Ordering::SeqCst);
        let mut sleep = SHORT;
        let mut lock = ignore_poison(self.sleep_lock.lock());
        loop {
            self.sleep.store(sleep, Ordering::SeqCst);
            // Looked at after the store: who changes it later sees how this thread sleeps, and wakes it.
            if self.polled.load(Ordering::SeqCst) > 0 {
                break;
            }
            lock = if sleep == LONG && self.blocking.load(Ordering::SeqCst) > 0 {
                self.wake.wait(lock).unwrap_or_else(PoisonError::into_inner)
            } else {
                let waited = self.wake.wait_timeout(lock, PAUSE);
                waited.unwrap_or_else(PoisonError::into_inner).0
            };
            let calls = self.calls.load(Ordering::SeqCst);
            let is_quiet = calls == seen;
            let is_blocking = self.blocking.load(Ordering::SeqCst) > 0;
            if is_quiet && !is_blocking {
                break;
            }
            sleep = if is_quiet { LONG } else { SHORT };
            seen = calls;
        }
        self.sleep.store(AWAKE, Ordering::SeqCst);
    }
}

/// Drives the runtime when no call does.
fn drive_in_background() {
    let Ok(driven) = &RUNTIME.wait().driven else {
        return;
    };
    loop {
        driven.is_background_driving.store(true, Ordering::SeqCst);
        driven.runtime.block_on(driven.leave.notified());
        driven.is_background_driving.store(false, Ordering::SeqCst);
        driven.sleep_in_background();
    }
}

impl Blocking {
    /// Drives the runtime until the future is ready.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.runtime.block_on(future)
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        let driven = self.0;
        driven.calls.fetch_add(1, Ordering::SeqCst);
        driven.blocking.fetch_sub(1, Ordering::SeqCst);
        if driven.sleep.load(Ordering::SeqCst) == LONG {
            driven.wake_background();
        }
    }
}
