// SPDX-License-Identifier: Apache-2.0
//! Conditions and statuses of servers as kinds of errors, as the SDK maps them to its exceptions.

use oxbus_amqp::performative::condition;
use oxbus_model::ErrorKind;

use crate::kind::ClientErrorKind;

/// The kind of a condition.
pub(crate) fn kind_of(name: &str) -> ClientErrorKind {
    use ClientErrorKind::{Broker, Connection, Service, Unauthorized};
    match name {
        condition::MESSAGE_SIZE_EXCEEDED => Broker(ErrorKind::MessageSizeExceeded),
        condition::RESOURCE_LIMIT_EXCEEDED => Broker(ErrorKind::QuotaExceeded),
        condition::UNAUTHORIZED_ACCESS | "com.microsoft:auth-failed" => Unauthorized,
        condition::NOT_FOUND => Broker(ErrorKind::EntityNotFound),
        "com.microsoft:message-not-found" => Broker(ErrorKind::MessageNotFound),
        "com.microsoft:message-lock-lost" => Broker(ErrorKind::MessageLockLost),
        "com.microsoft:session-lock-lost" => Broker(ErrorKind::SessionLockLost),
        "com.microsoft:session-cannot-be-locked" => Broker(ErrorKind::SessionCannotBeLocked),
        "com.microsoft:entity-disabled" => Broker(ErrorKind::EntityDisabled),
        "com.microsoft:entity-already-exists" => Broker(ErrorKind::EntityAlreadyExists),
        "com.microsoft:server-busy" => Broker(ErrorKind::ServerBusy),
        "com.microsoft:timeout" | "com.microsoft:operation-cancelled" => Broker(ErrorKind::Timeout),
        "com.microsoft:argument-error" | "com.microsoft:argument-out-of-range" => Broker(ErrorKind::InvalidArgument),
        condition::NOT_ALLOWED | condition::PRECONDITION_FAILED | "com.microsoft:precondition-failed" => {
            Broker(ErrorKind::InvalidOperation)
        }
        condition::NOT_IMPLEMENTED => Broker(ErrorKind::NotSupported),
        condition::TRANSACTION_UNKNOWN_ID | condition::TRANSACTION_ROLLBACK => Broker(ErrorKind::TransactionOver),
        "amqp:transaction:timeout" => Broker(ErrorKind::TransactionTimeout),
        condition::DETACH_FORCED
        | condition::CONNECTION_FORCED
        | condition::FRAMING_ERROR
        | condition::STOLEN
        | "amqp:unknown-error"
        | "com.microsoft:container-close" => Connection,
        _ => Service,
    }
}

/// The kind of a reply without a condition.
pub(crate) fn kind_of_status(status: i64) -> ClientErrorKind {
    use ClientErrorKind::{Broker, Service, Unauthenticated, Unauthorized};
    match status {
        400 => Broker(ErrorKind::InvalidArgument),
        401 => Unauthenticated,
        403 => Unauthorized,
        404 => Broker(ErrorKind::EntityNotFound),
        408 => Broker(ErrorKind::Timeout),
        409 => Broker(ErrorKind::EntityAlreadyExists),
        410 => Broker(ErrorKind::MessageLockLost),
        501 => Broker(ErrorKind::NotSupported),
        503 => Broker(ErrorKind::ServerBusy),
        _ => Service,
    }
}

#[cfg(test)]
mod tests {
    use oxbus_model::ErrorKind;

    use super::{kind_of, kind_of_status};
    use crate::kind::ClientErrorKind::{Broker, Connection, Service, Unauthenticated, Unauthorized};

    /// The table of the SDK, docs/behaviour.md section 21.6.
    #[test]
    fn conditions_have_the_kinds_of_the_sdk() {
        for (name, kind) in [
            (
                "amqp:link:message-size-exceeded",
                Broker(ErrorKind::MessageSizeExceeded),
            ),
            ("amqp:resource-limit-exceeded", Broker(ErrorKind::QuotaExceeded)),
            ("amqp:unauthorized-access", Unauthorized),
            ("com.microsoft:auth-failed", Unauthorized),
            ("amqp:not-found", Broker(ErrorKind::EntityNotFound)),
            ("com.microsoft:message-lock-lost", Broker(ErrorKind::MessageLockLost)),
            (
                "com.microsoft:session-cannot-be-locked",
                Broker(ErrorKind::SessionCannotBeLocked),
            ),
            ("com.microsoft:server-busy", Broker(ErrorKind::ServerBusy)),
            ("com.microsoft:timeout", Broker(ErrorKind::Timeout)),
            ("amqp:not-allowed", Broker(ErrorKind::InvalidOperation)),
            ("amqp:link:detach-forced", Connection),
            ("amqp:connection:forced", Connection),
            ("amqp:internal-error", Service),
            ("anything:else", Service),
        ] {
            assert_eq!(kind_of(name), kind, "{name}");
        }
    }

    #[test]
    fn statuses_without_a_condition_have_kinds() {
        for (status, kind) in [
            (401, Unauthenticated),
            (403, Unauthorized),
            (404, Broker(ErrorKind::EntityNotFound)),
            (503, Broker(ErrorKind::ServerBusy)),
            (500, Service),
        ] {
            assert_eq!(kind_of_status(status), kind, "{status}");
        }
    }
}
