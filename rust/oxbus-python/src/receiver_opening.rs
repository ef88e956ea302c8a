// SPDX-License-Identifier: Apache-2.0
//! How a `ServiceBusReceiver` finds its entity, accepts its session, and closes.

use std::sync::atomic::{Ordering, fence};

use oxbus_model::{Error, ErrorKind};
use oxbus_store::Wait;
use pyo3::prelude::*;

use crate::error::OrRaise;
use crate::fork::ProcessLocal;
use crate::receiver::ServiceBusReceiver;
use crate::session::ServiceBusSession;
use crate::shared_receiver::SharedReceiver;
use crate::transport::{AcceptorTransport, NamespaceTransport, ReceiverTransport};
use crate::{convert, receiving};

/// Default seconds to wait for a session (B-196).
const ACCEPT_WAIT_SECONDS: f64 = 60.0;

impl ServiceBusReceiver {
    /// The broker receiver behind this handle, which the first call opens.
    #[inline]
    pub(crate) fn open(&self, py: Python<'_>) -> PyResult<&Py<SharedReceiver>> {
        let namespace = self.namespace.get()?;
        self.check_open().or_raise()?;
        if let Some(shared) = self.shared.get() {
            return Ok(shared);
        }
        let receiver = match self.acceptor()? {
            None => match namespace {
                NamespaceTransport::Local(namespace) => {
                    let receiver = namespace.receiver(&self.queue_name, self.options).or_raise()?;
                    ReceiverTransport::Local(receiver)
                }
                NamespaceTransport::Remote(namespace) => {
                    let receiver = namespace.receiver(&self.queue_name, self.options, &self.client_identifier);
                    let receiver = receiver.or_raise()?;
                    receiver.open(py)?;
                    ReceiverTransport::Remote(receiver)
                }
            },
            Some(acceptor) => self.accept(py, acceptor)?,
        };
        self.set_receiver(py, receiver)
    }

    fn accept(&self, py: Python<'_>, acceptor: &AcceptorTransport) -> PyResult<ReceiverTransport> {
        let seconds = self.max_wait_time.unwrap_or(ACCEPT_WAIT_SECONDS);
        match acceptor {
            AcceptorTransport::Local(acceptor) => {
                let is_closed = || self.closed.load(Ordering::Acquire);
                let deadline = convert::deadline("max_wait_time", Some(seconds))?;
                let accepted = receiving::accept(py, acceptor, deadline, is_closed)?;
                self.check_open().or_raise()?;
                let receiver = accepted.ok_or_else(|| acceptor.timed_out()).or_raise()?;
                Ok(ReceiverTransport::Local(receiver))
            }
            AcceptorTransport::Remote(acceptor) => {
                let accepted = acceptor.accept(py, seconds);
                self.check_open().or_raise()?;
                accepted.map(ReceiverTransport::Remote)
            }
        }
    }

    /// Fails if the receiver is closed.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(
                ErrorKind::Closed,
                "the receiver was closed; get a new one from the client",
            ));
        }
        Ok(())
    }

    pub(crate) fn set_receiver(&self, py: Python<'_>, receiver: ReceiverTransport) -> PyResult<&Py<SharedReceiver>> {
        let shared = Py::new(py, SharedReceiver::new(self.namespace.sibling(receiver)))?;
        let shared = self.shared.get_or_init(|| shared);
        // This stores the receiver, then checks `closed`. `close` does so in the opposite order, so one of the two
        // closes the receiver.
        fence(Ordering::SeqCst);
        if self.closed.load(Ordering::Acquire) {
            // The receiver was closed while the session was being accepted.
            close(py, shared.get().receiver()?);
        }
        self.check_open().or_raise()?;
        Ok(shared)
    }

    /// True if this receiver accepts a session.
    pub(crate) fn is_session_receiver(&self) -> bool {
        self.session_selector.is_some()
    }

    /// The acceptor of the session, until the session is accepted.
    pub(crate) fn acceptor(&self) -> PyResult<Option<&AcceptorTransport>> {
        let Some(selector) = self.session_selector.as_ref().filter(|_| self.shared.get().is_none()) else {
            return Ok(None);
        };
        if let Some(acceptor) = self.acceptor.get() {
            return acceptor.get().map(Some);
        }
        let namespace = self.namespace.get()?;
        let (path, selector, owner) = (&self.queue_name, selector.clone(), &self.client_identifier);
        let acceptor = match namespace {
            NamespaceTransport::Local(namespace) => {
                let acceptor = namespace.acceptor(path, selector, self.options, owner.clone());
                AcceptorTransport::Local(acceptor.or_raise()?)
            }
            NamespaceTransport::Remote(namespace) => {
                let acceptor = namespace.acceptor(path, selector, self.options, owner);
                AcceptorTransport::Remote(acceptor.or_raise()?)
            }
        };
        let acceptor = self.namespace.sibling(acceptor);
        self.acceptor.get_or_init(|| acceptor).get().map(Some)
    }

    /// The Python object of the accepted session, and `None` for a receiver without sessions.
    pub(crate) fn session_object(&self, py: Python<'_>) -> PyResult<Option<&Py<ServiceBusSession>>> {
        if !self.is_session_receiver() {
            return Ok(None);
        }
        let shared = self.open(py)?;
        if let Some(session) = self.session.get() {
            return Ok(Some(session));
        }
        let session = Py::new(py, ServiceBusSession::new(shared.clone_ref(py)))?;
        Ok(Some(self.session.get_or_init(|| session)))
    }

    /// Registers the session with the lock renewer, once, if there is one.
    pub(crate) fn renew_session(slf: &Bound<'_, Self>) -> PyResult<()> {
        let this = slf.get();
        let Some(renewer) = this.auto_lock_renewer.as_ref().filter(|_| this.is_session_receiver()) else {
            return Ok(());
        };
        let session = this.session_object(slf.py())?;
        if !this.is_renewing_session.swap(true, Ordering::AcqRel) {
            renewer.bind(slf.py()).call_method1("register", (slf, session))?;
        }
        Ok(())
    }

    /// Closes it, and ends its calls that wait.
    pub(crate) fn close_now(&self, py: Python<'_>) {
        self.closed.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        if let Some(receiver) = self.shared.get().and_then(|shared| shared.get().if_same_process()) {
            close(py, receiver);
            return;
        }
        match self.acceptor.get().and_then(ProcessLocal::if_same_process) {
            // Wakes a call that waits for the session, which then checks `closed`.
            Some(AcceptorTransport::Local(acceptor)) => acceptor.entity().wake_all(),
            Some(AcceptorTransport::Remote(acceptor)) => acceptor.close(),
            None => {}
        }
    }
}

/// A dropped receiver releases its prefetched messages, even while its received messages live on.
impl Drop for ServiceBusReceiver {
    fn drop(&mut self) {
        match self.shared.get().and_then(|shared| shared.get().if_same_process()) {
            Some(ReceiverTransport::Local(receiver)) => receiver.close(&Wait::FOREVER),
            Some(ReceiverTransport::Remote(remote)) => remote.stop(),
            None => {}
        }
    }
}

/// Gives back what nobody has received, and closes the receiver.
fn close(py: Python<'_>, receiver: &ReceiverTransport) {
    match receiver {
        ReceiverTransport::Local(receiver) => py.detach(|| receiver.close(&Wait::FOREVER)),
        ReceiverTransport::Remote(remote) => remote.close(py),
    }
}
