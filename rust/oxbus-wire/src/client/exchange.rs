// SPDX-License-Identifier: Apache-2.0
//! One request and its answer on one connection.
//!
//! A stream waits until the server asks for it (`Expect: 100-continue`): before that nothing was done, the rows are all there
//! still, and what refuses the call refuses it before they are sent.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::{Response, StatusCode};
use oxbus_model::Result;
use oxbus_model::caps::BULK_PIECE_BYTES;
use tokio::runtime::Runtime;
use tokio::sync::{Notify, mpsc};

use super::body::Outgoing;
use super::connection::Connection;
use super::patience::Patience;
use super::request::Request;
use super::{Answer, Client, Failure};
use crate::pieces::pieces;

/// A call that failed, and whether the server can have acted on it.
pub(super) struct Failed {
    pub(super) failure: Failure,
    pub(super) may_have_acted: bool,
}

type Received = hyper::Result<Response<Incoming>>;

/// What a server says to a stream before it has it.
enum Said {
    Answer(Received),
    /// It wants the rows.
    GoOn,
}

impl Client {
    pub(super) fn exchange<B: AsRef<[u8]> + Send + 'static>(
        &self,
        mut connection: Connection,
        request: &Request,
        patience: &Patience<'_>,
        next: &mut impl FnMut() -> Result<Option<Vec<B>>>,
    ) -> std::result::Result<Answer<'_>, Failed> {
        let effect = request.effect();
        let untouched = |failure| Failed {
            failure,
            may_have_acted: false,
        };
        let after = |failure: Failure| Failed {
            failure: failure.with_effect(effect),
            may_have_acted: true,
        };
        let runtime = &connection.runtime;
        patience
            .wait(runtime, connection.sender.ready())
            .map_err(untouched)?
            .map_err(|error| untouched(self.broken(error)))?;
        let (authority, token) = (self.place.authority(), self.token(request));
        if !request.is_stream() {
            let sent = request.with_body(&authority, &token, None);
            let answering = connection
                .sender
                .send_request(sent.map_err(|error| untouched(error.into()))?);
            let received = patience.wait(runtime, answering).map_err(after)?;
            let response = received.map_err(|error| after(self.broken(error)))?;
            return Ok(Answer::new(self, connection, response, None, effect));
        }
        let (feeding, fed) = mpsc::channel(1);
        let sent = request.with_body(&authority, &token, Some(Outgoing::Pieces(fed)));
        let mut sent = sent.map_err(|error| untouched(error.into()))?;
        let asked = Arc::new(Notify::new());
        let asks = Arc::clone(&asked);
        hyper::ext::on_informational(&mut sent, move |informed| {
            if informed.status() == StatusCode::CONTINUE {
                asks.notify_one();
            }
        });
        let mut answering = pin!(connection.sender.send_request(sent));
        let said = async {
            tokio::select! {
                biased;
                received = answering.as_mut() => Said::Answer(received),
                () = asked.notified() => Said::GoOn,
            }
        };
        let (received, took_all) = match patience.wait(runtime, said).map_err(untouched)? {
            Said::Answer(Ok(refused)) => (Ok(refused), false),
            Said::Answer(Err(error)) => return Err(untouched(self.broken(error))),
            Said::GoOn => feed(&feeding, answering, runtime, patience, next).map_err(after)?,
        };
        let response = received.map_err(|error| after(self.broken(error)))?;
        // A server that has not taken all still waits for the rest while it answers.
        let unfinished = (!took_all).then_some(feeding);
        Ok(Answer::new(self, connection, response, unfinished, effect))
    }
}

/// Hands pieces to the connection as it takes them, then the end; returns the answer, and whether it came after all of them.
fn feed<B: AsRef<[u8]> + Send + 'static>(
    feeding: &mpsc::Sender<Option<Bytes>>,
    mut answering: Pin<&mut impl Future<Output = Received>>,
    runtime: &Runtime,
    patience: &Patience<'_>,
    next: &mut impl FnMut() -> Result<Option<Vec<B>>>,
) -> std::result::Result<(Received, bool), Failure> {
    let mut ready: VecDeque<Bytes> = VecDeque::new();
    let mut is_over = false;
    while !is_over {
        let piece = ready.pop_front().map(|mut piece| {
            // No more at once than is worth a wait of its own.
            if piece.len() > BULK_PIECE_BYTES {
                ready.push_front(piece.split_off(BULK_PIECE_BYTES));
            }
            piece
        });
        if piece.is_none() {
            // Outside of the runtime: the rows may come from other calls of this thread.
            match next()? {
                Some(buffers) => {
                    ready.extend(pieces(buffers));
                    continue;
                }
                None => is_over = true,
            }
        }
        let room = async {
            tokio::select! {
                biased;
                received = answering.as_mut() => Err(Some(received)),
                permit = feeding.reserve() => permit.map_err(|_| None),
            }
        };
        match patience.wait(runtime, room)? {
            Ok(permit) => permit.send(piece),
            Err(Some(early)) => return Ok((early, false)),
            // Nobody takes the rest: the answer says why.
            Err(None) => return Ok((patience.wait(runtime, answering)?, false)),
        }
    }
    Ok((patience.wait(runtime, answering)?, true))
}
