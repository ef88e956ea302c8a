// SPDX-License-Identifier: Apache-2.0
//! A blocking client of one server, over hyper, with a pool of connections.
//!
//! In addition to hyper, a signal cancels every network wait, and errors report the effect of the call. Forked
//! processes can use the client, because it has no threads and holds no lock during a call.

mod connection;
mod exchange;
mod request;
mod response;
pub(crate) mod tls;

use std::error::Error as StdError;
use std::io;
use std::sync::{Arc, Mutex};

pub use self::connection::NetworkWaitOptions;
use self::connection::{Connection, Connector};
pub use self::request::Request;
pub use self::response::BulkResponse;
use crate::connection_string::ConnectionString;
use crate::server_error::ServerError;
use hyper::Uri;
use oxbus_model::caps::{BULK_IDLE_CONNECTIONS_MAX, BULK_TOKEN_MS};
use oxbus_model::sync::ignore_poison;
use oxbus_model::{Effect, Error, ErrorKind, Result, SharedError, Timestamp};

/// The reason why a call failed.
#[derive(Debug)]
pub enum ClientError {
    /// The server returned an error.
    Server(ServerError),
    /// The call failed before it was sent.
    Local(Error),
    /// The server cannot be reached, or the connection broke. Holds the text, the effect of the call, and the cause.
    Connection(String, Option<Effect>, Option<SharedError>),
    /// The server did not answer in time. Holds the text and the effect of the call.
    Timeout(String, Option<Effect>),
    /// The caller cancelled the call.
    Cancelled,
}

impl ClientError {
    /// A connection error for a call that did nothing.
    pub fn connection(text: impl Into<String>) -> Self {
        Self::Connection(text.into(), None, None)
    }

    /// A connection error with a cause.
    pub fn connection_with_source(text: String, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Connection(text, None, Some(Arc::new(source)))
    }

    /// Sets the effect of the call. Errors of the server or the caller stay unchanged.
    fn with_effect(self, effect: Effect) -> Self {
        match self {
            Self::Connection(text, _, source) => Self::Connection(text, Some(effect), source),
            Self::Timeout(text, _) => Self::Timeout(text, Some(effect)),
            other => other,
        }
    }
}

impl From<Error> for ClientError {
    fn from(error: Error) -> Self {
        Self::Local(error)
    }
}

/// A client of one server. Threads may share it. A forked child needs a new one.
pub struct Client {
    connection_string: ConnectionString,
    /// Host and port.
    authority: String,
    server: Uri,
    connector: Connector,
    clock: fn() -> Timestamp,
    /// A panic leaves it consistent: each change adds or removes connections.
    idle: Mutex<Vec<Connection>>,
    /// The newest token, for further calls on the same entity. Set in one step: a panic leaves it consistent.
    token: Mutex<Option<ReusableToken>>,
}

/// A token that serves several calls.
struct ReusableToken {
    entity: Option<String>,
    text: String,
    /// Calls from this time on make a new one.
    reused_until: Timestamp,
}

impl Client {
    /// Creates a client without connecting. It trusts the certificates in `ca_file`, by default those of the system.
    pub fn new(connection_string: ConnectionString, ca_file: Option<&str>, clock: fn() -> Timestamp) -> Result<Self> {
        let tls = if connection_string.tls {
            tls::config(ca_file)?
        } else {
            tls::without_roots()
        };
        let scheme = if connection_string.tls { "https" } else { "http" };
        let authority = connection_string.authority();
        let server = format!("{scheme}://{authority}/").parse::<Uri>().map_err(|error| {
            let detail = format!("the Endpoint is not an address; correct the connection string: {error}");
            Error::new(ErrorKind::InvalidArgument, detail).with_source(error)
        })?;
        Ok(Self {
            authority,
            server,
            connector: connection::connector(&tls),
            connection_string,
            clock,
            idle: Mutex::default(),
            token: Mutex::default(),
        })
    }

