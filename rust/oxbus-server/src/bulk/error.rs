// SPDX-License-Identifier: Apache-2.0
//! Error responses in JSON, and the mapping of error kinds to HTTP statuses.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use oxbus_model::{Error, ErrorKind};
use oxbus_wire::{ServerError, ServerErrorKind};

use crate::sas::{AccessDenied, DenialReason};

/// An error response.
#[derive(Debug)]
pub(crate) struct BulkError(pub(crate) ServerError);

impl From<Error> for BulkError {
    fn from(error: Error) -> Self {
        Self(ServerError::from(error))
    }
}

impl From<AccessDenied> for BulkError {
    fn from(denied: AccessDenied) -> Self {
        denied.log();
        let kind = match denied.reason {
            DenialReason::MissingRight(_) | DenialReason::WrongAudience(_) => ServerErrorKind::Unauthorized,
            _ => ServerErrorKind::Unauthenticated,
        };
        Self(ServerError::new(kind, denied.detail()))
    }
}

/// Marks a response for an entity that does not exist.
#[derive(Debug, Clone, Copy)]
pub(super) struct MissingEntity;

/// The error for an invalid request.
pub(crate) fn bad_request(detail: impl Into<String>) -> BulkError {
    BulkError::from(Error::new(ErrorKind::InvalidArgument, detail))
}

/// The status of an error kind.
pub(crate) fn status(kind: &ServerErrorKind) -> StatusCode {
    let ServerErrorKind::Broker(kind) = kind else {
        return match kind {
            ServerErrorKind::Unauthenticated | ServerErrorKind::Unauthorized => StatusCode::UNAUTHORIZED,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
    };
    match kind {
        ErrorKind::EntityNotFound | ErrorKind::MessageNotFound => StatusCode::NOT_FOUND,
        ErrorKind::MessageLockLost | ErrorKind::SessionLockLost | ErrorKind::MessageAlreadySettled => StatusCode::GONE,
        ErrorKind::EntityAlreadyExists
        | ErrorKind::SessionCannotBeLocked
        | ErrorKind::InvalidOperation
        | ErrorKind::EntityDisabled
        | ErrorKind::TransactionOver
        | ErrorKind::TransactionTimeout
        | ErrorKind::NamespaceInUse
        | ErrorKind::ReservationFenced
        | ErrorKind::CheckpointBehind => StatusCode::CONFLICT,
        ErrorKind::MessageSizeExceeded => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorKind::QuotaExceeded => StatusCode::INSUFFICIENT_STORAGE,
        ErrorKind::ServerBusy | ErrorKind::PartitionUnavailable | ErrorKind::Closed => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Timeout => StatusCode::GATEWAY_TIMEOUT,
        ErrorKind::NotSupported => StatusCode::NOT_IMPLEMENTED,
        ErrorKind::InvalidArgument | ErrorKind::InvalidRule | ErrorKind::KeyMismatch => StatusCode::BAD_REQUEST,
        // Corrupt, Storage, Forked.
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl IntoResponse for BulkError {
    fn into_response(self) -> Response {
        let status = status(&self.0.kind);
        let json = [(header::CONTENT_TYPE, "application/json")];
        let mut response = (status, json, self.0.to_json()).into_response();
        if matches!(self.0.kind, ServerErrorKind::Broker(ErrorKind::EntityNotFound)) {
            response.extensions_mut().insert(MissingEntity);
        }
        if status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("SharedAccessSignature");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use oxbus_model::ErrorKind;
    use oxbus_wire::ServerErrorKind;

    use super::status;

    #[test]
    fn every_kind_has_an_error_status() {
        for kind in ErrorKind::ALL {
            let status = status(&ServerErrorKind::Broker(kind));
            assert!(status.is_client_error() || status.is_server_error(), "{kind:?}");
        }
    }

    #[test]
    fn only_storage_failures_are_internal_errors() {
        let internal = |kind: &ErrorKind| status(&ServerErrorKind::Broker(*kind)) == StatusCode::INTERNAL_SERVER_ERROR;
        let found: Vec<ErrorKind> = ErrorKind::ALL.into_iter().filter(internal).collect();
        assert_eq!(found, [ErrorKind::Corrupt, ErrorKind::Storage, ErrorKind::Forked]);
    }

    #[test]
    fn transient_errors_have_server_statuses() {
        let transient = ErrorKind::ALL.into_iter().filter(|kind| kind.is_transient());
        for kind in transient.filter(|kind| *kind != ErrorKind::SessionCannotBeLocked) {
            assert!(status(&ServerErrorKind::Broker(kind)).is_server_error(), "{kind:?}");
        }
    }
}
