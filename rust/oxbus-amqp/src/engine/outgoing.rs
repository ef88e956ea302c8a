// SPDX-License-Identifier: Apache-2.0
//! Messages to the client.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use oxbus_model::caps::AMQP_UNSETTLED_MAX;

use super::link::TransferRemainder;
use super::session::Session;
use super::settlement::UnsettledDelivery;
use super::{DeliveryId, Engine, LinkId};
use crate::codec::Tag;
use crate::performative::{Role, SenderSettleMode, TransferHeader, begin_frame, end_frame, put_transfer};

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

/// Why a message was not sent. Nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendError {
    /// The link does not exist, is not attached yet, or is one from the client.
    LinkNotFound,
    /// The client has given no credit. Wait for `EngineEvent::Credit`.
    NoCredit,
    /// The session window is closed, or too many deliveries are unsettled. Wait for `EngineEvent::Credit` or
    /// `EngineEvent::Disposition`.
    NoWindow,
    /// The output is full. Write it first.
    BackedUp,
}

impl fmt::Display for SendError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::LinkNotFound => "the link is closed",
            Self::NoCredit => "the link has no credit",
            Self::NoWindow => "the session window is closed",
            Self::BackedUp => "the output buffer is full",
        })
    }
}

impl std::error::Error for SendError {}

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
        if found.credit == 0 {
            return Err(SendError::NoCredit);
        }
        if !can_send {
            return Err(SendError::NoWindow);
        }
        found.credit -= 1;
        found.delivery_count = found.delivery_count.wrapping_add(1);
        let settled = outgoing.settled || found.snd_settle_mode == SenderSettleMode::Settled;
        let number = session.next_delivery;
        session.next_delivery += 1;
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
        };
        session.send_parts(&mut self.output, self.peer.max_frame_size, head, outgoing.parts);
        Ok(DeliveryId {
            session: link.session,
            number,
        })
    }
}

impl Session {
    pub(super) fn can_send(&self) -> bool {
        self.is_live()
            && self.remainder.is_none()
            && self.remote_incoming_window > 0
            && self.unsettled.len() < AMQP_UNSETTLED_MAX as usize
    }

    /// Writes as many frames of a message as the window allows. Keeps the remainder.
    fn send_parts(&mut self, out: &mut BytesMut, frame_max: usize, mut head: TransferHeader<'_>, parts: &[&[u8]]) {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let start = begin_frame(out, 0, self.id.channel);
        put_transfer(out, &head);
        let room = frame_max.saturating_sub(out.len() - start);
        if total <= room {
            for part in parts {
                out.put_slice(part);
            }
            end_frame(out, start);
            self.count_sent();
            return;
        }
        out.truncate(start);
        let mut whole = BytesMut::with_capacity(total);
        for part in parts {
            whole.put_slice(part);
        }
        let mut rest = whole.freeze();
        self.send_frame(out, frame_max, &head, &mut rest);
        head = TransferHeader::following(head.handle);
        self.send_rest(out, frame_max, &head, rest);
    }

    /// Continues with the remainder of a message.
    pub(super) fn send_remainder(&mut self, out: &mut BytesMut, frame_max: usize) {
        if self.is_live()
            && self.remote_incoming_window > 0
            && let Some(remainder) = self.remainder.take()
        {
            self.send_rest(
                out,
                frame_max,
                &TransferHeader::following(remainder.handle),
                remainder.rest,
            );
        }
    }

    fn send_rest(&mut self, out: &mut BytesMut, frame_max: usize, head: &TransferHeader<'_>, mut rest: Bytes) {
        while !rest.is_empty() {
            if self.remote_incoming_window == 0 {
                self.remainder = Some(TransferRemainder {
                    handle: head.handle,
                    rest,
                });
                return;
            }
            self.send_frame(out, frame_max, head, &mut rest);
        }
    }

    /// Writes one frame, and removes its bytes from `rest`.
    fn send_frame(&mut self, out: &mut BytesMut, frame_max: usize, head: &TransferHeader<'_>, rest: &mut Bytes) {
        let start = begin_frame(out, 0, self.id.channel);
        let head_at = out.len();
        put_transfer(out, head);
        let room = frame_max.saturating_sub(out.len() - start).max(1);
        if rest.len() > room {
            out.truncate(head_at);
            put_transfer(out, &TransferHeader { more: true, ..*head });
        }
        out.put_slice(&rest.split_to(room.min(rest.len())));
        end_frame(out, start);
        self.count_sent();
    }

    fn count_sent(&mut self) {
        self.next_outgoing_id = self.next_outgoing_id.wrapping_add(1);
        self.remote_incoming_window = self.remote_incoming_window.saturating_sub(1);
    }
}
