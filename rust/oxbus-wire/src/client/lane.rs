// SPDX-License-Identifier: Apache-2.0
//! A lane for one call at a time: hyper's client with its connection, on a runtime without a thread.
//!
//! The runtime runs on the thread of the caller while that waits in a call, and not between calls. So a forked process is left
//! with nothing that should run, and nobody else's thread touches the caller's rows.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::channel::Channel;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use oxbus_model::caps::BULK_PIECE_BYTES;
use rustls::ClientConfig;
use tokio::runtime::{Builder, Runtime};

use super::Failure;

/// A body: all of it, or pieces as they are made.
pub(super) type Outgoing = Either<Full<Bytes>, Channel<Bytes>>;

/// Turns of the runtime in which it takes note of what came in the meantime: one to hear of it, one to handle it.
const TURNS: usize = 2;

/// How long to wait for the network.
pub struct Patience<'a> {
    /// For each piece that is written or read.
    pub timeout: Duration,
    /// After this the caller is asked whether it wants to leave.
    pub slice: Duration,
    /// True when it does.
    pub wants_to_leave: &'a dyn Fn() -> bool,
}

/// See above.
pub(super) struct Lane {
    http: legacy::Client<HttpsConnector<HttpConnector>, Outgoing>,
    /// There until the end.
    runtime: Option<Runtime>,
    /// It has a connection of an earlier call, which the server may end at any moment.
    pub(super) was_used: bool,
}

impl Lane {
    pub(super) fn new(tls: &Arc<ClientConfig>) -> std::io::Result<Self> {
        let mut sockets = HttpConnector::new();
        sockets.set_nodelay(true);
        sockets.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(ClientConfig::clone(tls))
            .https_or_http()
            .enable_http1()
            .wrap_connector(sockets);
        Ok(Self {
            http: legacy::Client::builder(TokioExecutor::new())
                .pool_max_idle_per_host(1)
                // Pages and pieces come in few reads.
                .http1_max_buf_size(BULK_PIECE_BYTES)
                .build(connector),
            runtime: Some(Builder::new_current_thread().enable_io().enable_time().build()?),
            was_used: false,
        })
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is there until the end")
    }

    /// Sends a request, once it is known what became of the connection since the last one: a server may have ended it.
    pub(super) fn request(
        &self,
        request: Request<Outgoing>,
    ) -> impl Future<Output = Result<Response<Incoming>, legacy::Error>> + use<> {
        let (http, turns) = (self.http.clone(), if self.was_used { TURNS } else { 0 });
        async move {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            http.request(request).await
        }
    }

    /// Waits in slices until `work` is done, the time is over or the caller wants to leave. The caller's own code runs between
    /// the slices, outside of the runtime: it may make calls itself.
    pub(super) fn wait<T>(&self, patience: &Patience<'_>, work: impl Future<Output = T>) -> Result<T, Failure> {
        let mut work = std::pin::pin!(work);
        let mut waited = Duration::ZERO;
        let slice = patience.slice.min(patience.timeout).max(Duration::from_millis(1));
        loop {
            let done = async { tokio::time::timeout(slice, work.as_mut()).await };
            if let Ok(done) = self.runtime().block_on(done) {
                return Ok(done);
            }
            waited += slice;
            if (patience.wants_to_leave)() {
                return Err(Failure::Left);
            }
            if waited >= patience.timeout {
                let detail = format!(
                    "the server did not answer within {:.1} s; try again, or raise timeout",
                    patience.timeout.as_secs_f64()
                );
                return Err(Failure::Timeout(detail, None));
            }
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Looking up a name may take long, and nobody waits for it any more.
            runtime.shutdown_background();
        }
    }
}
