// SPDX-License-Identifier: Apache-2.0
//! Processes requests to `$cbs` and `$management`, and routes their replies (B-426).

use oxbus_store::Wait;
use std::sync::Arc;

use oxbus_amqp::codec::AmqpValue;
use oxbus_amqp::engine::{IncomingDelivery, LinkId, OutgoingDelivery, SendError};
use oxbus_amqp::message::Sections;
use oxbus_amqp::performative::DeliveryState;
use oxbus_model::caps::AMQP_REPLIES_MAX;

use super::connection::AmqpConnection;
use super::jobs::{JobResult, PendingReply};
use super::links::{LinkKind, ReplyLink};
use super::node::AmqpNode;
use super::request::{AmqpRequest, Reply, ReplyKeys, malformed_request};
use super::{cbs, management};
use crate::blocking::call_with_timeout;

impl AmqpConnection {
    /// Starts a request. Its transfer is accepted at once. The reply carries the result.
    pub(super) fn request(&mut self, node: &AmqpNode, incoming: IncomingDelivery) {
        let IncomingDelivery {
            link,
            id,
            message,
            state,
            ..
        } = incoming;
        let transaction = match state {
            Some(DeliveryState::Transactional { transaction_id, .. }) => Some((transaction_id, link.session())),
            _ => None,
        };
        if let Some(id) = id {
            let accepted = DeliveryState::Accepted;
            self.engine.answer(
                id,
                match &transaction {
                    Some((transaction_id, _)) => DeliveryState::Transactional {
                        transaction_id: transaction_id.clone(),
                        outcome: Some(Box::new(accepted)),
                    },
                    None => accepted,
                },
            );
        }
        let address = match node {
            AmqpNode::Management(address) => Some(address.clone()),
            AmqpNode::Cbs | AmqpNode::Entity(_) => None,
        };
        let bytes = message.len();
        self.queued_bytes += bytes;
        let (context, state) = (self.context.clone(), Arc::clone(&self.state));
        let coordinator = Arc::clone(&self.coordinator);
        self.jobs.start_call(call_with_timeout(async move |wait: &Wait<'_>| {
            let (reply, request_properties) = match Sections::scan(&message) {
                Ok(sections) => {
                    let request_properties = AmqpRequest::standard_properties(&message, &sections);
                    let request = AmqpRequest {
                        context,
                        address,
                        state,
                        message,
                        sections,
                        transaction,
                        coordinator,
                    };
                    let reply = if request.address.is_none() {
                        cbs::answer(&request)
                    } else {
                        management::answer(&request, wait).await
                    };
                    (reply, request_properties)
                }
                Err(error) => (
                    Reply::of(&malformed_request(error)),
                    oxbus_amqp::message::Properties::NONE,
                ),
            };
            JobResult::Answered(Box::new(PendingReply {
                link,
                reply,
                bytes,
                request_properties,
            }))
        }));
    }

    /// Sends a reply over the matching reply link. Drops the reply if there is none.
    pub(super) fn answered(&mut self, answered: PendingReply) {
        self.queued_bytes -= answered.bytes;
        if self.state.has_claims() {
            self.is_known = true;
        }
        let PendingReply {
            link,
            reply,
            request_properties,
            ..
        } = answered;
        let Some(LinkKind::Request { node }) = self.links.get(&link).map(|link| &link.kind) else {
            return;
        };
        let keys = match node {
            AmqpNode::Cbs => ReplyKeys::Cbs,
            _ => ReplyKeys::Management,
        };
        let reply_to = request_properties.reply_to.as_ref().and_then(AmqpValue::as_text);
        let Some(reply_link_id) = self.reply_link(link, node, reply_to) else {
            return;
        };
        let message = reply.message(keys, request_properties.message_id);
        if let Some(LinkKind::Reply(reply_link)) = self.links.get_mut(&reply_link_id).map(|link| &mut link.kind)
            && reply_link.unsent.len() < AMQP_REPLIES_MAX
        {
            reply_link.unsent.push_back(message);
        }
        self.send_replies(reply_link_id);
    }

    /// Finds the reply link. `reply-to` holds the address of its target or its name. Without a match, any reply link
    /// of the same node is used, preferably one of the same session.
    fn reply_link(&self, request: LinkId, node: &AmqpNode, reply_to: Option<&str>) -> Option<LinkId> {
        let candidates = || {
            self.links.iter().filter_map(|(id, link)| match &link.kind {
                LinkKind::Reply(reply_link) if reply_link.node == *node => Some((*id, &link.name, reply_link)),
                _ => None,
            })
        };
        let by_address = candidates().find(|(_, _, it)| reply_to.is_some() && it.reply_to.as_deref() == reply_to);
        let by_name = || candidates().find(|(_, name, _)| Some(&***name) == reply_to);
        let in_session = || candidates().find(|(id, _, _)| id.session() == request.session());
        let found = by_address.or_else(by_name).or_else(in_session);
        found.or_else(|| candidates().next()).map(|(id, _, _)| id)
    }

    /// Sends queued replies while the client gives credit.
    pub(super) fn send_replies(&mut self, id: LinkId) {
        let Some(LinkKind::Reply(ReplyLink { unsent, .. })) = self.links.get_mut(&id).map(|link| &mut link.kind) else {
            return;
        };
        while let Some(message) = unsent.front() {
            let outgoing = OutgoingDelivery {
                tag: Some(&oxbus_amqp::codec::Tag::EMPTY),
                message_format: 0,
                settled: true,
                parts: &[message],
            };
            match self.engine.send(id, &outgoing) {
                Ok(_) | Err(SendError::LinkNotFound) => {
                    unsent.pop_front();
                }
                Err(_) => break,
            }
        }
    }

    /// Starts a request of a coordinator link.
    pub(super) fn coordinate(&mut self, incoming: IncomingDelivery) {
        let Some(id) = incoming.id else { return };
        let bytes = incoming.message.len();
        self.queued_bytes += bytes;
        let coordinator = Arc::clone(&self.coordinator);
        self.jobs.start_call(call_with_timeout(async move |wait: &Wait<'_>| {
            let state = coordinator.request(incoming.link, &incoming.message, wait).await;
            JobResult::Coordinated(id, state, bytes)
        }));
    }
}
