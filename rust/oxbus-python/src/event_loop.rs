// SPDX-License-Identifier: Apache-2.0
//! Waiting for messages in an event loop: one socket per loop becomes readable when any of its waits is notified.
//!
//! A notification records the number of the waiter. The first one since the last `drain` also writes a byte to the
//! socket. Notifications run in the notifying thread and never touch the interpreter. Each step of a wait is the step
//! that synchronous waits take too (`oxbus_broker::client::step`). The event loop sleeps between steps.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use oxbus_broker::client::{Deliveries, WaitOptions, WaitRegistration, WaitSource, step};
use oxbus_broker::clock::Deadline;
use oxbus_model::Result;
use oxbus_model::sync::ignore_poison;
use oxbus_store::Wait;
use oxbus_store::wait_queue::{LookResult, NotifyCallback};
use oxbus_system::{PairedSocket, socket_number, socket_pair};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::arrow::{_Columns, _ReceivedRows};
use crate::blocking::INLINE_MESSAGES_MAX;
use crate::error::OrRaise;
use crate::fork::ProcessLocal;
use crate::receiver::ServiceBusReceiver;
use crate::remote::{RemoteAcceptor, RemoteMessage, RemoteReceiver, RemoteWait};
use crate::transport::{AcceptorTransport, ReceiverTransport};
use crate::{blocking, convert};

#[derive(Debug)]
struct PendingNotifications {
    /// The waiters notified since the last `drain`. A panic leaves it consistent: each push is one step.
    numbers: Mutex<Vec<u64>>,
    /// True if a byte was written and not yet drained.
    has_byte: AtomicBool,
    writer: PairedSocket,
}

impl PendingNotifications {
    fn notify(&self, number: u64) {
        ignore_poison(self.numbers.lock()).push(number);
        if !self.has_byte.swap(true, Ordering::SeqCst) {
            // A full socket is already readable.
            let _ = (&self.writer).write(&[1]);
        }
    }
}

/// The notifications of one event loop.
#[pyclass(frozen, name = "_WakeUps", module = "oxbus")]
pub(crate) struct EventLoopNotifier {
    pending: Arc<PendingNotifications>,
    reader: PairedSocket,
}

/// One wait of a task.
#[pyclass(frozen, name = "_Waiter", module = "oxbus")]
pub(crate) struct TaskWaiter {
    deadline: Deadline,
    callback: NotifyCallback,
    /// Calls `callback`.
    waker: Waker,
    /// A panic leaves it consistent: it is replaced in one step.
    state: ProcessLocal<Mutex<WaitState>>,
}

struct CallbackWaker(NotifyCallback);

impl Wake for CallbackWaker {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

/// The state of a wait between two steps.
enum WaitState {
    NotWaiting,
    Waiting(WaitRegistration),
    /// A server is asked for messages.
    Receiving(RemoteWait<Vec<RemoteMessage>>),
    /// A server is asked for a session.
    Accepting(RemoteWait<RemoteReceiver>),
    /// The task cancelled the wait. One of its steps may still run in another thread.
    Cancelled,
}

#[pymethods]
impl EventLoopNotifier {
    #[new]
    fn new() -> PyResult<Self> {
        let (reader, writer) = socket_pair()?;
        let pending = PendingNotifications {
            numbers: Mutex::default(),
            has_byte: AtomicBool::new(false),
            writer,
        };
        Ok(Self {
            pending: Arc::new(pending),
            reader,
        })
    }

    /// The number of the socket that becomes readable on a notification.
    fn fileno(&self) -> i64 {
        socket_number(&self.reader)
    }

    /// Returns the waiters notified since the last call.
    fn drain(&self) -> Vec<u64> {
        let mut bytes = [0; 64];
        while matches!((&self.reader).read(&mut bytes), Ok(read) if read == bytes.len()) {}
        // Cleared after reading the bytes and before taking the numbers: a notification from here on writes another
        // byte.
        self.pending.has_byte.store(false, Ordering::SeqCst);
        std::mem::take(&mut *ignore_poison(self.pending.numbers.lock()))
    }

