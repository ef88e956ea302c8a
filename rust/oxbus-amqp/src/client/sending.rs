// SPDX-License-Identifier: Apache-2.0
//! Messages to the server.

use super::{ClientEngine, DeliveryId, LinkId, SendError};
use crate::codec::Tag;
use crate::performative::{DeliveryState, Role, SenderSettleMode, TransferHeader};

/// A message to the server.
#[derive(Debug, Clone, Copy)]
pub struct OutgoingMessage<'a> {
    /// The message format.
    pub message_format: u32,
    /// True if it is sent settled: no outcome follows. On a link with settle mode `settled` it always is.
    pub settled: bool,
    /// The state of the delivery, which names a transaction.
    pub state: Option<&'a DeliveryState>,
    /// The message in parts.
    pub parts: &'a [&'a [u8]],
}

/// A message to the server without an outcome.
#[derive(Debug, Clone, Copy)]
pub(super) struct SentDelivery {
    pub(super) link: LinkId,
}

impl ClientEngine {
    /// Sends a message. Unless it is settled, `Outcome` follows.
    pub fn send(&mut self, id: LinkId, message: &OutgoingMessage<'_>) -> Result<DeliveryId, SendError> {
        if self.is_backed_up() {
            return Err(SendError::BackedUp);
        }
        let session = self
            .sessions
            .get_mut(usize::from(id.session.channel))
            .and_then(Option::as_deref_mut);
        let session = session
            .filter(|session| session.id == id.session)
            .ok_or(SendError::LinkNotFound)?;
        let can_send = session.can_send();
        let link = session
            .link(id)
            .filter(|link| link.is_live() && link.role == Role::Sender);
        let link = link.ok_or(SendError::LinkNotFound)?;
        let size: usize = message.parts.iter().map(|part| part.len()).sum();
        if link.max_message_size > 0 && size as u64 > link.max_message_size {
            return Err(SendError::TooLarge(link.max_message_size));
        }
        if link.credit.credit == 0 {
            return Err(SendError::NoCredit);
        }
        if !can_send {
            return Err(SendError::NoWindow);
        }
        link.credit.take();
        let settled = message.settled || link.snd_settle_mode == SenderSettleMode::Settled;
        let number = session.sent.number();
        if !settled {
            session.sent.insert(number, SentDelivery { link: id });
        }
        let tag = Tag::from_number(number as u32);
        let head = TransferHeader {
            handle: id.handle,
            delivery_id: Some(number as u32),
            tag: Some(&tag),
            message_format: Some(message.message_format),
            settled,
            more: false,
            state: message.state,
        };
        session
            .window
            .send_parts(&mut self.output, self.peer.max_frame_size, &head, message.parts);
        Ok(DeliveryId {
            session: id.session,
            number,
        })
    }
}
