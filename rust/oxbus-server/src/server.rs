// SPDX-License-Identifier: Apache-2.0
//! The life of a bulk server: it listens, it serves, it ends when nobody is served any more.

use std::net::SocketAddr;
use std::time::Duration;

use oxbus_broker::Namespace;
use oxbus_model::Result;
use oxbus_model::caps::{BULK_BLOCKING_THREADS_MAX, BULK_CLOSE_MS_MAX};
use tokio::sync::watch;

use crate::bulk::{self, Plane};
use crate::connections;
use crate::options::{ServerOptions, authority};
use crate::running::{Running, cannot_start, threads};
use crate::tls;

/// A server of the bulk plane of one namespace.
pub struct BulkServer {
    address: SocketAddr,
    host: String,
    is_tls: bool,
    running: Running,
}

impl BulkServer {
    /// Serves a namespace from now on.
    pub fn start(namespace: Namespace, options: ServerOptions) -> Result<Self> {
        let tls = options.tls.as_ref().map(tls::acceptor).transpose()?;
        let listener = options.listen()?;
        let address = listener.local_addr().map_err(cannot_start)?;
        let runtime = threads("oxbus-bulk", BULK_BLOCKING_THREADS_MAX)?;
        let (stop, stopped) = watch::channel(false);
        let routes = bulk::routes(Plane::new(namespace, &options, stopped.clone()));
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(cannot_start)?
        };
        let serving = connections::serve(listener, tls, options.limits, routes, stopped);
        let patience = Duration::from_millis(BULK_CLOSE_MS_MAX);
        Ok(Self {
            address,
            host: options.host,
            is_tls: options.tls.is_some(),
            running: Running::new(runtime, stop, serving, patience),
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
        format!("{scheme}://{}", authority(&self.host, self.address.port()))
    }

    /// True until [`BulkServer::close`].
    pub fn is_open(&self) -> bool {
        self.running.is_open()
    }

    /// Takes no more requests, ends those that wait for messages, lets the others finish, and frees the port. Closing again
    /// does nothing.
    pub fn close(&self) {
        self.running.close();
    }
}
