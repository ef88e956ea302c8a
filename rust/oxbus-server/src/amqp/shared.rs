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
use crate::sas::{Claims, Refused, Why};

/// One for each connection.
pub(super) struct Shared {
    context: Context,
    /// What tokens allow; the newest of each scope (B-417).
    claims: Mutex<Vec<Claims>>,
    /// By the name of the link.
    receivers: Mutex<HashMap<String, Arc<Receiver>>>,
}

/// Both are whole after a panic: what a token allows is in it or not, and so is a receiver.
fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    whole(mutex.lock())
}

impl Shared {
    pub(super) fn new(context: Context) -> Self {
        Self {
            context,
            claims: Mutex::default(),
            receivers: Mutex::default(),
        }
    }

    /// Takes up what a token allows; false when the connection has too many.
    pub(super) fn grant(&self, claims: Claims) -> bool {
        let mut held = guard(&self.claims);
        held.retain(|known| known.scope != claims.scope);
        if held.len() >= AMQP_CLAIMS_MAX {
            return false;
        }
        held.push(claims);
        true
    }

    /// Under which name of a key the client is known: that of its first token.
    pub(super) fn key_name(&self) -> Option<String> {
        guard(&self.claims).first().map(|claims| claims.key_name.clone())
    }

    /// Whether any token was put.
    pub(super) fn has_claims(&self) -> bool {
        !guard(&self.claims).is_empty()
    }

    /// Refuses what no token of the connection allows.
    pub(super) fn allows(&self, right: AccessRight, path: &str) -> Result<(), Refused> {
        let now = self.context.now();
        let mut refused = Refused::new(Why::Missing, path, None);
        for claims in guard(&self.claims).iter() {
            match claims.check(right, path, now) {
                Ok(()) => return Ok(()),
                // That a right is missing says more than that another token is about something else.
                Err(error) if matches!(error.why, Why::WrongAudience(_)) && refused.why != Why::Missing => {}
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// When the first token ends.
    pub(super) fn first_expiry(&self) -> Option<Timestamp> {
        guard(&self.claims).iter().map(|claims| claims.expires_at).min()
    }

    /// Forgets tokens that are over.
    pub(super) fn forget_expired(&self) {
        let now = self.context.now();
        guard(&self.claims).retain(|claims| claims.expires_at > now);
    }

    /// The receiver of a link.
    pub(super) fn receiver(&self, link_name: &str) -> Option<Arc<Receiver>> {
        guard(&self.receivers).get(link_name).cloned()
    }

    /// The receiver of a session that a link of the connection holds.
    pub(super) fn session(&self, entity_key: &str, id: &str) -> Option<Arc<Receiver>> {
        let receivers = guard(&self.receivers);
        let holds = |it: &&Arc<Receiver>| it.session_id() == Some(id) && it.queue().name().key() == entity_key;
        receivers.values().find(holds).cloned()
    }

    pub(super) fn opened(&self, link_name: &str, receiver: &Arc<Receiver>) {
        guard(&self.receivers).insert(link_name.to_owned(), Arc::clone(receiver));
    }

    /// A link is gone; another one of its name stays.
    pub(super) fn closed(&self, link_name: &str, receiver: &Arc<Receiver>) {
        let mut receivers = guard(&self.receivers);
        if receivers
            .get(link_name)
            .is_some_and(|known| Arc::ptr_eq(known, receiver))
        {
            receivers.remove(link_name);
        }
    }
}
