// SPDX-License-Identifier: Apache-2.0
//! Transfer windows of a session (AMQP 1.0, part 2, 2.5.6), and transfers within the peer's window.

use bytes::{BufMut, Bytes, BytesMut};
use oxbus_model::caps::AMQP_WINDOW_FRAMES;

use super::LinkCredit;
use super::transfers::TransferRemainder;
use crate::performative::{Begin, Flow, Role, TransferHeader, begin_frame, end_frame, put_frame, put_transfer};

/// The transfer-id of the first transfer to the peer.
const FIRST_TRANSFER: u32 = 1;

/// The transfer windows of a session, in both directions.
#[derive(Debug)]
pub(crate) struct SessionWindow {
    channel: u16,
    /// `None` before the peer's `begin`.
    next_incoming_id: Option<u32>,
    incoming_window: u32,
    next_outgoing_id: u32,
    remote_incoming_window: u32,
    /// The rest of a message that exceeds the peer's window.
    remainder: Option<TransferRemainder>,
}

impl SessionWindow {
    /// The windows before the peer's `begin`.
    pub(crate) fn new(channel: u16) -> Self {
        Self {
            channel,
            next_incoming_id: None,
            incoming_window: AMQP_WINDOW_FRAMES,
            next_outgoing_id: FIRST_TRANSFER,
            remote_incoming_window: 0,
            remainder: None,
        }
    }

    /// Applies the peer's `begin`.
    pub(crate) fn open(&mut self, begin: &Begin) {
        self.next_incoming_id = Some(begin.next_outgoing_id);
        self.remote_incoming_window = begin.incoming_window;
    }

    /// True if a message may be sent: the window is open, and no other message is incomplete.
    pub(crate) fn is_open(&self) -> bool {
        self.remainder.is_none() && self.remote_incoming_window > 0
    }

    /// A flow for the session.
    pub(crate) fn flow(&self) -> Flow {
        Flow {
            next_incoming_id: self.next_incoming_id,
            incoming_window: self.incoming_window,
            next_outgoing_id: self.next_outgoing_id,
            outgoing_window: AMQP_WINDOW_FRAMES,
            handle: None,
            delivery_count: None,
            link_credit: None,
            available: None,
            drain: false,
            echo: false,
            properties: None,
        }
    }

    /// A flow for a link.
    pub(crate) fn link_flow(&self, handle: u32, role: Role, credit: &LinkCredit) -> Flow {
        Flow {
            handle: Some(handle),
            delivery_count: Some(credit.delivery_count),
            link_credit: Some(credit.credit),
            available: (role == Role::Sender).then_some(0),
            drain: credit.drain,
            ..self.flow()
        }
    }

    /// Counts a transfer from the peer. Renews the window when half of it is used.
    pub(crate) fn count_arrived(&mut self, out: &mut BytesMut) {
        self.next_incoming_id = self.next_incoming_id.map(|id| id.wrapping_add(1));
        self.incoming_window = self.incoming_window.saturating_sub(1);
        if self.incoming_window <= AMQP_WINDOW_FRAMES / 2 {
            self.incoming_window = AMQP_WINDOW_FRAMES;
            put_frame(out, self.channel, &self.flow());
        }
    }

    /// Applies the window of a flow.
    pub(crate) fn apply(&mut self, flow: &Flow) {
        let expected = flow.next_incoming_id.unwrap_or(FIRST_TRANSFER);
        let window = expected
            .wrapping_add(flow.incoming_window)
            .wrapping_sub(self.next_outgoing_id);
        self.remote_incoming_window = if window as i32 >= 0 { window } else { 0 };
    }

    /// Writes as many frames of a message as the window allows. Keeps the remainder.
    #[inline]
    pub(crate) fn send_parts(
        &mut self,
        out: &mut BytesMut,
        frame_max: usize,
        head: &TransferHeader<'_>,
        parts: &[&[u8]],
    ) {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let start = begin_frame(out, 0, self.channel);
        put_transfer(out, head);
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
        self.send_split(out, frame_max, head, parts, total);
    }

    fn send_split(
        &mut self,
        out: &mut BytesMut,
        frame_max: usize,
        head: &TransferHeader<'_>,
        parts: &[&[u8]],
        total: usize,
    ) {
        let mut whole = BytesMut::with_capacity(total);
        for part in parts {
            whole.put_slice(part);
        }
        let mut rest = whole.freeze();
        self.send_frame(out, frame_max, head, &mut rest);
        self.send_rest(out, frame_max, &TransferHeader::following(head.handle), rest);
    }

    /// Continues with the remainder of a message.
    pub(crate) fn send_remainder(&mut self, out: &mut BytesMut, frame_max: usize) {
        if self.remote_incoming_window > 0
            && let Some(remainder) = self.remainder.take()
        {
            let head = TransferHeader::following(remainder.handle);
            self.send_rest(out, frame_max, &head, remainder.rest);
        }
    }

    /// Drops the remainder of a message of this link, or of any.
    pub(crate) fn drop_remainder(&mut self, handle: Option<u32>) {
        let of_link = |remainder: &mut TransferRemainder| handle.is_none_or(|handle| remainder.handle == handle);
        self.remainder.take_if(of_link);
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
        let start = begin_frame(out, 0, self.channel);
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
