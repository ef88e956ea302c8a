// SPDX-License-Identifier: Apache-2.0
//! Starting and stopping a server.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use oxbus_broker::Namespace;
use oxbus_log::event;
use oxbus_model::Result;
use oxbus_model::authorization::{AccessRight, AuthorizationRule};
use oxbus_model::caps::{SERVER_CLOSE_MS_MAX, SERVER_CONNECTIONS_MAX};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::certificate;
use super::connection::handle;
use super::context::Context;
use super::listen::authority;
use super::options::{BusOptions, BusTls, Ports};
use super::runtime::{ServerRuntime, build_runtime, cannot_start};
use super::tls;
use crate::accept::{ConnectionPermits, accept};
use crate::spans::FinishedSpan;

/// A server of one namespace.
pub struct BusServer {
    host: String,
    ports: Ports,
    /// The development issuer's certificate in PEM, which clients have to trust.
    issuer: Option<String>,
    context: Context,
    runtime_handle: ServerRuntime,
}

impl BusServer {
    /// Starts to serve a namespace.
    pub fn start(namespace: Namespace, options: BusOptions) -> Result<Self> {
        event!(SERVER_STARTING, host = options.host);
        let (rules, listeners) = options.listen()?;
        let (acceptor, issuer) = match &options.tls {
            BusTls::Files(files) => (tls::acceptor(files)?, None),
            BusTls::Development { issuer_out } => {
                let development = certificate::generate(&options.host)?;
                if let Some(path) = issuer_out {
                    development.write_issuer(path)?;
                }
                (development.acceptor()?, Some(development.issuer))
            }
        };
        let mut addresses = [None; 4];
        for (address, listener) in addresses.iter_mut().zip(&listeners) {
            *address = listener
                .as_ref()
                .map(TcpListener::local_addr)
                .transpose()
                .map_err(cannot_start)?;
        }
        let is_loopback = addresses.iter().flatten().all(|address| address.ip().is_loopback());
        let (stop, stopped) = watch::channel(false);
        namespace.switch_metrics_on();
        let context = Context::new(
            namespace,
            rules,
            options.new_id,
            (options.host.clone(), is_loopback),
            options.bulk,
            options.console,
            stopped.clone(),
        )?;
        let runtime = build_runtime()?;
        let permits = ConnectionPermits::new(SERVER_CONNECTIONS_MAX);
        let mut accepting = JoinSet::new();
        for listener in listeners.into_iter().flatten() {
            let listener = {
                let _inside = runtime.enter();
                tokio::net::TcpListener::from_std(listener).map_err(cannot_start)?
            };
            let (acceptor, context) = (acceptor.clone(), context.clone());
            let handle = move |socket: TcpStream| {
                let address = socket.peer_addr().ok();
                handle(socket, address, acceptor.clone(), context.clone())
            };
            accepting.spawn_on(
                accept(listener, permits.clone(), stopped.clone(), handle),
                runtime.handle(),
            );
        }
        if let Some(console) = context.console() {
            let sampling = crate::console::sample(context.clone(), Arc::clone(console));
            accepting.spawn_on(sampling, runtime.handle());
        }
        let serving = async move {
            while accepting.join_next().await.is_some() {}
            permits.wait_until_all_closed().await;
        };
        let port = |at: usize| addresses[at].map(|address: SocketAddr| address.port());
        event!(
            SERVER_READY,
            host = options.host,
            amqp_port = port(0),
            amqps_port = port(1),
            http_port = port(2),
            https_port = port(3)
        );
        Ok(Self {
            host: options.host,
            ports: Ports {
                amqp: port(0),
                amqps: port(1),
                http: port(2),
                https: port(3),
            },
            issuer,
            context,
            runtime_handle: ServerRuntime::new(runtime, stop, serving, Duration::from_millis(SERVER_CLOSE_MS_MAX)),
        })
    }

    /// The host from the options.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The ports that the server listens on.
    pub fn ports(&self) -> Ports {
        self.ports
    }

    /// The certificate of the development issuer in PEM, and `None` if the server's certificate is the caller's.
    pub fn issuer(&self) -> Option<&str> {
        self.issuer.as_deref()
    }

    /// The connection string for SDKs and bulk clients. It contains a key in clear text: that of the first rule with
    /// the right to manage, or else of the first rule.
    ///
    /// With the caller's certificate and a TLS port, it names that port, and clients use TLS. Otherwise, it contains
    /// `UseDevelopmentEmulator=true`, which makes clients keep the port and connect without TLS.
    pub fn connection_string(&self) -> String {
        // Clients cannot connect to the unspecified address.
        let is_unspecified = self.host.parse().is_ok_and(|address: IpAddr| address.is_unspecified());
        let host = if is_unspecified { "localhost" } else { &self.host };
        let encrypted = self.ports.amqps.or(self.ports.https).filter(|_| self.issuer.is_none());
        let (port, emulator) = match encrypted {
            Some(port) => (port, ""),
            None => (self.ports.first(), ";UseDevelopmentEmulator=true"),
        };
        let endpoint = authority(host, port);
        let rules = self.rules();
        let rule = rules
            .iter()
            .find(|rule| rule.allows(AccessRight::Manage))
            .or(rules.first());
        let (name, key) = rule.map_or(("", ""), |rule| (&rule.key_name, &rule.primary_key));
        format!("Endpoint=sb://{endpoint};SharedAccessKeyName={name};SharedAccessKey={key}{emulator}")
    }

    /// The current rules of the namespace.
    pub fn rules(&self) -> Vec<AuthorizationRule> {
        self.context.authority().rules().to_vec()
    }

    /// Replaces the rules of the namespace. Later requests with tokens of removed keys are rejected.
    pub fn replace_rules(&self, rules: Vec<AuthorizationRule>) -> Result<()> {
        let count = rules.len();
        self.context.authority().replace_rules(rules)?;
        event!(RULES_REPLACED, count);
        Ok(())
    }

    /// Takes what the server did for its clients, and waits for at most `limit` until there is something. Nothing is
    /// recorded before the first call.
    pub fn take_spans(&self, limit: Duration) -> Vec<FinishedSpan> {
        self.context.spans().take(limit)
    }

    /// True until [`BusServer::close`].
    pub fn is_open(&self) -> bool {
        self.runtime_handle.is_open()
    }

    /// Takes no more links, and lets clients settle the messages that they have, for at most `limit`. A connection
    /// without unsettled messages is closed at once with `amqp:connection:forced`. HTTP is served until
    /// [`BusServer::close`].
    pub fn drain(&self, limit: Duration) {
        if limit.is_zero() || !self.is_open() {
            return;
        }
        event!(SERVER_DRAINING, host = self.host);
        self.runtime_handle.run_for(limit, self.context.drain());
    }

    /// Stops accepting connections, ends waiting receives, lets requests finish, and frees the ports. A second call
    /// does nothing.
    pub fn close(&self) {
        if !self.is_open() {
            return self.runtime_handle.close();
        }
        if !*self.context.draining().borrow() {
            event!(SERVER_DRAINING, host = self.host);
        }
        self.runtime_handle.close();
        event!(SERVER_STOPPED, host = self.host);
    }
}

impl Drop for BusServer {
    fn drop(&mut self) {
        self.close();
    }
}
