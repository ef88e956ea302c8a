// SPDX-License-Identifier: Apache-2.0
//! `POST /send`: sends the rows of an Arrow stream as messages. Rows are checked as they arrive, and all are stored
//! after the last one has arrived.
//!
//! While one chunk is checked on a thread, only the next one is read from the network. If a stream ends early or is
//! rejected, none of its rows are stored.

use std::time::Duration;

use arrow_array::StructArray;
use arrow_buffer::Buffer;
use axum::body::Body;
use axum::extract::State;
use axum::{Extension, Json};
use bytes::Bytes;
use http_body_util::BodyExt;
use oxbus_arrow::stream::Decoder;
use oxbus_arrow::{InputColumns, RowSendError, RowSender};
use oxbus_broker::Sender;
use oxbus_model::authorization::AccessRight;
use oxbus_model::caps::{BULK_CHUNK_BYTES, BULK_DRAIN_MS_MAX};
use oxbus_model::{Effect, Error, ErrorKind, Result};
use oxbus_store::Wait;
use oxbus_wire::{ServerError, ServerErrorKind};
use serde::Deserialize;
use serde_json::json;

use super::error::BulkError;
use super::parameters::QueryParameters;
use super::{BulkCaller, BulkState, JsonResult};
use crate::blocking::{call_with_timeout, run_blocking, run_suspending};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SendParameters {
    entity: String,
}

/// The checked rows, and the decoder's state.
struct SendUpload {
    outgoing: RowSender<Sender>,
    decoder: Decoder,
}

impl SendUpload {
    fn push(mut self, chunk: BodyChunk) -> Result<Self> {
        for bytes in chunk.0 {
            for batch in self.decoder.push(Buffer::from(bytes))? {
                let columns = InputColumns::read_with_partitions(&StructArray::from(batch))?;
                self.outgoing.push(&columns)?;
            }
        }
        Ok(self)
    }
}

pub(super) async fn send(
    State(state): State<BulkState>,
    Extension(caller): Extension<BulkCaller>,
    QueryParameters(parameters): QueryParameters<SendParameters>,
    body: Body,
) -> JsonResult {
    caller.authorize(AccessRight::Send, &parameters.entity)?;
    let upload = {
        let state = state.clone();
        run_blocking(move |_| {
            let sender = state.namespace().sender(&parameters.entity)?;
            Ok(SendUpload {
                outgoing: RowSender::new(sender, state.new_id())?,
                decoder: Decoder::default(),
            })
        })
        .await?
    };
    let mut body = BodyChunks::new(body, state.limits().body_pause());
    let (mut total, mut budget_share) = (0, state.0.unstored.share());
    // Rejects rows that exceed the limits on memory.
    let admit = |bytes: usize| {
        total += bytes as u64;
        let max = state.limits().send_bytes;
        if total > max {
            let detail = format!("the rows are too large; send less at once: limit={max} bytes");
            return Err(Error::new(ErrorKind::MessageSizeExceeded, detail));
        }
        budget_share.take(bytes)
    };
    let upload = match feed_chunks(&mut body, upload, SendUpload::push, admit).await {
        Ok(upload) => upload,
        Err(error) => {
            body.drain().await;
            return Err(error.into());
        }
    };
    let sent = run_suspending(call_with_timeout(async move |wait: &Wait<'_>| {
        upload.decoder.finish()?;
        Ok(upload.outgoing.send_async(wait).await)
    }));
    match sent.await?.outcome() {
        Ok(stored) => Ok(Json(json!({ "stored": stored }))),
        Err(failed) => Err(BulkError(send_fault(failed))),
    }
}

fn send_fault(failed: RowSendError) -> ServerError {
    match failed {
        RowSendError::NothingStored(error) => ServerError::from(error),
        RowSendError::PartlyStored {
            detail,
            effect,
            rows,
            stored,
        } => ServerError {
            rows,
            stored,
            effect: Some(effect),
            ..ServerError::new(ServerErrorKind::PartialSend, detail)
        },
    }
}

/// Passes all chunks of a body to `push`, on blocking threads, while reading the next chunk.
pub(super) async fn feed_chunks<T: Send + 'static>(
    body: &mut BodyChunks,
    mut into: T,
    push: impl Fn(T, BodyChunk) -> Result<T> + Copy + Send + 'static,
    mut admit: impl FnMut(usize) -> Result<()>,
) -> Result<T> {
    let mut chunk = body.next().await?;
    while let Some(some) = chunk {
        admit(some.len())?;
        let working = tokio::spawn(run_blocking(move |_| push(into, some)));
        let next = body.next().await;
        into = working.await.map_err(|_| {
            let detail = "the server panicked during the call; see its error output";
            Error::new(ErrorKind::Storage, detail)
        })??;
        chunk = next?;
    }
    Ok(into)
}

/// Bytes of a body as they arrived. The decoder handles boundaries.
pub(super) struct BodyChunk(pub(super) Vec<Bytes>);

impl BodyChunk {
    fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }
}

/// A body in chunks of a useful size.
pub(super) struct BodyChunks {
    body: Body,
    /// The maximum wait for the next bytes.
    pause: Duration,
    is_finished: bool,
}

impl BodyChunks {
    pub(super) fn new(body: Body, pause: Duration) -> Self {
        Self {
            body,
            pause,
            is_finished: false,
        }
    }

    /// The next chunk, and `None` at the end. A body that ends early or stalls is an error.
    async fn next(&mut self) -> Result<Option<BodyChunk>> {
        let mut chunk = BodyChunk(Vec::new());
        while chunk.len() < BULK_CHUNK_BYTES / 2 {
            match self.next_frame().await? {
                Some(bytes) => chunk.0.push(bytes),
                None => break,
            }
        }
        Ok((!chunk.0.is_empty()).then_some(chunk))
    }

    async fn next_frame(&mut self) -> Result<Option<Bytes>> {
        loop {
            if self.is_finished {
                return Ok(None);
            }
            let next_frame = tokio::time::timeout(self.pause, self.body.frame()).await.map_err(|_| {
                self.is_finished = true;
                let detail = format!("no rows arrived for {} s; send them faster", self.pause.as_secs_f64());
                Error::new(ErrorKind::Timeout, detail).with_effect(Effect::None)
            })?;
            match next_frame {
                None => self.is_finished = true,
                Some(Ok(next_frame)) => {
                    if let Ok(bytes) = next_frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
                Some(Err(_)) => {
                    self.is_finished = true;
                    let detail = "the stream of rows ended early; nothing was stored, send the rows again";
                    return Err(Error::new(ErrorKind::InvalidArgument, detail));
                }
            }
        }
    }

    /// Reads and discards the rest of the body for a limited time: some clients read a response only after they have
    /// written the whole body.
    pub(super) async fn drain(&mut self) {
        let drain_timeout = Duration::from_millis(BULK_DRAIN_MS_MAX);
        let rest = async { while let Ok(Some(_)) = self.next_frame().await {} };
        let _ = tokio::time::timeout(drain_timeout, rest).await;
    }
}
