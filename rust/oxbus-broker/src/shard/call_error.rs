// SPDX-License-Identifier: Apache-2.0
//! Errors of calls whose entry the journal rejected or may not have written.
//!
//! Arriving messages are journaled before they are in memory, so a rejected entry leaves nothing behind. A settlement
//! is in memory before it is journaled, so its effect is unknown after an error: healing keeps it, and the end of the
//! process undoes it. A receive whose entry is not written is taken back before the call returns.

use oxbus_model::{Effect, Error, ErrorKind};
use oxbus_store::shard_log::{AppendError, LogFailure};

use super::{FaultReason, PartitionFault, Shard};

/// The kind of call that failed. It decides the effect and the advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// Adds messages. They are not in memory yet.
    Send,
    /// Changes messages. The change is already in memory.
    Change,
    /// Delivers messages under locks.
    Receive,
    /// Delivers and removes messages.
    ReceiveAndDelete,
}

impl CallKind {
    /// Its name in the log.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Change => "settle",
            Self::Receive => "receive",
            Self::ReceiveAndDelete => "receive_and_delete",
        }
    }
}

impl Shard {
    /// The error for a call whose entry failed. Takes the shard out of service if the store failed.
    #[cold]
    pub(crate) fn fail_call(&self, error: &AppendError, call: CallKind) -> Error {
        self.report_failure(error);
        self.call_error(error, call)
    }

    /// Takes the shard out of service if the store failed.
    pub(crate) fn report_failure(&self, error: &AppendError) {
        match error {
            AppendError::Full
            | AppendError::TimedOut
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

    /// The error for a call whose entry failed.
    pub(super) fn call_error(&self, error: &AppendError, call: CallKind) -> Error {
        let (kind, cause) = match error {
            AppendError::Full => (ErrorKind::QuotaExceeded, "the disk of the partition is full".to_owned()),
            AppendError::TimedOut => (ErrorKind::Timeout, "the store did not answer in time".to_owned()),
            AppendError::Unavailable(LogFailure::Closed) | AppendError::Unknown(LogFailure::Closed) => {
                (ErrorKind::Closed, "the namespace was closed".to_owned())
            }
            AppendError::Unknown(LogFailure::Unresponsive) => (ErrorKind::Timeout, store_failed(error)),
            _ => (ErrorKind::PartitionUnavailable, store_failed(error)),
        };
        let effect = match error {
            _ if call == CallKind::Change => Effect::Unknown,
            AppendError::Unknown(_) => Effect::Unknown,
            _ => Effect::None,
        };
        let what = match (call, effect) {
            (CallKind::Send, Effect::None) => "nothing was stored",
            (CallKind::Send, _) => "the call may have taken effect",
            (CallKind::Change, _) => {
                "the change is in memory and becomes durable once the partition is healed; the end of the process undoes it"
            }
            (CallKind::Receive, Effect::None) => "nothing was delivered",
            (CallKind::Receive, _) => "nothing was delivered, but the delivery may count after the end of the process",
            (CallKind::ReceiveAndDelete, Effect::None) => "nothing was removed or delivered",
            (CallKind::ReceiveAndDelete, _) => {
                "nothing was delivered; the messages are available again once the partition is healed, but may be lost if \
                 the process ends before"
            }
        };
        let advice = match (error, kind, call) {
            (_, ErrorKind::Closed, _) => "open it again and make new handles",
            (AppendError::Full, _, CallKind::Send) => "complete messages, free space on it, or send without a key",
            (AppendError::Full, ..) => "free space on it, then make the call again",
            (AppendError::TimedOut, _, CallKind::Send) => "make the call again, or send without a key",
            (AppendError::TimedOut, ..) => "make the call again",
            (_, _, CallKind::Send) if effect == Effect::Unknown => {
                "once the partition is healed, look for it before you make the call again"
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
        AppendError::TimedOut,
        AppendError::Fenced { epoch: 2 },
        AppendError::Unavailable(LogFailure::Closed),
        AppendError::Unavailable(LogFailure::Io { errno: Some(5) }),
        AppendError::Unknown(LogFailure::Unresponsive),
        AppendError::Unknown(LogFailure::Io { errno: Some(28) }),
    ];

    #[test]
    fn only_an_unconfirmed_entry_has_an_unknown_effect() {
        let shard = Shard::in_memory(PartitionId(3));
        for error in &ERRORS {
            for call in [CallKind::Send, CallKind::Receive, CallKind::ReceiveAndDelete] {
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
    fn call_error_and_health_keep_the_error_of_the_system() {
        let shard = Shard::in_memory(PartitionId(3));
        let error_of_call = shard.fail_call(&ERRORS[4], CallKind::Send);
        let later = shard
            .health()
            .check_send(PartitionId(3), &Wait::FOREVER)
            .expect_err("it failed");
        for error in [error_of_call, later] {
            let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
            assert_eq!(source.and_then(io::Error::raw_os_error), Some(5), "{error:?}");
        }
    }

    #[test]
    fn a_change_in_memory_is_never_reported_without_effect() {
        // Regression: after a settlement that a full journal rejected, the error claimed that nothing was stored.
        let shard = Shard::in_memory(PartitionId(3));
        for error in &ERRORS {
            let error_of_call = shard.call_error(error, CallKind::Change);
            assert_eq!(error_of_call.effect(), Some(Effect::Unknown), "{error:?}");
            assert!(
                !error_of_call.detail().contains("nothing was"),
                "{}",
                error_of_call.detail()
            );
        }
        assert_eq!(
            shard.call_error(&ERRORS[0], CallKind::Change).kind(),
            ErrorKind::QuotaExceeded
        );
    }
}
