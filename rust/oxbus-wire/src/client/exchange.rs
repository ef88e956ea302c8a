// SPDX-License-Identifier: Apache-2.0
//! One request and its answer.
//!
//! A stream waits until the server asks for it (`Expect: 100-continue`): before that nothing was done, the rows are all there
//! still, and what refuses the call refuses it before they are sent.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::channel::{Channel, Sender};
use hyper::body::Incoming;
use hyper::{Response, StatusCode};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::capture_connection;
use oxbus_model::Result;
use oxbus_model::caps::BULK_PIECE_BYTES;
use tokio::sync::Notify;

use super::lane::{Lane, Patience};
use super::request::Request;
use super::{Answer, Client, Failure};
use crate::pieces::pieces;

/// A call that failed.
pub(super) struct Failed {
    pub(super) failure: Failure,
    /// The connection of an earlier call broke, and to make the call again does no harm.
    pub(super) may_be_repeated: bool,
}

type Received = std::result::Result<Response<Incoming>, legacy::Error>;

/// What a server says to a stream before it has it.
enum Said {
    Answer(Received),
    /// It wants the rows.
    GoOn,
}

impl Client {
    pub(super) fn exchange<B: AsRef<[u8]> + Send + 'static>(
        &self,
        lane: Lane,
        request: &Request,
        patience: &Patience<'_>,
        next: &mut impl FnMut() -> Result<Option<Vec<B>>>,
    ) -> std::result::Result<Answer<'_>, Failed> {
        let (feeding, stream) = match request.is_stream().then(|| Channel::new(1)) {
            Some((feeding, stream)) => (Some(feeding), Some(stream)),
            None => (None, None),
        };
        let mut sent = request
            .with_body(&self.base, &self.token(request), stream)
            .map_err(|error| Failed {
                failure: error.into(),
                may_be_repeated: false,
            })?;
        let asked = Arc::new(Notify::new());
        if request.is_stream() {
            let asked = Arc::clone(&asked);
            hyper::ext::on_informational(&mut sent, move |informed| {
                if informed.status() == StatusCode::CONTINUE {
                    asked.notify_one();
                }
            });
        }
        let connected = capture_connection(&mut sent);
        let is_connected = || connected.connection_metadata().is_some();
        // Before a server has the request, and before it asked for a stream, nothing was done.
        let failed = |failure: Failure, has_begun: bool| {
            let is_broken = matches!(failure, Failure::Connection(..)) && is_connected() && lane.was_used;
            Failed {
                may_be_repeated: is_broken && (!has_begun || request.is_repeatable()),
                failure: if has_begun && is_connected() {
                    failure.with_effect(request.effect())
                } else {
                    failure
                },
            }
        };
        let begins = !request.is_stream();
        let mut answering = pin!(lane.request(sent));
        let said = async {
            tokio::select! {
                biased;
                received = answering.as_mut() => Said::Answer(received),
                () = asked.notified() => Said::GoOn,
            }
        };
        let said = lane.wait(patience, said).map_err(|failure| failed(failure, begins))?;
        let (received, unfinished) = match (said, feeding) {
            (Said::GoOn, Some(feeding)) => {
                let fed = feed(feeding, answering, &lane, patience, next);
                fed.map_err(|failure| failed(failure, true))?
            }
            (Said::Answer(Err(error)), _) => return Err(failed(self.failure_of(error), begins)),
            (Said::Answer(received), feeding) => (received, feeding),
            (Said::GoOn, None) => unreachable!("only a stream is asked for"),
        };
        let response = received.map_err(|error| failed(self.failure_of(error), true))?;
        Ok(Answer::new(self, lane, response, unfinished, request.effect()))
    }
}

/// Hands pieces to the connection as it takes them, then the end. Returns the answer, and what is left to feed if it came
/// before that.
fn feed<B: AsRef<[u8]> + Send + 'static>(
    mut feeding: Sender<Bytes>,
    mut answering: Pin<&mut impl Future<Output = Received>>,
    lane: &Lane,
    patience: &Patience<'_>,
    next: &mut impl FnMut() -> Result<Option<Vec<B>>>,
) -> std::result::Result<(Received, Option<Sender<Bytes>>), Failure> {
    let mut ready: VecDeque<Bytes> = VecDeque::new();
    loop {
        let Some(mut piece) = ready.pop_front() else {
            // When this fails the connection is dropped with the lane, and the server does nothing with a body without its end.
            match next()? {
                Some(buffers) => ready.extend(pieces(buffers)),
                None => break,
            }
            continue;
        };
        // No more at once than is worth a wait of its own.
        if piece.len() > BULK_PIECE_BYTES {
            ready.push_front(piece.split_off(BULK_PIECE_BYTES));
        }
        let handed = async {
            tokio::select! {
                biased;
                received = answering.as_mut() => Some(received),
                taken = feeding.send_data(piece) => match taken {
                    Ok(()) => None,
                    // Nobody takes the rest: the answer says why.
                    Err(_) => Some(answering.as_mut().await),
                },
            }
        };
        if let Some(early) = lane.wait(patience, handed)? {
            return Ok((early, Some(feeding)));
        }
    }
    drop(feeding);
    Ok((lane.wait(patience, answering)?, None))
}
