// SPDX-License-Identifier: Apache-2.0
//! Requests to `$cbs` and `$management`, and where their answers go (B-426).

use std::sync::Arc;

use oxbus_amqp::codec::Value;
use oxbus_amqp::engine::{Incoming, LinkId, Outgoing, SendRefused};
use oxbus_amqp::message::Sections;
use oxbus_amqp::performative::DeliveryState;
use oxbus_model::caps::AMQP_REPLIES_MAX;

use super::call::{Call, Keys, Reply, wrong};
use super::connection::Connection;
use super::jobs::{Answered, Done};
use super::links::{Kind, Replies};
use super::node::Node;
use super::{cbs, management};

impl Connection {
    /// Has a request answered. That it came is said at once; what became of it says the answer.
    pub(super) fn request(&mut self, node: &Node, incoming: Incoming) {
        let Incoming {
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
        let place = match node {
            Node::Management(place) => Some(place.clone()),
            Node::Cbs | Node::Entity(_) => None,
        };
        let bytes = message.len();
        self.queued_bytes += bytes;
        let (context, shared) = (self.context.clone(), Arc::clone(&self.shared));
        let coordinator = Arc::clone(&self.coordinator);
        self.jobs.start(move |wait| {
            let (reply, standard) = match Sections::scan(&message) {
                Ok(sections) => {
                    let standard = Call::standard(&message, &sections);
                    let call = Call {
                        context,
                        place,
                        shared,
                        message,
                        sections,
                        transaction,
                        coordinator,
                    };
                    let reply = if call.place.is_none() {
                        cbs::answer(&call)
                    } else {
                        management::answer(&call, wait)
                    };
                    (reply, standard)
                }
                Err(error) => (Reply::of(&wrong(error)), oxbus_amqp::message::Properties::NONE),
            };
            Done::Answered(Box::new(Answered {
                link,
                reply,
                bytes,
                standard,
            }))
        });
    }

    /// Sends an answer to the link that it is for; one without such a link is dropped.
    pub(super) fn answered(&mut self, answered: Answered) {
        self.queued_bytes -= answered.bytes;
        if self.shared.has_claims() {
            self.is_known = true;
        }
        let Answered {
            link, reply, standard, ..
        } = answered;
        let Some(Kind::Requests { node }) = self.links.get(&link).map(|link| &link.kind) else {
            return;
        };
        let keys = match node {
            Node::Cbs => Keys::Cbs,
            _ => Keys::Management,
        };
        let reply_to = standard.reply_to.as_ref().and_then(Value::as_text);
        let Some(to) = self.reply_link(link, node, reply_to) else {
            return;
        };
        let message = reply.message(keys, standard.message_id);
        if let Some(Kind::Replies(replies)) = self.links.get_mut(&to).map(|link| &mut link.kind)
            && replies.unsent.len() < AMQP_REPLIES_MAX
        {
            replies.unsent.push_back(message);
        }
        self.send_replies(to);
    }

    /// Clients name the link by its target's address or by its own name, or not at all: then it is one of the same node.
    fn reply_link(&self, request: LinkId, node: &Node, reply_to: Option<&str>) -> Option<LinkId> {
        let candidates = || {
            self.links.iter().filter_map(|(id, link)| match &link.kind {
                Kind::Replies(replies) if replies.node == *node => Some((*id, &link.name, replies)),
                _ => None,
            })
        };
        let by_address = candidates().find(|(_, _, it)| reply_to.is_some() && it.reply_to.as_deref() == reply_to);
        let by_name = || candidates().find(|(_, name, _)| Some(&***name) == reply_to);
        let in_session = || candidates().find(|(id, _, _)| id.session() == request.session());
        let found = by_address.or_else(by_name).or_else(in_session);
        found.or_else(|| candidates().next()).map(|(id, _, _)| id)
    }

    /// Sends answers as far as the client gives credit.
    pub(super) fn send_replies(&mut self, id: LinkId) {
        let Some(Kind::Replies(Replies { unsent, .. })) = self.links.get_mut(&id).map(|link| &mut link.kind) else {
            return;
        };
        while let Some(message) = unsent.front() {
            let outgoing = Outgoing {
                tag: Some(&oxbus_amqp::codec::Tag::EMPTY),
                message_format: 0,
                settled: true,
                parts: &[message],
            };
            match self.engine.send(id, &outgoing) {
                Ok(_) | Err(SendRefused::Gone) => {
                    unsent.pop_front();
                }
                Err(_) => break,
            }
        }
    }

    /// Has a request of the coordinator link answered.
    pub(super) fn coordinate(&mut self, incoming: Incoming) {
        let Some(id) = incoming.id else { return };
        let bytes = incoming.message.len();
        self.queued_bytes += bytes;
        let coordinator = Arc::clone(&self.coordinator);
        self.jobs.start(move |wait| {
            Done::Coordinated(id, coordinator.request(incoming.link, &incoming.message, wait), bytes)
        });
    }
}
