// SPDX-License-Identifier: Apache-2.0
//! The state that all connections of a server share, whatever their protocol.

use std::sync::Arc;

use oxbus_broker::{Namespace, SystemClock};
use oxbus_model::authorization::AuthorizationRule;
use oxbus_model::caps::{HTTP_BODIES_BYTES_MAX, HTTP_REQUESTS_MAX};
use oxbus_model::message::NewId;
use oxbus_model::{Clock, Result, Timestamp};
use tokio::sync::{Semaphore, watch};

use super::budget::Budget;
use crate::bulk::{BulkLimits, BulkRoutes, BulkState};
use crate::console::{Connections, Console, ConsoleOptions};
use crate::http::Meters;
use crate::sas::{Authority, EntityRules};
use crate::spans::SpanRecorder;

/// The shared state. It is cheap to clone.
#[derive(Clone)]
pub(crate) struct Context(Arc<ContextInner>);

struct ContextInner {
    namespace: Namespace,
    authority: Arc<Authority>,
    bulk: BulkRoutes,
    new_id: NewId,
    is_loopback: bool,
    /// The name or address to listen on.
    host: String,
    console: Option<Arc<Console>>,
    connections: Connections,
    stopped: watch::Receiver<bool>,
    /// Turns true when the server takes no more links. A drain comes before the stop, or not at all.
    draining: watch::Sender<bool>,
    amqp_connections: watch::Sender<usize>,
    requests: Semaphore,
    bodies: Budget,
    meters: Meters,
    spans: SpanRecorder,
}

/// The authorization rules of entities, from their settings.
struct NamespaceEntityRules(Namespace);

impl EntityRules for NamespaceEntityRules {
    fn of(&self, path: &str) -> Vec<AuthorizationRule> {
        let entity = self.0.entity(path);
        entity.map_or_else(|_| Vec::new(), |entity| entity.settings().authorization_rules.clone())
    }
}

impl Context {
    pub(super) fn new(
        namespace: Namespace,
        rules: Vec<AuthorizationRule>,
        new_id: NewId,
        (host, is_loopback): (String, bool),
        bulk: BulkLimits,
        console: Option<ConsoleOptions>,
        stopped: watch::Receiver<bool>,
    ) -> Result<Self> {
        let authority = Arc::new(Authority::new(rules, NamespaceEntityRules(namespace.clone()))?);
        let bulk = BulkState::new(namespace.clone(), Arc::clone(&authority), new_id, bulk, stopped.clone());
        Ok(Self(Arc::new(ContextInner {
            authority,
            bulk: BulkRoutes::new(bulk),
            namespace,
            new_id,
            is_loopback,
            host,
            console: console.map(|options| Arc::new(Console::new(options))),
            connections: Connections::default(),
            stopped,
            draining: watch::Sender::new(false),
            amqp_connections: watch::Sender::new(0),
            requests: Semaphore::new(HTTP_REQUESTS_MAX),
            bodies: Budget::new(HTTP_BODIES_BYTES_MAX),
            meters: Meters::default(),
            spans: SpanRecorder::default(),
        })))
    }

    /// The namespace that is served.
    pub(crate) fn namespace(&self) -> &Namespace {
        &self.0.namespace
    }

    /// Checks access.
    pub(crate) fn authority(&self) -> &Authority {
        &self.0.authority
    }

    /// The routes of bulk clients.
    pub(crate) fn bulk(&self) -> &BulkRoutes {
        &self.0.bulk
    }

    /// Generates the ids of messages that arrive without one.
    pub(crate) fn new_id(&self) -> NewId {
        self.0.new_id
    }

    /// True if only local programs can reach the server.
    pub(crate) fn is_loopback(&self) -> bool {
        self.0.is_loopback
    }

    /// The name or address that the server listens on.
    pub(crate) fn host(&self) -> &str {
        &self.0.host
    }

    /// The console, if it is on.
    pub(crate) fn console(&self) -> Option<&Arc<Console>> {
        self.0.console.as_ref()
    }

    /// True if the namespace is a view of a directory, which only the console shows.
    pub(crate) fn is_view(&self) -> bool {
        self.console().is_some_and(|console| console.is_read_only())
    }

    /// The open AMQP connections.
    pub(crate) fn connections(&self) -> &Connections {
        &self.0.connections
    }

    /// Turns true when the server stops. Waiting calls then return, and connections close in an orderly way.
    pub(crate) fn stopped(&self) -> watch::Receiver<bool> {
        self.0.stopped.clone()
    }

    /// Turns true when the server takes no more links and waits for clients to settle.
    pub(crate) fn draining(&self) -> watch::Receiver<bool> {
        self.0.draining.subscribe()
    }

    /// Counts an AMQP connection until the guard is dropped.
    pub(crate) fn enter_amqp(&self) -> AmqpConnectionGuard {
        self.0.amqp_connections.send_modify(|count| *count += 1);
        AmqpConnectionGuard(self.clone())
    }

    /// Begins to drain, and returns when no AMQP connection is left.
    pub(super) async fn drain(&self) {
        self.0.draining.send_replace(true);
        let mut connections = self.0.amqp_connections.subscribe();
        let _ = connections.wait_for(|count| *count == 0).await;
    }

    /// The permits for requests in progress, one for each request.
    pub(crate) fn requests(&self) -> &Semaphore {
        &self.0.requests
    }

    /// The budget for request bodies in memory.
    pub(crate) fn bodies(&self) -> &Budget {
        &self.0.bodies
    }

    /// The server's counters.
    pub(crate) fn meters(&self) -> &Meters {
        &self.0.meters
    }

    /// What the server did, for the traces of its clients.
    pub(crate) fn spans(&self) -> &SpanRecorder {
        &self.0.spans
    }

    /// Real time, because a manual clock applies to messages, not to the expiry of tokens.
    #[expect(clippy::unused_self, reason = "callers get the time from their context")]
    pub(crate) fn now(&self) -> Timestamp {
        SystemClock::new().now()
    }
}

/// An open AMQP connection.
pub(crate) struct AmqpConnectionGuard(Context);

impl Drop for AmqpConnectionGuard {
    fn drop(&mut self) {
        self.0.0.amqp_connections.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
impl Context {
    /// The context of a test without a server, with the development rule.
    pub(crate) fn for_tests(namespace: Namespace) -> Self {
        Self::for_tests_until(namespace, watch::channel(false).1)
    }

    /// Like `for_tests`, with a stop signal.
    pub(crate) fn for_tests_until(namespace: Namespace, stopped: watch::Receiver<bool>) -> Self {
        let rules = vec![crate::sas::development_rule()];
        let new_id = |_| oxbus_model::message::AssignedId::new(1, 1);
        let host = ("127.0.0.1".to_owned(), true);
        Self::new(namespace, rules, new_id, host, BulkLimits::default(), None, stopped)
            .expect("the development rule is valid")
    }
}
