// SPDX-License-Identifier: Apache-2.0
//! Transactions: atomic, in one partition, up to two minutes and a hundred messages (B-306 … B-330).

use super::delivery::{SettleAction, StreamAt};
use super::message::Content;
use super::{ErrorKind, Refusals, World};

/// How long a transaction may last from its first operation, in milliseconds (B-318).
const LIFE_MS: u64 = 120_000;
/// Messages that a transaction may send (B-319).
const MESSAGES_MAX: usize = 100;

/// The operations of a transaction so far.
#[derive(Debug, Clone, Default)]
pub struct TransactionState {
    /// True if it may include several entities (B-324).
    pub cross_entity: bool,
    /// True if it was committed, was rolled back or timed out.
    pub is_over: bool,
    /// The time, the entity and the partition of the first operation.
    pub began: Option<(u64, usize, u64)>,
    /// The key of its messages to partitioned entities.
    pub key: Option<String>,
    /// Sends: entity, content, scheduled time.
    pub sends: Vec<(usize, Content, Option<u64>)>,
    /// Settlements.
    pub settles: Vec<TransactionSettle>,
    /// States: entity, session, acceptance, state.
    pub states: Vec<(usize, String, u64, Option<Vec<u8>>)>,
}

/// A settlement in a transaction.
#[derive(Debug, Clone)]
pub struct TransactionSettle {
    /// The sub-queue of the message.
    pub at: StreamAt,
    /// Its number.
    pub number: u64,
    /// Its lock.
    pub lock: u64,
    /// The settlement.
    pub action: SettleAction,
    /// When it was called for.
    pub since: u64,
    /// The session and the acceptance of the receiver.
    pub session: Option<(String, u64)>,
}

impl World {
    fn is_late(&self, work: &TransactionState) -> bool {
        work.began.is_some_and(|(since, ..)| self.now >= since + LIFE_MS)
    }

    /// The errors of an operation in a partition.
    fn step_refusals(&self, work: &TransactionState, entity: usize, shard: Option<u64>) -> Refusals {
        let mut refusals = Refusals::new();
        if work.is_over {
            refusals.push(ErrorKind::TransactionOver);
        }
        if self.is_late(work) {
            // The first call after the timeout reports it; later calls report that the transaction is over.
            refusals.extend([ErrorKind::TransactionTimeout, ErrorKind::TransactionOver]);
        }
        if let Some((_, first, known)) = work.began
            && (first != entity && !work.cross_entity || shard.is_some_and(|shard| shard != known))
        {
            refusals.push(ErrorKind::InvalidOperation);
        }
        refusals
    }

    /// The partition of the namespace for a batch, if it is determined.
    fn shard_for(&self, entity: usize, content: &Content) -> Option<u64> {
        match self.key_of(entity, content) {
            Some(key) => Some(self.partition_of(entity, &key)),
            None if self.entities[entity].settings.enable_partitioning => None,
            None => Some(self.entities[entity].home.into()),
        }
    }

    /// The errors of a send in a transaction (B-308 … B-313).
    pub fn transactional_send_refusals(&self, work: &TransactionState, entity: usize, batch: &[Content]) -> Refusals {
        let mut refusals = self.send_refusals(entity, batch);
        refusals.extend(self.step_refusals(work, entity, self.shard_for(entity, &batch[0])));
        let key = self.key_of(entity, &batch[0]);
        let is_partitioned = self.entities[entity].settings.enable_partitioning;
        let other_key = key.is_some() && work.key.is_some() && key != work.key;
        let sessions = self.subscriptions(entity).into_iter();
        let needs_session = sessions
            .into_iter()
            .any(|it| self.entities[it].settings.requires_session);
        if is_partitioned && key.is_none() || other_key || needs_session && batch.iter().any(|it| it.session.is_none())
        {
            refusals.push(ErrorKind::InvalidOperation);
        }
        if work.sends.len() + batch.len() > MESSAGES_MAX {
            refusals.push(ErrorKind::QuotaExceeded);
        }
        refusals
    }

    /// Records a send in a transaction.
    pub fn sent_in(&self, work: &mut TransactionState, entity: usize, batch: &[Content], due: Option<u64>) {
        let shard = self.shard_for(entity, &batch[0]).expect("it was taken");
        work.began.get_or_insert((self.now, entity, shard));
        work.key = work.key.take().or(self.key_of(entity, &batch[0]));
        work.sends
            .extend(batch.iter().map(|content| (entity, content.clone(), due)));
    }

