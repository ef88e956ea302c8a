// SPDX-License-Identifier: Apache-2.0
//! Settlement of deliveries in both directions.

use super::{ClientEngine, ClientEvent, CommandError, DeliveryId, DeliveryOutcome, LinkId, ReceivedId};
use crate::endpoint::is_outcome;
use crate::performative::{DeliveryState, Disposition, ReceiverSettleMode, Role};

/// An unsettled message from the server.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnsettledReceived {
    pub(super) link: LinkId,
    /// True if the client has sent an outcome and waits for the confirmation.
    pub(super) is_outcome_sent: bool,
}

impl ClientEngine {
    /// Settles a message from the server with this outcome. Outcomes of consecutive messages share a frame once `flush`
    /// writes them.
    ///
    /// Returns true if the server confirms, and `Settled` follows: on a link whose receiver settles second. Otherwise,
    /// and if `is_unconfirmed`, the message is settled at once and nothing follows.
    pub fn settle(&mut self, id: ReceivedId, state: DeliveryState, is_unconfirmed: bool) -> Result<bool, CommandError> {
        let session = self.session(id.link.session).filter(|session| !session.is_end_sent);
        let session = session.ok_or(CommandError::DeliveryNotFound)?;
        let link = session.link(id.link).filter(|link| link.is_live());
        let link = link.ok_or(CommandError::DeliveryNotFound)?;
        let is_settled = is_unconfirmed || link.rcv_settle_mode == ReceiverSettleMode::First;
        let unsettled = session.received.get_mut(id.number);
        let unsettled = unsettled.filter(|unsettled| !unsettled.is_outcome_sent);
        let unsettled = unsettled.ok_or(CommandError::DeliveryNotFound)?;
        unsettled.is_outcome_sent = true;
        if is_settled {
            session.received.remove(id.number);
        }
        session.outcomes.push_as(id.number as u32, is_settled, state);
        Ok(!is_settled)
    }

    /// Handles a disposition: outcomes of messages to the server, or confirmations of settlements.
    pub(super) fn handle_disposition(&mut self, channel: u16, disposition: &Disposition) {
        match disposition.role {
            Role::Receiver => self.handle_outcomes(channel, disposition),
            Role::Sender => self.handle_settlements(channel, disposition),
        }
    }

    fn handle_outcomes(&mut self, channel: u16, disposition: &Disposition) {
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else {
            return;
        };
        if !disposition.settled && !is_outcome(disposition.state.as_ref()) {
            return;
        }
        let Some(range) = session.sent.range_of(disposition) else {
            return;
        };
        let was_shut = !session.can_send();
        while let Some((number, sent)) = session.sent.first_in(range) {
            let link = sent.link;
            session.sent.remove(number);
            if let (false, Some(state)) = (disposition.settled, &disposition.state) {
                // The receiver settles after the sender.
                session.settlements.push(number as u32, state.clone());
            }
            self.events.push_back(ClientEvent::Outcome(DeliveryOutcome {
                link,
                delivery: DeliveryId {
                    session: link.session,
                    number,
                },
                state: disposition.state.clone(),
            }));
        }
        let is_reopened = was_shut && session.can_send();
        self.emit_credit(channel, is_reopened, None);
    }

    fn handle_settlements(&mut self, channel: u16, disposition: &Disposition) {
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else {
            return;
        };
        if !disposition.settled {
            return;
        }
        let Some(range) = session.received.range_of(disposition) else {
            return;
        };
        while let Some((number, received)) = session.received.first_in(range) {
            let link = received.link;
            session.received.remove(number);
            self.events.push_back(ClientEvent::Settled(DeliveryOutcome {
                link,
                delivery: ReceivedId { link, number },
                state: disposition.state.clone(),
            }));
        }
    }
}
