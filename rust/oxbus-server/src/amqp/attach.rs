// SPDX-License-Identifier: Apache-2.0
//! Attaching and detaching links (B-416, B-420 … B-426).

use oxbus_store::Wait;
use std::sync::Arc;

use oxbus_amqp::codec::{AmqpValue, Map};
use oxbus_amqp::engine::{AttachRequest, AttachResponse, LinkId};
use oxbus_amqp::performative::{AmqpError, Attach, Role, SenderSettleMode, Source, Target, condition};
use oxbus_broker::ReceiverOptions;
use oxbus_broker::client::{SessionSelector, SettleKey};
use oxbus_model::authorization::AccessRight;
use oxbus_model::caps::{AMQP_LINK_CREDIT, AMQP_REQUEST_CREDIT};
use oxbus_model::options::{LockPolicy, ReceiveMode};
use oxbus_model::tier::Tier;
use oxbus_model::{Error, ErrorKind};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::connection::{AmqpConnection, SHUTTING_DOWN};
use super::fault;
use super::jobs::{JobResult, LinkEndpoint};
use super::links::{ClientLink, LinkKind, PendingAttach, ReceiveLink, ReplyLink, SendLink};
use super::node::{AmqpNode, EntityAddress};
use super::sessions::{SESSION_FILTER, describe_session};
use super::settle::settle_all;
use super::spans::SettleSpan;
use crate::blocking::call_with_timeout;
use crate::front::Context;
use crate::sas::{AccessDenied, DenialReason, log_missing_entity};

fn attach_fault(condition: &'static str, text: impl Into<String>) -> AmqpError {
    AmqpError::new(condition, text.into())
}

impl AmqpConnection {
    pub(super) fn attach(&mut self, request: AttachRequest) {
        let AttachRequest { link, attach } = request;
        self.had_links = true;
        self.linkless_since = None;
        if self.is_draining {
            return self.refuse(link, attach_fault(condition::CONNECTION_FORCED, SHUTTING_DOWN));
        }
        let kind = match Self::kind(&attach) {
            Ok(kind) => kind,
            Err(fault) => return self.refuse(link, fault),
        };
        self.context.meters().count_links(1);
        self.links.insert(
            link,
            ClientLink {
                name: attach.name.clone(),
                used_at: Instant::now(),
                messages: 0,
                kind,
            },
        );
        self.open(link, attach);
    }

    /// Checks access and opens the entity behind the link.
    fn open(&mut self, link: LinkId, attach: Attach) {
        let Some(ClientLink { kind, .. }) = self.links.get(&link) else {
            return;
        };
        match kind {
            LinkKind::Attaching(pending) => {
                let right = match attach.role {
                    Role::Sender => AccessRight::Send,
                    Role::Receiver => AccessRight::Listen,
                };
                if let Err(refused) = self.state.check(right, &pending.address.scope()) {
                    return self.refuse(link, fault::access_denied(&refused));
                }
                let (context, address) = (self.context.clone(), pending.address.clone());
                let key_name = self.state.key_name();
                self.jobs.start(move |wait| {
                    let opened = open(&context, &address, &attach, wait);
                    JobResult::Opened(
                        link,
                        opened.map_err(|it| it.log_missing_entity(&address, key_name.as_deref())),
                    )
                });
            }
            LinkKind::Request {
                node: AmqpNode::Management(address),
            }
            | LinkKind::Reply(ReplyLink {
                node: AmqpNode::Management(address),
                ..
            }) => {
                if !self.state.has_claims() {
                    let refused = AccessDenied::new(DenialReason::Missing, &address.scope(), None);
                    return self.refuse(link, fault::access_denied(&refused));
                }
                let (context, address) = (self.context.clone(), address.clone());
                let key_name = self.state.key_name();
                self.pending_attaches.insert(link, attach);
                self.jobs.start(move |_| {
                    let found = context.namespace().entity(&address.path);
                    let opened = found.map(|_| LinkEndpoint::Management);
                    let refused =
                        |error: Error| AttachError::from(error).log_missing_entity(&address, key_name.as_deref());
                    JobResult::Opened(link, opened.map_err(refused))
                });
            }
            _ => self.accept(link, &attach, Map::new(), 0),
        }
    }

