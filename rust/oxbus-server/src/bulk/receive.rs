// SPDX-License-Identifier: Apache-2.0
//! `POST /receive`: receives messages with their locks as an Arrow stream.
//!
//! Messages whose response could not be sent completely are released (`pending`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use oxbus_arrow::ColumnSelection;
use oxbus_arrow::stream::Encoder;
use oxbus_broker::client::Deliveries;
use oxbus_broker::clock::Deadline;
use oxbus_model::authorization::AccessRight;
use oxbus_model::caps::{BULK_CHUNK_BYTES, BULK_WAIT_MS_MAX};
use oxbus_model::options::{ReceiveMode, in_range};
use oxbus_model::{Error, ErrorKind, Result};
use oxbus_wire::coalesce;
use serde::Deserialize;

use super::error::BulkError;
use super::parameters::QueryParameters;
use super::rows::response;
use super::{BulkCaller, BulkState, entity};
use crate::blocking::{run_blocking, run_lookup};
use crate::pending::{self, PendingDeliveries};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReceiveParameters {
    entity: String,
    max_message_count: usize,
    max_wait_time_ms: u64,
    receive_mode: String,
    #[serde(default)]
    columns: Option<String>,
}

/// Received messages and how far they have been encoded.
struct ReceiveResponse {
    pending: PendingDeliveries,
    columns: ColumnSelection,
    next: usize,
    encoder: Option<Encoder>,
}

impl ReceiveResponse {
    fn new(pending: PendingDeliveries, columns: ColumnSelection) -> Self {
        Self {
            pending,
            columns,
            next: 0,
            encoder: None,
        }
    }

    /// Encodes the next messages and, after the last ones, the end of the stream.
    fn encode_next(mut self) -> Result<(Self, Vec<Bytes>)> {
        let rest = &self.pending.deliveries()[self.next..];
        let (mut count, mut bytes) = (0, 0);
        while count < rest.len() && bytes < BULK_CHUNK_BYTES {
            bytes += rest[count].claimed.record.len();
            count += 1;
        }
        let batch = oxbus_arrow::table(self.columns, self.pending.receiver(), &rest[..count])?;
        let mut encoder = match self.encoder.take() {
            Some(encoder) => encoder,
            None => Encoder::new(&batch.schema())?,
        };
        let mut buffers = encoder.batch(&batch)?;
        self.next += count;
        if self.is_fully_encoded() {
            buffers.extend(encoder.finish()?);
        } else {
            self.encoder = Some(encoder);
        }
        Ok((self, coalesce(buffers)))
    }

    fn is_fully_encoded(&self) -> bool {
        self.next >= self.pending.deliveries().len()
    }
}

fn parse_mode(name: &str) -> Result<ReceiveMode> {
    match name {
        "peek_lock" => Ok(ReceiveMode::PeekLock),
        "receive_and_delete" => Ok(ReceiveMode::ReceiveAndDelete),
        other => {
            let detail = format!("unknown receive_mode; use `peek_lock` or `receive_and_delete`: `{other}`");
            Err(Error::new(ErrorKind::InvalidArgument, detail))
        }
    }
}

pub(super) async fn receive(
    State(state): State<BulkState>,
    Extension(caller): Extension<BulkCaller>,
    QueryParameters(parameters): QueryParameters<ReceiveParameters>,
) -> std::result::Result<Response, BulkError> {
    caller.authorize(AccessRight::Listen, &parameters.entity)?;
    let mode = parse_mode(&parameters.receive_mode)?;
    let columns = ColumnSelection::parse(parameters.columns.as_deref())?;
    in_range(
        "max_wait_time_ms",
        parameters.max_wait_time_ms,
        0,
        BULK_WAIT_MS_MAX,
        "ms",
    )?;
    let receiver = {
        let namespace = state.namespace().clone();
        let receiver = run_lookup(state.namespace(), move |_| {
            entity::receiver(&namespace, &parameters.entity, mode, None)
        });
        Arc::new(receiver.await?)
    };
    let deadline = Deadline::after(Some(Duration::from_millis(parameters.max_wait_time_ms)));
    let pending = pending::receive(&receiver, parameters.max_message_count, deadline, state.stopped()).await?;
    let pending = pending.unwrap_or_else(|| PendingDeliveries::new(&receiver, Deliveries::new()));
    let encoding = ReceiveResponse::new(pending, columns);
    let (encoding, first) = run_blocking(|_| encoding.encode_next()).await?;
    Ok(response(Body::from_stream(stream(encoding, first))))
}

/// The response as a stream. Each part is encoded after the previous one has been sent.
fn stream(encoding: ReceiveResponse, first: Vec<Bytes>) -> impl Stream<Item = Result<Bytes>> {
    futures_util::stream::try_unfold(
        (encoding, VecDeque::from(first)),
        |(mut encoding, mut ready)| async move {
            loop {
                if let Some(bytes) = ready.pop_front() {
                    return Ok(Some((bytes, (encoding, ready))));
                }
                if encoding.is_fully_encoded() {
                    encoding.pending.mark_sent();
                    return Ok(None);
                }
                let (advanced, next) = run_blocking(|_| encoding.encode_next()).await?;
                (encoding, ready) = (advanced, next.into());
            }
        },
    )
}
