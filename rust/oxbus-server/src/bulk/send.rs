// SPDX-License-Identifier: Apache-2.0
//! `POST /send`: rows of an Arrow stream as messages, checked as they come, stored when all are there.
//!
//! While one piece is checked on a thread, the next one comes in; no more is taken from the network than that. A stream that
//! breaks off, or that is refused, stores nothing.

use std::time::Duration;

use arrow_array::StructArray;
use arrow_buffer::Buffer;
use axum::body::Body;
use axum::extract::State;
use axum::{Extension, Json};
use bytes::Bytes;
use http_body_util::BodyExt;
use oxbus_arrow::stream::Decoder;
use oxbus_arrow::{Columns, NotSent, Outgoing};
use oxbus_broker::Sender;
use oxbus_model::authorization::AccessRight;
use oxbus_model::caps::{BULK_DRAIN_MS_MAX, BULK_PIECE_BYTES};
use oxbus_model::{Effect, Error, ErrorKind, Result};
use oxbus_wire::{Fault, FaultKind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::parameters::Parameters;
use super::refusal::Refusal;
use super::{BulkState, Caller};
use crate::work::on_thread;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Target {
    entity: String,
}

/// Rows that are checked, and what the next bytes continue.
struct Incoming {
    outgoing: Outgoing<Sender>,
    decoder: Decoder,
}

impl Incoming {
    fn push(mut self, piece: Piece) -> Result<Self> {
        for bytes in piece.0 {
            for batch in self.decoder.push(Buffer::from(bytes))? {
                let columns = Columns::read_with_partitions(&StructArray::from(batch))?;
                self.outgoing.push(&columns)?;
            }
        }
        Ok(self)
    }
}

pub(super) async fn send(
    State(state): State<BulkState>,
    Extension(caller): Extension<Caller>,
    Parameters(target): Parameters<Target>,
    body: Body,
) -> std::result::Result<Json<Value>, Refusal> {
    caller.may(AccessRight::Send, &target.entity)?;
    let incoming = {
        let state = state.clone();
        on_thread(move |_| {
            let sender = state.namespace().sender(&target.entity)?;
            Ok(Incoming {
                outgoing: Outgoing::new(sender, state.new_id())?,
                decoder: Decoder::default(),
            })
        })
        .await?
    };
    let mut body = Pieces::new(body, state.limits().body_pause());
    let (mut all, mut held) = (0, state.0.unstored.share());
    // Refuses rows that would take too much memory.
    let admit = |bytes: usize| {
        all += bytes as u64;
        let max = state.limits().send_bytes;
        if all > max {
            let detail = format!("the rows are too large; send less at once: limit={max} bytes");
            return Err(Error::new(ErrorKind::MessageSizeExceeded, detail));
        }
        held.take(bytes)
    };
    let incoming = match take(&mut body, incoming, Incoming::push, admit).await {
        Ok(incoming) => incoming,
        Err(error) => {
            body.drain().await;
            return Err(error.into());
        }
    };
    let sent = on_thread(move |wait| {
        incoming.decoder.finish()?;
        Ok(incoming.outgoing.send(wait))
    });
    match sent.await?.outcome() {
        Ok(stored) => Ok(Json(json!({ "stored": stored }))),
        Err(failed) => Err(Refusal(not_sent(failed))),
    }
}

fn not_sent(failed: NotSent) -> Fault {
    match failed {
        NotSent::Nothing(error) => Fault::from(error),
        NotSent::Part {
            detail,
            effect,
            rows,
            stored,
        } => Fault {
            rows,
            stored,
            effect: Some(effect),
            ..Fault::new(FaultKind::PartialSend, detail)
        },
    }
}

/// Feeds all pieces of a body to `push`, on threads, while the next ones come in.
pub(super) async fn take<T: Send + 'static>(
    body: &mut Pieces,
    mut into: T,
    push: impl Fn(T, Piece) -> Result<T> + Copy + Send + 'static,
    mut admit: impl FnMut(usize) -> Result<()>,
) -> Result<T> {
    let mut piece = body.next().await?;
    while let Some(some) = piece {
        admit(some.len())?;
        let working = tokio::spawn(on_thread(move |_| push(into, some)));
        let next = body.next().await;
        into = working.await.map_err(|_| {
            let detail = "the server failed within the call; look at its error output";
            Error::new(ErrorKind::Storage, detail)
        })??;
        piece = next?;
    }
    Ok(into)
}

/// Bytes of a body as they came in: the decoder puts together what belongs together.
pub(super) struct Piece(pub(super) Vec<Bytes>);

impl Piece {
    fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }
}

/// A body in pieces of a useful size.
pub(super) struct Pieces {
    body: Body,
    /// How long to wait for the next one.
    pause: Duration,
    is_over: bool,
}

impl Pieces {
    pub(super) fn new(body: Body, pause: Duration) -> Self {
        Self {
            body,
            pause,
            is_over: false,
        }
    }

    /// Some bytes; `None` at the end. A body that breaks off or stalls is an error.
    async fn next(&mut self) -> Result<Option<Piece>> {
        let mut piece = Piece(Vec::new());
        while piece.len() < BULK_PIECE_BYTES / 2 {
            match self.frame().await? {
                Some(bytes) => piece.0.push(bytes),
                None => break,
            }
        }
        Ok((!piece.0.is_empty()).then_some(piece))
    }

    async fn frame(&mut self) -> Result<Option<Bytes>> {
        loop {
            if self.is_over {
                return Ok(None);
            }
            let frame = tokio::time::timeout(self.pause, self.body.frame()).await.map_err(|_| {
                self.is_over = true;
                let detail = format!("no more rows came for {} s; send them sooner", self.pause.as_secs_f64());
                Error::new(ErrorKind::Timeout, detail).with_effect(Effect::None)
            })?;
            match frame {
                None => self.is_over = true,
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
                Some(Err(_)) => {
                    self.is_over = true;
                    let detail = "the stream of rows broke off; nothing was stored, send them again";
                    return Err(Error::new(ErrorKind::InvalidArgument, detail));
                }
            }
        }
    }

    /// Reads on for a while and keeps nothing: whoever still writes reads an answer only afterwards.
    pub(super) async fn drain(&mut self) {
        let patience = Duration::from_millis(BULK_DRAIN_MS_MAX);
        let rest = async { while let Ok(Some(_)) = self.frame().await {} };
        let _ = tokio::time::timeout(patience, rest).await;
    }
}
