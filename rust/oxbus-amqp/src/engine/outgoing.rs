// SPDX-License-Identifier: Apache-2.0
//! Messages to the client.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use oxbus_model::caps::AMQP_UNSETTLED_MAX;

use super::link::Held;
use super::session::Session;
use super::settlement::Unsettled;
use super::{DeliveryId, Engine, LinkId};
use crate::codec::Tag;
use crate::performative::{Role, SenderSettleMode, TransferHead, begin_frame, end_frame, put_transfer};

/// A message to the client.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// Its name: the lock token. None for one that is settled at once.
    pub tag: Option<&'a Tag>,
    /// How it is to be read.
    pub message_format: u32,
    /// Whether it is settled at once; so it is anyway on a link that asked for it.
    pub settled: bool,
    /// Its bytes, in pieces: new sections, then what is kept as it came.
    pub parts: &'a [&'a [u8]],
}

/// Why a message was not sent. Nothing of it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendRefused {
    /// The link is gone, not attached yet, or one that the client sends on.
    Gone,
    /// The client wants no message now; wait for `Event::Credit`.
    NoCredit,
    /// The session's window is shut, or too many deliveries are not settled; wait for `Event::Credit` or `Event::Settle`.
    NoWindow,
    /// The client reads too slowly; wait until `output` is written.
    BackedUp,
}

impl fmt::Display for SendRefused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Gone => "the link is gone",
            Self::NoCredit => "the client wants no message now",
            Self::NoWindow => "the session's window is shut",
            Self::BackedUp => "the client reads too slowly",
        })
    }
}

impl std::error::Error for SendRefused {}

impl Engine {
    /// Sends a message. A link that a client drains is drained by `drained`, not by the last message.
    pub fn send(&mut self, link: LinkId, outgoing: &Outgoing<'_>) -> Result<DeliveryId, SendRefused> {
        if self.is_backed_up() {
            return Err(SendRefused::BackedUp);
        }
        let session = self
            .sessions
            .get_mut(usize::from(link.session.channel))
            .and_then(Option::as_deref_mut);
        let session = session
            .filter(|session| session.id == link.session)
            .ok_or(SendRefused::Gone)?;
        let can_send = session.can_send();
        let found = session
            .link(link)
            .filter(|link| link.is_live() && link.role == Role::Sender);
        let found = found.ok_or(SendRefused::Gone)?;
        if found.credit == 0 {
            return Err(SendRefused::NoCredit);
        }
        if !can_send {
            return Err(SendRefused::NoWindow);
        }
        found.credit -= 1;
        found.delivery_count = found.delivery_count.wrapping_add(1);
        let settled = outgoing.settled || found.snd_settle_mode == SenderSettleMode::Settled;
        let number = session.next_delivery;
        session.next_delivery += 1;
        if !settled {
            let unsettled = Unsettled {
                link,
                tag: outgoing.tag.copied().unwrap_or(Tag::EMPTY),
                is_asked: false,
            };
            session.unsettled.insert(number, unsettled);
        }
        let head = TransferHead {
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
            && self.held.is_none()
            && self.remote_incoming_window > 0
            && self.unsettled.len() < AMQP_UNSETTLED_MAX as usize
    }

    /// Writes a message, as many frames of it as the window takes; the rest is held.
    fn send_parts(&mut self, out: &mut BytesMut, frame_max: usize, mut head: TransferHead<'_>, parts: &[&[u8]]) {
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
        head = TransferHead::following(head.handle);
        self.send_rest(out, frame_max, &head, rest);
    }

    /// Goes on with a message that was held.
    pub(super) fn send_held(&mut self, out: &mut BytesMut, frame_max: usize) {
        if self.is_live()
            && self.remote_incoming_window > 0
            && let Some(held) = self.held.take()
        {
            self.send_rest(out, frame_max, &TransferHead::following(held.handle), held.rest);
        }
    }

    fn send_rest(&mut self, out: &mut BytesMut, frame_max: usize, head: &TransferHead<'_>, mut rest: Bytes) {
        while !rest.is_empty() {
            if self.remote_incoming_window == 0 {
                self.held = Some(Held {
                    handle: head.handle,
                    rest,
                });
                return;
            }
            self.send_frame(out, frame_max, head, &mut rest);
        }
    }

    /// Writes one frame and takes away what it holds.
    fn send_frame(&mut self, out: &mut BytesMut, frame_max: usize, head: &TransferHead<'_>, rest: &mut Bytes) {
        let start = begin_frame(out, 0, self.id.channel);
        let head_at = out.len();
        put_transfer(out, head);
        let room = frame_max.saturating_sub(out.len() - start).max(1);
        if rest.len() > room {
            out.truncate(head_at);
            put_transfer(out, &TransferHead { more: true, ..*head });
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
