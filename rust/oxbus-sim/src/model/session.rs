// SPDX-License-Identifier: Apache-2.0
//! Sessions: one holder, strict order, a state (B-181 … B-217).

use std::collections::BTreeSet;

use oxbus_model::name::SubQueue;

use super::delivery::DeliveredMessage;
use super::message::{MessagePhase, NEVER};
use super::{ErrorKind, Refusals, World};

/// A session of an entity.
#[derive(Debug, Clone, Default)]
pub struct Session {
    /// Its current acceptance.
    pub holder: Option<Holder>,
    /// Its state, or `None` if it was never set or was cleared (B-211).
    pub state: Option<Vec<u8>>,
}

/// An acceptance of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Its serial number.
    pub id: u64,
    /// The first millisecond at which it is lost.
    pub until: u64,
}

impl World {
    /// The errors of any accept.
    pub fn accept_refusals(&self, entity: usize) -> Refusals {
        let it = &self.entities[entity];
        let mut refusals = self.receive_refusals((entity, SubQueue::Main), true);
        if !it.settings.requires_session {
            refusals.push(ErrorKind::InvalidOperation);
        }
        refusals
    }

    /// True if the session is accepted (B-194).
    pub fn is_accepted(&self, entity: usize, session: &str) -> bool {
        let known = self.entities[entity].sessions.get(session);
        known.is_some_and(|known| known.holder.is_some())
    }

    /// Sessions that accepting the next session may return (B-195, B-198).
    pub fn available(&self, entity: usize) -> BTreeSet<String> {
        let ready = self.ready_in_sessions(entity);
        let messages = &self.entities[entity].main.messages;
        let with_messages = ready
            .iter()
            .filter_map(|number| messages[number].content.session.clone());
        with_messages
            .filter(|session| !self.is_accepted(entity, session))
            .collect()
    }

    /// The numbers of the messages that receivers of sessions may get. Later messages of a session wait for one that
    /// was abandoned with a delay (B-468).
    fn ready_in_sessions(&self, entity: usize) -> Vec<u64> {
        let it = &self.entities[entity];
        let session_of = |number: &u64| it.main.messages[number].content.session.as_deref();
        let delayed = it.main.messages.iter().filter(|(_, message)| message.is_delayed());
        let delayed: Vec<u64> = delayed.map(|(number, _)| *number).collect();
        let waits = |number: &u64| {
            let mut earlier = delayed.iter().take_while(|delayed| *delayed < number);
            earlier.any(|delayed| session_of(delayed) == session_of(number))
        };
        let ready = it.ready(SubQueue::Main, self.now);
        ready.into_iter().filter(|number| !waits(number)).collect()
    }

    /// Records an acceptance and returns it.
    pub fn accepted(&mut self, entity: usize, session: &str) -> Holder {
        let id = self.serial();
        let until = self.now + self.entities[entity].settings.lock_duration_ms;
        let holder = Holder { id, until };
        let known = self.entities[entity].sessions.entry(session.to_owned()).or_default();
        known.holder = Some(holder);
        holder
    }

    /// True if the acceptance still holds.
    pub fn has_session(&self, entity: usize, session: &str, id: u64) -> bool {
        let known = self.entities[entity].sessions.get(session);
        known.is_some_and(|known| known.holder.is_some_and(|holder| holder.id == id))
    }

    /// The errors of a call that needs the lock of a session (B-203).
    pub fn session_refusals(&self, entity: usize, session: &str, id: u64) -> Refusals {
        let mut refusals = Refusals::new();
        if !self.entities[entity].alive {
            refusals.push(ErrorKind::EntityNotFound);
        }
        if !self.has_session(entity, session, id) {
            refusals.push(ErrorKind::SessionLockLost);
        }
        refusals
    }

    /// Records a delivery in a session: exactly its first messages, in order (B-207).
    ///
    /// # Panics
    /// When it is another delivery.
    pub fn received_in_session(
        &mut self,
        entity: usize,
        (session, id): (&str, u64),
        delivered: &[DeliveredMessage],
        max: usize,
        locks: bool,
    ) -> Vec<Option<u64>> {
        let it = &self.entities[entity];
        let is_its = |number: &u64| it.main.messages[number].content.session.as_deref() == Some(session);
        let ready = self.ready_in_sessions(entity);
        let expected: Vec<u64> = ready.into_iter().filter(is_its).take(max).collect();
        let got: Vec<u64> = delivered.iter().map(|each| each.number).collect();
        assert_eq!(
            got, expected,
            "{}: the messages of session {session:?} in order (B-207)",
            it.name
        );
        let at = (entity, SubQueue::Main);
        let out = delivered.iter();
        out.map(|each| self.deliver(at, each, locks, NEVER, Some(id))).collect()
    }

    /// Records a renewal and returns the new end (B-202).
    pub fn session_renewed(&mut self, entity: usize, session: &str) -> u64 {
        let until = self.now + self.entities[entity].settings.lock_duration_ms;
        let known = self.entities[entity].sessions.get_mut(session);
        known
            .and_then(|known| known.holder.as_mut())
            .expect("a receiver accepted the session")
            .until = until;
        until
    }

    /// Records a new state (B-211).
    pub fn state_set(&mut self, entity: usize, session: &str, state: Option<Vec<u8>>) {
        let known = self.entities[entity].sessions.entry(session.to_owned()).or_default();
        known.state = state;
    }

    /// Ends an acceptance. Its deliveries count if its lock expired, but not if it was closed (B-205, B-206).
    pub fn session_ended(&mut self, entity: usize, session: &str, counted: bool) {
        let Some(known) = self.entities[entity].sessions.get_mut(session) else {
            return;
        };
        let Some(holder) = known.holder.take() else { return };
        let messages = &self.entities[entity].main.messages;
        let locked_under_it = messages
            .iter()
            .filter(|(_, message)| message.lock.is_some_and(|lock| lock.session == Some(holder.id)));
        for number in locked_under_it.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.end_delivery((entity, SubQueue::Main), number, counted);
        }
        self.forward_all();
    }

    /// The sessions that a list must contain, and those that it may contain (B-186, B-214).
    pub fn listed(&self, entity: usize) -> (BTreeSet<String>, BTreeSet<String>) {
        let it = &self.entities[entity];
        let messages = it.main.messages.values();
        let of = |wanted: fn(&super::message::Message) -> bool| {
            let wanted = messages.clone().filter(move |message| wanted(message));
            wanted.filter_map(|message| message.content.session.clone())
        };
        let with_state = it.sessions.iter().filter(|(_, known)| known.state.is_some());
        // Messages to be forwarded are in no session.
        let keeps_messages = it.settings.forward_to.is_none();
        let must: BTreeSet<String> = of(|message| message.phase == MessagePhase::Ready && message.expires_at == NEVER)
            .filter(|_| keeps_messages)
            .chain(with_state.map(|(id, _)| id.clone()))
            .collect();
        let may = of(|message| message.phase == MessagePhase::Ready || message.lock.is_some());
        let held = it.sessions.iter().filter(|(_, known)| known.holder.is_some());
        let may = may
            .chain(must.iter().cloned())
            .chain(held.map(|(id, _)| id.clone()))
            .collect();
        (must, may)
    }
}
