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
use hyper::client::conn::http1::SendRequest;
use hyper::{Response, StatusCode};
use oxbus_model::Result;
use oxbus_model::caps::BULK_PIECE_BYTES;
use tokio::sync::Notify;

use super::lane::{Driver, Lane, Outgoing, Patience};
use super::request::Request;
use super::{Answer, Client, Failure};
use crate::pieces::pieces;

/// A call that failed.
pub(super) struct Failed {
    pub(super) failure: Failure,
    /// The connection of an earlier call broke, and to make the call again does no harm.
    pub(super) may_be_repeated: bool,
}

/// An answer, and what takes the next request.
type Received = (hyper::Result<Response<Incoming>>, SendRequest<Outgoing>);

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
            .with_body(&self.authority, &self.token(request), stream)
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
        let Lane {
            mut sender,
            driver,
            was_used,
        } = lane;
        // Sent by the first poll: within the runtime, that wakes its connection without a system call.
        let mut answering = pin!(async move { (sender.send_request(sent).await, sender) });
        // Before the server asks for a stream it did nothing.
        let failed = |failure: Failure, has_begun: bool| {
            let is_broken = matches!(failure, Failure::Connection(..)) && was_used;
            Failed {
                may_be_repeated: is_broken && (!has_begun || request.is_repeatable()),
                failure: if has_begun {
                    failure.with_effect(request.effect())
                } else {
                    failure
                },
            }
        };
        let begins = !request.is_stream();
        // A request that was not written did nothing either.
        let broken = |error: hyper::Error, has_begun: bool| {
            let has_begun = has_begun && !error.is_canceled();
            failed(self.broken(error), has_begun)
        };
        let said = async {
            tokio::select! {
                biased;
                received = answering.as_mut() => Said::Answer(received),
                () = asked.notified() => Said::GoOn,
            }
        };
        let said = driver.wait(patience, said).map_err(|failure| failed(failure, begins))?;
        let ((received, sender), unfinished) = match (said, feeding) {
            (Said::GoOn, Some(feeding)) => {
                let fed = feed(feeding, answering, &driver, patience, next);
                fed.map_err(|failure| failed(failure, true))?
            }
            (Said::Answer((Err(error), _)), _) => return Err(broken(error, begins)),
            (Said::Answer(received), feeding) => (received, feeding),
            (Said::GoOn, None) => unreachable!("only a stream is asked for"),
        };
        let response = received.map_err(|error| broken(error, true))?;
        let lane = Lane {
            sender,
            driver,
            was_used,
        };
        Ok(Answer::new(self, lane, response, unfinished, request.effect()))
    }
}

/// Hands pieces to the connection as it takes them, then the end. Returns the answer, and what is left to feed if it came
/// before that.
fn feed<B: AsRef<[u8]> + Send + 'static>(
    mut feeding: Sender<Bytes>,
    mut answering: Pin<&mut impl Future<Output = Received>>,
    driver: &Driver,
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
        if let Some(early) = driver.wait(patience, handed)? {
            return Ok((early, Some(feeding)));
        }
    }
    drop(feeding);
    Ok((driver.wait(patience, answering)?, None))
}
