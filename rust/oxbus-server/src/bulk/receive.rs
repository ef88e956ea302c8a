// SPDX-License-Identifier: Apache-2.0
//! `POST /receive`: messages as an Arrow stream, each with its lock.
//!
//! Waiting takes no thread. What could not be sent to the end goes back at once, nothing charged: nobody can settle what did
//! not arrive.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use oxbus_arrow::TableBuilder;
use oxbus_arrow::stream::Encoder;
use oxbus_broker::Receiver;
use oxbus_broker::client::{Deliveries, SettleKey};
use oxbus_model::caps::{BULK_PIECE_BYTES, BULK_WAIT_MS_MAX};
use oxbus_model::options::{ReceiveMode, in_range};
use oxbus_model::{Error, ErrorKind, Result};
use serde::Deserialize;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::parameters::Parameters;
use super::rows::{pieces, response};
use super::{Plane, entity};
use crate::accept::until_stopped;
use crate::status::Refusal;
use crate::work::on_thread;

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
    receiver: Arc<Receiver>,
    deliveries: Deliveries,
    next: usize,
    encoder: Option<Encoder>,
    /// All of it was handed to the connection.
    is_sent: bool,
}

impl Parcel {
    fn new(receiver: &Arc<Receiver>, deliveries: Deliveries) -> Self {
        Self {
            receiver: Arc::clone(receiver),
            deliveries,
            next: 0,
            encoder: None,
            is_sent: false,
        }
    }

    /// The bytes of the next messages, and those of the end behind the last ones.
    fn pack(mut self) -> Result<(Self, Vec<Bytes>)> {
        let rest = &self.deliveries[self.next..];
        let (mut count, mut bytes) = (0, 0);
        while count < rest.len() && bytes < BULK_PIECE_BYTES {
            bytes += rest[count].claimed.record.len();
            count += 1;
        }
        let mut builder = TableBuilder::new(count, bytes);
        for delivery in &rest[..count] {
            builder.push_delivery(&self.receiver, delivery)?;
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
        self.next >= self.deliveries.len()
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        if self.is_sent || self.deliveries.is_empty() || self.receiver.mode() != ReceiveMode::PeekLock {
            return;
        }
        let held: Vec<SettleKey> = self
            .deliveries
            .iter()
            .map(|delivery| SettleKey {
                index: delivery.index,
                key: delivery.claimed.key,
            })
            .collect();
        let receiver = Arc::clone(&self.receiver);
        let give_back = move || receiver.release(&held);
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(give_back)),
            Err(_) => give_back(),
        }
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
    State(plane): State<Plane>,
    Parameters(wish): Parameters<Wish>,
) -> std::result::Result<Response, Refusal> {
    let mode = mode(&wish.receive_mode)?;
    in_range("max_wait_time_ms", wish.max_wait_time_ms, 0, BULK_WAIT_MS_MAX, "ms")?;
    let receiver = {
        let plane = plane.clone();
        let receiver = on_thread(move || entity::receiver(plane.namespace(), &wish.entity, mode, None));
        Arc::new(receiver.await?)
    };
    let deadline = Instant::now() + Duration::from_millis(wish.max_wait_time_ms);
    let parcel = wait(&plane, &receiver, wish.max_message_count, deadline).await?;
    let (parcel, first) = on_thread(|| parcel.pack()).await?;
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
                parcel.is_sent = true;
                return Ok(None);
            }
            let (same, next) = on_thread(|| parcel.pack()).await?;
            (parcel, ready) = (same, next.into());
        }
    })
}

/// Takes messages; waits for the first until the deadline, or until the server is to end.
async fn wait(plane: &Plane, receiver: &Arc<Receiver>, max: usize, deadline: Instant) -> Result<Parcel> {
    let mut stopped = plane.stopped();
    loop {
        if let Some(parcel) = look(receiver, max).await? {
            return Ok(parcel);
        }
        let nothing = || Parcel::new(receiver, Deliveries::new());
        if Instant::now() >= deadline || *stopped.borrow() {
            return Ok(nothing());
        }
        let rung = Arc::new(Notify::new());
        let bell = Arc::clone(&rung);
        let mut ticket = receiver.register(Arc::new(move || bell.notify_one()));
        // Registered first, looked again second: what arrived in between is found here or rings.
        if let Some(parcel) = look(receiver, max).await? {
            return Ok(parcel);
        }
        let again = receiver
            .look_again_after()
            .map_or(deadline, |wait| Instant::now() + wait);
        tokio::select! {
            () = rung.notified() => {}
            () = tokio::time::sleep_until(again.min(deadline)) => {}
            () = until_stopped(&mut stopped) => {}
        }
        ticket.take_ring();
    }
}

async fn look(receiver: &Arc<Receiver>, max: usize) -> Result<Option<Parcel>> {
    let receiver = Arc::clone(receiver);
    on_thread(move || {
        let found = receiver.receive_now(max)?;
        Ok(found.map(|deliveries| Parcel::new(&receiver, deliveries)))
    })
    .await
}
