// SPDX-License-Identifier: Apache-2.0
//! Links begin and end (B-416, B-420 … B-426).

use oxbus_store::Wait;
use std::sync::Arc;

use oxbus_amqp::codec::{Map, Value};
use oxbus_amqp::engine::{Accept, AttachRequest, LinkId};
use oxbus_amqp::performative::{Attach, Fault, Role, SenderSettleMode, Source, Target, condition};
use oxbus_broker::ReceiverOptions;
use oxbus_broker::client::{SettleKey, Wanted};
use oxbus_model::authorization::AccessRight;
use oxbus_model::caps::{AMQP_LINK_CREDIT, AMQP_REQUEST_CREDIT};
use oxbus_model::options::{LockPolicy, ReceiveMode};
use oxbus_model::tier::Tier;
use oxbus_model::{Error, ErrorKind};
use tokio::time::Instant;

use super::connection::Connection;
use super::fault;
use super::jobs::{Done, Opened};
use super::links::{Kind, Link, Opening, Receives, Replies, Sends};
use super::node::{Node, Place};
use super::sessions::{SESSION_FILTER, say_session};
use super::settles::settle_all;
use crate::front::Context;
use crate::sas::{Refused, Why, log_missing};

fn refusal(condition: &'static str, text: impl Into<String>) -> Fault {
    Fault::new(condition, text.into())
}

impl Connection {
    pub(super) fn attach(&mut self, request: AttachRequest) {
        let AttachRequest { link, attach } = request;
        self.had_links = true;
        self.without_links_since = None;
        let kind = match Self::kind(&attach) {
            Ok(kind) => kind,
            Err(fault) => return self.refuse(link, fault),
        };
        self.links.insert(
            link,
            Link {
                name: attach.name.clone(),
                used_at: Instant::now(),
                kind,
            },
        );
        self.open(link, attach);
    }

    /// Opens what the link stands on.
    fn open(&mut self, link: LinkId, attach: Attach) {
        let Some(Link { kind, .. }) = self.links.get(&link) else {
            return;
        };
        match kind {
            Kind::Opening(opening) => {
                let right = match attach.role {
                    Role::Sender => AccessRight::Send,
                    Role::Receiver => AccessRight::Listen,
                };
                if let Err(refused) = self.shared.allows(right, &opening.place.scope()) {
                    return self.refuse(link, fault::refused(&refused));
                }
                let (context, place) = (self.context.clone(), opening.place.clone());
                let key_name = self.shared.key_name();
                self.jobs.start(move |wait| {
                    let opened = open(&context, &place, &attach, wait);
                    Done::Opened(link, opened.map_err(|it| it.log_missing(&place, key_name.as_deref())))
                });
            }
            Kind::Requests {
                node: Node::Management(place),
            }
            | Kind::Replies(Replies {
                node: Node::Management(place),
                ..
            }) => {
                if !self.shared.has_claims() {
                    let refused = Refused::new(Why::Missing, &place.scope(), None);
                    return self.refuse(link, fault::refused(&refused));
                }
                let (context, place) = (self.context.clone(), place.clone());
                let key_name = self.shared.key_name();
                self.asked.insert(link, attach);
                self.jobs.start(move |_| {
                    let found = context.namespace().entity(&place.path);
                    let opened = found.map(|_| Opened::Management);
                    let refused = |error: Error| Unopened::from(error).log_missing(&place, key_name.as_deref());
                    Done::Opened(link, opened.map_err(refused))
                });
            }
            _ => self.accept(link, &attach, Map::new(), 0),
        }
    }

    /// What the link is for.
    fn kind(attach: &Attach) -> Result<Kind, Fault> {
        if let Some(Target::Coordinator(_)) = attach.target.as_deref() {
            return match attach.role {
                Role::Sender => Ok(Kind::Coordinator),
                Role::Receiver => Err(refusal(condition::NOT_IMPLEMENTED, "a coordinator sends no messages")),
            };
        }
        let address = match attach.role {
            Role::Sender => attach.target.as_deref().and_then(Target::address),
            Role::Receiver => attach.source.as_deref().and_then(Source::address),
        };
        let Some(address) = address else {
            let text = "the link names no entity; set the address of its target, or of its source to receive";
            return Err(refusal(condition::INVALID_FIELD, text));
        };
        let properties = attach.properties.as_ref();
        if properties.is_some_and(|map| map.get("com.microsoft:transfer-destination-address").is_some()) {
            let text = "sending via another entity is not in this version; send to the entity itself";
            return Err(refusal(condition::NOT_IMPLEMENTED, text));
        }
        Ok(match (Node::of(address), attach.role) {
            (Node::Entity(place), _) => Kind::Opening(Box::new(Opening {
                attach: attach.clone(),
                place,
                waiting: None,
            })),
            (node, Role::Sender) => Kind::Requests { node },
            (node, Role::Receiver) => Kind::Replies(Replies {
                node,
                reply_to: attach.target.as_deref().and_then(Target::address).cloned(),
                unsent: std::collections::VecDeque::new(),
            }),
        })
    }

