// SPDX-License-Identifier: Apache-2.0
//! Settles a list of messages: all writes begin before the call waits for the first, and the call waits for all.
//!
//! If a partition fails, the messages of the others are still settled, and the error lists the unsettled ones
//! (B-095, [decision 0026](../../../../docs/decisions/0026-effects-of-errors.md)). Partitions out of service come last,
//! so that a hung partition does not delay the others.

use oxbus_model::{Effect, Error, ErrorKind, Moment, Result, SequenceNumber};
use oxbus_store::suspended::run_now;
use oxbus_store::{LockKey, Wait};

use super::numbered_error::with_sequence_numbers;
use super::receiver::Receiver;
use super::settlement::{SettleKey, Settlement};
use crate::entity::Entity;
use crate::shard::{Cell, Meter};
use crate::write::{Removal, ShardWrite, WriteOperation};

/// The failure of a list: some messages are not settled, or may not be.
#[derive(Debug)]
pub struct SettleListError {
    /// The error for the caller, with the sequence numbers of these messages; its effect shows whether others were
    /// settled.
    pub error: Error,
    /// Positions of all these messages, ascending.
    pub positions: Vec<usize>,
    /// Positions of messages whose lock was lost, ascending.
    pub lost: Vec<usize>,
}

impl From<SettleListError> for Error {
    fn from(error: SettleListError) -> Self {
        error.error
    }
}

/// Result of a list so far.
#[derive(Default)]
struct SettleProgress {
    lost: Vec<usize>,
    failed: Vec<usize>,
    /// The first error, or the first one whose effect is unknown.
    error: Option<Error>,
}

impl SettleProgress {
    fn fail(&mut self, positions: impl IntoIterator<Item = usize>, error: Error) {
        self.failed.extend(positions);
        let known = self
            .error
            .as_ref()
            .is_some_and(|it| it.effect() != Some(Effect::Unknown));
        if self.error.is_none() || (known && error.effect() == Some(Effect::Unknown)) {
            self.error = Some(error);
        }
    }

    /// Records a failed settlement.
    fn refuse(&mut self, position: usize, error: Error) {
        if error.kind() == ErrorKind::MessageLockLost {
            self.lost.push(position);
        } else {
            self.fail([position], error);
        }
    }

    /// The positions of messages whose lock was lost; if others failed, the error with all unsettled messages.
    fn finish(mut self, at: &[SettleKey]) -> std::result::Result<Vec<usize>, SettleListError> {
        self.lost.sort_unstable();
        let Some(error) = self.error else {
            return Ok(self.lost);
        };
        let mut positions = self.failed;
        positions.extend_from_slice(&self.lost);
        positions.sort_unstable();
        let effect = match error.effect() {
            Some(Effect::Unknown) => Some(Effect::Unknown),
            _ if positions.len() < at.len() => Some(Effect::Partial),
            None if self.lost.is_empty() => None,
            _ => Some(Effect::None),
        };
        let numbers: Vec<SequenceNumber> = positions.iter().map(|position| number(at[*position])).collect();
        Err(SettleListError {
            error: with_sequence_numbers(&error, &numbers, effect),
            positions,
            lost: self.lost,
        })
    }
}

fn number(at: SettleKey) -> SequenceNumber {
    Entity::sequence_number(at.index, at.key.counter)
}

impl Receiver {
    /// Settles many messages with one outcome. Returns the positions of those whose lock was lost. Fails if others
    /// could not be settled, after settling the rest.
    pub fn settle_many(
        &self,
        at: &[SettleKey],
        settlement: Settlement<'_>,
        wait: &Wait<'_>,
    ) -> std::result::Result<Vec<usize>, SettleListError> {
        run_now(self.settle_many_async(at, settlement, wait))
    }

    /// [`Receiver::settle_many`] for a call that may be suspended.
    pub async fn settle_many_async(
        &self,
        at: &[SettleKey],
        settlement: Settlement<'_>,
        wait: &Wait<'_>,
    ) -> std::result::Result<Vec<usize>, SettleListError> {
        if matches!(settlement, Settlement::Complete) {
            return self.complete_many_async(at, wait).await;
        }
        self.check_list(at)?;
        let mut progress = SettleProgress::default();
        let mut writes = Vec::with_capacity(at.len());
        for round in self.rounds(at) {
            for (position, at) in at.iter().enumerate().filter(|(_, at)| round >> at.index & 1 == 1) {
                match self.settle_write(*at, settlement, wait) {
                    Ok((cell, write)) => writes.push((position, cell, write)),
                    Err(error) => progress.refuse(position, error),
                }
            }
        }
        let mut tickets = Vec::with_capacity(writes.len());
        for (position, cell, write) in &mut writes {
            match self.begin((at[*position], cell), write, wait) {
                Ok(ticket) => tickets.push((*position, ticket)),
                Err(error) => progress.refuse(*position, error),
            }
        }
        // Starts all syncs before waiting for the first: one for each cell except the first, at its last message.
        let mut syncing = tickets.last().map_or(0u64, |(position, _)| 1 << at[*position].index);
        for (position, ticket) in tickets.iter().rev() {
            let index = at[*position].index;
            if ticket.is_pending() && syncing >> index & 1 == 0 {
                syncing |= 1 << index;
                ticket.start_sync();
            }
        }
        for (position, ticket) in tickets.into_iter().rev() {
            if let Err(error) = self.finish(at[position], ticket, wait).await {
                progress.fail([position], error);
            }
        }
        progress.finish(at)
    }

