// SPDX-License-Identifier: Apache-2.0
//! Messages from the client, assembled from transfers.

use bytes::Bytes;
use oxbus_model::caps::AMQP_EARLY_BYTES_MAX;

use super::link::Link;
use super::{Engine, EngineEvent, IncomingDelivery, IncomingId, LinkId};
use crate::endpoint::{DeliveryHead, ProtocolError, message_size_max};
use crate::performative::{AmqpError, Role, SenderSettleMode, Transfer, condition};

/// Memory of a message beside its bytes: an estimate, rounded up.
const INCOMING_BYTES: usize = 256;

impl Engine {
    /// Handles a transfer. Accepts more messages than the credit allows, because a common client exceeds it.
    pub(super) fn handle_transfer(
        &mut self,
        channel: u16,
        transfer: Transfer,
        payload: Bytes,
    ) -> Result<(), ProtocolError> {
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else {
            return Ok(());
        };
        session.window.count_arrived(&mut self.output);
        let Some(link) = session
            .link_at(transfer.handle)
            .filter(|link| link.peer_detached.is_none())
        else {
            return Err(ProtocolError::unattached(transfer.handle));
        };
        if link.is_detach_sent {
            return Ok(());
        }
        if link.role == Role::Sender {
            let text = format!(
                "a transfer on a link that the client receives from: handle=`{}`",
                transfer.handle
            );
            return Err(ProtocolError::Session(AmqpError::new(condition::ERRANT_LINK, text)));
        }
        let id = link.id;
        let is_settled = link.snd_settle_mode == SenderSettleMode::Settled;
        let size_max = message_size_max(link.max_message_size);
        let partial_bytes = &mut self.usage.partial_bytes;
        match link
            .assembly
            .push(&mut link.credit, partial_bytes, size_max, is_settled, transfer, payload)
        {
            Ok(Some(assembled)) => {
                let incoming = link.incoming(assembled);
                self.emit_incoming(id, incoming);
            }
            Ok(None) => {}
            Err(error) => self.fail_link(id, error),
        }
        Ok(())
    }

    fn emit_incoming(&mut self, id: LinkId, incoming: IncomingDelivery) {
        if incoming.id.is_some() {
            self.usage.unanswered += 1;
        }
        let is_settled = incoming.id.is_none();
        let early_bytes = self.usage.early_bytes;
        let Some(link) = self.session(id.session).and_then(|session| session.link(id)) else {
            return;
        };
        link.unanswered += u32::from(!is_settled);
        if link.pending_attach.is_none() {
            self.events.push_back(EngineEvent::Incoming(Box::new(incoming)));
            if is_settled {
                self.replenish_credit(id);
            }
            return;
        }
        let bytes = incoming.message.len() + INCOMING_BYTES;
        link.early_deliveries.push(incoming);
        link.early_bytes += bytes;
        self.usage.early_bytes += bytes;
        if early_bytes + bytes > AMQP_EARLY_BYTES_MAX {
            let text = "too many messages before the link is attached; wait for the attach";
            self.fail_link(id, AmqpError::new(condition::RESOURCE_LIMIT_EXCEEDED, text));
        }
    }
}

impl Link {
    fn incoming(&self, (head, message): (DeliveryHead, Bytes)) -> IncomingDelivery {
        IncomingDelivery {
            link: self.id,
            id: (!head.settled).then_some(IncomingId {
                link: self.id,
                number: head.delivery_id,
            }),
            tag: head.tag,
            message_format: head.message_format,
            state: head.state,
            message,
        }
    }
}
