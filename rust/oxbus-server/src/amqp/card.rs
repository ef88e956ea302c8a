// SPDX-License-Identifier: Apache-2.0
//! A connection as people see it in the console.

use oxbus_amqp::engine::LinkId;
use oxbus_broker::Receiver;
use oxbus_broker::entity::Entity;
use oxbus_model::name::SubQueue;
use oxbus_model::options::ReceiveMode;
use tokio::time::Instant;

use super::client_names::cut;
use super::connection::AmqpConnection;
use super::links::{ClientLink, LinkKind};
use super::node::{AmqpNode, EntityAddress};
use super::settle::settle_key;
use crate::console::{Card, LinkCard};

/// Numbers of held messages that a card has.
const HELD_MAX: usize = 100;
/// Links that a card has.
const LINKS_MAX: usize = 200;

fn shown(address: &EntityAddress) -> String {
    let suffix = match address.sub_queue {
        SubQueue::Main => "",
        SubQueue::DeadLetter => "/$deadletterqueue",
    };
    format!("{}{suffix}", address.path)
}

fn shown_node(node: &AmqpNode) -> String {
    match node {
        AmqpNode::Cbs => "$cbs".to_owned(),
        AmqpNode::Management(address) => format!("{}/$management", shown(address)),
        AmqpNode::Entity(address) => shown(address),
    }
}

impl AmqpConnection {
    /// The connection's description.
    pub(super) fn card(&self) -> Card {
        let links = self.links.iter().take(LINKS_MAX);
        let mut links: Vec<LinkCard> = links.map(|(id, link)| self.link_card(*id, link)).collect();
        links.sort_by(|a, b| a.name.cmp(&b.name));
        Card {
            peer: self.peer.address.map(|address| address.to_string()),
            is_encrypted: self.peer.is_encrypted,
            key_name: self.state.key_name(),
            container: self.client.container.clone(),
            sdk: self.client.sdk.clone(),
            opened_ms: self.opened_at.0,
            messages_in: self.message_counts.0,
            messages_out: self.message_counts.1,
            links,
        }
    }

    fn link_card(&self, id: LinkId, link: &ClientLink) -> LinkCard {
        let mut card = LinkCard {
            name: cut(&link.name),
            role: "attaching",
            entity: None,
            session: None,
            mode: None,
            credit: self.engine.credit(id),
            held: Vec::new(),
            unsettled: 0,
            messages: link.messages,
            idle_ms: Instant::now().saturating_duration_since(link.used_at).as_millis() as u64,
        };
        match &link.kind {
            LinkKind::Attaching(pending) => card.entity = Some(shown(&pending.address)),
            LinkKind::Send(send_link) => {
                card.role = "send";
                card.entity = Some(shown(&send_link.address));
                card.unsettled = send_link.queued.len();
            }
            LinkKind::Receive(receive_link) => {
                card.role = "receive";
                card.entity = Some(shown(&receive_link.address));
                card.session = receive_link.receiver.session_id().map(cut);
                card.mode = Some(match receive_link.receiver.mode() {
                    ReceiveMode::PeekLock => "peek-lock",
                    ReceiveMode::ReceiveAndDelete => "receive-and-delete",
                });
                card.unsettled = self.engine.unsettled_tags(id).count();
                card.held = self.held(id, &receive_link.receiver);
            }
            LinkKind::Request { node } => {
                card.role = "request";
                card.entity = Some(shown_node(node));
            }
            LinkKind::Reply(reply) => {
                card.role = "reply";
                card.entity = Some(shown_node(&reply.node));
            }
            LinkKind::Coordinator => card.role = "transaction",
        }
        card
    }

    /// The numbers of the messages that the client has and has not settled.
    fn held(&self, id: LinkId, receiver: &Receiver) -> Vec<String> {
        let tags = self.engine.unsettled_tags(id).take(HELD_MAX);
        let keys = tags.filter_map(|tag| settle_key(receiver, &tag));
        keys.map(|it| Entity::sequence_number(it.index, it.key.counter).0.to_string())
            .collect()
    }
}
