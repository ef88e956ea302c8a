// SPDX-License-Identifier: Apache-2.0
//! Waiting without holding the interpreter, with Ctrl-C and with a clean exit.
//!
//! The main thread waits in slices and looks for signals in between; other threads wait in one piece.
//! At interpreter exit `_wake_waiting` ends all waits. A daemon thread must not touch the interpreter from then on,
//! so it stays parked until the process ends; every other thread returns to Python, which is waiting to join it.

use std::cell::RefCell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oxbus_broker::Receiver;
use oxbus_broker::client::{Acceptor, Deliveries, Plan, Reservations, Waited, Wish};
use oxbus_broker::clock::Alarm;
use oxbus_broker::namespace::{CloseHandle, WakeHandle};
use oxbus_model::caps::CALL_MS_DEFAULT;
use oxbus_model::sync::whole;
use oxbus_store::Wait;
use pyo3::prelude::*;

use crate::blocking::IN_PLACE_MAX;
use crate::error::OrRaise;
use crate::fork::Owned;
use crate::imports;

/// Between two looks for signals in the main thread.
const SIGNAL_SLICE: Duration = Duration::from_millis(50);
/// Between two looks whether the interpreter exits, where nothing else ends a wait.
const EXIT_SLICE: Duration = Duration::from_millis(500);
/// A wait in one piece; bounded only because a duration is.
const ONE_PIECE: Duration = Duration::from_secs(3600);

static EXITING: AtomicBool = AtomicBool::new(false);
/// Both lists are whole after a panic: a namespace is in them or not.
static NAMESPACES: Mutex<Vec<WakeHandle>> = Mutex::new(Vec::new());
/// Durable namespaces, to be closed when the process ends.
static DURABLE: Mutex<Vec<Owned<CloseHandle>>> = Mutex::new(Vec::new());

/// Lets the exit of the interpreter wake the receivers of a namespace.
pub(crate) fn register(handle: WakeHandle) {
    let mut namespaces = whole(NAMESPACES.lock());
    namespaces.retain(WakeHandle::is_alive);
    namespaces.push(handle);
}

/// Lets the end of the process close a durable namespace.
pub(crate) fn register_durable(handle: Owned<CloseHandle>) {
    let mut namespaces = whole(DURABLE.lock());
    namespaces.retain(|handle| handle.if_ours().is_some_and(CloseHandle::is_alive));
    namespaces.push(handle);
}

