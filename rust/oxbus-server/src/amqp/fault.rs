// SPDX-License-Identifier: Apache-2.0
//! Maps errors to AMQP conditions, and to statuses of management replies (B-434, B-437).

use oxbus_amqp::performative::{AmqpError, condition as amqp_condition};
use oxbus_model::{Error, ErrorKind};

use crate::sas::AccessDenied;

/// The AMQP condition of an error kind.
pub(super) fn condition(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::MessageLockLost | ErrorKind::MessageAlreadySettled => "com.microsoft:message-lock-lost",
        ErrorKind::SessionLockLost => "com.microsoft:session-lock-lost",
        ErrorKind::SessionCannotBeLocked => "com.microsoft:session-cannot-be-locked",
        ErrorKind::MessageNotFound => "com.microsoft:message-not-found",
        ErrorKind::EntityNotFound => amqp_condition::NOT_FOUND,
        ErrorKind::EntityAlreadyExists => "com.microsoft:entity-already-exists",
        ErrorKind::EntityDisabled => "com.microsoft:entity-disabled",
        ErrorKind::MessageSizeExceeded => amqp_condition::MESSAGE_SIZE_EXCEEDED,
        ErrorKind::QuotaExceeded => amqp_condition::RESOURCE_LIMIT_EXCEEDED,
        ErrorKind::ServerBusy | ErrorKind::PartitionUnavailable => "com.microsoft:server-busy",
        ErrorKind::Timeout => "com.microsoft:timeout",
        ErrorKind::TransactionOver => amqp_condition::TRANSACTION_UNKNOWN_ID,
        ErrorKind::TransactionTimeout => "amqp:transaction:timeout",
        ErrorKind::InvalidOperation
        | ErrorKind::KeyMismatch
        | ErrorKind::ReservationFenced
        | ErrorKind::CheckpointBehind => amqp_condition::NOT_ALLOWED,
        ErrorKind::InvalidArgument | ErrorKind::InvalidRule => "com.microsoft:argument-error",
        ErrorKind::NotSupported => amqp_condition::NOT_IMPLEMENTED,
        // Closed, NamespaceInUse, Corrupt, Storage, Forked.
        _ => amqp_condition::INTERNAL_ERROR,
    }
}

/// The status of an error kind in a management reply.
pub(super) fn status(kind: ErrorKind) -> i32 {
    match kind {
        ErrorKind::MessageLockLost
        | ErrorKind::MessageAlreadySettled
        | ErrorKind::SessionLockLost
        | ErrorKind::SessionCannotBeLocked => 410,
        ErrorKind::MessageNotFound | ErrorKind::EntityNotFound => 404,
        ErrorKind::EntityAlreadyExists => 409,
        ErrorKind::MessageSizeExceeded | ErrorKind::QuotaExceeded => 403,
        ErrorKind::ServerBusy | ErrorKind::PartitionUnavailable => 503,
        ErrorKind::Timeout => 408,
        ErrorKind::EntityDisabled
        | ErrorKind::TransactionOver
        | ErrorKind::TransactionTimeout
        | ErrorKind::InvalidOperation
        | ErrorKind::KeyMismatch
        | ErrorKind::InvalidArgument
        | ErrorKind::InvalidRule
        | ErrorKind::ReservationFenced
        | ErrorKind::CheckpointBehind => 400,
        ErrorKind::NotSupported => 501,
        _ => 500,
    }
}

/// The fault of a broker error.
pub(super) fn of(error: &Error) -> AmqpError {
    AmqpError::new(condition(error.kind()), error.detail().to_owned())
}

/// The fault of a denied access. Logs the denied access.
pub(super) fn access_denied(denied: &AccessDenied) -> AmqpError {
    denied.log();
    AmqpError::new(denied.condition(), denied.detail())
}

#[cfg(test)]
mod tests {
    use oxbus_model::ErrorKind;

    use super::{condition, status};

    #[test]
    fn every_kind_has_a_condition_and_an_error_status() {
        // B-434, B-437.
        for kind in ErrorKind::ALL {
            let condition = condition(kind);
            assert!(
                condition.starts_with("amqp:") || condition.starts_with("com.microsoft:"),
                "{kind:?}"
            );
            assert!((400..=503).contains(&status(kind)), "{kind:?}");
        }
    }

    #[test]
    fn invalid_operations_map_to_not_allowed() {
        // B-439.
        for kind in [ErrorKind::InvalidOperation, ErrorKind::KeyMismatch] {
            assert_eq!((condition(kind), status(kind)), ("amqp:not-allowed", 400));
        }
    }
}