    /// Takes up what a link was opened on.
    pub(super) fn opened(&mut self, id: LinkId, opened: Result<Opened, Fault>) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        match (opened, &mut link.kind) {
            (Err(fault), _) => self.refuse(id, fault),
            (Ok(Opened::Management), _) => {
                if let Some(attach) = self.asked.remove(&id) {
                    self.accept(id, &attach, Map::new(), 0);
                }
            }
            (Ok(Opened::Sender(sender)), Kind::Opening(opening)) => {
                let attach = opening.attach.clone();
                let place = opening.place.clone();
                let message_max = sender.queue().settings().message_size_bytes_max as u64;
                let tier = self.context.namespace().plan().tier;
                let batch_max = tier.map_or(message_max, |tier| Tier::batch_size_bytes_max(tier) as u64);
                link.kind = Kind::Sends(Box::new(Sends {
                    sender: Arc::from(sender),
                    place,
                    queued: Vec::new(),
                    is_busy: false,
                    is_detaching: false,
                }));
                let properties = Map::new().with("com.microsoft:max-message-batch-size", batch_max);
                self.accept(id, &attach, properties, message_max);
            }
            (Ok(Opened::Receiver(receiver)), Kind::Opening(opening)) => {
                let attach = opening.attach.clone();
                let receives = Receives::new(*receiver, opening.place.clone());
                let receiver = Arc::clone(&receives.receiver);
                link.kind = Kind::Receives(Box::new(receives));
                self.shared.opened(&attach.name, &receiver);
                self.accept_receiver(id, &attach);
            }
            (Ok(Opened::Acceptor(acceptor)), Kind::Opening(_)) => self.wait_for_session(id, *acceptor),
            (Ok(_), _) => {}
        }
    }

    /// Accepts a link as it was asked for.
    pub(super) fn accept(&mut self, id: LinkId, attach: &Attach, properties: Map, max_message_size: u64) {
        let Some(accept) = Accept::as_asked(attach) else {
            let fault = refusal(condition::INVALID_FIELD, "a link needs a source and a target");
            return self.refuse(id, fault);
        };
        let credit = match self.links.get(&id).map(|link| &link.kind) {
            Some(Kind::Sends(_)) => AMQP_LINK_CREDIT,
            _ => AMQP_REQUEST_CREDIT,
        };
        let accept = Accept {
            max_message_size,
            // Clients in use take a lost link for a lost connection, and try again.
            takes_larger: true,
            credit: if attach.role == Role::Sender { credit } else { 0 },
            properties,
            ..accept
        };
        if self.engine.accept(id, accept).is_err() {
            self.remove(id);
        }
    }

    /// Accepts a link to receive from; one with a session says which.
    fn accept_receiver(&mut self, id: LinkId, attach: &Attach) {
        let Some(Kind::Receives(receives)) = self.links.get(&id).map(|link| &link.kind) else {
            return;
        };
        let Some(mut accept) = Accept::as_asked(attach) else {
            let fault = refusal(condition::INVALID_FIELD, "a link needs a source and a target");
            self.remove(id);
            return self.engine.detach(id, Some(fault));
        };
        let is_of_session = receives.receiver.session_id().is_some();
        say_session(&receives.receiver, &mut accept);
        if self.engine.accept(id, accept).is_err() {
            self.remove(id);
        } else if is_of_session {
            self.set_timer(id);
        }
    }

    /// Refuses a link: it has no ends, and is detached at once (B-422).
    fn refuse(&mut self, id: LinkId, fault: Fault) {
        self.remove(id);
        self.engine.detach(id, Some(fault));
        self.note_links();
    }

    pub(super) fn note_links(&mut self) {
        if self.links.is_empty() && self.without_links_since.is_none() {
            self.without_links_since = Some(Instant::now());
        }
    }

    /// Lets go of a link. Messages that the client holds stay locked (behaviour.md 0.4); what was not sent goes back.
    pub(super) fn remove(&mut self, id: LinkId) {
        let Some(link) = self.links.remove(&id) else { return };
        self.timers.set(id, None);
        self.asked.remove(&id);
        match link.kind {
            Kind::Receives(receives) => {
                let Receives {
                    receiver,
                    unsent,
                    settles,
                    ..
                } = *receives;
                self.shared.closed(&link.name, &receiver);
                let coordinator = Arc::clone(&self.coordinator);
                self.jobs.start(move |wait| {
                    // What the client said before it went holds.
                    settle_all(&receiver, (&coordinator, id.session()), settles, wait);
                    if receiver.mode() == ReceiveMode::PeekLock && !unsent.is_empty() {
                        let keys: Vec<SettleKey> = unsent
                            .iter()
                            .map(|it| SettleKey {
                                index: it.index,
                                key: it.claimed.key,
                            })
                            .collect();
                        receiver.release(&keys, wait);
                    }
                    // Closed by the last call that has it: one may be under way.
                    drop(receiver);
                    Done::Nothing
                });
            }
            Kind::Sends(sends) if !sends.queued.is_empty() => self.store_all(id, sends.sender, sends.queued),
            Kind::Opening(opening) => {
                // A session that waits is dropped with its place, maybe after a look that is under way.
                self.jobs.start(move |_| {
                    drop(opening);
                    Done::Nothing
                });
            }
            Kind::Coordinator => {
                let coordinator = Arc::clone(&self.coordinator);
                self.jobs.start(move |_| {
                    coordinator.closed(id);
                    Done::Nothing
                });
            }
            _ => {}
        }
        self.note_links();
    }
}

