// SPDX-License-Identifier: Apache-2.0
//! Blocking calls that are detached from the interpreter, react to Ctrl-C and end when the interpreter exits.
//!
//! The main thread waits in slices and checks for signals in between. Other threads wait in one piece.
//! At interpreter exit, `_wake_waiting` ends all waits. A daemon thread must not touch the interpreter from then on,
//! so it stays parked until the process ends. Every other thread returns to Python, which is waiting to join it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use oxbus_broker::client::WaitOptions;
use oxbus_broker::clock::Deadline;
use oxbus_broker::namespace::{CloseHandle, WakeHandle};
use oxbus_model::caps::CALL_MS_DEFAULT;
use oxbus_model::sync::ignore_poison;
use oxbus_store::Wait;
use pyo3::prelude::*;

use crate::error::OrRaise;
use crate::fork::ProcessLocal;
use crate::imports;

/// The interval between signal checks in the main thread.
const SIGNAL_SLICE: Duration = Duration::from_millis(50);
/// The interval between checks for interpreter exit, in waits that nothing else ends.
const EXIT_SLICE: Duration = Duration::from_millis(500);

static EXITING: AtomicBool = AtomicBool::new(false);
/// A panic leaves both lists consistent: each change is one step.
static NAMESPACES: Mutex<Vec<WakeHandle>> = Mutex::new(Vec::new());
/// Durable namespaces, which are closed when the process ends.
static DURABLE: Mutex<Vec<ProcessLocal<CloseHandle>>> = Mutex::new(Vec::new());

/// Registers a namespace whose receivers are woken at interpreter exit.
pub(crate) fn register(handle: WakeHandle) {
    let mut namespaces = ignore_poison(NAMESPACES.lock());
    namespaces.retain(WakeHandle::is_alive);
    namespaces.push(handle);
}

/// Registers a durable namespace that is closed when the process ends.
pub(crate) fn register_durable(handle: ProcessLocal<CloseHandle>) {
    let mut namespaces = ignore_poison(DURABLE.lock());
    namespaces.retain(|handle| handle.if_same_process().is_some_and(CloseHandle::is_alive));
    namespaces.push(handle);
}

/// Closes the durable namespaces that are still open.
#[pyfunction]
pub(crate) fn _close_durable(py: Python<'_>) {
    py.detach(|| {
        let handles = std::mem::take(&mut *ignore_poison(DURABLE.lock()));
        handles
            .iter()
            .filter_map(ProcessLocal::if_same_process)
            .for_each(CloseHandle::close);
    });
}

/// Ends all waiting receives.
#[pyfunction]
pub(crate) fn _wake_waiting(py: Python<'_>) {
    EXITING.store(true, Ordering::SeqCst);
    py.detach(|| {
        let namespaces = std::mem::take(&mut *ignore_poison(NAMESPACES.lock()));
        namespaces.iter().for_each(WakeHandle::wake_all);
    });
}

/// The thread that makes a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caller {
    Main,
    Daemon,
    Other,
}

impl Caller {
    /// Runs no Python code, unlike `threading.current_thread()` and `daemon`. Before Python 3.14, a daemon thread that
    /// loses the interpreter at exit is unwound immediately. Unwinding through a Rust frame ends the process.
    fn of(py: Python<'_>) -> PyResult<Self> {
        let ident = imports::thread_ident(py)?.call0()?;
        let Ok(current) = imports::active_threads(py)?.get_item(ident) else {
            // Python does not know or join threads that it did not start.
            return Ok(Self::Daemon);
        };
        if current.is(&imports::main_thread(py)?) {
            return Ok(Self::Main);
        }
        Ok(if current.getattr("_daemonic")?.is_truthy()? {
            Self::Daemon
        } else {
            Self::Other
        })
    }

    /// Parks a daemon thread for good once the interpreter exits: touching the interpreter then would end the process.
    fn park_if_exiting(self) {
        if self == Self::Daemon && is_exiting() {
            loop {
                std::thread::park();
            }
        }
    }
}

