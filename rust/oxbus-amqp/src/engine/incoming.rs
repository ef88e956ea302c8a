// SPDX-License-Identifier: Apache-2.0
//! Messages from the client, assembled from transfers.

use bytes::{Bytes, BytesMut};
use oxbus_model::caps::{AMQP_EARLY_BYTES_MAX, AMQP_PARTIAL_BYTES_MAX, MESSAGE_SIZE_BYTES_MAX};

use super::link::{Link, PartialDelivery};
use super::{Engine, EngineEvent, IncomingDelivery, IncomingId, LinkId, ProtocolError, ResourceUsage};
use crate::codec::Tag;
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
        session.count_transfer(&mut self.output);
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
        match link.assemble(&mut self.usage, transfer, payload) {
            Ok(Some(incoming)) => self.emit_incoming(id, incoming),
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
    /// Adds a transfer. Returns the message after the last one.
    fn assemble(
        &mut self,
        usage: &mut ResourceUsage,
        transfer: Transfer,
        payload: Bytes,
    ) -> Result<Option<IncomingDelivery>, AmqpError> {
        let Some(mut partial) = self.partial.take() else {
            return self.begin(usage, transfer, payload);
        };
        let so_far = partial.bytes.len();
        usage.partial_bytes -= so_far;
        if transfer.aborted {
            return Ok(None);
        }
        if transfer.delivery_id.is_some_and(|number| number != partial.delivery_id) {
            let text = "a transfer of another delivery; complete or abort this one first";
            return Err(AmqpError::new(condition::NOT_ALLOWED, text));
        }
        self.check_size(usage, so_far, payload.len())?;
        partial.bytes.extend_from_slice(&payload);
        partial.settled |= transfer.settled.unwrap_or(false);
        if transfer.state.is_some() {
            partial.state = transfer.state;
        }
        if transfer.more {
            usage.partial_bytes += partial.bytes.len();
            self.partial = Some(partial);
            return Ok(None);
        }
        let message = std::mem::take(&mut partial.bytes).freeze();
        Ok(Some(self.incoming(partial, message)))
    }

    fn begin(
        &mut self,
        usage: &mut ResourceUsage,
        transfer: Transfer,
        payload: Bytes,
    ) -> Result<Option<IncomingDelivery>, AmqpError> {
        let Some(delivery_id) = transfer.delivery_id else {
            let text = "the first transfer of a delivery has no delivery-id";
            return Err(AmqpError::new(condition::INVALID_FIELD, text));
        };
        self.delivery_count = self.delivery_count.wrapping_add(1);
        self.credit = self.credit.saturating_sub(1);
        if transfer.aborted {
            return Ok(None);
        }
        self.check_size(usage, 0, payload.len())?;
        let mut partial = PartialDelivery {
            delivery_id,
            tag: transfer.delivery_tag.unwrap_or(Tag::EMPTY),
            message_format: transfer.message_format.unwrap_or(0),
            settled: transfer.settled.unwrap_or(false) || self.snd_settle_mode == SenderSettleMode::Settled,
            state: transfer.state,
            bytes: BytesMut::new(),
        };
        if !transfer.more {
            return Ok(Some(self.incoming(partial, payload)));
        }
        partial.bytes.extend_from_slice(&payload);
        usage.partial_bytes += payload.len();
        self.partial = Some(partial);
        Ok(None)
    }

    fn check_size(&self, usage: &ResourceUsage, so_far: usize, more: usize) -> Result<(), AmqpError> {
        let size = so_far + more;
        let own = usize::try_from(self.max_message_size).unwrap_or(usize::MAX);
        let size_max = if own == 0 {
            MESSAGE_SIZE_BYTES_MAX
        } else {
            own.min(MESSAGE_SIZE_BYTES_MAX)
        };
        if size > size_max {
            let text = format!("the message is too large: max_message_size=`{size_max}`");
            return Err(AmqpError::new(condition::MESSAGE_SIZE_EXCEEDED, text));
        }
        if so_far + more > 0 && usage.partial_bytes + size > AMQP_PARTIAL_BYTES_MAX {
            let text = "too many incomplete messages; complete some first";
            return Err(AmqpError::new(condition::RESOURCE_LIMIT_EXCEEDED, text));
        }
        Ok(())
    }

    fn incoming(&self, partial: PartialDelivery, message: Bytes) -> IncomingDelivery {
        IncomingDelivery {
            link: self.id,
            id: (!partial.settled).then_some(IncomingId {
                link: self.id,
                number: partial.delivery_id,
            }),
            tag: partial.tag,
            message_format: partial.message_format,
            state: partial.state,
            message,
        }
    }
}