/// Closes the durable namespaces that are still open.
#[pyfunction]
pub(crate) fn _close_durable(py: Python<'_>) {
    py.detach(|| {
        let handles = std::mem::take(&mut *whole(DURABLE.lock()));
        handles.iter().filter_map(Owned::if_ours).for_each(CloseHandle::close);
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

/// Who waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiter {
    Main,
    Daemon,
    Other,
}

/// Runs no Python code, as `threading.current_thread()` and `daemon` would. Before Python 3.14 a daemon thread that
/// loses the interpreter at its exit is unwound on the spot, and with a frame of ours below, that ends the process.
fn waiter(py: Python<'_>) -> PyResult<Waiter> {
    let ident = imports::thread_ident(py)?.call0()?;
    let Ok(current) = imports::active_threads(py)?.get_item(ident) else {
        // Python knows nothing of a thread that it did not start, and does not wait for it.
        return Ok(Waiter::Daemon);
    };
    if current.is(&imports::main_thread(py)?) {
        return Ok(Waiter::Main);
    }
    Ok(if current.getattr("_daemonic")?.is_truthy()? {
        Waiter::Daemon
    } else {
        Waiter::Other
    })
}

/// Runs `work` outside the interpreter; it leaves a store that does not answer after the time that calls have which name
/// none.
pub(crate) fn outside<T: Send>(py: Python<'_>, work: impl FnOnce(&Wait<'_>) -> T + Send) -> PyResult<T> {
    outside_until(py, Alarm::after(Some(Duration::from_millis(CALL_MS_DEFAULT))), work)
}

/// Runs `work` outside the interpreter; it leaves a store that does not answer at `alarm`, and in the main thread at a
/// signal. A daemon thread does not come back once the interpreter exits.
pub(crate) fn outside_until<T: Send>(
    py: Python<'_>,
    alarm: Alarm,
    work: impl FnOnce(&Wait<'_>) -> T + Send,
) -> PyResult<T> {
    let waiter = waiter(py)?;
    let (done, signal) = py.detach(|| {
        let signal = RefCell::new(None);
        let is_over = || {
            if waiter == Waiter::Main && signal.borrow().is_none() {
                *signal.borrow_mut() = Python::attach(|py| py.check_signals().err());
            }
            alarm.is_over() || signal.borrow().is_some()
        };
        let done = work(&Wait::until(&is_over));
        stay_out(waiter);
        (done, signal.into_inner())
    });
    signal.map_or(Ok(done), Err)
}

/// Runs `work`, which waits for the network in slices and leaves when it is told so: in the main thread after a signal, which
/// comes back with what `work` returned; in every thread when the interpreter exits.
pub(crate) fn in_network<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(Duration, &dyn Fn() -> bool) -> T + Send,
) -> PyResult<(T, Option<PyErr>)> {
    let waiter = waiter(py)?;
    let slice = if waiter == Waiter::Main {
        SIGNAL_SLICE
    } else {
        EXIT_SLICE
    };
    Ok(py.detach(|| {
        let signal = RefCell::new(None);
        let wants_to_leave = || {
            if waiter == Waiter::Main && signal.borrow().is_none() {
                *signal.borrow_mut() = Python::attach(|py| py.check_signals().err());
            }
            is_exiting() || signal.borrow().is_some()
        };
        let done = work(slice, &wants_to_leave);
        stay_out(waiter);
        (done, signal.into_inner())
    }))
}

/// Parks a daemon thread for good when the interpreter exits: touching it then would end the process.
fn stay_out(waiter: Waiter) {
    if waiter == Waiter::Daemon && EXITING.load(Ordering::SeqCst) {
        loop {
            std::thread::park();
        }
    }
}

/// Receives up to `max` messages into an empty list, waiting until `alarm` while there is none. It stays empty when the
/// wait ends.
pub(crate) fn receive(
    py: Python<'_>,
    receiver: &Receiver,
    max: usize,
    out: &mut Deliveries,
    alarm: impl FnOnce() -> PyResult<Alarm>,
) -> PyResult<()> {
    // One that finds something is done before leaving the interpreter would pay.
    if max <= IN_PLACE_MAX && !receiver.queue().may_wait() {
        receiver.receive_into(max, out, &Wait::FOREVER).or_raise()?;
        if !out.is_empty() {
            return Ok(());
        }
    }
    let alarm = alarm()?;
    let received = in_slices(py, is_exiting, |slice| {
        receiver.receive_until(max, alarm, slice, is_exiting, &Wait::FOREVER)
    })?;
    if let Some(deliveries) = received {
        *out = deliveries;
    }
    Ok(())
}

/// Waits for a session until `alarm`, or until nobody wants it any more; `None` when none came.
pub(crate) fn accept(
    py: Python<'_>,
    acceptor: &Acceptor,
    alarm: Alarm,
    is_closed: impl Fn() -> bool + Sync,
) -> PyResult<Option<Receiver>> {
    let is_over = || is_exiting() || is_closed();
    in_slices(py, is_over, |slice| {
        acceptor.accept_until(alarm, slice, is_over, &Wait::FOREVER)
    })
}

/// Reserves messages, waiting until `alarm` while there is none.
pub(crate) fn reserve(
    py: Python<'_>,
    reservations: &Reservations,
    consumer: &str,
    (epoch, n): (u64, u64),
    wish: &Wish,
) -> PyResult<Plan> {
    let alarm = Alarm::after(Some(wish.wait));
    let found = in_slices(py, is_exiting, |slice| {
        reservations.reserve_until(consumer, (epoch, n), wish, (alarm, slice), is_exiting, &Wait::FOREVER)
    })?;
    Ok(found.unwrap_or_else(|| reservations.empty_plan(epoch, n)))
}

pub(crate) fn is_exiting() -> bool {
    EXITING.load(Ordering::SeqCst)
}

/// Waits outside the interpreter, slice by slice; `None` when the wait is over, by itself or because `is_over` says so.
fn in_slices<T: Send>(
    py: Python<'_>,
    is_over: impl Fn() -> bool,
    wait: impl Fn(Duration) -> oxbus_model::Result<Waited<T>> + Sync,
) -> PyResult<Option<T>> {
    let waiter = waiter(py)?;
    let slice = if waiter == Waiter::Main {
        SIGNAL_SLICE
    } else {
        ONE_PIECE
    };
    loop {
        let waited = py.detach(|| {
            let waited = wait(slice);
            stay_out(waiter);
            waited
        });
        match waited.or_raise()? {
            Waited::Found(found) => return Ok(Some(found)),
            Waited::Nothing => return Ok(None),
            Waited::Slice => {
                py.check_signals()?;
                if is_over() {
                    return Ok(None);
                }
            }
        }
    }
}