    /// Creates a wait that is notified under `number` and ends after `max_wait_time` seconds.
    fn waiter(&self, number: u64, max_wait_time: Option<f64>) -> PyResult<TaskWaiter> {
        let pending = Arc::clone(&self.pending);
        let callback: NotifyCallback = Arc::new(move || pending.notify(number));
        Ok(TaskWaiter {
            deadline: convert::deadline("max_wait_time", max_wait_time)?,
            waker: Waker::from(Arc::new(CallbackWaker(Arc::clone(&callback)))),
            callback,
            state: ProcessLocal::new(Mutex::new(WaitState::NotWaiting)),
        })
    }
}

#[pymethods]
impl TaskWaiter {
    /// Ends the wait and passes an unused notification on to the next waiter.
    fn cancel(&self) {
        if let Some(state) = self.state.if_same_process() {
            let previous = std::mem::replace(&mut *ignore_poison(state.lock()), WaitState::Cancelled);
            drop(previous);
        }
    }
}

impl TaskWaiter {
    /// What notifies the task.
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// What a step needs that a call takes by itself: the registration of the step before it, the end of the wait, and
    /// what notifies the task.
    pub(crate) fn begin_step(&self) -> PyResult<(Option<WaitRegistration>, Deadline, NotifyCallback)> {
        let earlier = take_registration(self.state.get()?);
        Ok((earlier, self.deadline, Arc::clone(&self.callback)))
    }

    /// Keeps the registration for the next step. Returns the seconds to sleep.
    pub(crate) fn end_step(&self, registration: WaitRegistration) -> PyResult<f64> {
        Ok(keep(self.state.get()?, registration))
    }

    /// Takes one step, detached from the interpreter unless it is short. `Waiting` holds the longest sleep until the
    /// next step, in seconds.
    fn step<T: Send>(
        &self,
        py: Python<'_>,
        source: &(impl WaitSource + Sync),
        is_short: bool,
        look: impl FnMut() -> Result<Option<T>> + Send,
    ) -> PyResult<LookResult<T, f64>> {
        let state = self.state.get()?;
        blocking::run(py, !is_short, |_| {
            let options = WaitOptions {
                deadline: self.deadline,
                cancellation: &Wait::FOREVER,
                poll_interval: None,
            };
            let callback = Some(Arc::clone(&self.callback));
            let stepped = step(source, take_registration(state), &options, callback, look)?;
            Ok(match stepped {
                LookResult::Found(found) => LookResult::Found(found),
                LookResult::Over => LookResult::Over,
                LookResult::Waiting(registration) => LookResult::Waiting(keep(state, registration)),
            })
        })?
        .or_raise()
    }
}

impl TaskWaiter {
    /// Asks a server for messages: `None` until it answers, or the wait is over.
    fn receive_remote(
        &self,
        py: Python<'_>,
        remote: &RemoteReceiver,
        max: usize,
    ) -> PyResult<Option<Vec<RemoteMessage>>> {
        let state = self.state.get()?;
        let mut wait = match take(state) {
            WaitState::Receiving(wait) => wait,
            WaitState::Cancelled => return Ok(None),
            _ => remote.receive_in_loop(max, self.deadline.remaining()),
        };
        let found = wait.poll(py, &self.waker)?;
        if found.is_none() {
            store(state, WaitState::Receiving(wait));
        }
        Ok(found)
    }

