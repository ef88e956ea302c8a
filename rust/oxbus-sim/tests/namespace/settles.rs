// SPDX-License-Identifier: Apache-2.0
//! Settlements and renewals of delivered messages, with current and with ended locks.

use oxbus_broker::client::Settlement;
use oxbus_model::{Error, ErrorKind};
use oxbus_sim::model::Refusals;
use oxbus_sim::model::delivery::SettleAction;
use oxbus_store::Wait;

use super::bus::{Bus, LockedDelivery, check_result};

pub(crate) fn settlement(action: SettleAction) -> Settlement<'static> {
    match action {
        SettleAction::Complete => Settlement::Complete,
        SettleAction::Abandon => Settlement::Abandon(&[]),
        SettleAction::AbandonFor(delay_ms) => Settlement::AbandonFor { changes: &[], delay_ms },
        SettleAction::Defer => Settlement::Defer(&[]),
        SettleAction::DeadLetter => Settlement::DeadLetter {
            reason: Some("tested"),
            description: None,
            changes: &[],
        },
    }
}

impl Bus {
    /// One of the last delivered messages.
    pub(crate) fn pick(&self, pick: usize) -> Option<LockedDelivery> {
        let recent = &self.held[self.held.len().saturating_sub(40)..];
        recent.get(pick % recent.len().max(1)).cloned()
    }

    /// A slot to settle a message with, and the errors of that settlement. Any receiver of the same sub-queue can
    /// settle it (B-158), except that messages of a session need its current acceptance.
    pub(crate) fn slot_to_settle(&self, held: &LockedDelivery) -> Option<(usize, Refusals)> {
        let fits = |position: &usize| {
            self.slots[*position]
                .as_ref()
                .is_some_and(|slot| slot.at == held.at && slot.locks)
        };
        let own = |position: &usize| {
            self.slots[*position]
                .as_ref()
                .is_some_and(|slot| slot.session == held.session)
        };
        let mut fitting: Vec<usize> = (0..self.slots.len()).filter(fits).collect();
        fitting.sort_by_key(|position| !own(position));
        let slot = *fitting.first()?;
        let mut refusals = Refusals::new();
        let session = self.slots[slot].as_ref().and_then(|slot| slot.session.as_ref());
        if let Some((session, id)) = session {
            refusals.extend(self.world.session_refusals(held.at.0, session, *id));
        } else if self.world.needs_session(held.at) {
            refusals.push(ErrorKind::InvalidOperation);
        }
        if session != held.session.as_ref() {
            refusals.push(ErrorKind::MessageLockLost);
        }
        Some((slot, refusals))
    }

    pub(crate) fn settle(&mut self, pick: usize, action: SettleAction) {
        let Some(held) = self.pick(pick) else { return };
        let Some((slot, mut refusals)) = self.slot_to_settle(&held) else {
            return;
        };
        refusals.extend(
            self.world
                .settle_refusals(held.at, held.number, held.lock, Some(action)),
        );
        let slot = self.slots[slot].as_ref().expect("just found");
        let result = slot.receiver.settle(held.key, settlement(action), &Wait::FOREVER);
        if check_result("settle", &refusals, result).is_some() {
            self.world.settled(held.at, held.number, action);
        }
    }

    /// Settles the last messages delivered from the sub-queue of a slot, in one call.
    pub(crate) fn settle_many(&mut self, slot: usize, action: SettleAction) {
        let Some(receiver) = self.slots[slot].as_ref().filter(|slot| slot.locks) else {
            return;
        };
        let (at, session) = (receiver.at, receiver.session.clone());
        let all: Vec<LockedDelivery> = self
            .held
            .iter()
            .filter(|held| held.at == at)
            .rev()
            .take(20)
            .cloned()
            .collect();
        if all.is_empty() {
            return;
        }
        let mut refusals = Refusals::new();
        if !self.world.entities[at.0].alive {
            refusals.push(ErrorKind::EntityNotFound);
        }
        if let Some((session, id)) = &session {
            refusals.extend(self.world.session_refusals(at.0, session, *id));
        } else if self.world.needs_session(at) {
            refusals.push(ErrorKind::InvalidOperation);
        }
        let is_dead_letter = action == SettleAction::DeadLetter && at.1 == oxbus_model::name::SubQueue::DeadLetter;
        let is_held =
            |held: &LockedDelivery| held.session == session && self.world.is_locked_by(at, held.number, held.lock);
        let expected: Vec<usize> = (0..all.len()).filter(|position| !is_held(&all[*position])).collect();
        if is_dead_letter {
            return;
        }
        let keys: Vec<_> = all.iter().map(|held| held.key).collect();
        let result = receiver
            .receiver
            .settle_many(&keys, settlement(action), &Wait::FOREVER)
            .map_err(Error::from);
        let Some(lost) = check_result("settle many", &refusals, result) else {
            return;
        };
        assert_eq!(lost, expected, "exactly the expired locks are reported as lost (B-155)");
        for (position, held) in all.iter().enumerate() {
            if !expected.contains(&position) {
                self.world.settled(at, held.number, action);
            }
        }
    }

    pub(crate) fn renew(&mut self, pick: usize) {
        let Some(held) = self.pick(pick) else { return };
        let Some((slot, mut refusals)) = self.slot_to_settle(&held) else {
            return;
        };
        refusals.extend(self.world.settle_refusals(held.at, held.number, held.lock, None));
        let slot = self.slots[slot].as_ref().expect("just found");
        if slot.session.is_some() {
            // The session is renewed instead (B-156).
            refusals.push(ErrorKind::InvalidOperation);
        }
        if let Some(until) = check_result("renew", &refusals, slot.receiver.renew(held.key, &Wait::FOREVER)) {
            assert_eq!(until.0, self.world.renewed(held.at, held.number), "the new end (B-154)");
        }
    }
}
