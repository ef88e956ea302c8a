// SPDX-License-Identifier: Apache-2.0
//! Refusals: a status, and `<Error><Code/><Detail/></Error>` as SDKs read it (B-463, B-464).

use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use oxbus_model::{Error, ErrorKind};
use quick_xml::escape::partial_escape;

use super::HttpResponse;
use crate::sas::{AccessDenied, log_missing_entity};

/// Why a request is not done.
#[derive(Debug)]
pub(crate) struct HttpError {
    status: StatusCode,
    sub_code: u32,
    detail: String,
    /// What the client names is not there.
    is_entity_missing: bool,
}

/// What is asked for: the same error has another status for messages and for entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Area {
    Messages,
    Entities,
}

impl HttpError {
    pub(crate) fn new(status: StatusCode, sub_code: u32, detail: impl Into<String>) -> Self {
        Self {
            status,
            sub_code,
            detail: detail.into(),
            is_entity_missing: false,
        }
    }

    /// Of a request that is wrong in itself.
    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, 40000, detail)
    }

    /// Of an error of the broker.
    pub(crate) fn of(area: Area, error: &Error) -> Self {
        let (status, sub_code) = status(area, error.kind());
        Self {
            is_entity_missing: error.kind() == ErrorKind::EntityNotFound,
            ..Self::new(status, sub_code, error.detail())
        }
    }

    /// Says in the log that the entity is not there, if that is why.
    pub(super) fn log_missing_entity(&self, entity: &str, key_name: &str) {
        if self.is_entity_missing {
            log_missing_entity(entity, Some(key_name));
        }
    }

    /// As an answer.
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
        let status = StatusCode::from_u16(denied.status()).expect("a status");
        Self::new(status, denied.sub_code(), denied.detail())
    }
}

/// Status and sub code of a kind of error.
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
    fn every_kind_has_a_status_of_an_error_and_a_sub_code_that_begins_like_it() {
        // B-464.
        for area in [Area::Messages, Area::Entities] {
            for kind in ErrorKind::ALL {
                let (status, sub_code) = status(area, kind);
                assert!(status.is_client_error() || status.is_server_error(), "{kind:?}");
                // All of the server's own begin with 500, "busy" too.
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
    fn what_may_work_later_is_told_apart_from_what_will_not() {
        for kind in ErrorKind::ALL.into_iter().filter(|kind| kind.is_transient()) {
            let (status, _) = status(Area::Messages, kind);
            let is_by_itself = matches!(kind, ErrorKind::QuotaExceeded | ErrorKind::SessionCannotBeLocked);
            assert_eq!(status.is_server_error(), !is_by_itself, "{kind:?}");
        }
    }

    #[test]
    fn details_are_escaped() {
        let error = Error::new(ErrorKind::InvalidRule, "a < b & 'c'");
        let response = HttpError::of(Area::Entities, &error);
        assert!(format!("{:?}", response.to_response()).contains("a &lt; b &amp; 'c'"));
    }
}