/// Runs `work` detached from the interpreter. It stops waiting for an unresponsive store after the default time of a
/// call.
pub(crate) fn run_detached<T: Send>(py: Python<'_>, work: impl FnOnce(&Wait<'_>) -> T + Send) -> PyResult<T> {
    run_detached_until(py, default_deadline(), work)
}

/// The end of a call that has no timeout of its own.
pub(crate) fn default_deadline() -> Deadline {
    Deadline::after(Some(Duration::from_millis(CALL_MS_DEFAULT)))
}

/// Runs `work` detached from the interpreter. It stops waiting for an unresponsive store at `deadline`, and in the
/// main thread on a signal. A daemon thread does not return once the interpreter exits.
pub(crate) fn run_detached_until<T: Send>(
    py: Python<'_>,
    deadline: Deadline,
    work: impl FnOnce(&Wait<'_>) -> T + Send,
) -> PyResult<T> {
    let is_over = || deadline.is_over();
    let (done, signal) = interruptible(py, Duration::ZERO, is_over, |_, is_over| work(&Wait::until(is_over)))?;
    signal.map_or(Ok(done), Err)
}

/// Runs `work`, which waits for the network in slices and stops when it is cancelled: in the main thread after a
/// signal, in every thread when the interpreter exits. Returns the result of `work` and the signal.
pub(crate) fn run_network_call<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(Duration, &dyn Fn() -> bool) -> T + Send,
) -> PyResult<(T, Option<PyErr>)> {
    interruptible(py, Duration::ZERO, is_exiting, |caller, is_cancelled| {
        let slice = if caller == Caller::Main {
            SIGNAL_SLICE
        } else {
            EXIT_SLICE
        };
        work(slice, is_cancelled)
    })
}

/// Runs `wait`, which waits for a notification: a message, the end of its receiver, or the exit of the interpreter.
/// The wait is cancelled when `is_over` returns true, and in the main thread after a signal.
pub(crate) fn wait_until_notified<T: Send>(
    py: Python<'_>,
    deadline: Deadline,
    is_over: impl Fn() -> bool + Sync,
    wait: impl FnOnce(&WaitOptions<'_>) -> oxbus_model::Result<Option<T>> + Send,
) -> PyResult<Option<T>> {
    let is_over = || is_exiting() || is_over();
    let (found, signal) = interruptible(py, SIGNAL_SLICE, is_over, |caller, is_over| {
        wait(&WaitOptions {
            deadline,
            cancellation: &Wait::until(is_over),
            poll_interval: (caller == Caller::Main).then_some(SIGNAL_SLICE),
        })
    })?;
    match (found, signal) {
        (Ok(None), Some(signal)) => Err(signal),
        // A signal does not discard a result.
        (found, _) => found.or_raise(),
    }
}

/// Runs `work` detached from the interpreter. Its second argument returns true when `work` should stop: when `is_over`
/// does, and in the main thread after a signal. Returns the result of `work` and the signal. Signals are checked at
/// most once per `signal_slice`.
fn interruptible<T: Send>(
    py: Python<'_>,
    signal_slice: Duration,
    is_over: impl Fn() -> bool + Sync,
    work: impl FnOnce(Caller, &(dyn Fn() -> bool + Sync)) -> T + Send,
) -> PyResult<(T, Option<PyErr>)> {
    let caller = Caller::of(py)?;
    Ok(py.detach(|| {
        let signal = OnceLock::new();
        let next_check = || Deadline::after(Some(signal_slice));
        let check_due = Mutex::new(next_check());
        let check_signals = || {
            let mut check_due = ignore_poison(check_due.lock());
            if check_due.is_over() {
                if let Some(raised) = Python::attach(|py| py.check_signals().err()) {
                    // The first signal is the one that is raised.
                    let _ = signal.set(raised);
                }
                *check_due = next_check();
            }
        };
        let is_cancelled = || {
            if caller == Caller::Main && signal.get().is_none() {
                check_signals();
            }
            is_over() || signal.get().is_some()
        };
        let done = work(caller, &is_cancelled);
        caller.park_if_exiting();
        (done, signal.into_inner())
    }))
}

pub(crate) fn is_exiting() -> bool {
    EXITING.load(Ordering::SeqCst)
}