/// Why a link is not opened.
struct Unopened {
    fault: Fault,
    /// What it names is not there.
    is_missing: bool,
}

impl From<Fault> for Unopened {
    fn from(fault: Fault) -> Self {
        let is_missing = false;
        Self { fault, is_missing }
    }
}

impl From<Error> for Unopened {
    fn from(error: Error) -> Self {
        Self {
            fault: fault::of(&error),
            is_missing: error.kind() == ErrorKind::EntityNotFound,
        }
    }
}

impl Unopened {
    /// The fault. Says in the log that the entity is not there, if that is why.
    fn log_missing(self, place: &Place, key_name: Option<&str>) -> Fault {
        if self.is_missing {
            log_missing(&place.path, key_name);
        }
        self.fault
    }
}

/// Opens what a link stands on.
fn open(context: &Context, place: &Place, attach: &Attach, wait: &Wait<'_>) -> Result<Opened, Unopened> {
    let namespace = context.namespace();
    if attach.role == Role::Sender {
        if place.sub_queue != oxbus_model::name::SubQueue::Main {
            let text = "nobody sends to a dead-letter queue; send to the entity itself";
            return Err(refusal(condition::NOT_ALLOWED, text).into());
        }
        let sender = namespace.sender(&place.path)?;
        return Ok(Opened::Sender(Box::new(sender)));
    }
    let options = ReceiverOptions {
        sub_queue: place.sub_queue,
        transfer: place.transfer,
        mode: match attach.snd_settle_mode {
            SenderSettleMode::Settled => ReceiveMode::ReceiveAndDelete,
            SenderSettleMode::Unsettled | SenderSettleMode::Mixed => ReceiveMode::PeekLock,
        },
        lock_policy: Some(LockPolicy::Fresh),
        ..ReceiverOptions::default()
    };
    let Some(wanted) = wanted_session(attach)? else {
        let receiver = namespace.receiver(&place.path, options)?;
        receiver.check_receives()?;
        return Ok(Opened::Receiver(Box::new(receiver)));
    };
    let is_next = wanted == Wanted::Next;
    let owner = attach.name.to_string();
    let acceptor = namespace.acceptor(&place.path, wanted, options, owner)?;
    if is_next {
        return Ok(Opened::Acceptor(Box::new(acceptor)));
    }
    match acceptor.accept_now(wait)? {
        Some(receiver) => Ok(Opened::Receiver(Box::new(receiver))),
        None => Ok(Opened::Acceptor(Box::new(acceptor))),
    }
}

/// The session that the filter names: some clients describe the value, others do not (B-424).
fn wanted_session(attach: &Attach) -> Result<Option<Wanted>, Fault> {
    let filter = attach.source.as_deref().and_then(|source| source.filter.as_ref());
    let Some(value) = filter.and_then(|filter| filter.get(SESSION_FILTER)) else {
        return Ok(None);
    };
    match value.undescribed() {
        Value::Null => Ok(Some(Wanted::Next)),
        Value::String(id) => Ok(Some(Wanted::Named(id.to_string()))),
        _ => Err(refusal(
            "com.microsoft:argument-error",
            "the session filter must be a string, or null for the next session",
        )),
    }
}
