// SPDX-License-Identifier: Apache-2.0
//! State of a session: windows, links, deliveries to the client.

use std::collections::BTreeSet;

use bytes::BytesMut;
use oxbus_model::caps::{AMQP_FORGOTTEN_MAX, AMQP_UNSETTLED_MAX};

use super::link::Link;
use super::settlement::UnsettledDelivery;
use super::{LinkId, SessionId};
use crate::endpoint::{DeliveryTable, DispositionBuffer, SessionWindow};
use crate::performative::{Begin, Role};

/// The first delivery-id of the server. Common clients count their own from zero, and match outcomes by the id alone.
const FIRST_DELIVERY: u64 = 1 << 20;

/// A session. It exists until both sides have ended it.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) is_end_sent: bool,
    pub(super) is_peer_ended: bool,
    pub(super) handle_max: u32,
    pub(super) window: SessionWindow,
    /// Indexed by handle.
    pub(super) links: Vec<Option<Box<Link>>>,
    pub(super) unsettled: DeliveryTable<UnsettledDelivery>,
    /// Unsettled deliveries of detached links, which the client may still settle.
    pub(super) forgotten: BTreeSet<u64>,
    /// Outcomes of messages from the client.
    pub(super) outcomes: DispositionBuffer,
    /// Answers to the client's settlements.
    pub(super) settlements: DispositionBuffer,
}

impl Session {
    pub(super) fn new(id: SessionId, begin: &Begin, handle_max: u32) -> Self {
        let mut window = SessionWindow::new(id.channel);
        window.open(begin);
        Self {
            id,
            is_end_sent: false,
            is_peer_ended: false,
            handle_max: begin.handle_max.unwrap_or(u32::MAX).min(handle_max),
            window,
            links: Vec::new(),
            unsettled: DeliveryTable::starting_at(FIRST_DELIVERY),
            forgotten: BTreeSet::new(),
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

    pub(super) fn can_send(&self) -> bool {
        self.is_live() && self.window.is_open() && self.unsettled.len() < AMQP_UNSETTLED_MAX as usize
    }

    /// Moves the unsettled deliveries of a detached link to `forgotten`.
    pub(super) fn forget(&mut self, handle: u32) {
        self.window.drop_remainder(Some(handle));
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
