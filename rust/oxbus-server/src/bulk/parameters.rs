// SPDX-License-Identifier: Apache-2.0
//! Extractors for query parameters and JSON bodies that report errors in the common form.

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Json, Query, Request};
use axum::http::request::Parts;
use oxbus_model::caps::BULK_CONTROL_BYTES_MAX;
use oxbus_model::{Error, ErrorKind};
use serde::de::DeserializeOwned;

use super::error::{BulkError, bad_request};

/// Query parameters.
pub(super) struct QueryParameters<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParameters<T> {
    type Rejection = BulkError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, BulkError> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(parameters)) => Ok(Self(parameters)),
            Err(QueryRejection::FailedToDeserializeQueryString(error)) => Err(bad_request(format!(
                "a parameter is missing or wrong: {}",
                error.body_text()
            ))),
            Err(error) => Err(bad_request(error.body_text())),
        }
    }
}

/// A JSON body.
pub(super) struct JsonBody<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = BulkError;

    async fn from_request(request: Request, state: &S) -> Result<Self, BulkError> {
        match Json::<T>::from_request(request, state).await {
            Ok(Json(command)) => Ok(Self(command)),
            Err(JsonRejection::BytesRejection(error)) if error.status() == 413 => {
                let detail = format!("the body is too large; send less at once: limit={BULK_CONTROL_BYTES_MAX} bytes");
                Err(Error::new(ErrorKind::MessageSizeExceeded, detail).into())
            }
            Err(error) => Err(bad_request(format!("the body is not valid: {}", error.body_text()))),
        }
    }
}