    /// The kind of the link, from its source and target.
    fn kind(attach: &Attach) -> Result<LinkKind, AmqpError> {
        if let Some(Target::Coordinator(_)) = attach.target.as_deref() {
            return match attach.role {
                Role::Sender => Ok(LinkKind::Coordinator),
                Role::Receiver => Err(attach_fault(
                    condition::NOT_IMPLEMENTED,
                    "a coordinator sends no messages",
                )),
            };
        }
        let address = match attach.role {
            Role::Sender => attach.target.as_deref().and_then(Target::address),
            Role::Receiver => attach.source.as_deref().and_then(Source::address),
        };
        let Some(address) = address else {
            let text = "the link names no entity; set the address of its target, or of its source to receive";
            return Err(attach_fault(condition::INVALID_FIELD, text));
        };
        let properties = attach.properties.as_ref();
        if properties.is_some_and(|map| map.get("com.microsoft:transfer-destination-address").is_some()) {
            let text = "sending via another entity is not supported; send to the entity itself";
            return Err(attach_fault(condition::NOT_IMPLEMENTED, text));
        }
        Ok(match (AmqpNode::of(address), attach.role) {
            (AmqpNode::Entity(address), _) => LinkKind::Attaching(Box::new(PendingAttach {
                attach: attach.clone(),
                address,
                waiting: None,
            })),
            (node, Role::Sender) => LinkKind::Request { node },
            (node, Role::Receiver) => LinkKind::Reply(ReplyLink {
                node,
                reply_to: attach.target.as_deref().and_then(Target::address).cloned(),
                unsent: std::collections::VecDeque::new(),
            }),
        })
    }

