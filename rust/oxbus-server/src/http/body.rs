// SPDX-License-Identifier: Apache-2.0
//! Reads request bodies into memory, with limits on size and time.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::StatusCode;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::EXPECT;
use oxbus_model::caps::{HTTP_BODY_IDLE_MS_MAX, HTTP_DRAIN_BYTES_MAX, HTTP_DRAIN_MS_MAX};

use super::error::{Area, HttpError};
use crate::front::Budget;

/// Reads a body of at most `max` bytes.
pub(super) async fn read(body: &mut Incoming, max: usize, budget: &Budget, area: Area) -> Result<Bytes, HttpError> {
    let too_large = || {
        let detail = format!("the body is too large; send less at once: limit={max} bytes");
        HttpError::new(StatusCode::FORBIDDEN, 40300, detail)
    };
    if body.size_hint().lower() > max as u64 {
        return Err(too_large());
    }
    let mut share = budget.share();
    let mut read: Vec<u8> = Vec::new();
    let idle_timeout = Duration::from_millis(HTTP_BODY_IDLE_MS_MAX);
    loop {
        let frame = tokio::time::timeout(idle_timeout, body.frame()).await.map_err(|_| {
            let detail = format!(
                "no bytes of the body arrived for {} s; send it faster",
                idle_timeout.as_secs()
            );
            HttpError::new(StatusCode::REQUEST_TIMEOUT, 40800, detail)
        })?;
        let Some(frame) = frame else { return Ok(read.into()) };
        let frame =
            frame.map_err(|_| HttpError::bad_request("the body ended early; nothing was done, send it again"))?;
        let Ok(bytes) = frame.into_data() else { continue };
        if read.len() + bytes.len() > max {
            return Err(too_large());
        }
        share.take(bytes.len()).map_err(|error| HttpError::of(area, &error))?;
        read.extend_from_slice(&bytes);
    }
}

/// Reads and discards the rest of a body, within limits: some clients read a response only after they have written the
/// whole body. A client that sent `Expect` is not asked to send its body.
pub(super) async fn drain(body: &mut Incoming, headers: &HeaderMap) {
    if body.is_end_stream() || body.size_hint().lower() > HTTP_DRAIN_BYTES_MAX as u64 || headers.contains_key(EXPECT) {
        return;
    }
    let rest = async {
        let mut read = 0;
        while let Some(Ok(frame)) = body.frame().await {
            read += frame.data_ref().map_or(0, Bytes::len);
            if read > HTTP_DRAIN_BYTES_MAX {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(Duration::from_millis(HTTP_DRAIN_MS_MAX), rest).await;
}
