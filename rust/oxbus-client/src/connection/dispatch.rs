// SPDX-License-Identifier: Apache-2.0
//! Hands the events of the engine to whom they concern.

use std::sync::Arc;

use oxbus_amqp::ClientEvent;
use oxbus_amqp::client::LinkId;
use oxbus_amqp::performative::{AmqpError, condition};
use tokio::sync::Notify;

use super::core::{Core, LinkPhase, Phase};
use super::results::{SendResult, SettleResult};
use crate::error::ClientError;
use crate::kind::ClientErrorKind;

impl Core {
    /// Takes all events. Returns the links whose waiters have to look.
    pub(super) fn take_events(&mut self, now: u64) -> Vec<Arc<Notify>> {
        let mut wakes = Vec::new();
        while let Some(event) = self.engine.next_event(now) {
            if let Some(link) = self.take_event(event)
                && let Some(state) = self.links.get(&link)
                && !wakes.iter().any(|woken| Arc::ptr_eq(woken, &state.changed))
            {
                wakes.push(Arc::clone(&state.changed));
            }
        }
        if matches!(self.phase, Phase::Ended(_)) {
            wakes.extend(self.links.values().map(|link| Arc::clone(&link.changed)));
        }
        wakes
    }

    /// Takes an event. Returns the link that it concerns.
    fn take_event(&mut self, event: ClientEvent) -> Option<LinkId> {
        match event {
            ClientEvent::Open(open) => {
                self.phase = Phase::Open;
                self.offered = open.offered_capabilities;
                None
            }
            ClientEvent::Begun { .. } => None,
            ClientEvent::Attached { link, attach } => {
                if let Some(state) = self.links.get_mut(&link) {
                    state.phase = LinkPhase::Attached(attach);
                }
                Some(link)
            }
            ClientEvent::Credit { link, drain, .. } => {
                if drain {
                    // Nothing waits to be sent beside what is sent already.
                    self.engine.drained(link);
                }
                Some(link)
            }
            ClientEvent::Drained { link } => {
                if let Some(state) = self.links.get_mut(&link) {
                    state.is_drained = true;
                }
                Some(link)
            }
            ClientEvent::Received(received) => {
                let link = received.link;
                if let Some(state) = self.links.get_mut(&link) {
                    state.queue.push_back(received);
                }
                Some(link)
            }
            ClientEvent::Outcome(outcome) => {
                if let Some(sent) = self.sends.remove(&outcome.delivery) {
                    self.send_batches.set(sent.place, SendResult::Outcome(outcome.state));
                }
                // The session may send again.
                Some(outcome.link)
            }
            ClientEvent::Settled(settled) => {
                if let Some(place) = self.settles.remove(&settled.delivery) {
                    self.settle_batches.set(place, SettleResult::Answered(settled.state));
                }
                None
            }
            ClientEvent::Detached { link, error, .. } => {
                self.end_link(link, link_error(error.as_ref()));
                Some(link)
            }
            ClientEvent::LinkFailed { link, error } => {
                self.end_link(link, link_error(Some(&error)));
                Some(link)
            }
            ClientEvent::Ended { session, error } => {
                let error = link_error(error.as_ref());
                self.end_session(session, &error);
                None
            }
            ClientEvent::SessionFailed { session, error } => {
                let error = link_error(Some(&error));
                self.end_session(session, &error);
                None
            }
            ClientEvent::Closed { error } => {
                self.end(&close_error(error.as_ref()));
                None
            }
            ClientEvent::Failed(error) => {
                self.end(&failure(&error));
                None
            }
            ClientEvent::Disconnected => {
                self.end(&ClientError::connection(
                    "the server or the network ended the connection; try again",
                ));
                None
            }
        }
    }

    /// Ends a link, and what waits for it.
    fn end_link(&mut self, link: LinkId, error: ClientError) {
        let written = self.written;
        let lost: Vec<_> = self
            .sends
            .iter()
            .filter(|(_, sent)| sent.link == link)
            .map(|(id, _)| *id)
            .collect();
        for id in lost {
            if let Some(sent) = self.sends.remove(&id) {
                self.send_batches.set(sent.place, sent.lost(written, &error));
            }
        }
        let lost: Vec<_> = self.settles.keys().filter(|id| id.link() == link).copied().collect();
        for id in lost {
            if let Some(place) = self.settles.remove(&id) {
                self.settle_batches.set(place, SettleResult::Lost);
            }
        }
        if let Some(state) = self.links.get_mut(&link)
            && !matches!(state.phase, LinkPhase::Ended(_))
        {
            state.phase = LinkPhase::Ended(error);
        }
    }

    /// Ends the links of a session. They share one fate, so all waiters look.
    fn end_session(&mut self, session: oxbus_amqp::client::SessionId, error: &ClientError) {
        let links: Vec<_> = self
            .links
            .keys()
            .filter(|link| link.session() == session)
            .copied()
            .collect();
        for link in links {
            self.end_link(link, error.clone());
            if let Some(state) = self.links.get(&link) {
                state.changed.notify_waiters();
            }
        }
        if session == self.session
            && !matches!(self.phase, Phase::Ended(_))
            && let Ok(next) = self.engine.begin()
        {
            self.session = next;
        }
    }

    /// Ends the connection and all that waits for it.
    pub(super) fn end(&mut self, error: &ClientError) {
        if matches!(self.phase, Phase::Ended(_)) {
            return;
        }
        self.phase = Phase::Ended(error.clone());
        let links: Vec<_> = self.links.keys().copied().collect();
        for link in links {
            self.end_link(link, error.clone());
        }
    }
}

/// Why a link ended.
fn link_error(error: Option<&AmqpError>) -> ClientError {
    error.map_or_else(
        || ClientError::connection("the server detached the link without a reason; try again"),
        ClientError::of_server,
    )
}

/// Why the server closed the connection. Its condition says nothing about an entity.
fn close_error(error: Option<&AmqpError>) -> ClientError {
    let Some(error) = error else {
        return ClientError::connection("the connection is closed");
    };
    let mapped = ClientError::of_server(error);
    match (error.condition.as_str(), mapped.kind()) {
        (condition::NOT_FOUND, _) => mapped.with_kind(ClientErrorKind::Communication),
        (_, ClientErrorKind::Unauthorized | ClientErrorKind::Unauthenticated) => mapped,
        _ => mapped.with_kind(ClientErrorKind::Connection),
    }
}

/// Why the client gave up the connection.
fn failure(error: &AmqpError) -> ClientError {
    let mapped = ClientError::of_server(error);
    match mapped.kind() {
        ClientErrorKind::Unauthorized => mapped.with_kind(ClientErrorKind::Unauthenticated),
        _ => mapped.with_kind(ClientErrorKind::Connection),
    }
}
