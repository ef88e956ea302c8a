// SPDX-License-Identifier: Apache-2.0
//! A blocking HTTP/1.1 client for one server: requests over connections that are kept for the next ones.
//!
//! Written here because a caller has to be able to leave every wait for the network when a signal comes, has to read what a
//! server answers before it took the whole body, and has to work in forked processes: it starts no thread and holds no
//! lock while it talks. What failed before a server can have acted is tried again on a new connection.

mod answer;
mod connection;
mod request;
mod tls;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use oxbus_model::caps::{BULK_IDLE_CONNECTIONS_MAX, BULK_TOKEN_MS};
use oxbus_model::sync::whole;
use oxbus_model::{Effect, Error, Result, Source, Timestamp};
use rustls::ClientConfig;

pub use self::answer::Answer;
use self::connection::Connection;
pub use self::connection::Patience;
pub use self::request::Request;
use crate::address::Address;
use crate::fault::Fault;

/// Why a call brought nothing.
#[derive(Debug)]
pub enum Failure {
    /// The server refused it.
    Fault(Fault),
    /// It did not come to the server.
    Here(Error),
    /// The server cannot be reached, or the connection broke; what the call did, and what made it so.
    Connection(String, Option<Effect>, Option<Source>),
    /// The server did not answer in time; what the call did.
    Timeout(String, Option<Effect>),
    /// The caller wanted to leave.
    Left,
}

impl Failure {
    /// The server cannot be reached, or the connection broke, before the call did anything.
    pub fn connection(text: impl Into<String>) -> Self {
        Self::Connection(text.into(), None, None)
    }

    /// The same because of another error.
    pub fn connection_by(text: String, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Connection(text, None, Some(Arc::new(source)))
    }

    /// The same after the server may have acted.
    pub(self) fn with_effect(self, effect: Effect) -> Self {
        match self {
            Self::Connection(text, _, source) => Self::Connection(text, Some(effect), source),
            Self::Timeout(text, _) => Self::Timeout(text, Some(effect)),
            other => other,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Here(error)
    }
}

/// A client of one server. May be shared by threads; a forked child makes its own.
pub struct Client {
    address: Address,
    tls: Option<Arc<ClientConfig>>,
    clock: fn() -> Timestamp,
    /// Whole after a panic: a connection is in it or dropped.
    idle: Mutex<Vec<Connection>>,
}

/// A call that failed, and whether the server can have acted on it.
struct Failed {
    failure: Failure,
    may_have_acted: bool,
}

impl Client {
    /// A client; nothing is connected yet. `ca_file` has the certificates to trust, those of the system when missing.
    pub fn new(address: Address, ca_file: Option<&str>, clock: fn() -> Timestamp) -> Result<Self> {
        let tls = address.tls.then(|| tls::config(ca_file)).transpose()?;
        Ok(Self {
            address,
            tls,
            clock,
            idle: Mutex::default(),
        })
    }

    /// Where the server is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Makes a call with a JSON body or none.
    pub fn call(&self, request: &Request, patience: &Patience<'_>) -> std::result::Result<Answer<'_>, Failure> {
        let nothing = || Ok(None::<Vec<Vec<u8>>>);
        self.attempt(request, patience, nothing)
    }

    /// Makes a call whose body is a stream: what `next` returns, until it returns nothing.
    pub fn stream<B: AsRef<[u8]>>(
        &self,
        request: &Request,
        patience: &Patience<'_>,
        next: impl FnMut() -> Result<Option<Vec<B>>>,
    ) -> std::result::Result<Answer<'_>, Failure> {
        self.attempt(request, patience, next)
    }

    fn attempt<B: AsRef<[u8]>>(
        &self,
        request: &Request,
        patience: &Patience<'_>,
        mut next: impl FnMut() -> Result<Option<Vec<B>>>,
    ) -> std::result::Result<Answer<'_>, Failure> {
        let mut connection = self.take_idle();
        loop {
            let was_idle = connection.is_some();
            let tried = match connection.take() {
                Some(connection) => Ok(connection),
                None => Connection::open(&self.address, self.tls.as_ref(), patience),
            };
            let failed = match tried {
                Ok(connection) => match self.exchange(connection, request, patience, &mut next) {
                    Ok(answer) => return answer.or_fault(patience),
                    Err(failed) => failed,
                },
                Err(failure) => return Err(failure),
            };
            let is_broken = matches!(failed.failure, Failure::Connection(..));
            if !is_broken || !was_idle || (failed.may_have_acted && !request.is_repeatable()) {
                return Err(failed.failure);
            }
            // The server ended the connection while it was idle; the others are probably gone too.
            whole(self.idle.lock()).clear();
        }
    }

    fn exchange<B: AsRef<[u8]>>(
        &self,
        mut connection: Connection,
        request: &Request,
        patience: &Patience<'_>,
        next: &mut impl FnMut() -> Result<Option<Vec<B>>>,
    ) -> std::result::Result<Answer<'_>, Failed> {
        let token = self.address.key.as_ref().map(|key| {
            let expiry = (self.clock)().plus_ms(BULK_TOKEN_MS);
            key.token(expiry)
        });
        let effect = request.effect();
        let after = |failure: Failure| Failed {
            failure: failure.with_effect(effect),
            may_have_acted: true,
        };
        // A stream waits until the server asks for it, so before that nothing was done.
        let before = |failure| {
            if request.is_stream() {
                Failed {
                    failure,
                    may_have_acted: false,
                }
            } else {
                after(failure)
            }
        };
        connection.be_patient(patience).map_err(before)?;
        let head = request.head(&self.address.authority(), token.as_deref());
        connection
            .write(&[head.as_bytes(), request.json()], patience)
            .map_err(before)?;
        if request.is_stream() {
            let head = connection.read_head(patience).map_err(before)?;
            if head.status != 100 {
                return Ok(Answer::new(self, connection, head, false, effect));
            }
            connection.write_stream(next, patience).map_err(after)?;
        }
        let head = connection.read_head(patience).map_err(after)?;
        Ok(Answer::new(self, connection, head, true, effect))
    }

    /// A connection that is open still.
    fn take_idle(&self) -> Option<Connection> {
        loop {
            let connection = whole(self.idle.lock()).pop()?;
            if connection.is_open() {
                return Some(connection);
            }
        }
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = whole(self.idle.lock());
        if idle.len() < BULK_IDLE_CONNECTIONS_MAX {
            idle.push(connection);
        }
    }

    /// Ends the connections that nobody uses.
    pub fn close_idle(&self) {
        whole(self.idle.lock()).clear();
    }

    /// How long a call is willing to wait for one piece of the connection.
    pub fn patience(timeout: Duration, slice: Duration, wants_to_leave: &dyn Fn() -> bool) -> Patience<'_> {
        Patience {
            timeout,
            slice: slice.min(timeout),
            wants_to_leave,
        }
    }
}
