// SPDX-License-Identifier: Apache-2.0
//! A hyper connection for one call at a time, on a runtime without threads.
//!
//! The runtime runs only during a call, on the caller's thread. So a fork interrupts no other thread,
//! and no other thread uses the caller's rows.

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

/// A request body: complete, or a stream of chunks.
pub(super) type RequestBody = Either<Full<Bytes>, Channel<Bytes>>;

/// Opens sockets, with TLS if the server uses it.
pub(super) type Connector = HttpsConnector<HttpConnector>;

/// Rounds of the runtime that handle the bytes that arrived between two calls: one to read, one to process them.
const POLL_ROUNDS: usize = 2;

/// Timeout and cancellation of network waits.
pub struct NetworkWaitOptions<'a> {
    /// The maximum wait for each chunk that is written or read.
    pub timeout: Duration,
    /// The interval at which `is_cancelled` is called.
    pub poll_interval: Duration,
    /// True if the call should end.
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

/// A runtime that runs on the thread of a waiting caller.
pub(super) struct Driver(Option<Runtime>);

impl Driver {
    fn new() -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        Ok(Self(Some(runtime)))
    }

    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.0.as_ref().expect("the runtime exists until drop").block_on(work)
    }

    /// Waits until `work` is done, the timeout expires or the call is cancelled. `is_cancelled` runs outside the
    /// runtime, so it may make calls itself.
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
            // Does not wait for a slow name lookup.
            runtime.shutdown_background();
        }
    }
}

/// An open connection and its runtime.
pub(super) struct Connection {
    pub(super) sender: SendRequest<RequestBody>,
    pub(super) driver: Driver,
    /// True if the connection served an earlier call, so that the server may have closed it since.
    pub(super) was_used: bool,
}

impl Connection {
    /// Connects to a server. `unreachable` converts a network error.
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
            // Buffers are large, so that pages and chunks take few reads.
            let handshake = http1::Builder::new().max_buf_size(BULK_CHUNK_BYTES).handshake(stream);
            let (sender, connection) = handshake.await.map_err(|error| unreachable(error.into()))?;
            // Calls get the errors of the connection from `sender`.
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

    /// Handles the bytes that arrived since the last call. Returns false if the server closed the connection.
    pub(super) fn poll_open(&mut self) -> bool {
        self.driver.block_on(async {
            for _ in 0..POLL_ROUNDS {
                tokio::task::yield_now().await;
            }
            self.sender.ready().await.is_ok()
        })
    }
}
