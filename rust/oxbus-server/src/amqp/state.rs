// SPDX-License-Identifier: Apache-2.0
//! The state of a connection that its calls on other threads use: its claims and its receivers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use oxbus_broker::Receiver;
use oxbus_model::Timestamp;
use oxbus_model::authorization::AccessRight;
use oxbus_model::caps::AMQP_CLAIMS_MAX;
use oxbus_model::sync::ignore_poison;

use crate::front::Context;
use crate::sas::{AccessDenied, Claims, DenialReason};

/// The shared state of a connection.
pub(super) struct ConnectionState {
    context: Context,
    /// The claims of accepted tokens, the newest of each scope (B-417).
    claims: Mutex<Vec<Claims>>,
    /// The receivers by link name.
    receivers: Mutex<HashMap<String, Arc<Receiver>>>,
}

/// Locks either mutex. A panic leaves both consistent: an entry is either in the collection or not.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    ignore_poison(mutex.lock())
}

impl ConnectionState {
    pub(super) fn new(context: Context) -> Self {
        Self {
            context,
            claims: Mutex::default(),
            receivers: Mutex::default(),
        }
    }

    /// Adds claims. Returns false if the connection has too many.
    pub(super) fn grant(&self, claims: Claims) -> bool {
        let mut known = lock(&self.claims);
        known.retain(|known| known.scope != claims.scope);
        if known.len() >= AMQP_CLAIMS_MAX {
            return false;
        }
        known.push(claims);
        true
    }

    /// The key name of the first token.
    pub(super) fn key_name(&self) -> Option<String> {
        lock(&self.claims).first().map(|claims| claims.key_name.clone())
    }

    /// True if the connection has claims.
    pub(super) fn has_claims(&self) -> bool {
        !lock(&self.claims).is_empty()
    }

    /// Checks that a token of the connection gives the right at the path.
    pub(super) fn check(&self, right: AccessRight, path: &str) -> Result<(), AccessDenied> {
        let now = self.context.now();
        let mut denied = AccessDenied::new(DenialReason::Missing, path, None);
        for claims in lock(&self.claims).iter() {
            match claims.check(right, path, now) {
                Ok(()) => return Ok(()),
                // A missing right is a better reason than a token for another audience.
                Err(error)
                    if matches!(error.reason, DenialReason::WrongAudience(_))
                        && denied.reason != DenialReason::Missing => {}
                Err(error) => denied = error,
            }
        }
        Err(denied)
    }

    /// The earliest expiry of a token.
    pub(super) fn first_expiry(&self) -> Option<Timestamp> {
        lock(&self.claims).iter().map(|claims| claims.expires_at).min()
    }

    /// Removes expired tokens.
    pub(super) fn forget_expired(&self) {
        let now = self.context.now();
        lock(&self.claims).retain(|claims| claims.expires_at > now);
    }

    /// The receiver of a link.
    pub(super) fn receiver(&self, link_name: &str) -> Option<Arc<Receiver>> {
        lock(&self.receivers).get(link_name).cloned()
    }

    /// The receiver of this connection that holds the session.
    pub(super) fn session(&self, entity_key: &str, id: &str) -> Option<Arc<Receiver>> {
        let receivers = lock(&self.receivers);
        let is_match = |it: &&Arc<Receiver>| it.session_id() == Some(id) && it.entity().name().key() == entity_key;
        receivers.values().find(is_match).cloned()
    }

    pub(super) fn register_receiver(&self, link_name: &str, receiver: &Arc<Receiver>) {
        lock(&self.receivers).insert(link_name.to_owned(), Arc::clone(receiver));
    }

    /// Removes the receiver of a detached link, unless a newer link has taken its name.
    pub(super) fn unregister_receiver(&self, link_name: &str, receiver: &Arc<Receiver>) {
        let mut receivers = lock(&self.receivers);
        if receivers
            .get(link_name)
            .is_some_and(|known| Arc::ptr_eq(known, receiver))
        {
            receivers.remove(link_name);
        }
    }
}
