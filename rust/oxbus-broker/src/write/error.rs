// SPDX-License-Identifier: Apache-2.0
//! Errors of writes.

use oxbus_model::{Counter, Effect, Error};
use oxbus_store::LockLost;
use oxbus_store::shard_log::Lsn;

use crate::shard::SessionLost;

/// An entry that may reach the journal after its caller has stopped waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnconfirmedEntry {
    /// The epoch in which it was appended.
    pub epoch: u64,
    /// Its number.
    pub lsn: Lsn,
}

/// A write that failed, or may have failed.
#[derive(Debug)]
pub struct WriteError {
    /// The reason.
    pub cause: Cause,
    /// With [`Effect::None`] the write is unchanged and may go to another shard.
    pub effect: Effect,
    /// The entry, if the store did not respond in time. Once it is fenced, the write may go to another shard too.
    pub unconfirmed: Option<UnconfirmedEntry>,
}

/// Why a write failed.
#[derive(Debug)]
pub enum Cause {
    /// The lock of the settlement at this position is lost.
    LockLost(usize),
    /// A session lock is lost.
    SessionLost,
    /// These messages are not scheduled.
    NotScheduled(Vec<Counter>),
    /// The shard rejected it.
    Refused(Error),
}

impl WriteError {
    /// The error of a write that changed nothing.
    pub(super) fn none(cause: Cause) -> Self {
        Self {
            cause,
            effect: Effect::None,
            unconfirmed: None,
        }
    }

    /// True if nothing was stored, so that the write may go elsewhere.
    pub fn is_definite(&self) -> bool {
        self.effect == Effect::None
    }

    /// The error for the caller. `lost` makes the error for a lost lock or session, or for a message that is not
    /// scheduled.
    pub fn or_lost(self, lost: impl FnOnce(&Cause) -> Error) -> Error {
        match self.cause {
            Cause::Refused(error) => error,
            cause => lost(&cause),
        }
    }
}

/// The effect is [`Effect::None`], unless the error names one.
impl From<Error> for WriteError {
    fn from(error: Error) -> Self {
        Self {
            effect: error.effect().unwrap_or(Effect::None),
            cause: Cause::Refused(error),
            unconfirmed: None,
        }
    }
}

impl From<LockLost> for WriteError {
    fn from(_: LockLost) -> Self {
        Self::none(Cause::LockLost(0))
    }
}

impl From<SessionLost> for WriteError {
    fn from(_: SessionLost) -> Self {
        Self::none(Cause::SessionLost)
    }
}

/// For writes that have no locks, sessions or scheduled messages.
impl From<WriteError> for Error {
    fn from(error: WriteError) -> Self {
        error.or_lost(|cause| unreachable!("the write has no lock, session or schedule to lose: {cause:?}"))
    }
}
