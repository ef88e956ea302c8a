// SPDX-License-Identifier: Apache-2.0
//! A blocking client of one server: calls over connections that are kept for the next ones. HTTP is hyper's, TLS that of
//! rustls.
//!
//! What is ours is what a caller needs beside them: it leaves every wait for the network when a signal comes, works in forked
//! processes, since no thread is started and no lock is held while it talks, and makes a call again on a new connection when
//! the server cannot have acted on it.

mod answer;
mod body;
mod connection;
mod exchange;
mod patience;
mod request;
mod tls;

use std::sync::{Arc, Mutex};

use oxbus_model::caps::{BULK_IDLE_CONNECTIONS_MAX, BULK_TOKEN_MS};
use oxbus_model::sync::whole;
use oxbus_model::{Effect, Error, Result, Source, Timestamp};
use rustls::ClientConfig;

pub use self::answer::Answer;
use self::connection::Connection;
pub use self::patience::Patience;
pub use self::request::Request;
use crate::connection_string::ConnectionString;
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
    fn with_effect(self, effect: Effect) -> Self {
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
    place: ConnectionString,
    tls: Option<Arc<ClientConfig>>,
    clock: fn() -> Timestamp,
    /// Whole after a panic: a connection is in it or dropped.
    idle: Mutex<Vec<Connection>>,
}

impl Client {
    /// A client; nothing is connected yet. `ca_file` has the certificates to trust, those of the system when missing.
    pub fn new(place: ConnectionString, ca_file: Option<&str>, clock: fn() -> Timestamp) -> Result<Self> {
        let tls = place.tls.then(|| tls::config(ca_file)).transpose()?;
        Ok(Self {
            place,
            tls,
            clock,
            idle: Mutex::default(),
        })
    }

    /// Makes a call with a JSON body or none.
    pub fn call(&self, request: &Request, patience: &Patience<'_>) -> std::result::Result<Answer<'_>, Failure> {
        self.attempt(request, patience, || Ok(None::<Vec<Vec<u8>>>))
    }

    /// Makes a call whose body is a stream: what `next` returns, until it returns nothing.
    pub fn stream<B: AsRef<[u8]> + Send + 'static>(
        &self,
        request: &Request,
        patience: &Patience<'_>,
        next: impl FnMut() -> Result<Option<Vec<B>>>,
    ) -> std::result::Result<Answer<'_>, Failure> {
        self.attempt(request, patience, next)
    }

    fn attempt<B: AsRef<[u8]> + Send + 'static>(
        &self,
        request: &Request,
        patience: &Patience<'_>,
        mut next: impl FnMut() -> Result<Option<Vec<B>>>,
    ) -> std::result::Result<Answer<'_>, Failure> {
        let mut idle = self.take_idle();
        loop {
            let was_idle = idle.is_some();
            let connection = match idle.take() {
                Some(connection) => connection,
                None => Connection::open(&self.place, self.tls.as_ref(), patience)?,
            };
            let failed = match self.exchange(connection, request, patience, &mut next) {
                Ok(answer) => return answer.or_fault(patience),
                Err(failed) => failed,
            };
            let is_broken = matches!(failed.failure, Failure::Connection(..));
            if !is_broken || !was_idle || (failed.may_have_acted && !request.is_repeatable()) {
                return Err(failed.failure);
            }
            // The server ended the connection while it was idle; the others are probably gone too.
            self.close_idle();
        }
    }

    /// A token for a call.
    fn token(&self, request: &Request) -> String {
        self.place
            .token(request.entity(), (self.clock)().plus_ms(BULK_TOKEN_MS))
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
        let idle = std::mem::take(&mut *whole(self.idle.lock()));
        drop(idle);
    }

    /// What hyper says of a connection, in words for the caller.
    fn broken(&self, error: hyper::Error) -> Failure {
        let endpoint = self.place.endpoint();
        let text = if error.is_parse() {
            format!("what answers there is no server of oxbus; correct the Endpoint: {endpoint}: {error}")
        } else {
            format!("the connection to the server broke; try again: {endpoint}: {error}")
        };
        Failure::connection_by(text, error)
    }
}
