// SPDX-License-Identifier: Apache-2.0
//! Receivers and sessions: open, accept, receive, fetch, close.

use oxbus_broker::ReceiverOptions;
use oxbus_broker::client::{Delivery, SessionSelector, SettleKey};
use oxbus_model::ErrorKind;
use oxbus_model::name::SubQueue;
use oxbus_model::options::ReceiveMode;
use oxbus_sim::model::Refusals;
use oxbus_sim::model::delivery::{DeliveredMessage, StreamAt};
use oxbus_sim::model::message::MessagePhase;
use oxbus_store::Wait;

use super::bus::{Bus, LockedDelivery, Slot, check_result, delivered, sequence_numbers};
use super::step::text;

fn options(sub_queue: SubQueue, deletes: bool, prefetch: usize) -> ReceiverOptions {
    ReceiverOptions {
        sub_queue,
        mode: if deletes {
            ReceiveMode::ReceiveAndDelete
        } else {
            ReceiveMode::PeekLock
        },
        prefetch,
        ..ReceiverOptions::default()
    }
}

impl Bus {
    /// Messages that a receiver had may now be delivered after later ones.
    pub(crate) fn mix(&mut self, (entity, sub_queue): StreamAt) {
        let born = self.world.serial();
        self.world.entities[entity].stream_mut(sub_queue).unordered_until = born;
    }

    pub(crate) fn close_slot(&mut self, slot: usize) {
        let Some(old) = self.slots[slot].take() else { return };
        old.receiver.close(&Wait::FOREVER);
        match &old.session {
            Some((session, id)) if self.world.has_session(old.at.0, session, *id) => {
                self.world.session_ended(old.at.0, session, false);
            }
            Some(_) => {}
            None => self.mix(old.at),
        }
    }

    pub(crate) fn open_slot(&mut self, slot: usize, entity: usize, dead: bool, deletes: bool, prefetch: usize) {
        self.close_slot(slot);
        let sub_queue = if dead { SubQueue::DeadLetter } else { SubQueue::Main };
        let path = self.world.entities[entity].name.clone();
        let receiver = self.namespace.receiver(&path, options(sub_queue, deletes, prefetch));
        self.slots[slot] = Some(Slot {
            receiver: receiver.expect("it exists"),
            at: (entity, sub_queue),
            locks: !deletes,
            session: None,
        });
    }

    pub(crate) fn accept(&mut self, slot: usize, entity: usize, session: Option<u8>, deletes: bool) {
        self.close_slot(slot);
        let named = session.map(|session| text("session", session));
        let mut refusals = self.world.accept_refusals(entity);
        if named
            .as_ref()
            .is_some_and(|named| self.world.is_accepted(entity, named))
        {
            refusals.push(ErrorKind::SessionCannotBeLocked);
        }
        let path = self.world.entities[entity].name.clone();
        let wanted = named.clone().map_or(SessionSelector::Next, SessionSelector::Id);
        let acceptor = self
            .namespace
            .acceptor(&path, wanted, options(SubQueue::Main, deletes, 0), "sim".to_owned());
        let result = acceptor.and_then(|acceptor| acceptor.accept_now(&Wait::FOREVER));
        let Some(accepted) = check_result("accept", &refusals, result) else {
            return;
        };
        let available = self.world.available(entity);
        let Some(receiver) = accepted else {
            assert!(
                named.is_none() && available.is_empty(),
                "{available:?} can be accepted (B-195)"
            );
            return;
        };
        let session = receiver.session_id().expect("accepted").to_owned();
        match named {
            Some(named) => assert_eq!(session, named, "the requested session"),
            None => assert!(
                available.contains(&session),
                "{session:?} is not one of {available:?} (B-195)"
            ),
        }
        let holder = self.world.accepted(entity, &session);
        let until = receiver.session_locked_until().map(|until| until.0);
        assert_eq!(
            until,
            Some(holder.until),
            "the session's lock ends after its duration (B-201)"
        );
        self.slots[slot] = Some(Slot {
            receiver,
            at: (entity, SubQueue::Main),
            locks: !deletes,
            session: Some((session, holder.id)),
        });
    }

    /// Receives. Returns whether messages were delivered.
    pub(crate) fn receive(&mut self, slot: usize, max: usize) -> bool {
        let Some(Slot {
            receiver,
            at,
            locks,
            session,
        }) = &self.slots[slot]
        else {
            return false;
        };
        let (at, locks, session) = (*at, *locks, session.clone());
        let mut refusals = self.world.receive_refusals(at, session.is_some());
        if let Some((session, id)) = &session {
            refusals.extend(self.world.session_refusals(at.0, session, *id));
        }
        let result = receiver.receive_now(max, &Wait::FOREVER);
        let Some(deliveries) = check_result("receive", &refusals, result) else {
            return false;
        };
        let deliveries: Vec<Delivery> = deliveries.into_iter().flatten().collect();
        let got: Vec<DeliveredMessage> = deliveries.iter().map(delivered).collect();
        let others = self.slots.iter().flatten().filter(|other| other.at == at).count() > 1;
        if others {
            self.mix(at);
        }
        let lock_ids = match &session {
            Some((session, id)) => self.world.received_in_session(at.0, (session, *id), &got, max, locks),
            None => self.world.received(at, &got, max, locks),
        };
        self.keep(at, &deliveries, lock_ids, session.as_ref());
        !deliveries.is_empty()
    }