    /// Answers the attach once its entity is open, or refuses it.
    pub(super) fn opened(&mut self, id: LinkId, opened: Result<LinkEndpoint, AmqpError>) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        match (opened, &mut link.kind) {
            (Err(fault), _) => self.refuse(id, fault),
            (Ok(LinkEndpoint::Management), _) => {
                if let Some(attach) = self.pending_attaches.remove(&id) {
                    self.accept(id, &attach, Map::new(), 0);
                }
            }
            (Ok(LinkEndpoint::Sender(sender)), LinkKind::Attaching(pending)) => {
                let attach = pending.attach.clone();
                let address = pending.address.clone();
                let message_max = sender.entity().settings().message_size_bytes_max as u64;
                let tier = self.context.namespace().plan().tier;
                let batch_max = tier.map_or(message_max, |tier| Tier::batch_size_bytes_max(tier) as u64);
                link.kind = LinkKind::Send(Box::new(SendLink {
                    sender: Arc::from(sender),
                    address,
                    queued: Vec::new(),
                    is_busy: false,
                    is_detaching: false,
                }));
                let properties = Map::new().with("com.microsoft:max-message-batch-size", batch_max);
                self.accept(id, &attach, properties, message_max);
            }
            (Ok(LinkEndpoint::Receiver(receiver)), LinkKind::Attaching(pending)) => {
                let attach = pending.attach.clone();
                let receive_link = ReceiveLink::new(*receiver, pending.address.clone());
                let receiver = Arc::clone(&receive_link.receiver);
                link.kind = LinkKind::Receive(Box::new(receive_link));
                self.state.register_receiver(&attach.name, &receiver);
                self.accept_receiver(id, &attach);
            }
            (Ok(LinkEndpoint::Acceptor(acceptor)), LinkKind::Attaching(_)) => self.wait_for_session(id, *acceptor),
            (Ok(_), _) => {}
        }
    }

    /// Accepts a link with the source and target that the client requested.
    pub(super) fn accept(&mut self, id: LinkId, attach: &Attach, properties: Map, max_message_size: u64) {
        let Some(accept) = AttachResponse::as_requested(attach) else {
            let fault = attach_fault(condition::INVALID_FIELD, "a link needs a source and a target");
            return self.refuse(id, fault);
        };
        let credit = match self.links.get(&id).map(|link| &link.kind) {
            Some(LinkKind::Send(_)) => AMQP_LINK_CREDIT,
            _ => AMQP_REQUEST_CREDIT,
        };
        let accept = AttachResponse {
            max_message_size,
            // Existing clients treat a detached link as a lost connection and retry.
            takes_larger: true,
            credit: if attach.role == Role::Sender { credit } else { 0 },
            properties,
            ..accept
        };
        if self.engine.accept(id, accept).is_err() {
            self.remove(id);
        }
    }

    /// Accepts a receiving link. The response to a session receiver names its session.
    fn accept_receiver(&mut self, id: LinkId, attach: &Attach) {
        let Some(LinkKind::Receive(receive_link)) = self.links.get(&id).map(|link| &link.kind) else {
            return;
        };
        let Some(mut accept) = AttachResponse::as_requested(attach) else {
            let fault = attach_fault(condition::INVALID_FIELD, "a link needs a source and a target");
            self.remove(id);
            return self.engine.detach(id, Some(fault));
        };
        let is_of_session = receive_link.receiver.session_id().is_some();
        describe_session(&receive_link.receiver, &mut accept);
        if self.engine.accept(id, accept).is_err() {
            self.remove(id);
        } else if is_of_session {
            self.set_timer(id);
        }
    }

    /// Refuses a link: it is attached without source and target, and detached at once (B-422).
    fn refuse(&mut self, id: LinkId, fault: AmqpError) {
        self.remove(id);
        let detail = fault.description.as_deref().unwrap_or_default();
        self.context
            .meters()
            .count_refusal("link", fault.condition.as_str(), detail);
        self.engine.detach(id, Some(fault));
        self.note_link_count();
    }

    pub(super) fn note_link_count(&mut self) {
        if self.links.is_empty() && self.linkless_since.is_none() {
            self.linkless_since = Some(Instant::now());
        }
    }

    /// Removes a link. Messages that the client has locked stay locked (behaviour.md 0.4). Unsent ones are released.
    pub(super) fn remove(&mut self, id: LinkId) {
        self.remove_then(id, None);
    }

    /// Removes a link. Returns true if it was that of a receiver: `then` follows once its session is released.
    pub(super) fn remove_then(&mut self, id: LinkId, then: Option<JobResult>) -> bool {
        let Some(link) = self.links.remove(&id) else {
            return false;
        };
        let is_receiver = matches!(link.kind, LinkKind::Receive(_));
        self.context.meters().count_links(-1);
        self.timers.set(id, None);
        self.pending_attaches.remove(&id);
        match link.kind {
            LinkKind::Receive(receive_link) => {
                let ReceiveLink {
                    receiver,
                    unsent,
                    settles,
                    mut contexts,
                    ..
                } = *receive_link;
                self.state.unregister_receiver(&link.name, &receiver);
                let coordinator = Arc::clone(&self.coordinator);
                let context = self.context.clone();
                let traced = SettleSpan::begin(&context, &receiver, &mut contexts, &settles);
                if let Some(then) = then {
                    let (dropped, is_dropped) = oneshot::channel();
                    receiver.on_dropped(move || {
                        let _ = dropped.send(());
                    });
                    self.jobs.hand_out_after(async { drop(is_dropped.await) }, then);
                }
                self.jobs.start_call(call_with_timeout(async move |wait: &Wait<'_>| {
                    // Settlements that arrived before the detach still apply.
                    let outcomes = settle_all(&receiver, (&coordinator, id.session()), settles, wait).await;
                    if let Some(traced) = traced {
                        traced.end(&outcomes, context.spans());
                    }
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
                    // A call may still be running, so the last owner closes the receiver.
                    drop(receiver);
                    JobResult::Nothing
                }));
            }
            LinkKind::Send(send_link) if !send_link.queued.is_empty() => {
                self.store_all(id, send_link.sender, send_link.queued);
            }
            LinkKind::Attaching(pending) => {
                // Dropping the attach leaves the wait queue, possibly after an attempt that is still running.
                self.jobs.start(move |_| {
                    drop(pending);
                    JobResult::Nothing
                });
            }
            LinkKind::Coordinator => {
                let coordinator = Arc::clone(&self.coordinator);
                self.jobs.start(move |_| {
                    coordinator.link_closed(id);
                    JobResult::Nothing
                });
            }
            _ => {}
        }
        self.note_link_count();
        is_receiver
    }
}

