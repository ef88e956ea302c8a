// SPDX-License-Identifier: Apache-2.0
//! Messages to the client.

use super::settlement::UnsettledDelivery;
use super::{DeliveryId, Engine, LinkId, SendError};
use crate::codec::Tag;
use crate::performative::{Role, SenderSettleMode, TransferHeader};

/// A message to the client.
#[derive(Debug, Clone, Copy)]
pub struct OutgoingDelivery<'a> {
    /// The delivery tag: the lock token, or `None` if the message is sent settled.
    pub tag: Option<&'a Tag>,
    /// The message format.
    pub message_format: u32,
    /// True if it is sent settled. On a link with settle mode `settled` it always is.
    pub settled: bool,
    /// The message in parts: new sections, then stored bytes.
    pub parts: &'a [&'a [u8]],
}

impl Engine {
    /// Sends a message. Does not end a drain; `drained` does.
    pub fn send(&mut self, link: LinkId, outgoing: &OutgoingDelivery<'_>) -> Result<DeliveryId, SendError> {
        if self.is_backed_up() {
            return Err(SendError::BackedUp);
        }
        let session = self
            .sessions
            .get_mut(usize::from(link.session.channel))
            .and_then(Option::as_deref_mut);
        let session = session
            .filter(|session| session.id == link.session)
            .ok_or(SendError::LinkNotFound)?;
        let can_send = session.can_send();
        let found = session
            .link(link)
            .filter(|link| link.is_live() && link.role == Role::Sender);
        let found = found.ok_or(SendError::LinkNotFound)?;
        if found.credit.credit == 0 {
            return Err(SendError::NoCredit);
        }
        if !can_send {
            return Err(SendError::NoWindow);
        }
        found.credit.take();
        let settled = outgoing.settled || found.snd_settle_mode == SenderSettleMode::Settled;
        let number = session.unsettled.number();
        if !settled {
            let unsettled = UnsettledDelivery {
                link,
                tag: outgoing.tag.copied().unwrap_or(Tag::EMPTY),
                is_outcome_pending: false,
            };
            session.unsettled.insert(number, unsettled);
        }
        let head = TransferHeader {
            handle: link.handle,
            delivery_id: Some(number as u32),
            tag: outgoing.tag,
            message_format: Some(outgoing.message_format),
            settled,
            more: false,
            state: None,
        };
        session
            .window
            .send_parts(&mut self.output, self.peer.max_frame_size, &head, outgoing.parts);
        Ok(DeliveryId {
            session: link.session,
            number,
        })
    }
}
