// SPDX-License-Identifier: Apache-2.0
//! Settles a list of messages: all writes begin before the call waits for the first, and the call waits for all.
//!
//! If a partition fails, the messages of the others are still settled, and the error lists the unsettled ones
//! (B-095, [decision 0026](../../../../docs/decisions/0026-effects-of-errors.md)). Partitions out of service come last,
//! so that a hung partition does not delay the others.

use std::borrow::Cow;
use std::ops::Range;

use oxbus_model::{Effect, Error, ErrorKind, Moment, Result, SequenceNumber};
use oxbus_store::suspended::run_now;
use oxbus_store::{LockKey, Wait};

use super::numbered_error::with_sequence_numbers;
use super::receiver::Receiver;
use super::settlement::{SettleKey, Settlement};
use crate::entity::Entity;
use crate::shard::{Cell, Meter};
use crate::write::{Removal, ShardWrite, Ticket, WriteOperation};

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

/// The positions of a run in a list, its cell, and the write that removes its messages.
type CompletionWrite<'a> = (Range<usize>, &'a Cell, ShardWrite<'a>);

/// Messages that are completed together.
struct CompletionList<'k> {
    at: Cow<'k, [SettleKey]>,
    /// Their positions in the list of the caller; `None` if they are the same.
    positions: Option<Vec<usize>>,
    moment: Moment,
    progress: SettleProgress,
}

impl CompletionList<'_> {
    fn keys(&self) -> Vec<LockKey> {
        self.at.iter().map(|at| at.key).collect()
    }

    /// The position in the list of the caller.
    fn position(positions: Option<&Vec<usize>>, at: usize) -> usize {
        positions.map_or(at, |positions| positions[at])
    }

    /// Records lost locks.
    fn lose(&mut self, lost: impl IntoIterator<Item = usize>) {
        let positions = self.positions.as_ref();
        let lost = lost.into_iter().map(|at| Self::position(positions, at));
        self.progress.lost.extend(lost);
    }

    /// Records messages that could not be completed.
    fn fail(&mut self, failed: impl IntoIterator<Item = usize>, error: Error) {
        let positions = self.positions.as_ref();
        let failed = failed.into_iter().map(|at| Self::position(positions, at));
        self.progress.fail(failed, error);
    }

    /// Waits for the writes.
    fn end(&mut self, tickets: Vec<(Range<usize>, Ticket<'_, '_>)>, wait: &Wait<'_>) {
        for (run, ticket) in tickets {
            if let Err(error) = ticket.finish(wait) {
                let positions = run.map(|at| Self::position(self.positions.as_ref(), at));
                let failed: Vec<usize> = positions.filter(|at| !self.progress.lost.contains(at)).collect();
                self.progress.fail(failed, error.into());
            }
        }
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
        if matches!(settlement, Settlement::Complete) {
            return self.complete_many(at, wait);
        }
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
        let mut list = self.completion_list(at, wait)?;
        let keys = list.keys();
        let mut writes = self.completion_writes(&mut list, &keys, wait);
        let tickets = self.begin_completions(&mut list, &keys, &mut writes, wait);
        list.end(tickets, wait);
        list.progress.finish(at)
    }

    /// [`Receiver::complete_many`] for a call that may be suspended.
    pub async fn complete_many_async(
        &self,
        at: &[SettleKey],
        wait: &Wait<'_>,
    ) -> std::result::Result<Vec<usize>, SettleListError> {
        let mut list = self.completion_list(at, wait)?;
        let keys = list.keys();
        let mut writes = self.completion_writes(&mut list, &keys, wait);
        let mut tickets = self.begin_completions(&mut list, &keys, &mut writes, wait);
        for (_, ticket) in &mut tickets {
            ticket.until_committed(wait).await;
        }
        list.end(tickets, wait);
        list.progress.finish(at)
    }

    /// The messages to complete: those that the session has locked, if there is one.
    fn completion_list<'k>(
        &self,
        at: &'k [SettleKey],
        wait: &Wait<'_>,
    ) -> std::result::Result<CompletionList<'k>, SettleListError> {
        self.check_list(at)?;
        let moment = self.entity.core().clock().moment();
        let mut list = CompletionList {
            at: Cow::Borrowed(at),
            positions: None,
            moment,
            progress: SettleProgress::default(),
        };
        if self.session.is_none() {
            return Ok(list);
        }
        let (mut in_session, mut positions) = (Vec::with_capacity(at.len()), Vec::with_capacity(at.len()));
        for (position, at) in at.iter().enumerate() {
            match self.may_settle(*at, moment.ticks, wait) {
                Ok(true) => {
                    in_session.push(*at);
                    positions.push(position);
                }
                Ok(false) => list.progress.lost.push(position),
                Err(error) => list.progress.fail([position], error),
            }
        }
        (list.at, list.positions) = (Cow::Owned(in_session), Some(positions));
        Ok(list)
    }

    /// The writes of a list, one for each run of messages of one cell.
    fn completion_writes<'a>(
        &'a self,
        list: &mut CompletionList<'_>,
        keys: &'a [LockKey],
        wait: &Wait<'_>,
    ) -> Vec<CompletionWrite<'a>> {
        let at = list.at.clone();
        let mut writes = Vec::with_capacity(at.len().min(usize::from(self.entity.partitions())));
        for round in self.rounds(&at) {
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
                        writes.push((start..end, cell, ShardWrite::of(remove, list.moment)));
                    }
                    Ok(None) => list.lose(start..end),
                    Err(error) => list.fail(start..end, error),
                }
            }
        }
        writes
    }

    /// Begins the writes and all their syncs.
    fn begin_completions<'w, 'a>(
        &self,
        list: &mut CompletionList<'_>,
        keys: &[LockKey],
        writes: &'w mut [CompletionWrite<'a>],
        wait: &Wait<'_>,
    ) -> Vec<(Range<usize>, Ticket<'w, 'a>)> {
        let mut tickets = Vec::with_capacity(writes.len());
        for (run, cell, write) in writes {
            let begun = write.begin(cell, cell.durability(None), wait);
            self.note_settled(&list.at[run.clone()]);
            match begun {
                Ok(ticket) => {
                    let lost = &ticket.done().lost;
                    if !lost.is_empty() {
                        list.lose(lost.iter().map(|position| run.start + position));
                    }
                    let settled = keys[run.clone()]
                        .iter()
                        .enumerate()
                        .filter(|(at, _)| lost.binary_search(at).is_err());
                    cell.meter_settled(Meter::Completed, settled.map(|(_, key)| *key));
                    tickets.push((run.clone(), ticket));
                }
                Err(error) => list.fail(run.clone(), error.into()),
            }
        }
        // Starts all syncs before waiting for the first.
        for (_, ticket) in tickets.iter().skip(1) {
            ticket.start_sync();
        }
        tickets
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
