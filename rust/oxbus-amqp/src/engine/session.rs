// SPDX-License-Identifier: Apache-2.0
//! State of a session: windows, links, deliveries to the client.

use std::collections::{BTreeMap, BTreeSet};

use bytes::BytesMut;
use oxbus_model::caps::{AMQP_FORGOTTEN_MAX, AMQP_WINDOW_FRAMES};

use super::link::{Link, TransferRemainder};
use super::settlement::{DispositionBuffer, UnsettledDelivery};
use super::{LinkId, SessionId};
use crate::performative::{Begin, Flow, Role, put_frame};

/// The first delivery-id of the server. Common clients count their own from zero, and match outcomes by the id alone.
const FIRST_DELIVERY: u64 = 1 << 20;

/// The transfer-id of the first transfer to the client.
pub(super) const FIRST_TRANSFER: u32 = 1;

/// A session. It exists until both sides have ended it.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) is_end_sent: bool,
    pub(super) is_peer_ended: bool,
    pub(super) handle_max: u32,
    pub(super) next_incoming_id: u32,
    pub(super) incoming_window: u32,
    pub(super) next_outgoing_id: u32,
    pub(super) remote_incoming_window: u32,
    /// Indexed by handle.
    pub(super) links: Vec<Option<Box<Link>>>,
    pub(super) next_delivery: u64,
    pub(super) unsettled: BTreeMap<u64, UnsettledDelivery>,
    /// Unsettled deliveries of detached links, which the client may still settle.
    pub(super) forgotten: BTreeSet<u64>,
    pub(super) remainder: Option<TransferRemainder>,
    /// Outcomes of messages from the client.
    pub(super) outcomes: DispositionBuffer,
    /// Answers to the client's settlements.
    pub(super) settlements: DispositionBuffer,
}

impl Session {
    pub(super) fn new(id: SessionId, begin: &Begin, handle_max: u32) -> Self {
        Self {
            id,
            is_end_sent: false,
            is_peer_ended: false,
            handle_max: begin.handle_max.unwrap_or(u32::MAX).min(handle_max),
            next_incoming_id: begin.next_outgoing_id,
            incoming_window: AMQP_WINDOW_FRAMES,
            next_outgoing_id: FIRST_TRANSFER,
            remote_incoming_window: begin.incoming_window,
            links: Vec::new(),
            next_delivery: FIRST_DELIVERY,
            unsettled: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            remainder: None,
            outcomes: DispositionBuffer::new(Role::Receiver),
            settlements: DispositionBuffer::new(Role::Sender),
        }
    }

    pub(super) fn is_live(&self) -> bool {
        !self.is_end_sent && !self.is_peer_ended
    }

    pub(super) fn link(&mut self, id: LinkId) -> Option<&mut Link> {
        let link = self.links.get_mut(id.handle as usize)?.as_deref_mut()?;
        (link.id == id).then_some(link)
    }

    pub(super) fn link_ref(&self, id: LinkId) -> Option<&Link> {
        let link = self.links.get(id.handle as usize)?.as_deref()?;
        (link.id == id).then_some(link)
    }

    pub(super) fn link_at(&mut self, handle: u32) -> Option<&mut Link> {
        self.links.get_mut(handle as usize)?.as_deref_mut()
    }

    /// A flow for the session.
    pub(super) fn flow(&self) -> Flow {
        Flow {
            next_incoming_id: Some(self.next_incoming_id),
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
    pub(super) fn link_flow(&self, link: &Link) -> Flow {
        Flow {
            handle: Some(link.id.handle),
            delivery_count: Some(link.delivery_count),
            link_credit: Some(link.credit),
            available: (link.role == Role::Sender).then_some(0),
            drain: link.drain,
            ..self.flow()
        }
    }

    /// Counts a transfer from the client. Renews the window when half of it is used.
    pub(super) fn count_transfer(&mut self, out: &mut BytesMut) {
        self.next_incoming_id = self.next_incoming_id.wrapping_add(1);
        self.incoming_window = self.incoming_window.saturating_sub(1);
        if self.incoming_window <= AMQP_WINDOW_FRAMES / 2 {
            self.incoming_window = AMQP_WINDOW_FRAMES;
            put_frame(out, self.id.channel, &self.flow());
        }
    }

    /// Moves the unsettled deliveries of a detached link to `forgotten`.
    pub(super) fn forget(&mut self, handle: u32) {
        if self
            .remainder
            .as_ref()
            .is_some_and(|remainder| remainder.handle == handle)
        {
            self.remainder = None;
        }
        let forgotten = &mut self.forgotten;
        self.unsettled.retain(|number, unsettled| {
            let is_kept = unsettled.link.handle != handle;
            if !is_kept {
                forgotten.insert(*number);
            }
            is_kept
        });
        while self.forgotten.len() > AMQP_FORGOTTEN_MAX {
            self.forgotten.pop_first();
        }
    }

    /// Writes the collected dispositions.
    pub(super) fn flush(&mut self, out: &mut BytesMut) {
        if self.is_live() {
            self.outcomes.flush(out, self.id.channel);
            self.settlements.flush(out, self.id.channel);
        }
    }
}
