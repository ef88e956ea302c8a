// SPDX-License-Identifier: Apache-2.0
//! Settlement of deliveries in both directions.

use super::{DeliveryDisposition, DeliveryId, Engine, EngineEvent, IncomingId, LinkId, SessionId};
use crate::codec::Tag;
use crate::endpoint::{DeliveryRange, is_outcome, put_settled};
use crate::performative::{AmqpError, DeliveryState, Disposition, Role, condition};

/// An unsettled message to the client.
#[derive(Debug)]
pub(super) struct UnsettledDelivery {
    pub(super) link: LinkId,
    pub(super) tag: Tag,
    /// True if the client has sent an outcome and waits for the answer.
    pub(super) is_outcome_pending: bool,
}

/// A disposition of a range of deliveries, emitted one existing delivery at a time.
#[derive(Debug)]
pub(super) struct DispositionRange {
    session: SessionId,
    range: DeliveryRange,
    state: Option<DeliveryState>,
    settled: bool,
}

impl Engine {
    /// Settles a message from the client with this state.
    #[expect(clippy::needless_pass_by_value, reason = "there is one answer to a message")]
    pub fn answer(&mut self, incoming: IncomingId, state: DeliveryState) {
        let IncomingId { link: id, number } = incoming;
        let Some(session) = self.session(id.session) else {
            return;
        };
        let Some(link) = session.link(id).filter(|link| !link.is_detach_sent) else {
            return;
        };
        link.unanswered -= 1;
        // Also after the client's detach: it may have sent a message and detached at once.
        session.outcomes.push(number, state);
        self.usage.unanswered -= 1;
        self.replenish_credit(id);
    }

    /// Settles a message to the client, usually to confirm the client's outcome.
    ///
    /// Confirm with the same type of state, or reject with an error: common clients treat any other state as a failure.
    pub fn settle(&mut self, delivery: DeliveryId, state: DeliveryState) {
        if let Some(session) = self.session(delivery.session)
            && session.unsettled.remove(delivery.number).is_some()
        {
            session.settlements.push(delivery.number as u32, state);
        }
    }

    /// Number of unsettled deliveries to the client in a session.
    pub fn unsettled(&self, session: SessionId) -> usize {
        self.session_ref(session).map_or(0, |session| session.unsettled.len())
    }

    /// The tags of the unsettled deliveries of a link, in their order.
    pub fn unsettled_tags(&self, link: LinkId) -> impl Iterator<Item = Tag> {
        let session = self.session_ref(link.session);
        let deliveries = session.into_iter().flat_map(|session| session.unsettled.iter());
        deliveries.filter(move |it| it.link == link).map(|it| it.tag)
    }

    /// Handles a disposition.
    pub(super) fn handle_disposition(&mut self, channel: u16, disposition: Disposition) {
        // Dispositions of its own deliveries are ignored, because the answers settle them.
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else {
            return;
        };
        if disposition.role == Role::Sender {
            return;
        }
        let Some(range) = session.unsettled.range_of(&disposition) else {
            return;
        };
        if session.unsettled.first_in(range).is_some() {
            self.disposition_range = Some(DispositionRange {
                session: session.id,
                range,
                state: disposition.state,
                settled: disposition.settled,
            });
            return;
        }
        let is_late = session.forgotten.range(range.first..=range.last).next().is_some();
        if !disposition.settled && !is_late {
            // The client waits for an answer to deliveries that do not exist.
            let error = AmqpError::new(
                condition::NOT_FOUND,
                "the delivery does not exist or is already settled",
            );
            let numbers = disposition.first..=disposition.last.unwrap_or(disposition.first);
            put_settled(&mut self.output, channel, Role::Sender, numbers, error.into());
        }
    }

    /// The event of the next delivery of the range.
    pub(super) fn next_disposition(&mut self) -> Option<EngineEvent> {
        loop {
            let disposition_range = self.disposition_range.as_mut()?;
            let session = self
                .sessions
                .get_mut(usize::from(disposition_range.session.channel))
                .and_then(Option::as_deref_mut);
            let found = session
                .filter(|session| session.id == disposition_range.session)
                .and_then(|session| {
                    let (number, unsettled) = session.unsettled.first_in(disposition_range.range)?;
                    let is_update = disposition_range.settled
                        || (!unsettled.is_outcome_pending && is_outcome(disposition_range.state.as_ref()));
                    unsettled.is_outcome_pending |= is_update;
                    let (link, tag) = (unsettled.link, unsettled.tag);
                    if disposition_range.settled {
                        session.unsettled.remove(number);
                    }
                    Some((number, link, tag, is_update))
                });
            let Some((number, link, tag, is_update)) = found else {
                self.disposition_range = None;
                return None;
            };
            let (state, settled) = (disposition_range.state.clone(), disposition_range.settled);
            disposition_range.range.first = number + 1;
            if number == disposition_range.range.last {
                self.disposition_range = None;
            }
            if is_update {
                let delivery = DeliveryId {
                    session: link.session,
                    number,
                };
                return Some(EngineEvent::Disposition(Box::new(DeliveryDisposition {
                    link,
                    delivery,
                    tag,
                    state,
                    settled,
                })));
            }
        }
    }
}
