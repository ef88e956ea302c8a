// SPDX-License-Identifier: Apache-2.0
//! Waiting without holding the interpreter, with Ctrl-C and with a clean exit.
//!
//! The main thread waits in slices and looks for signals in between; other threads wait in one piece.
//! At interpreter exit `_wake_waiting` ends all waits. A daemon thread must not touch the interpreter from then on,
//! so it stays parked until the process ends; every other thread returns to Python, which is waiting to join it.

use std::cell::{Cell, RefCell};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oxbus_broker::client::WaitOptions;
use oxbus_broker::clock::Deadline;
use oxbus_broker::namespace::{CloseHandle, WakeHandle};
use oxbus_model::caps::CALL_MS_DEFAULT;
use oxbus_model::sync::whole;
use oxbus_store::Wait;
use pyo3::prelude::*;

use crate::error::OrRaise;
use crate::fork::ProcessLocal;
use crate::imports;

/// Between two looks for signals in the main thread.
const SIGNAL_SLICE: Duration = Duration::from_millis(50);
/// Between two looks whether the interpreter exits, where nothing else ends a wait.
const EXIT_SLICE: Duration = Duration::from_millis(500);

static EXITING: AtomicBool = AtomicBool::new(false);
/// Both lists are whole after a panic: a namespace is in them or not.
static NAMESPACES: Mutex<Vec<WakeHandle>> = Mutex::new(Vec::new());
/// Durable namespaces, to be closed when the process ends.
static DURABLE: Mutex<Vec<ProcessLocal<CloseHandle>>> = Mutex::new(Vec::new());

/// Lets the exit of the interpreter wake the receivers of a namespace.
pub(crate) fn register(handle: WakeHandle) {
    let mut namespaces = whole(NAMESPACES.lock());
    namespaces.retain(WakeHandle::is_alive);
    namespaces.push(handle);
}

/// Lets the end of the process close a durable namespace.
pub(crate) fn register_durable(handle: ProcessLocal<CloseHandle>) {
    let mut namespaces = whole(DURABLE.lock());
    namespaces.retain(|handle| handle.if_same_process().is_some_and(CloseHandle::is_alive));
    namespaces.push(handle);
}

/// Closes the durable namespaces that are still open.
#[pyfunction]
pub(crate) fn _close_durable(py: Python<'_>) {
    py.detach(|| {
        let handles = std::mem::take(&mut *whole(DURABLE.lock()));
        handles
            .iter()
            .filter_map(ProcessLocal::if_same_process)
            .for_each(CloseHandle::close);
    });
}

/// Ends every receive that waits.
#[pyfunction]
pub(crate) fn _wake_waiting(py: Python<'_>) {
    EXITING.store(true, Ordering::SeqCst);
    py.detach(|| {
        let namespaces = std::mem::take(&mut *whole(NAMESPACES.lock()));
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
    /// Runs no Python code, as `threading.current_thread()` and `daemon` would. Before Python 3.14 a daemon thread that
    /// loses the interpreter at its exit is unwound on the spot, and with a frame of ours below, that ends the process.
    fn of(py: Python<'_>) -> PyResult<Self> {
        let ident = imports::thread_ident(py)?.call0()?;
        let Ok(current) = imports::active_threads(py)?.get_item(ident) else {
            // Python knows nothing of a thread that it did not start, and does not wait for it.
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

    /// Parks a daemon thread for good when the interpreter exits: touching it then would end the process.
    fn park_if_exiting(self) {
        if self == Self::Daemon && is_exiting() {
            loop {
                std::thread::park();
            }
        }
    }
}

/// Runs `work` outside the interpreter; it leaves a store that does not answer after the time that calls have which name
/// none.
pub(crate) fn run_detached<T: Send>(py: Python<'_>, work: impl FnOnce(&Wait<'_>) -> T + Send) -> PyResult<T> {
    run_detached_until(py, Deadline::after(Some(Duration::from_millis(CALL_MS_DEFAULT))), work)
}

/// Runs `work` outside the interpreter; it leaves a store that does not answer at `deadline`, and in the main thread at a
/// signal. A daemon thread does not come back once the interpreter exits.
pub(crate) fn run_detached_until<T: Send>(
    py: Python<'_>,
    deadline: Deadline,
    work: impl FnOnce(&Wait<'_>) -> T + Send,
) -> PyResult<T> {
    let is_over = || deadline.is_over();
    let (done, signal) = interruptible(py, Duration::ZERO, is_over, |_, is_over| work(&Wait::until(is_over)))?;
    signal.map_or(Ok(done), Err)
}

/// Runs `work`, which waits for the network in slices and leaves when it is told so: in the main thread after a signal, which
/// comes back with what `work` returned; in every thread when the interpreter exits.
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

/// Runs `wait`, which waits until something notifies it: a message, the end of its receiver, or the exit of the interpreter.
/// It is called off when `is_over` says so, and in the main thread after a signal.
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
        // What was found is not lost to a signal.
        (found, _) => found.or_raise(),
    }
}

/// Runs `work` outside the interpreter, with the question whether to leave: when `is_over` says so, and in the main thread
/// after a signal, which comes back with what `work` returned. Signals are looked for no more often than `signal_slice`.
fn interruptible<T: Send>(
    py: Python<'_>,
    signal_slice: Duration,
    is_over: impl Fn() -> bool + Sync,
    work: impl FnOnce(Caller, &dyn Fn() -> bool) -> T + Send,
) -> PyResult<(T, Option<PyErr>)> {
    let caller = Caller::of(py)?;
    Ok(py.detach(|| {
        let signal = RefCell::new(None);
        let next_look = || Deadline::after(Some(signal_slice));
        let look_due = Cell::new(next_look());
        let is_cancelled = || {
            if caller == Caller::Main && signal.borrow().is_none() && look_due.get().is_over() {
                *signal.borrow_mut() = Python::attach(|py| py.check_signals().err());
                look_due.set(next_look());
            }
            is_over() || signal.borrow().is_some()
        };
        let done = work(caller, &is_cancelled);
        caller.park_if_exiting();
        (done, signal.into_inner())
    }))
}

pub(crate) fn is_exiting() -> bool {
    EXITING.load(Ordering::SeqCst)
}