    /// Completes many messages. Returns the positions of those whose lock was lost. Fails if others could not be
    /// completed, after completing the rest.
    pub fn complete_many(&self, at: &[SettleKey], wait: &Wait<'_>) -> std::result::Result<Vec<usize>, SettleListError> {
        run_now(self.complete_many_async(at, wait))
    }

    /// [`Receiver::complete_many`] for a call that may be suspended.
    pub async fn complete_many_async(
        &self,
        at: &[SettleKey],
        wait: &Wait<'_>,
    ) -> std::result::Result<Vec<usize>, SettleListError> {
        self.check_list(at)?;
        let moment = self.entity.core().clock().moment();
        if self.session.is_none() {
            let mut progress = SettleProgress::default();
            self.complete_all(at, moment, &mut progress, wait).await;
            return progress.finish(at);
        }
        let mut in_session = Vec::with_capacity(at.len());
        let mut positions = Vec::with_capacity(at.len());
        let mut progress = SettleProgress::default();
        for (position, at) in at.iter().enumerate() {
            match self.may_settle(*at, moment.ticks, wait) {
                Ok(true) => {
                    in_session.push(*at);
                    positions.push(position);
                }
                Ok(false) => progress.lost.push(position),
                Err(error) => progress.fail([position], error),
            }
        }
        let mut done = SettleProgress::default();
        self.complete_all(&in_session, moment, &mut done, wait).await;
        progress.lost.extend(done.lost.into_iter().map(|it| positions[it]));
        if let Some(error) = done.error {
            progress.fail(done.failed.into_iter().map(|it| positions[it]), error);
        }
        progress.finish(at)
    }

    async fn complete_all(&self, at: &[SettleKey], moment: Moment, progress: &mut SettleProgress, wait: &Wait<'_>) {
        let keys: Vec<LockKey> = at.iter().map(|at| at.key).collect();
        let mut writes = Vec::with_capacity(at.len().min(usize::from(self.entity.partitions())));
        for round in self.rounds(at) {
            let mut end = 0;
            for run in at.chunk_by(|a, b| a.index == b.index) {
                let start = end;
                end += run.len();
                if round >> run[0].index & 1 == 0 {
                    continue;
                }
                match self.serving_cell(run[0], wait) {
                    Ok(Some(cell)) => {
                        let remove = WriteOperation::Remove {
                            cell,
                            sub_queue: self.sub_queue,
                            removal: Removal::Completed(&keys[start..end]),
                        };
                        writes.push((start..end, cell, ShardWrite::of(remove, moment)));
                    }
                    Ok(None) => progress.lost.extend(start..end),
                    Err(error) => progress.fail(start..end, error),
                }
            }
        }
        let mut tickets = Vec::with_capacity(writes.len());
        for (run, cell, write) in &mut writes {
            let begun = write.begin(cell, cell.durability(None), wait);
            self.note_settled(&at[run.clone()]);
            match begun {
                Ok(ticket) => {
                    let lost = ticket.done().lost.iter().map(|position| run.start + position);
                    progress.lost.extend(lost);
                    let lost = &ticket.done().lost;
                    let settled = keys[run.clone()]
                        .iter()
                        .enumerate()
                        .filter(|(at, _)| lost.binary_search(at).is_err());
                    cell.meter_settled(Meter::Completed, settled.map(|(_, key)| *key));
                    tickets.push((run.clone(), ticket));
                }
                Err(error) => progress.fail(run.clone(), error.into()),
            }
        }
        // Starts all syncs before waiting for the first.
        for (_, ticket) in tickets.iter().skip(1) {
            ticket.start_sync();
        }
        for (run, mut ticket) in tickets {
            ticket.until_committed(wait).await;
            if let Err(error) = ticket.finish(wait) {
                let failed = without_lost(run, &progress.lost);
                progress.fail(failed, error.into());
            }
        }
    }

    /// Fails if the call cannot settle any message.
    fn check_list(&self, at: &[SettleKey]) -> std::result::Result<(), SettleListError> {
        let all_failed = |error| SettleListError {
            error,
            positions: (0..at.len()).collect(),
            lost: Vec::new(),
        };
        self.check_settles().map_err(all_failed)
    }

    /// The cells of a list, one bit each: first those in service, then the others if there are any.
    fn rounds(&self, at: &[SettleKey]) -> impl Iterator<Item = u64> + use<> {
        let all = at.iter().fold(0u64, |all, at| all | 1 << at.index);
        let serves = |index: &usize| all >> index & 1 == 1 && self.entity.shard(*index).health().serves();
        let serving = (0..u64::BITS as usize)
            .filter(serves)
            .fold(0u64, |some, index| some | 1 << index);
        [serving, all & !serving].into_iter().filter(|round| *round != 0)
    }

    /// Returns the cell of a lock, if it exists. Fails if the cell is out of service.
    fn serving_cell(&self, at: SettleKey, wait: &Wait<'_>) -> Result<Option<&Cell>> {
        let shard = self.entity.shard(at.index);
        shard.health().check_serves(shard.id(), wait)?;
        Ok(self.entity.cell(at.index))
    }
}

/// The positions of a range without those of lost messages.
fn without_lost(run: std::ops::Range<usize>, lost: &[usize]) -> Vec<usize> {
    run.filter(|position| !lost.contains(position)).collect()
}
