// SPDX-License-Identifier: Apache-2.0
//! How an event loop waits for messages: one socket that turns readable, whoever waits and however many.
//!
//! A ring notes the number of the waiter and, if nobody has since the last look, writes a byte. It runs in the thread that
//! rings, without the interpreter.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use oxbus_broker::client;
use oxbus_model::sync::whole;
use pyo3::prelude::*;

use crate::fork::Owned;
use crate::receiver::ServiceBusReceiver;

#[derive(Debug)]
struct Rings {
    /// Whole after a panic: a ring is in it or was not heard.
    numbers: Mutex<Vec<u64>>,
    /// A byte is on its way.
    told: AtomicBool,
    writer: UnixStream,
}

impl Rings {
    fn ring(&self, number: u64) {
        whole(self.numbers.lock()).push(number);
        if !self.told.swap(true, Ordering::SeqCst) {
            // A socket that is full is readable already.
            let _ = (&self.writer).write(&[1]);
        }
    }
}

/// The rings of one event loop.
#[pyclass(frozen, name = "_WakeUps", module = "oxbus")]
pub(crate) struct WakeUps {
    rings: Arc<Rings>,
    reader: UnixStream,
}

/// A place among those who wait at a queue; gives its ring to the next one when nobody took it. Taken in one step: whole
/// after a panic.
#[pyclass(frozen, name = "_WakeTicket", module = "oxbus")]
pub(crate) struct WakeTicket(Mutex<Option<Owned<client::WakeTicket>>>);

#[pymethods]
impl WakeUps {
    #[new]
    fn new() -> PyResult<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        let rings = Rings {
            numbers: Mutex::default(),
            told: AtomicBool::new(false),
            writer,
        };
        Ok(Self {
            rings: Arc::new(rings),
            reader,
        })
    }

    /// What turns readable.
    fn fileno(&self) -> i32 {
        self.reader.as_raw_fd()
    }

    /// The waiters that were rung since the last call.
    fn drain(&self) -> Vec<u64> {
        let mut bytes = [0; 64];
        while matches!((&self.reader).read(&mut bytes), Ok(read) if read == bytes.len()) {}
        // After the bytes, before the numbers: a ring from here on writes another byte.
        self.rings.told.store(false, Ordering::SeqCst);
        std::mem::take(&mut *whole(self.rings.numbers.lock()))
    }
}

#[pymethods]
impl WakeTicket {
    /// Leaves the place. True when it was rung: then look for messages.
    fn take_ring(&self) -> bool {
        let ticket = whole(self.0.lock()).take();
        ticket.is_some_and(|ticket| ticket.with_ours(client::WakeTicket::take_ring).unwrap_or(false))
    }

    /// Leaves the place; a ring goes to the next one.
    fn leave(&self) {
        let ticket = whole(self.0.lock()).take();
        drop(ticket);
    }
}

#[pymethods]
impl ServiceBusReceiver {
    /// Waits at the queue under a number of `wake_ups`.
    fn _wait_at(&self, py: Python<'_>, wake_ups: &WakeUps, number: u64) -> PyResult<WakeTicket> {
        let rings = Arc::clone(&wake_ups.rings);
        let callback = Arc::new(move || rings.ring(number));
        let ticket = match self.acceptor()? {
            Some(acceptor) => acceptor.register(callback),
            None => self.open(py)?.get().receiver()?.register(callback),
        };
        Ok(WakeTicket(Mutex::new(Some(Owned::new(ticket)))))
    }

    /// Seconds after which to look again without a ring; `None` when a ring is sure to come.
    fn _look_again_after(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let wait = match self.acceptor()? {
            Some(acceptor) => acceptor.look_again_after(),
            None => self.open(py)?.get().receiver()?.look_again_after(),
        };
        Ok(wait.map(|wait| wait.as_secs_f64()))
    }
}
