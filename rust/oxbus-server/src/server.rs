// SPDX-License-Identifier: Apache-2.0
//! The life of a server: it listens, it serves, it ends when nobody is served any more.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use oxbus_broker::Namespace;
use oxbus_model::caps::{BULK_BLOCKING_THREADS_MAX, BULK_CLOSE_MS_MAX};
use oxbus_model::{Error, ErrorKind, Result};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::bulk::{self, Plane};
use crate::connections;
use crate::options::ServerOptions;
use crate::tls;

/// Most threads that handle requests: the work itself is done on others.
const HANDLERS_MAX: usize = 4;

/// A server of the bulk plane of one namespace.
pub struct BulkServer {
    address: SocketAddr,
    host: String,
    is_tls: bool,
    stop: watch::Sender<bool>,
    /// Ends once all connections have ended.
    ended: Mutex<Option<(Runtime, tokio::task::JoinHandle<()>)>>,
}

impl BulkServer {
    /// Serves a namespace from now on.
    pub fn start(namespace: Namespace, options: ServerOptions) -> Result<Self> {
        let tls = options.tls.as_ref().map(tls::acceptor).transpose()?;
        let listener = options.listen()?;
        let failed =
            |error: std::io::Error| Error::new(ErrorKind::Storage, format!("the server cannot start: {error}"));
        let address = listener.local_addr().map_err(failed)?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(processors.min(HANDLERS_MAX))
            .max_blocking_threads(BULK_BLOCKING_THREADS_MAX)
            .thread_name("oxbus-bulk")
            .enable_io()
            .enable_time()
            .build()
            .map_err(failed)?;
        let (stop, stopped) = watch::channel(false);
        let routes = bulk::routes(Plane::new(namespace, &options, stopped.clone()));
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(failed)?
        };
        let serving = runtime.spawn(connections::serve(listener, tls, options.limits, routes, stopped));
        Ok(Self {
            address,
            host: options.host,
            is_tls: options.tls.is_some(),
            stop,
            ended: Mutex::new(Some((runtime, serving))),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The host that it was asked to listen on.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Its address as a link.
    pub fn endpoint(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        let port = self.address.port();
        if self.host.contains(':') {
            format!("{scheme}://[{}]:{port}", self.host)
        } else {
            format!("{scheme}://{}:{port}", self.host)
        }
    }

    /// True until [`BulkServer::close`].
    pub fn is_open(&self) -> bool {
        !*self.stop.borrow()
    }

    /// Takes no more requests, ends those that wait for messages, lets the others finish, and frees the port. Closing again
    /// does nothing.
    pub fn close(&self) {
        self.stop.send_replace(true);
        let taken = self.ended.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((runtime, serving)) = taken else { return };
        let patience = Duration::from_millis(BULK_CLOSE_MS_MAX);
        // Those that are not done by then are cut off; what they stored stays.
        let _ = runtime.block_on(async { tokio::time::timeout(patience, serving).await });
        runtime.shutdown_background();
    }
}

impl Drop for BulkServer {
    fn drop(&mut self) {
        self.close();
    }
}