    /// Asks a server for a session: `None` until it answers.
    fn accept_remote(&self, py: Python<'_>, remote: &RemoteAcceptor) -> PyResult<Option<RemoteReceiver>> {
        let state = self.state.get()?;
        let mut wait = match take(state) {
            WaitState::Accepting(wait) => wait,
            WaitState::Cancelled => return Ok(None),
            _ => remote.accept_in_loop(self.deadline.remaining()),
        };
        let accepted = wait.poll(py, &self.waker)?;
        if accepted.is_none() {
            store(state, WaitState::Accepting(wait));
        }
        Ok(accepted)
    }
}

/// Takes the state that the previous step left. A cancelled wait stays cancelled.
fn take(state: &Mutex<WaitState>) -> WaitState {
    let mut state = ignore_poison(state.lock());
    let next = if matches!(*state, WaitState::Cancelled) {
        WaitState::Cancelled
    } else {
        WaitState::NotWaiting
    };
    std::mem::replace(&mut *state, next)
}

/// Stores the state for the next step, unless the task cancelled the wait during this one.
fn store(state: &Mutex<WaitState>, next: WaitState) {
    let mut state = ignore_poison(state.lock());
    if !matches!(*state, WaitState::Cancelled) {
        *state = next;
    }
}

/// Keeps a registration for the next step. Returns the seconds to sleep.
fn keep(state: &Mutex<WaitState>, registration: WaitRegistration) -> f64 {
    let sleep_max = registration.sleep_max;
    store(state, WaitState::Waiting(registration));
    sleep_max.map_or(f64::INFINITY, |sleep_max| sleep_max.as_secs_f64())
}

/// Takes the registration that the previous step left.
fn take_registration(state: &Mutex<WaitState>) -> Option<WaitRegistration> {
    match take(state) {
        WaitState::Waiting(registration) => Some(registration),
        _ => None,
    }
}

#[pymethods]
impl ServiceBusReceiver {
    /// Takes a step of a wait for messages. Returns a list of messages, which is empty if the wait is over, or the
    /// seconds to sleep.
    fn _receive_or_wait<'py>(
        slf: &Bound<'py, Self>,
        max_message_count: i64,
        waiter: &TaskWaiter,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (this, py) = (slf.get(), slf.py());
        let max = this.max_count(Some(max_message_count))?;
        let shared = this.open(py)?;
        let receiver = match shared.get().receiver()? {
            ReceiverTransport::Local(receiver) => receiver,
            ReceiverTransport::Remote(remote) => {
                return match waiter.receive_remote(py, remote, max)? {
                    Some(found) => Self::of_remote(slf, shared, found).map(Bound::into_any),
                    None => f64::INFINITY.into_bound_py_any(py),
                };
            }
        };
        let is_short = max <= INLINE_MESSAGES_MAX && !receiver.entity().may_wait();
        let mut found = match waiter.step(py, receiver, is_short, || receiver.receive_now(max, &Wait::FOREVER))? {
            LookResult::Found(found) => found,
            LookResult::Over => Deliveries::new(),
            LookResult::Waiting(seconds) => return seconds.into_bound_py_any(py),
        };
        Self::to_messages(slf, shared, &mut found).map(Bound::into_any)
    }

    /// Like `_receive_or_wait`, with rows of a table in place of the list.
    fn _receive_rows_or_wait<'py>(
        &self,
        py: Python<'py>,
        max_message_count: i64,
        columns: &_Columns,
        waiter: &TaskWaiter,
    ) -> PyResult<Bound<'py, PyAny>> {
        let max = self.max_count(Some(max_message_count))?;
        let shared = self.open(py)?;
        let receiver = match shared.get().receiver()? {
            ReceiverTransport::Local(receiver) => receiver,
            ReceiverTransport::Remote(remote) => {
                return match waiter.receive_remote(py, remote, max)? {
                    Some(found) => {
                        remote.keep_handles(&found);
                        _ReceivedRows::of_remote(shared, found, columns, py)?.into_bound_py_any(py)
                    }
                    None => f64::INFINITY.into_bound_py_any(py),
                };
            }
        };
        let found = match waiter.step(py, receiver, false, || receiver.receive_now(max, &Wait::FOREVER))? {
            LookResult::Found(found) => found,
            LookResult::Over => Deliveries::new(),
            LookResult::Waiting(seconds) => return seconds.into_bound_py_any(py),
        };
        _ReceivedRows::new(shared, found, columns, py)?.into_bound_py_any(py)
    }

    /// Takes a step of the wait for the session, if there is one, and looks up the entity. Returns true once that is
    /// done, false if the wait is over, or the seconds to sleep.
    fn _open_or_wait<'py>(&self, py: Python<'py>, waiter: &TaskWaiter) -> PyResult<Bound<'py, PyAny>> {
        let Some(acceptor) = self.acceptor()? else {
            self.open(py)?;
            return true.into_bound_py_any(py);
        };
        let acceptor = match acceptor {
            AcceptorTransport::Local(acceptor) => acceptor,
            AcceptorTransport::Remote(remote) => {
                self.check_open().or_raise()?;
                let Some(receiver) = waiter.accept_remote(py, remote)? else {
                    return f64::INFINITY.into_bound_py_any(py);
                };
                self.set_receiver(py, ReceiverTransport::Remote(receiver))?;
                return true.into_bound_py_any(py);
            }
        };
        let accept = || {
            self.check_open()?;
            acceptor.accept_now(&Wait::FOREVER)
        };
        let is_short = !acceptor.entity().may_wait();
        match waiter.step(py, acceptor, is_short, accept)? {
            LookResult::Found(receiver) => {
                self.set_receiver(py, ReceiverTransport::Local(receiver))?;
                true.into_bound_py_any(py)
            }
            LookResult::Over => false.into_bound_py_any(py),
            LookResult::Waiting(seconds) => seconds.into_bound_py_any(py),
        }
    }
}
