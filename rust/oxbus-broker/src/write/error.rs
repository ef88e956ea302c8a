// SPDX-License-Identifier: Apache-2.0
//! Why a write did not happen, or may not have.

use oxbus_model::{Counter, Effect, Error};
use oxbus_store::LockLost;
use oxbus_store::shard_log::Lsn;

use crate::shard::SessionLost;

/// An entry that may reach the journal after its caller has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnconfirmedEntry {
    /// The epoch under which it was written.
    pub epoch: u64,
    /// Its number.
    pub lsn: Lsn,
}

/// Why a write did not happen, or may not have.
#[derive(Debug)]
pub struct WriteError {
    /// The reason.
    pub cause: Cause,
    /// With [`Effect::None`] the write is as it was and may go elsewhere.
    pub effect: Effect,
    /// The entry, when the store did not answer in time. Fenced it never counts, and the write may go elsewhere too.
    pub unconfirmed: Option<UnconfirmedEntry>,
}

/// The reason of a failed write.
#[derive(Debug)]
pub enum Cause {
    /// The lock of the settlement at that position is over.
    LockLost(usize),
    /// A session is not its receiver's any more.
    SessionLost,
    /// These messages are not scheduled.
    NotScheduled(Vec<Counter>),
    /// The shard did not take it.
    Refused(Error),
}

impl WriteError {
    /// Nothing happened.
    pub(super) fn none(cause: Cause) -> Self {
        Self {
            cause,
            effect: Effect::None,
            unconfirmed: None,
        }
    }

    /// Nothing was stored: the write may go elsewhere.
    pub fn is_definite(&self) -> bool {
        self.effect == Effect::None
    }

    /// The error for the caller. `lost` makes it for a lock, a session or a schedule that is over.
    pub fn or_lost(self, lost: impl FnOnce(&Cause) -> Error) -> Error {
        match self.cause {
            Cause::Refused(error) => error,
            cause => lost(&cause),
        }
    }
}

/// Nothing happened, unless the error says otherwise.
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

/// For writes without locks, sessions and schedules of their callers.
impl From<WriteError> for Error {
    fn from(error: WriteError) -> Self {
        error.or_lost(|cause| unreachable!("the write has no lock, session or schedule to lose: {cause:?}"))
    }
}
