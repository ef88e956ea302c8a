// SPDX-License-Identifier: Apache-2.0
//! What calls on threads need of their connection: what its client may do, and what it receives from.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use oxbus_broker::Receiver;
use oxbus_model::Timestamp;
use oxbus_model::authorization::AccessRight;
use oxbus_model::caps::AMQP_CLAIMS_MAX;
use oxbus_model::sync::whole;

use crate::front::Context;
use crate::sas::{AccessDenied, Claims, DenialReason};

/// One for each connection.
pub(super) struct ConnectionState {
    context: Context,
    /// What tokens allow; the newest of each scope (B-417).
    claims: Mutex<Vec<Claims>>,
    /// By the name of the link.
    receivers: Mutex<HashMap<String, Arc<Receiver>>>,
}

/// Both are whole after a panic: what a token allows is in it or not, and so is a receiver.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    whole(mutex.lock())
}

impl ConnectionState {
    pub(super) fn new(context: Context) -> Self {
        Self {
            context,
            claims: Mutex::default(),
            receivers: Mutex::default(),
        }
    }

    /// Takes up what a token allows; false when the connection has too many.
    pub(super) fn grant(&self, claims: Claims) -> bool {
        let mut known = lock(&self.claims);
        known.retain(|known| known.scope != claims.scope);
        if known.len() >= AMQP_CLAIMS_MAX {
            return false;
        }
        known.push(claims);
        true
    }

    /// Under which name of a key the client is known: that of its first token.
    pub(super) fn key_name(&self) -> Option<String> {
        lock(&self.claims).first().map(|claims| claims.key_name.clone())
    }

    /// Whether any token was put.
    pub(super) fn has_claims(&self) -> bool {
        !lock(&self.claims).is_empty()
    }

    /// Refuses what no token of the connection allows.
    pub(super) fn check(&self, right: AccessRight, path: &str) -> Result<(), AccessDenied> {
        let now = self.context.now();
        let mut denied = AccessDenied::new(DenialReason::Missing, path, None);
        for claims in lock(&self.claims).iter() {
            match claims.check(right, path, now) {
                Ok(()) => return Ok(()),
                // That a right is missing says more than that another token is about something else.
                Err(error)
                    if matches!(error.reason, DenialReason::WrongAudience(_))
                        && denied.reason != DenialReason::Missing => {}
                Err(error) => denied = error,
            }
        }
        Err(denied)
    }

    /// When the first token ends.
    pub(super) fn first_expiry(&self) -> Option<Timestamp> {
        lock(&self.claims).iter().map(|claims| claims.expires_at).min()
    }

    /// Forgets tokens that are over.
    pub(super) fn forget_expired(&self) {
        let now = self.context.now();
        lock(&self.claims).retain(|claims| claims.expires_at > now);
    }

    /// The receiver of a link.
    pub(super) fn receiver(&self, link_name: &str) -> Option<Arc<Receiver>> {
        lock(&self.receivers).get(link_name).cloned()
    }

    /// The receiver of a session that a link of the connection holds.
    pub(super) fn session(&self, entity_key: &str, id: &str) -> Option<Arc<Receiver>> {
        let receivers = lock(&self.receivers);
        let is_match = |it: &&Arc<Receiver>| it.session_id() == Some(id) && it.queue().name().key() == entity_key;
        receivers.values().find(is_match).cloned()
    }

    pub(super) fn register_receiver(&self, link_name: &str, receiver: &Arc<Receiver>) {
        lock(&self.receivers).insert(link_name.to_owned(), Arc::clone(receiver));
    }

    /// A link is gone; another one of its name stays.
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
