// SPDX-License-Identifier: Apache-2.0
//! One request and its answer.
//!
//! A stream waits until the server asks for it (`Expect: 100-continue`): before that nothing was done, the rows are all
//! there still, and what refuses the call refuses it before they are sent.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::channel::{Channel, Sender};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::{Response, StatusCode};
use oxbus_model::Result;
use oxbus_model::caps::BULK_CHUNK_BYTES;
use tokio::sync::Notify;

use super::connection::{Connection, Driver, NetworkWaitOptions, RequestBody};
use super::request::Request;
use super::{BulkResponse, Client, ClientError};
use crate::coalesce::coalesce;

/// A call that failed.
pub(super) struct ExchangeError {
    pub(super) failure: ClientError,
    /// The connection of an earlier call broke, and to make the call again does no harm.
    pub(super) may_be_repeated: bool,
}

/// An answer, and what takes the next request.
type Received = (hyper::Result<Response<Incoming>>, SendRequest<RequestBody>);

/// The server's reply to a stream before the rows are sent.
enum ServerReply {
    Response(Received),
    /// It wants the rows.
    Continue,
}

impl Client {
    pub(super) fn exchange<B: AsRef<[u8]> + Send + 'static>(
        &self,
        connection: Connection,
        request: &Request,
        wait: &NetworkWaitOptions<'_>,
        next: &mut impl FnMut() -> Result<Option<Vec<B>>>,
    ) -> std::result::Result<BulkResponse<'_>, ExchangeError> {
        let (body, stream) = match request.is_stream().then(|| Channel::new(1)) {
            Some((body, stream)) => (Some(body), Some(stream)),
            None => (None, None),
        };
        let mut sent = request
            .with_body(&self.authority, &self.token(request), stream)
            .map_err(|error| ExchangeError {
                failure: error.into(),
                may_be_repeated: false,
            })?;
        let continued = Arc::new(Notify::new());
        if request.is_stream() {
            let continued = Arc::clone(&continued);
            hyper::ext::on_informational(&mut sent, move |informed| {
                if informed.status() == StatusCode::CONTINUE {
                    continued.notify_one();
                }
            });
        }
        let Connection {
            mut sender,
            driver,
            was_used,
        } = connection;
        // Sent by the first poll: within the runtime, that wakes its connection without a system call.
        let mut response = pin!(async move { (sender.send_request(sent).await, sender) });
        // Before the server asks for a stream it did nothing.
        let failed = |failure: ClientError, has_begun: bool| {
            let is_broken = matches!(failure, ClientError::Connection(..)) && was_used;
            ExchangeError {
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
        let reply = async {
            tokio::select! {
                biased;
                received = response.as_mut() => ServerReply::Response(received),
                () = continued.notified() => ServerReply::Continue,
            }
        };
        let reply = driver.wait(wait, reply).map_err(|failure| failed(failure, begins))?;
        let ((received, sender), unfinished) = match (reply, body) {
            (ServerReply::Continue, Some(body)) => {
                let sent_body = send_body(body, response, &driver, wait, next);
                sent_body.map_err(|failure| failed(failure, true))?
            }
            (ServerReply::Response((Err(error), _)), _) => return Err(broken(error, begins)),
            (ServerReply::Response(received), body) => (received, body),
            (ServerReply::Continue, None) => unreachable!("only a stream is continued for"),
        };
        let response = received.map_err(|error| broken(error, true))?;
        let connection = Connection {
            sender,
            driver,
            was_used,
        };
        Ok(BulkResponse::new(
            self,
            connection,
            response,
            unfinished,
            request.effect(),
        ))
    }
}

/// Hands pieces to the connection as it takes them, then the end. Returns the answer, and what is left to feed if it
/// came before that.
fn send_body<B: AsRef<[u8]> + Send + 'static>(
    mut body: Sender<Bytes>,
    mut response: Pin<&mut impl Future<Output = Received>>,
    driver: &Driver,
    wait: &NetworkWaitOptions<'_>,
    next: &mut impl FnMut() -> Result<Option<Vec<B>>>,
) -> std::result::Result<(Received, Option<Sender<Bytes>>), ClientError> {
    let mut ready: VecDeque<Bytes> = VecDeque::new();
    loop {
        let Some(mut chunk) = ready.pop_front() else {
            // When this fails the connection is dropped with the connection, and the server does nothing with a body
            // without its end.
            match next()? {
                Some(buffers) => ready.extend(coalesce(buffers)),
                None => break,
            }
            continue;
        };
        // Sends at most one chunk per wait.
        if chunk.len() > BULK_CHUNK_BYTES {
            ready.push_front(chunk.split_off(BULK_CHUNK_BYTES));
        }
        let handed = async {
            tokio::select! {
                biased;
                received = response.as_mut() => Some(received),
                taken = body.send_data(chunk) => match taken {
                    Ok(()) => None,
                    // The server takes no more rows: its answer gives the reason.
                    Err(_) => Some(response.as_mut().await),
                },
            }
        };
        if let Some(early) = driver.wait(wait, handed)? {
            return Ok((early, Some(body)));
        }
    }
    drop(body);
    Ok((driver.wait(wait, response)?, None))
}
