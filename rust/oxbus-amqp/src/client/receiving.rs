// SPDX-License-Identifier: Apache-2.0
//! Messages from the server, assembled from transfers.

use bytes::Bytes;

use super::settlement::UnsettledReceived;
use super::{ClientEngine, ClientEvent, LinkId, ReceivedDelivery, ReceivedId};
use crate::endpoint::{DeliveryHead, ProtocolError, message_size_max};
use crate::performative::{AmqpError, Role, SenderSettleMode, Transfer, condition};

impl ClientEngine {
    /// Handles a transfer. Accepts more messages than the credit allows: an emulator sends settled messages without
    /// regard to it, and would have lost those that a detached link refuses. The session's window bounds them.
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
        let handle = transfer.handle;
        let Some(link) = session.link_of_server(handle) else {
            return Err(ProtocolError::unattached(handle));
        };
        if link.is_detach_sent {
            return Ok(());
        }
        if link.role == Role::Sender || !link.is_attached {
            let text = format!("a transfer on a link that the server cannot send on: handle=`{handle}`");
            return Err(ProtocolError::Session(AmqpError::new(condition::ERRANT_LINK, text)));
        }
        let id = link.id;
        let is_settled = link.snd_settle_mode == SenderSettleMode::Settled;
        let size_max = message_size_max(link.max_message_size);
        let partial_bytes = &mut self.partial_bytes;
        let assembled = link
            .assembly
            .push(&mut link.credit, partial_bytes, size_max, is_settled, transfer, payload);
        match assembled {
            Ok(Some((head, message))) => self.emit_received(id, head, message),
            Ok(None) => {}
            Err(error) => self.fail_link(id, error),
        }
        self.note_drained(id);
        Ok(())
    }

    fn emit_received(&mut self, link: LinkId, head: DeliveryHead, message: Bytes) {
        let Some(session) = self.session(link.session) else {
            return;
        };
        let number = session.received.number_of(head.delivery_id);
        if !head.settled {
            let unsettled = UnsettledReceived {
                link,
                is_outcome_sent: false,
            };
            session.received.insert(number, unsettled);
        }
        self.events.push_back(ClientEvent::Received(Box::new(ReceivedDelivery {
            link,
            id: (!head.settled).then_some(ReceivedId { link, number }),
            tag: head.tag,
            message_format: head.message_format,
            state: head.state,
            message,
        })));
    }
}
