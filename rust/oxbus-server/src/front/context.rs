// SPDX-License-Identifier: Apache-2.0
//! What all connections of a server share, whatever they speak.

use std::sync::Arc;

use oxbus_broker::{Namespace, SystemClock};
use oxbus_model::authorization::AuthorizationRule;
use oxbus_model::caps::{HTTP_BODIES_BYTES_MAX, HTTP_REQUESTS_MAX};
use oxbus_model::message::NewId;
use oxbus_model::{Clock, Result, Timestamp};
use tokio::sync::{Semaphore, watch};

use super::budget::Budget;
use crate::bulk::{BulkLimits, BulkRoutes, BulkState};
use crate::http::Meters;
use crate::sas::{Authority, EntityRules};

/// Handed to every connection; cheap to copy.
#[derive(Clone)]
pub(crate) struct Context(Arc<ContextInner>);

struct ContextInner {
    namespace: Namespace,
    authority: Arc<Authority>,
    bulk: BulkRoutes,
    new_id: NewId,
    is_loopback: bool,
    stopped: watch::Receiver<bool>,
    requests: Semaphore,
    bodies: Budget,
    meters: Meters,
}

/// Rules of entities, as management keeps them.
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
        is_loopback: bool,
        bulk: BulkLimits,
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
            stopped,
            requests: Semaphore::new(HTTP_REQUESTS_MAX),
            bodies: Budget::new(HTTP_BODIES_BYTES_MAX),
            meters: Meters::default(),
        })))
    }

    /// What is served.
    pub(crate) fn namespace(&self) -> &Namespace {
        &self.0.namespace
    }

    /// Who may do what.
    pub(crate) fn authority(&self) -> &Authority {
        &self.0.authority
    }

    /// The routes of bulk clients.
    pub(crate) fn bulk(&self) -> &BulkRoutes {
        &self.0.bulk
    }

    /// Makes the ids of messages that come without one.
    pub(crate) fn new_id(&self) -> NewId {
        self.0.new_id
    }

    /// True when only programs of this machine reach the server.
    pub(crate) fn is_loopback(&self) -> bool {
        self.0.is_loopback
    }

    /// Says true when the server is to end: whoever waits for messages then waits no longer, says goodbye and returns.
    pub(crate) fn stopped(&self) -> watch::Receiver<bool> {
        self.0.stopped.clone()
    }

    /// A place among the requests that are worked on, one each.
    pub(crate) fn requests(&self) -> &Semaphore {
        &self.0.requests
    }

    /// Bytes of bodies that are in memory.
    pub(crate) fn bodies(&self) -> &Budget {
        &self.0.bodies
    }

    /// What is counted.
    pub(crate) fn meters(&self) -> &Meters {
        &self.0.meters
    }

    /// Real time: a clock that is moved by hand moves messages, not who may see them.
    #[expect(clippy::unused_self, reason = "the time belongs to whoever is asked for it")]
    pub(crate) fn now(&self) -> Timestamp {
        SystemClock::new().now()
    }
}

#[cfg(test)]
impl Context {
    /// The context of a server that is not there, with the development rule.
    pub(crate) fn for_tests(namespace: Namespace) -> Self {
        Self::for_tests_until(namespace, watch::channel(false).1)
    }

    /// The same, until it is to end.
    pub(crate) fn for_tests_until(namespace: Namespace, stopped: watch::Receiver<bool>) -> Self {
        let rules = vec![crate::sas::development_rule()];
        let new_id = |_| oxbus_model::message::AssignedId::new(1, 1);
        Self::new(namespace, rules, new_id, true, BulkLimits::default(), stopped).expect("the development rule is one")
    }
}
