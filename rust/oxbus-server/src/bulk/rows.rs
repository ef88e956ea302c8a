// SPDX-License-Identifier: Apache-2.0
//! Arrow streams as bodies of answers.

use arrow_array::RecordBatch;
use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use oxbus_arrow::stream::Encoder;
use oxbus_model::Result;
use oxbus_wire::{ARROW_STREAM, NEXT_HEADER, pieces};

/// An answer with an Arrow stream.
pub(super) fn response(body: Body) -> Response {
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static(ARROW_STREAM);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// The pieces as a body, one after the other.
pub(super) fn body(pieces: Vec<Bytes>) -> Body {
    let pieces = pieces.into_iter().map(Ok::<_, std::convert::Infallible>);
    Body::from_stream(futures_util::stream::iter(pieces))
}

/// An answer with one batch, and where the next page begins.
pub(super) fn page(batch: &RecordBatch, next: Option<u64>) -> Result<Response> {
    let mut encoder = Encoder::new(&batch.schema())?;
    let mut buffers = encoder.batch(batch)?;
    buffers.extend(encoder.finish()?);
    let pieces = pieces(buffers);
    let bytes: usize = pieces.iter().map(Bytes::len).sum();
    let mut response = response(body(pieces));
    // Who knows it reads all of it into one place.
    response
        .headers_mut()
        .insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
    if let Some(next) = next {
        response.headers_mut().insert(NEXT_HEADER, HeaderValue::from(next));
    }
    Ok(response)
}
