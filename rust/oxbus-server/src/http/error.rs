// SPDX-License-Identifier: Apache-2.0
//! Error responses: a status, and `<Error><Code/><Detail/></Error>` as SDKs read it (B-463, B-464).

use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use oxbus_model::{Error, ErrorKind};
use quick_xml::escape::partial_escape;

use super::HttpResponse;
use crate::sas::{AccessDenied, log_missing_entity};

/// The reason for rejecting a request.
#[derive(Debug)]
pub(crate) struct HttpError {
    status: StatusCode,
    sub_code: u32,
    detail: String,
    /// True if the entity does not exist.
    is_entity_missing: bool,
}

/// The API of the request. The same error has different statuses for messages and for entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Area {
    Messages,
    Entities,
}

/// The text of a refusal, carried by its response to where refusals are counted.
#[derive(Debug, Clone)]
pub(super) struct RefusalText(pub(super) String);

impl HttpError {
    pub(crate) fn new(status: StatusCode, sub_code: u32, detail: impl Into<String>) -> Self {
        Self {
            status,
            sub_code,
            detail: detail.into(),
            is_entity_missing: false,
        }
    }

    /// An invalid request.
    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, 40000, detail)
    }

    /// A broker error.
    pub(crate) fn of(area: Area, error: &Error) -> Self {
        let (status, sub_code) = status(area, error.kind());
        Self {
            is_entity_missing: error.kind() == ErrorKind::EntityNotFound,
            ..Self::new(status, sub_code, error.detail())
        }
    }

    /// Logs the error if it is a missing entity.
    pub(super) fn log_missing_entity(&self, entity: &str, key_name: &str) {
        if self.is_entity_missing {
            log_missing_entity(entity, Some(key_name));
        }
    }

    /// The error as a response.
    pub(crate) fn to_response(&self) -> HttpResponse {
        let Self {
            status,
            sub_code,
            detail,
            ..
        } = self;
        let code = status.as_u16();
        let text = format!(
            "<Error><Code>{code}</Code><Detail>SubCode={sub_code}. {}</Detail></Error>",
            partial_escape(detail.as_str())
        );
        let mut response = Response::new(Full::from(text));
        *response.status_mut() = *status;
        response.extensions_mut().insert(RefusalText(detail.clone()));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml; charset=utf-8"));
        if *status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("SharedAccessSignature"));
        }
        response
    }
}

impl From<AccessDenied> for HttpError {
    fn from(denied: AccessDenied) -> Self {
        denied.log();
        let status = StatusCode::from_u16(denied.status()).expect("a valid status");
        Self::new(status, denied.sub_code(), denied.detail())
    }
}

/// The status and sub code of an error kind.
fn status(area: Area, kind: ErrorKind) -> (StatusCode, u32) {
    match kind {
        ErrorKind::EntityNotFound if area == Area::Messages => (StatusCode::GONE, 41000),
        ErrorKind::EntityNotFound
        | ErrorKind::MessageNotFound
        | ErrorKind::MessageLockLost
        | ErrorKind::SessionLockLost
        | ErrorKind::MessageAlreadySettled => (StatusCode::NOT_FOUND, 40400),
        ErrorKind::EntityAlreadyExists => (StatusCode::CONFLICT, 40900),
        ErrorKind::MessageSizeExceeded | ErrorKind::QuotaExceeded => (StatusCode::FORBIDDEN, 40300),
        ErrorKind::ServerBusy | ErrorKind::PartitionUnavailable | ErrorKind::Closed => {
            (StatusCode::SERVICE_UNAVAILABLE, 50004)
        }
        ErrorKind::InvalidArgument
        | ErrorKind::InvalidOperation
        | ErrorKind::InvalidRule
        | ErrorKind::KeyMismatch
        | ErrorKind::EntityDisabled
        | ErrorKind::SessionCannotBeLocked
        | ErrorKind::TransactionOver
        | ErrorKind::TransactionTimeout
        | ErrorKind::ReservationFenced
        | ErrorKind::CheckpointBehind => (StatusCode::BAD_REQUEST, 40000),
        ErrorKind::NotSupported => (StatusCode::NOT_IMPLEMENTED, 50100),
        // Timeout, NamespaceInUse, Corrupt, Storage, Forked.
        _ => (StatusCode::INTERNAL_SERVER_ERROR, 50000),
    }
}

#[cfg(test)]
mod tests {
    use hyper::StatusCode;
    use oxbus_model::{Error, ErrorKind};

    use super::{Area, HttpError, status};

    #[test]
    fn every_kind_has_an_error_status_and_a_matching_sub_code() {
        // B-464.
        for area in [Area::Messages, Area::Entities] {
            for kind in ErrorKind::ALL {
                let (status, sub_code) = status(area, kind);
                assert!(status.is_client_error() || status.is_server_error(), "{kind:?}");
                // All sub codes of server errors begin with 500, including that of "busy".
                let first = if status == StatusCode::SERVICE_UNAVAILABLE {
                    500
                } else {
                    status.as_u16()
                };
                assert_eq!(sub_code / 100, u32::from(first), "{kind:?}");
            }
        }
    }

    #[test]
    fn a_missing_entity_is_gone_for_messages_and_not_found_for_management() {
        // B-441, B-459.
        assert_eq!(status(Area::Messages, ErrorKind::EntityNotFound).0, StatusCode::GONE);
        assert_eq!(
            status(Area::Entities, ErrorKind::EntityNotFound).0,
            StatusCode::NOT_FOUND
        );
    }

    #[test]
    fn transient_errors_have_server_statuses() {
        for kind in ErrorKind::ALL.into_iter().filter(|kind| kind.is_transient()) {
            let (status, _) = status(Area::Messages, kind);
            let is_client_error = matches!(kind, ErrorKind::QuotaExceeded | ErrorKind::SessionCannotBeLocked);
            assert_eq!(status.is_server_error(), !is_client_error, "{kind:?}");
        }
    }

    #[test]
    fn details_are_escaped() {
        let error = Error::new(ErrorKind::InvalidRule, "a < b & 'c'");
        let response = HttpError::of(Area::Entities, &error);
        assert!(format!("{:?}", response.to_response()).contains("a &lt; b &amp; 'c'"));
    }
}
