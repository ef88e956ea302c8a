// SPDX-License-Identifier: Apache-2.0
//! A connection for one call at a time: hyper's, on a runtime without a thread.
//!
//! The runtime runs on the caller's thread while the caller waits in a call, and not between calls. So a forked process
//! has nothing left that should run, and no other thread touches the caller's rows.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::channel::Channel;
use http_body_util::{Either, Full};
use hyper::Uri;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use oxbus_model::caps::BULK_CHUNK_BYTES;
use rustls::ClientConfig;
use tokio::runtime::{Builder, Runtime};
use tower_service::Service;

use super::ClientError;

/// A body: all of it, or pieces as they are made.
pub(super) type RequestBody = Either<Full<Bytes>, Channel<Bytes>>;

/// Opens sockets, with TLS where the server has it.
pub(super) type Connector = HttpsConnector<HttpConnector>;

/// Turns of the runtime in which it sees what arrived between two calls: one to read it, one to handle it.
const POLL_ROUNDS: usize = 2;

/// How long to wait for the network.
pub struct NetworkWaitOptions<'a> {
    /// For each piece that is written or read.
    pub timeout: Duration,
    /// After this the caller is asked whether it wants to leave.
    pub poll_interval: Duration,
    /// True when it does.
    pub is_cancelled: &'a dyn Fn() -> bool,
}

/// The connector of a client.
pub(super) fn connector(tls: &Arc<ClientConfig>) -> Connector {
    let mut sockets = HttpConnector::new();
    sockets.set_nodelay(true);
    sockets.enforce_http(false);
    HttpsConnectorBuilder::new()
        .with_tls_config(ClientConfig::clone(tls))
        .https_or_http()
        .enable_http1()
        .wrap_connector(sockets)
}

/// A runtime that runs while its caller waits.
pub(super) struct Driver(Option<Runtime>);

impl Driver {
    fn new() -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        Ok(Self(Some(runtime)))
    }

    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.0.as_ref().expect("the runtime exists until drop").block_on(work)
    }

    /// Waits in slices until `work` is done, the time is over or the caller wants to leave. The caller's own code runs
    /// between the slices, outside of the runtime: it may make calls itself.
    pub(super) fn wait<T>(
        &self,
        wait: &NetworkWaitOptions<'_>,
        work: impl Future<Output = T>,
    ) -> Result<T, ClientError> {
        let mut work = std::pin::pin!(work);
        let mut waited = Duration::ZERO;
        let slice = wait.poll_interval.min(wait.timeout).max(Duration::from_millis(1));
        loop {
            let done = async { tokio::time::timeout(slice, work.as_mut()).await };
            if let Ok(done) = self.block_on(done) {
                return Ok(done);
            }
            waited += slice;
            if (wait.is_cancelled)() {
                return Err(ClientError::Cancelled);
            }
            if waited >= wait.timeout {
                let detail = format!(
                    "the server did not answer within {:.1} s; try again, or raise timeout",
                    wait.timeout.as_secs_f64()
                );
                return Err(ClientError::Timeout(detail, None));
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // The lookup of a name may take long, and no caller waits for it any more.
            runtime.shutdown_background();
        }
    }
}

/// An open connection and what drives it.
pub(super) struct Connection {
    pub(super) sender: SendRequest<RequestBody>,
    pub(super) driver: Driver,
    /// It served an earlier call: the server may have ended it since.
    pub(super) was_used: bool,
}

impl Connection {
    /// Connects to a server; `unreachable` makes a failure of the network's error.
    pub(super) fn open(
        mut connector: Connector,
        server: Uri,
        wait: &NetworkWaitOptions<'_>,
        unreachable: impl Fn(Box<dyn std::error::Error + Send + Sync>) -> ClientError,
    ) -> Result<Self, ClientError> {
        let driver = Driver::new().map_err(|error| {
            let text = format!("this process cannot open a connection; close what is open, then try again: {error}");
            ClientError::connection_with_source(text, error)
        })?;
        let connecting = async {
            let stream = connector.call(server).await.map_err(&unreachable)?;
            // Pages and pieces come in few reads.
            let handshake = http1::Builder::new().max_buf_size(BULK_CHUNK_BYTES).handshake(stream);
            let (sender, connection) = handshake.await.map_err(|error| unreachable(error.into()))?;
            // Its errors reach the call that meets them.
            tokio::spawn(connection);
            Ok::<_, ClientError>(sender)
        };
        let sender = driver.wait(wait, connecting)??;
        Ok(Self {
            sender,
            driver,
            was_used: false,
        })
    }

    /// Processes input since the last call. False when the server has closed the connection.
    pub(super) fn poll_open(&mut self) -> bool {
        self.driver.block_on(async {
            for _ in 0..POLL_ROUNDS {
                tokio::task::yield_now().await;
            }
            self.sender.ready().await.is_ok()
        })
    }
}
