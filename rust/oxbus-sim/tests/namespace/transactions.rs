// SPDX-License-Identifier: Apache-2.0
//! Two transactions at a time. The second may include several entities.

use oxbus_model::ErrorKind;
use oxbus_sim::model::delivery::SettleAction;
use oxbus_sim::model::transaction::TransactionSettle;
use oxbus_store::Wait;

use super::bus::{Bus, Slot, begin, check_result};
use super::sends::batch;
use super::settles::settlement;
use super::step::Load;

/// Later than the timeout of every open transaction.
const LATER_MS: u64 = 200_000;

impl Bus {
    pub(crate) fn begin(&mut self, work: usize) {
        self.transactions[work] = begin(&self.namespace, work);
    }

    pub(crate) fn send_in(&mut self, work: usize, entity: usize, load: Load) {
        let contents = self.contents(load);
        // Due before the commit, or after it in any case.
        let due_of = |ms: u64| self.world.now + if ms < 1_000 { ms.saturating_sub(500) } else { LATER_MS };
        let due = load.delay_ms.map(due_of);
        let open = &mut self.transactions[work];
        let refusals = self.world.transactional_send_refusals(&open.work, entity, &contents);
        let path = self.world.entities[entity].name.clone();
        let result = self.namespace.sender(&path).and_then(|sender| {
            let batch = batch(&contents, due)?;
            open.transaction.send(&sender, batch, None)
        });
        if let Some(numbers) = check_result("send in a transaction", &refusals, result) {
            self.world.sent_in(&mut open.work, entity, &contents, due);
            if due.is_some() {
                open.numbers.push(numbers);
            }
        }
    }

    pub(crate) fn settle_in(&mut self, work: usize, (pick, count): (usize, usize), action: SettleAction) {
        let Some(held) = self.pick(pick) else { return };
        let Some((slot, mut refusals)) = self.slot_to_settle(&held) else {
            return;
        };
        let slot = self.slots[slot].as_ref().expect("just found");
        // Others of the same receiver, sometimes the same message again.
        let alike: Vec<_> = self
            .held
            .iter()
            .rev()
            .take(40)
            .filter(|it| it.at == held.at && it.session == held.session)
            .collect();
        let others = (1..count).map(|step| alike[(pick + step) % alike.len()]);
        let all: Vec<_> = std::iter::once(&held).chain(others).collect();
        let settles: Vec<TransactionSettle> = all
            .iter()
            .map(|it| TransactionSettle {
                at: it.at,
                number: it.number,
                lock: it.lock,
                action,
                since: self.world.now,
                session: slot.session.clone(),
            })
            .collect();
        let keys: Vec<_> = all.iter().map(|it| it.key).collect();
        let open = &mut self.transactions[work];
        refusals.extend(self.world.transactional_settle_refusals(&open.work, &settles));
        let result = open
            .transaction
            .settle(&slot.receiver, &keys, settlement(action), &Wait::FOREVER);
        if check_result("settle in a transaction", &refusals, result).is_some() {
            for settle in settles {
                self.world.settled_in(&mut open.work, settle);
            }
        }
    }

    pub(crate) fn state_in(&mut self, work: usize, slot: usize, state: Option<u8>) {
        let Some(Slot {
            receiver,
            at,
            session: Some((session, id)),
            ..
        }) = &self.slots[slot]
        else {
            return;
        };
        let open = &mut self.transactions[work];
        let refusals = self.world.transactional_state_refusals(&open.work, at.0, session, *id);
        let state = state.map(|byte| vec![byte; usize::from(byte)]);
        let result = open
            .transaction
            .set_session_state(receiver, state.as_deref(), &Wait::FOREVER);
        if check_result("set state in a transaction", &refusals, result).is_some() {
            self.world.state_set_in(&mut open.work, (at.0, session, *id), state);
        }
    }

    pub(crate) fn commit(&mut self, work: usize) {
        let open = std::mem::replace(&mut self.transactions[work], begin(&self.namespace, work));
        let refusals = self.world.commit_refusals(&open.work);
        let result = open.transaction.commit(&Wait::FOREVER);
        if check_result("commit", &refusals, result).is_some() {
            let numbers = open
                .numbers
                .iter()
                .flat_map(|some| some.lock().expect("one thread").clone());
            let scheduled: Vec<u64> = numbers.map(|number| number.0).collect();
            self.world.committed(&open.work, &scheduled);
        }
    }

    pub(crate) fn roll_back(&mut self, work: usize) {
        let open = std::mem::replace(&mut self.transactions[work], begin(&self.namespace, work));
        if let Err(error) = open.transaction.rollback() {
            let is_late = !self.world.commit_refusals(&open.work).is_empty();
            assert!(
                is_late && error.kind() == ErrorKind::TransactionOver,
                "rollback: {error}"
            );
        }
    }
}