/// The reason for refusing a link.
struct AttachError {
    fault: AmqpError,
    /// True if the entity does not exist.
    is_entity_missing: bool,
}

impl From<AmqpError> for AttachError {
    fn from(fault: AmqpError) -> Self {
        let is_entity_missing = false;
        Self {
            fault,
            is_entity_missing,
        }
    }
}

impl From<Error> for AttachError {
    fn from(error: Error) -> Self {
        Self {
            fault: fault::of(&error),
            is_entity_missing: error.kind() == ErrorKind::EntityNotFound,
        }
    }
}

impl AttachError {
    /// Returns the fault. Logs it if the entity does not exist.
    fn log_missing_entity(self, address: &EntityAddress, key_name: Option<&str>) -> AmqpError {
        if self.is_entity_missing {
            log_missing_entity(&address.path, key_name);
        }
        self.fault
    }
}

/// Opens the sender, receiver or acceptor of a link.
fn open(
    context: &Context,
    address: &EntityAddress,
    attach: &Attach,
    wait: &Wait<'_>,
) -> Result<LinkEndpoint, AttachError> {
    let namespace = context.namespace();
    if attach.role == Role::Sender {
        if address.sub_queue != oxbus_model::name::SubQueue::Main {
            let text = "a dead-letter queue accepts no messages; send to the entity itself";
            return Err(attach_fault(condition::NOT_ALLOWED, text).into());
        }
        let sender = namespace.sender(&address.path)?;
        return Ok(LinkEndpoint::Sender(Box::new(sender)));
    }
    let options = ReceiverOptions {
        sub_queue: address.sub_queue,
        transfer: address.transfer,
        mode: match attach.snd_settle_mode {
            SenderSettleMode::Settled => ReceiveMode::ReceiveAndDelete,
            SenderSettleMode::Unsettled | SenderSettleMode::Mixed => ReceiveMode::PeekLock,
        },
        lock_policy: Some(LockPolicy::Fresh),
        ..ReceiverOptions::default()
    };
    let Some(selection) = requested_session(attach)? else {
        let receiver = namespace.receiver(&address.path, options)?;
        receiver.check_receives()?;
        return Ok(LinkEndpoint::Receiver(Box::new(receiver)));
    };
    let is_next = selection == SessionSelector::Next;
    let owner = attach.name.to_string();
    let acceptor = namespace.acceptor(&address.path, selection, options, owner)?;
    if is_next {
        return Ok(LinkEndpoint::Acceptor(Box::new(acceptor)));
    }
    match acceptor.accept_now(wait)? {
        Some(receiver) => Ok(LinkEndpoint::Receiver(Box::new(receiver))),
        None => Ok(LinkEndpoint::Acceptor(Box::new(acceptor))),
    }
}

/// The session that the filter requests. Some clients send a described value, others a plain one (B-424).
fn requested_session(attach: &Attach) -> Result<Option<SessionSelector>, AmqpError> {
    let filter = attach.source.as_deref().and_then(|source| source.filter.as_ref());
    let Some(value) = filter.and_then(|filter| filter.get(SESSION_FILTER)) else {
        return Ok(None);
    };
    match value.undescribed() {
        AmqpValue::Null => Ok(Some(SessionSelector::Next)),
        AmqpValue::String(id) => Ok(Some(SessionSelector::Id(id.to_string()))),
        _ => Err(attach_fault(
            "com.microsoft:argument-error",
            "the session filter must be a string, or null for the next session",
        )),
    }
}
