// SPDX-License-Identifier: Apache-2.0
//! From kinds of errors to conditions and statuses: one table for links, settlements and `$management` (B-434, B-437).

use oxbus_amqp::performative::{Fault, condition as amqp};
use oxbus_model::{Error, ErrorKind};

use crate::sas::Refused;

/// Conditions of Service Bus.
const MESSAGE_LOCK_LOST: &str = "com.microsoft:message-lock-lost";
const SESSION_LOCK_LOST: &str = "com.microsoft:session-lock-lost";
const SESSION_CANNOT_BE_LOCKED: &str = "com.microsoft:session-cannot-be-locked";
const MESSAGE_NOT_FOUND: &str = "com.microsoft:message-not-found";
const ENTITY_ALREADY_EXISTS: &str = "com.microsoft:entity-already-exists";
const ENTITY_DISABLED: &str = "com.microsoft:entity-disabled";
const SERVER_BUSY: &str = "com.microsoft:server-busy";
const TIMEOUT: &str = "com.microsoft:timeout";
const ARGUMENT_ERROR: &str = "com.microsoft:argument-error";
const TRANSACTION_TIMEOUT: &str = "amqp:transaction:timeout";

/// The condition of an error, and its status in an answer of `$management`.
fn shown(kind: ErrorKind) -> (&'static str, i32) {
    match kind {
        // What was settled before has no lock any more.
        ErrorKind::MessageLockLost | ErrorKind::MessageAlreadySettled => (MESSAGE_LOCK_LOST, 410),
        ErrorKind::SessionLockLost => (SESSION_LOCK_LOST, 410),
        ErrorKind::SessionCannotBeLocked => (SESSION_CANNOT_BE_LOCKED, 410),
        ErrorKind::MessageNotFound => (MESSAGE_NOT_FOUND, 404),
        ErrorKind::EntityNotFound => (amqp::NOT_FOUND, 404),
        ErrorKind::EntityAlreadyExists => (ENTITY_ALREADY_EXISTS, 409),
        ErrorKind::EntityDisabled => (ENTITY_DISABLED, 400),
        ErrorKind::MessageSizeExceeded => (amqp::MESSAGE_SIZE_EXCEEDED, 403),
        ErrorKind::QuotaExceeded => (amqp::RESOURCE_LIMIT_EXCEEDED, 403),
        ErrorKind::ServerBusy | ErrorKind::PartitionUnavailable => (SERVER_BUSY, 503),
        ErrorKind::Timeout => (TIMEOUT, 408),
        ErrorKind::TransactionOver => (amqp::TRANSACTION_UNKNOWN_ID, 400),
        ErrorKind::TransactionTimeout => (TRANSACTION_TIMEOUT, 408),
        ErrorKind::InvalidOperation
        | ErrorKind::KeyMismatch
        | ErrorKind::ReservationFenced
        | ErrorKind::CheckpointBehind => (amqp::NOT_ALLOWED, 400),
        ErrorKind::InvalidArgument | ErrorKind::InvalidRule => (ARGUMENT_ERROR, 400),
        ErrorKind::NotSupported => (amqp::NOT_IMPLEMENTED, 501),
        // A client opens its link again, and learns what holds now.
        ErrorKind::Closed => (amqp::DETACH_FORCED, 503),
        // NamespaceInUse, Corrupt, Storage, Forked.
        _ => (amqp::INTERNAL_ERROR, 500),
    }
}

/// The condition of an error.
pub(crate) fn condition(kind: ErrorKind) -> &'static str {
    shown(kind).0
}

/// The status of an error in an answer of `$management`.
pub(crate) fn status(kind: ErrorKind) -> i32 {
    shown(kind).1
}

/// An error as it stands on the wire.
pub(crate) fn of(error: &Error) -> Fault {
    Fault::new(condition(error.kind()), error.detail())
}

/// A refusal of a token or of an operation under one, as it stands on the wire.
pub(crate) fn refused(refused: &Refused) -> Fault {
    Fault::new(refused.condition(), refused.detail())
}

#[cfg(test)]
mod tests {
    use oxbus_model::{Error, ErrorKind};

    use super::{condition, of, status};

    #[test]
    fn every_kind_has_a_condition_and_a_status_of_an_error() {
        // B-434, B-437.
        for kind in ErrorKind::ALL {
            assert!((400..=503).contains(&status(kind)), "{kind:?}");
            let condition = condition(kind);
            assert!(
                condition.starts_with("amqp:") || condition.starts_with("com.microsoft:"),
                "{kind:?}"
            );
        }
    }

    #[test]
    fn only_what_the_client_cannot_help_is_an_internal_error() {
        let internal = ErrorKind::ALL.into_iter().filter(|kind| status(*kind) == 500);
        let found: Vec<ErrorKind> = internal.collect();
        assert_eq!(
            found,
            [
                ErrorKind::NamespaceInUse,
                ErrorKind::Corrupt,
                ErrorKind::Storage,
                ErrorKind::Forked
            ]
        );
    }

    #[test]
    fn a_fault_says_the_condition_and_the_text() {
        let fault = of(&Error::new(ErrorKind::MessageLockLost, "gone"));
        assert_eq!(fault.condition.as_str(), "com.microsoft:message-lock-lost");
        assert_eq!(fault.description.as_deref(), Some("gone"));
    }
}