    /// Receives until no message comes.
    pub(crate) fn drain(&mut self, slot: usize) {
        while self.receive(slot, 20) {
            // A message that expired meanwhile may have been forwarded here.
            self.browse_unknown();
        }
    }

    fn keep(
        &mut self,
        at: StreamAt,
        deliveries: &[Delivery],
        lock_ids: Vec<Option<u64>>,
        session: Option<&(String, u64)>,
    ) {
        for (delivery, lock) in deliveries.iter().zip(lock_ids) {
            let Some(lock) = lock else { continue };
            self.held.push(LockedDelivery {
                at,
                number: delivered(delivery).number,
                key: SettleKey {
                    index: delivery.index,
                    key: delivery.claimed.key,
                },
                lock,
                session: session.cloned(),
            });
        }
    }

    pub(crate) fn fetch(&mut self, slot: usize, pick: usize, count: usize, any_message: bool) {
        let Some(Slot {
            receiver,
            at,
            locks,
            session,
        }) = &self.slots[slot]
        else {
            return;
        };
        let (at, locks, session) = (*at, *locks, session.clone());
        let it = &self.world.entities[at.0];
        let messages = &it.stream(at.1).messages;
        let candidates: Vec<u64> = messages
            .iter()
            .filter(|(_, message)| any_message || message.phase == MessagePhase::Deferred)
            .map(|(number, _)| *number)
            .collect();
        if candidates.is_empty() {
            return;
        }
        let numbers: Vec<u64> = (0..count)
            .map(|step| candidates[(pick + step) % candidates.len()])
            .collect();
        let mut refusals =
            self.world
                .fetch_refusals(at, &numbers, session.as_ref().map(|(session, _)| session.as_str()));
        if let Some((session, id)) = &session {
            refusals.extend(self.world.session_refusals(at.0, session, *id));
        }
        let result = receiver.receive_deferred(&sequence_numbers(&numbers), &Wait::FOREVER);
        let Some(deliveries) = check_result("fetch", &refusals, result) else {
            if refusals.iter().all(|kind| *kind == ErrorKind::MessageNotFound) {
                let session = session.as_ref().map(|(session, _)| session.as_str());
                self.world.missed(at, &numbers, session);
            }
            return;
        };
        let got: Vec<DeliveredMessage> = deliveries.iter().map(delivered).collect();
        let id = session.as_ref().map(|(_, id)| *id);
        let lock_ids = self.world.fetched(at, &numbers, &got, locks, id);
        let deliveries: Vec<Delivery> = deliveries.into_iter().collect();
        self.keep(at, &deliveries, lock_ids, session.as_ref());
    }

    pub(crate) fn renew_session(&mut self, slot: usize) {
        let Some(Slot {
            receiver,
            at,
            session: Some((session, id)),
            ..
        }) = &self.slots[slot]
        else {
            return;
        };
        let (at, session) = (*at, session.clone());
        let refusals = self.world.session_refusals(at.0, &session, *id);
        if let Some(until) = check_result("renew session", &refusals, receiver.renew_session(&Wait::FOREVER)) {
            assert_eq!(
                until.0,
                self.world.session_renewed(at.0, &session),
                "the new end (B-202)"
            );
        }
    }

    pub(crate) fn read_state(&mut self, slot: usize) {
        let Some((entity, session, refusals)) = self.session_of(slot) else {
            return;
        };
        let receiver = &self.slots[slot].as_ref().expect("just found").receiver;
        if let Some(state) = check_result("state", &refusals, receiver.session_state(&Wait::FOREVER)) {
            let expected = &self.world.entities[entity].sessions[&session].state;
            assert_eq!(
                state.as_deref(),
                expected.as_deref(),
                "the state that was set last (B-211)"
            );
        }
    }

    pub(crate) fn set_state(&mut self, slot: usize, state: Option<u8>) {
        let Some((entity, session, refusals)) = self.session_of(slot) else {
            return;
        };
        let receiver = &self.slots[slot].as_ref().expect("just found").receiver;
        let state = state.map(|byte| vec![byte; usize::from(byte)]);
        let result = receiver.set_session_state(state.as_deref(), &Wait::FOREVER);
        if check_result("set state", &refusals, result).is_some() {
            self.world.state_set(entity, &session, state);
        }
    }

    /// The session of a slot, and the errors of calls that need its lock.
    fn session_of(&self, slot: usize) -> Option<(usize, String, Refusals)> {
        let slot = self.slots[slot].as_ref()?;
        let (session, id) = slot.session.as_ref()?;
        let refusals = self.world.session_refusals(slot.at.0, session, *id);
        Some((slot.at.0, session.clone(), refusals))
    }
}
