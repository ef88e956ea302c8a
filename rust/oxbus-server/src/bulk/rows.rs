// SPDX-License-Identifier: Apache-2.0
//! Responses with Arrow streams.

use arrow_array::RecordBatch;
use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use oxbus_arrow::stream::Encoder;
use oxbus_model::Result;
use oxbus_wire::{ARROW_STREAM, NEXT_HEADER, coalesce};

/// A response with an Arrow stream.
pub(super) fn response(body: Body) -> Response {
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static(ARROW_STREAM);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Streams the pieces as a body.
pub(super) fn body(pieces: Vec<Bytes>) -> Body {
    let pieces = pieces.into_iter().map(Ok::<_, std::convert::Infallible>);
    Body::from_stream(futures_util::stream::iter(pieces))
}

/// A response with one batch and the start of the next page.
pub(super) fn page(batch: &RecordBatch, next: Option<u64>) -> Result<Response> {
    let mut encoder = Encoder::new(&batch.schema())?;
    let mut buffers = encoder.batch(batch)?;
    buffers.extend(encoder.finish()?);
    let pieces = coalesce(buffers);
    let bytes: usize = pieces.iter().map(Bytes::len).sum();
    let mut response = response(body(pieces));
    // A client that knows the length reads the body into one buffer.
    response
        .headers_mut()
        .insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
    if let Some(next) = next {
        response.headers_mut().insert(NEXT_HEADER, HeaderValue::from(next));
    }
    Ok(response)
}