    /// The errors of a list of settlements in a transaction. An error rejects the whole list (B-306, B-310).
    pub fn transactional_settle_refusals(&self, work: &TransactionState, all: &[TransactionSettle]) -> Refusals {
        let mut refusals = Refusals::new();
        let shard_of = |it: &TransactionSettle| self.shard_of(it.at.0, it.number);
        for (position, settle) in all.iter().enumerate() {
            refusals.extend(self.one_settle_refusals(work, settle));
            if shard_of(settle) != shard_of(&all[0]) {
                refusals.push(ErrorKind::InvalidOperation);
            }
            if all[..position].iter().any(|known| known.lock == settle.lock) {
                refusals.push(ErrorKind::MessageAlreadySettled);
            }
        }
        refusals
    }

    fn one_settle_refusals(&self, work: &TransactionState, settle: &TransactionSettle) -> Refusals {
        let mut refusals = self.settle_refusals(settle.at, settle.number, settle.lock, Some(settle.action));
        if let Some((session, id)) = &settle.session {
            refusals.extend(self.session_refusals(settle.at.0, session, *id));
        }
        let shard = self.shard_of(settle.at.0, settle.number);
        refusals.extend(self.step_refusals(work, settle.at.0, Some(shard)));
        if work.settles.iter().any(|known| known.at.0 != settle.at.0) {
            refusals.push(ErrorKind::InvalidOperation);
        }
        if work.settles.iter().any(|known| known.lock == settle.lock) {
            refusals.push(ErrorKind::MessageAlreadySettled);
        }
        refusals
    }

    /// Records a settlement in a transaction.
    pub fn settled_in(&self, work: &mut TransactionState, settle: TransactionSettle) {
        let shard = self.shard_of(settle.at.0, settle.number);
        work.began.get_or_insert((self.now, settle.at.0, shard));
        work.settles.push(settle);
    }

    /// The errors of setting a state in a transaction (B-213).
    pub fn transactional_state_refusals(
        &self,
        work: &TransactionState,
        entity: usize,
        session: &str,
        id: u64,
    ) -> Refusals {
        let mut refusals = self.session_refusals(entity, session, id);
        refusals.extend(self.step_refusals(work, entity, Some(self.shard_of_session(entity, session))));
        refusals
    }

    fn shard_of_session(&self, entity: usize, session: &str) -> u64 {
        let it = &self.entities[entity];
        if it.settings.enable_partitioning {
            self.partition_of(entity, session)
        } else {
            it.home.into()
        }
    }

    /// Records a state in a transaction.
    pub fn state_set_in(
        &self,
        work: &mut TransactionState,
        (entity, session, id): (usize, &str, u64),
        state: Option<Vec<u8>>,
    ) {
        let shard = self.shard_of_session(entity, session);
        work.began.get_or_insert((self.now, entity, shard));
        work.states.push((entity, session.to_owned(), id, state));
    }

    /// The errors of a commit. After an error, nothing was committed.
    pub fn commit_refusals(&self, work: &TransactionState) -> Refusals {
        let mut refusals = self.step_refusals(work, usize::MAX, None);
        refusals.retain(|kind| *kind != ErrorKind::InvalidOperation);
        for (entity, ..) in &work.sends {
            let it = &self.entities[*entity];
            if !it.alive {
                refusals.push(ErrorKind::EntityNotFound);
            }
            if !it.settings.status.allows_send() {
                refusals.push(ErrorKind::EntityDisabled);
            }
        }
        for settle in &work.settles {
            refusals.extend(self.settle_refusals(settle.at, settle.number, settle.lock, None));
            if let Some((session, id)) = &settle.session {
                refusals.extend(self.session_refusals(settle.at.0, session, *id));
            }
        }
        for (entity, session, id, _) in &work.states {
            refusals.extend(self.session_refusals(*entity, session, *id));
        }
        refusals
    }

    /// Records a commit. `scheduled` are the numbers of its scheduled messages, in order.
    ///
    /// # Panics
    /// When a number is wrong.
    pub fn committed(&mut self, work: &TransactionState, scheduled: &[u64]) {
        let mut scheduled = scheduled.iter();
        for (entity, content, due) in &work.sends {
            let is_new = self.remember_if_new(*entity, content);
            let is_waiting = due.is_some_and(|due| due > self.now);
            if due.is_some() {
                let number = *scheduled.next().expect("each scheduled message has a number");
                if is_new {
                    self.entities[*entity].take_number(number);
                }
                if is_new && is_waiting {
                    self.accept(*entity, content.clone(), *due, number);
                }
            }
            // A scheduled time in the past means now (B-234), and activation assigns a new number (B-235).
            if is_new && !is_waiting {
                let partition = self
                    .key_of(*entity, content)
                    .map_or(0, |key| self.partition_of(*entity, &key));
                self.arrive(*entity, content.clone(), Some(partition), self.now);
            }
        }
        for settle in &work.settles {
            self.apply_settlement(settle.at, settle.number, (settle.action, settle.since));
        }
        for (entity, session, _, state) in &work.states {
            self.state_set(*entity, session, state.clone());
        }
        self.forward_all();
    }
}
