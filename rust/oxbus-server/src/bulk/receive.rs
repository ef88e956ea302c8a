// SPDX-License-Identifier: Apache-2.0
//! `POST /receive`: messages as an Arrow stream, each with its lock.
//!
//! What could not be sent to the end goes back (`taken`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use oxbus_arrow::TableBuilder;
use oxbus_arrow::stream::Encoder;
use oxbus_broker::client::Deliveries;
use oxbus_broker::clock::Deadline;
use oxbus_model::authorization::AccessRight;
use oxbus_model::caps::{BULK_PIECE_BYTES, BULK_WAIT_MS_MAX};
use oxbus_model::options::{ReceiveMode, in_range};
use oxbus_model::{Error, ErrorKind, Result};
use oxbus_wire::pieces;
use serde::Deserialize;

use super::parameters::Parameters;
use super::refusal::Refusal;
use super::rows::response;
use super::{BulkState, Caller, entity};
use crate::taken::{Taken, wait};
use crate::work::{look_up, on_thread};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wish {
    entity: String,
    max_message_count: usize,
    max_wait_time_ms: u64,
    receive_mode: String,
}

/// Received messages on their way to who asked for them.
struct Parcel {
    taken: Taken,
    next: usize,
    encoder: Option<Encoder>,
}

impl Parcel {
    fn new(taken: Taken) -> Self {
        Self {
            taken,
            next: 0,
            encoder: None,
        }
    }

    /// The bytes of the next messages, and those of the end behind the last ones.
    fn pack(mut self) -> Result<(Self, Vec<Bytes>)> {
        let rest = &self.taken.deliveries()[self.next..];
        let (mut count, mut bytes) = (0, 0);
        while count < rest.len() && bytes < BULK_PIECE_BYTES {
            bytes += rest[count].claimed.record.len();
            count += 1;
        }
        let mut builder = TableBuilder::new(count, bytes);
        for delivery in &rest[..count] {
            builder.push_delivery(self.taken.receiver(), delivery)?;
        }
        let batch = builder.finish()?;
        let mut encoder = match self.encoder.take() {
            Some(encoder) => encoder,
            None => Encoder::new(&batch.schema())?,
        };
        let mut buffers = encoder.batch(&batch)?;
        self.next += count;
        if self.is_packed() {
            buffers.extend(encoder.finish()?);
        } else {
            self.encoder = Some(encoder);
        }
        Ok((self, pieces(buffers)))
    }

    fn is_packed(&self) -> bool {
        self.next >= self.taken.deliveries().len()
    }
}

fn mode(name: &str) -> Result<ReceiveMode> {
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
    Extension(caller): Extension<Caller>,
    Parameters(wish): Parameters<Wish>,
) -> std::result::Result<Response, Refusal> {
    caller.may(AccessRight::Listen, &wish.entity)?;
    let mode = mode(&wish.receive_mode)?;
    in_range("max_wait_time_ms", wish.max_wait_time_ms, 0, BULK_WAIT_MS_MAX, "ms")?;
    let receiver = {
        let namespace = state.namespace().clone();
        let receiver = look_up(state.namespace(), move |_| {
            entity::receiver(&namespace, &wish.entity, mode, None)
        });
        Arc::new(receiver.await?)
    };
    let deadline = Deadline::after(Some(Duration::from_millis(wish.max_wait_time_ms)));
    let taken = wait(&receiver, wish.max_message_count, deadline, state.stopped()).await?;
    let parcel = Parcel::new(taken.unwrap_or_else(|| Taken::new(&receiver, Deliveries::new())));
    let (parcel, first) = on_thread(|_| parcel.pack()).await?;
    Ok(response(Body::from_stream(stream(parcel, first))))
}

/// The bytes of a parcel: the next are made when those before are gone.
fn stream(parcel: Parcel, first: Vec<Bytes>) -> impl Stream<Item = Result<Bytes>> {
    futures_util::stream::try_unfold((parcel, VecDeque::from(first)), |(mut parcel, mut ready)| async move {
        loop {
            if let Some(bytes) = ready.pop_front() {
                return Ok(Some((bytes, (parcel, ready))));
            }
            if parcel.is_packed() {
                parcel.taken.keep();
                return Ok(None);
            }
            let (same, next) = on_thread(|_| parcel.pack()).await?;
            (parcel, ready) = (same, next.into());
        }
    })
}
