// SPDX-License-Identifier: Apache-2.0
//! The errors of calls whose entry the journal did not take, or may not have taken: one table, by the kind of call.
//!
//! What comes in is written before it is in memory, so a refused entry leaves nothing. A settlement is in memory before it
//! is written, so nobody knows whether a refused one lasts: healing keeps it, the end of the process undoes it. A hand-out
//! that is not written is taken back before its caller learns of it.

use oxbus_model::{Effect, Error, ErrorKind};
use oxbus_store::shard_log::{AppendError, LogFailure};

use super::{FaultReason, PartitionFault, Shard};

/// What a call was at when the journal did not take its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// Bringing messages in: nothing is in memory yet.
    Send,
    /// Changing what is there: it is changed in memory already.
    Change,
    /// Handing messages out under locks.
    HandOut,
    /// Handing messages out that are gone then.
    Removal,
}

impl CallKind {
    /// Its name in the log.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Change => "settle",
            Self::HandOut => "receive",
            Self::Removal => "receive_and_delete",
        }
    }
}

impl Shard {
    /// The error of a call that the journal did not take, or may not have taken; a store that failed is out of service.
    #[cold]
    pub(crate) fn fail_call(&self, error: &AppendError, call: CallKind) -> Error {
        self.report_failure(error);
        self.call_error(error, call)
    }

    /// Puts the shard out of service if the store failed.
    pub(crate) fn report_failure(&self, error: &AppendError) {
        match error {
            AppendError::Full
            | AppendError::Late
            | AppendError::Unavailable(LogFailure::Closed)
            | AppendError::Unknown(LogFailure::Closed) => {}
            AppendError::Fenced { .. } => {
                let reason = FaultReason::of(error.to_string(), Some(error.cause()));
                self.health.fail(PartitionFault::NotOwned, reason);
            }
            _ => {
                if !matches!(
                    self.health.fault(),
                    Some(PartitionFault::Failed | PartitionFault::Healing)
                ) {
                    let reason = FaultReason::of(store_failed(error), Some(error.cause()));
                    self.health.fail(PartitionFault::Failed, reason);
                }
            }
        }
    }

    /// The error of a call that the journal did not take, or may not have taken.
    pub(super) fn call_error(&self, error: &AppendError, call: CallKind) -> Error {
        let (kind, cause) = match error {
            AppendError::Full => (ErrorKind::QuotaExceeded, "the disk of the partition is full".to_owned()),
            AppendError::Late => (ErrorKind::Timeout, "the store did not answer in time".to_owned()),
            AppendError::Unavailable(LogFailure::Closed) | AppendError::Unknown(LogFailure::Closed) => {
                (ErrorKind::Closed, "the namespace was closed".to_owned())
            }
            AppendError::Unknown(LogFailure::Silent) => (ErrorKind::Timeout, store_failed(error)),
            _ => (ErrorKind::PartitionUnavailable, store_failed(error)),
        };
        let effect = match error {
            _ if call == CallKind::Change => Effect::Unknown,
            AppendError::Unknown(_) => Effect::Unknown,
            _ => Effect::None,
        };
        let what = match (call, effect) {
            (CallKind::Send, Effect::None) => "nothing was stored",
            (CallKind::Send, _) => "the call took effect or it did not",
            (CallKind::Change, _) => {
                "the change is in memory and lasts once the partition is written anew, but the end of the process undoes it"
            }
            (CallKind::HandOut, Effect::None) => "nothing was handed out",
            (CallKind::HandOut, _) => "nothing was handed out, but the delivery may count after the end of the process",
            (CallKind::Removal, Effect::None) => "nothing was removed or handed out",
            (CallKind::Removal, _) => {
                "nothing was handed out; the messages are there again once the partition is healed, but they may be gone if the \
                 process ends before"
            }
        };
        let advice = match (error, kind, call) {
            (_, ErrorKind::Closed, _) => "open it again and make new handles",
            (AppendError::Full, _, CallKind::Send) => "complete messages, free space on it, or send without a key",
            (AppendError::Full, ..) => "free space on it, then make the call again",
            (AppendError::Late, _, CallKind::Send) => "make the call again, or send without a key",
            (AppendError::Late, ..) => "make the call again",
            (_, _, CallKind::Send) if effect == Effect::Unknown => {
                "look for it once the partition is healed before you make the call again"
            }
            (_, _, CallKind::Change) => "look at the message once the partition is healed",
            _ => "make the call again once the partition is healed",
        };
        let detail = format!("{cause}; {what}; {advice}: partition={}", self.id);
        Error::new(kind, detail)
            .with_effect(effect)
            .with_shared_source(Some(error.cause()))
    }
}

fn store_failed(error: &AppendError) -> String {
    format!("the store failed: {error}")
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::io;

    use oxbus_model::{Effect, ErrorKind, PartitionId};
    use oxbus_store::Wait;
    use oxbus_store::shard_log::{AppendError, LogFailure};

    use super::{CallKind, Shard};

    const ERRORS: [AppendError; 7] = [
        AppendError::Full,
        AppendError::Late,
        AppendError::Fenced { epoch: 2 },
        AppendError::Unavailable(LogFailure::Closed),
        AppendError::Unavailable(LogFailure::Io { errno: Some(5) }),
        AppendError::Unknown(LogFailure::Silent),
        AppendError::Unknown(LogFailure::Io { errno: Some(28) }),
    ];

    #[test]
    fn an_entry_of_which_nobody_knows_has_an_unknown_effect_and_no_other_one_has() {
        let shard = Shard::in_memory(PartitionId(3));
        for error in &ERRORS {
            for call in [CallKind::Send, CallKind::HandOut, CallKind::Removal] {
                let known = !matches!(error, AppendError::Unknown(_));
                let effect = if known { Effect::None } else { Effect::Unknown };
                assert_eq!(
                    shard.call_error(error, call).effect(),
                    Some(effect),
                    "{error:?} {call:?}"
                );
            }
        }
    }

    #[test]
    fn a_refusal_keeps_the_error_of_the_system_and_so_does_the_health() {
        let shard = Shard::in_memory(PartitionId(3));
        let refusal = shard.fail_call(&ERRORS[4], CallKind::Send);
        let later = shard
            .health()
            .check_send(PartitionId(3), &Wait::FOREVER)
            .expect_err("it failed");
        for error in [refusal, later] {
            let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
            assert_eq!(source.and_then(io::Error::raw_os_error), Some(5), "{error:?}");
        }
    }

    #[test]
    fn a_change_that_is_in_memory_is_never_said_to_have_had_no_effect() {
        // A settlement that a full journal refused said that nothing was stored.
        let shard = Shard::in_memory(PartitionId(3));
        for error in &ERRORS {
            let refusal = shard.call_error(error, CallKind::Change);
            assert_eq!(refusal.effect(), Some(Effect::Unknown), "{error:?}");
            assert!(!refusal.detail().contains("nothing was"), "{}", refusal.detail());
        }
        assert_eq!(
            shard.call_error(&ERRORS[0], CallKind::Change).kind(),
            ErrorKind::QuotaExceeded
        );
    }
}
