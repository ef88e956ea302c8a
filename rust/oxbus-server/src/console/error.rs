// SPDX-License-Identifier: Apache-2.0
//! Error responses of the console: a status, and what happened and what to do as JSON.

use axum::body::Body;
use hyper::header::{HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use oxbus_model::{Error, ErrorKind};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::json::json_response;

/// The reason for refusing a request.
#[derive(Debug)]
pub(super) struct ConsoleError {
    pub(super) status: StatusCode,
    pub(super) detail: String,
    pub(super) retry_after_seconds: Option<u64>,
}

pub(super) type Result<T> = std::result::Result<T, ConsoleError>;

impl ConsoleError {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            status,
            detail: detail.into(),
            retry_after_seconds: None,
        }
    }

    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(super) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, detail)
    }

    pub(super) fn to_response(&self) -> Response<Body> {
        let mut response = json_response(self.status, &json!({ "error": self.detail }));
        if let Some(seconds) = self.retry_after_seconds {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<Error> for ConsoleError {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::EntityNotFound | ErrorKind::MessageNotFound => StatusCode::NOT_FOUND,
            ErrorKind::ServerBusy | ErrorKind::PartitionUnavailable | ErrorKind::Closed | ErrorKind::Timeout => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            ErrorKind::InvalidArgument
            | ErrorKind::InvalidOperation
            | ErrorKind::InvalidRule
            | ErrorKind::KeyMismatch
            | ErrorKind::EntityDisabled => StatusCode::BAD_REQUEST,
            ErrorKind::EntityAlreadyExists => StatusCode::CONFLICT,
            ErrorKind::MessageSizeExceeded => StatusCode::PAYLOAD_TOO_LARGE,
            ErrorKind::QuotaExceeded => StatusCode::INSUFFICIENT_STORAGE,
            ErrorKind::NotSupported => StatusCode::NOT_IMPLEMENTED,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.detail())
    }
}

/// The value of a JSON body.
pub(super) fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| ConsoleError::bad_request(format!("the body is not valid: {error}")))
}