    /// Sends a request with a JSON body or without a body.
    pub fn call(
        &self,
        request: &Request,
        wait: &NetworkWaitOptions<'_>,
    ) -> std::result::Result<BulkResponse<'_>, ClientError> {
        self.stream(request, wait, || Ok(None::<Vec<Vec<u8>>>))
    }

    /// Sends a request whose body is the stream of chunks that `next` returns, until `None`.
    pub fn stream<B: AsRef<[u8]> + Send + 'static>(
        &self,
        request: &Request,
        wait: &NetworkWaitOptions<'_>,
        mut next: impl FnMut() -> Result<Option<Vec<B>>>,
    ) -> std::result::Result<BulkResponse<'_>, ClientError> {
        let tried = match self.exchange(self.connection(wait)?, request, wait, &mut next) {
            // The server closed this idle connection, and probably the others too.
            Err(failed) if failed.may_be_repeated => {
                self.close_idle();
                self.exchange(self.connection(wait)?, request, wait, &mut next)
            }
            tried => tried,
        };
        tried.map_err(|failed| failed.error)?.into_result(wait)
    }

    /// A token for a request: the newest one while half of its time is left and the entity is the same.
    fn token(&self, request: &Request) -> String {
        let now = (self.clock)();
        let mut token = ignore_poison(self.token.lock());
        let fits = |it: &&ReusableToken| it.entity.as_deref() == request.entity() && now < it.reused_until;
        if let Some(reusable) = token.as_ref().filter(fits) {
            return reusable.text.clone();
        }
        let text = self
            .connection_string
            .token(request.entity(), now.plus_ms(BULK_TOKEN_MS));
        *token = Some(ReusableToken {
            entity: request.entity().map(str::to_owned),
            text: text.clone(),
            reused_until: now.plus_ms(BULK_TOKEN_MS / 2),
        });
        text
    }

    /// An idle connection that is still open, or a new one.
    fn connection(&self, wait: &NetworkWaitOptions<'_>) -> std::result::Result<Connection, ClientError> {
        let idle = || ignore_poison(self.idle.lock()).pop();
        let open = std::iter::from_fn(idle).find_map(|mut connection| connection.poll_open().then_some(connection));
        open.map_or_else(
            || {
                Connection::open(self.connector.clone(), self.server.clone(), wait, |error| {
                    self.unreachable(error)
                })
            },
            Ok,
        )
    }

    fn return_connection(&self, mut connection: Connection) {
        connection.was_used = true;
        let mut idle = ignore_poison(self.idle.lock());
        if idle.len() < BULK_IDLE_CONNECTIONS_MAX {
            idle.push(connection);
        }
    }

    /// Closes the idle connections.
    pub fn close_idle(&self) {
        let idle = std::mem::take(&mut *ignore_poison(self.idle.lock()));
        drop(idle);
    }

    /// The error of a failed connect.
    fn unreachable(&self, error: Box<dyn StdError + Send + Sync>) -> ClientError {
        let (endpoint, why) = (self.connection_string.endpoint(), root(&*error));
        let text = format!("the server cannot be reached; start it or correct the Endpoint: {endpoint}: {why}");
        caused(text, error)
    }

    /// The error of an open connection.
    fn broken(&self, error: hyper::Error) -> ClientError {
        let (endpoint, why) = (self.connection_string.endpoint(), root(&error));
        let text = if error.is_parse() {
            format!("the server at the Endpoint is not an oxbus server; correct the Endpoint: {endpoint}: {why}")
        } else {
            format!("the connection to the server broke; try again: {endpoint}: {why}")
        };
        caused(text, error.into())
    }
}

/// An error and its causes, outermost first.
fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |it| (*it).source())
}

/// The text of the innermost error.
fn root(error: &(dyn StdError + 'static)) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

/// A connection error whose cause is the system's error, if there is one: the errors around it add nothing.
fn caused(text: String, error: Box<dyn StdError + Send + Sync>) -> ClientError {
    let number = causes(&*error).find_map(|it| it.downcast_ref::<io::Error>()?.raw_os_error());
    let source = match number {
        Some(number) => Arc::new(io::Error::from_raw_os_error(number)) as SharedError,
        None => error.into(),
    };
    ClientError::Connection(text, None, Some(source))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use oxbus_model::Timestamp;
    use oxbus_model::caps::BULK_TOKEN_MS;

    use super::{Client, Request};
    use crate::connection_string::ConnectionString;

    static NOW_MS: AtomicU64 = AtomicU64::new(1_700_000_000_000);

    fn clock() -> Timestamp {
        Timestamp(NOW_MS.load(Ordering::Relaxed))
    }

    #[test]
    fn a_token_serves_one_entity_for_half_of_its_time() {
        let text = "Endpoint=sb://h:1;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true";
        let connection_string = ConnectionString::parse(text).expect("a connection string");
        let client = Client::new(connection_string, None, clock).expect("a client");
        let token = |entity: &str| client.token(&Request::get("describe").with("entity", entity));
        let first = token("orders");
        assert!(first.contains("orders"), "{first}");
        assert_eq!(token("orders"), first);
        assert!(token("invoices").contains("invoices"));
        assert_eq!(token("orders"), first, "signed again in the same second");
        NOW_MS.fetch_add(BULK_TOKEN_MS / 2 - 1, Ordering::Relaxed);
        assert_eq!(token("orders"), first);
        NOW_MS.fetch_add(1, Ordering::Relaxed);
        assert_ne!(token("orders"), first);
    }
}
