// SPDX-License-Identifier: Apache-2.0
//! One request and its response.
//!
//! A stream is sent after the server requests it (`Expect: 100-continue`). Until then the call has done nothing and
//! can be repeated, and the server can reject it before any row is sent.

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

/// A failed call.
pub(super) struct ExchangeError {
    pub(super) error: ClientError,
    /// True if a reused connection broke and the call can be repeated safely.
    pub(super) may_be_repeated: bool,
}

/// A response, and the sender of the next request.
type Received = (hyper::Result<Response<Incoming>>, SendRequest<RequestBody>);

/// The reply of a server before it has the body.
enum ServerReply {
    Response(Received),
    /// `100 Continue`: the server requests the stream.
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
                error: error.into(),
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
        // The first poll sends the request. Inside the runtime, this wakes the connection without a system call.
        let mut response = pin!(async move { (sender.send_request(sent).await, sender) });
        // The call has done nothing before the server requests a stream.
        let failed = |error: ClientError, has_begun: bool| {
            let is_broken = matches!(error, ClientError::Connection(..)) && was_used;
            ExchangeError {
                may_be_repeated: is_broken && (!has_begun || request.is_repeatable()),
                error: if has_begun {
                    error.with_effect(request.effect())
                } else {
                    error
                },
            }
        };
        let begins = !request.is_stream();
        // A request that was not written has done nothing either.
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
        let reply = driver.wait(wait, reply).map_err(|error| failed(error, begins))?;
        let ((received, sender), unfinished) = match (reply, body) {
            (ServerReply::Continue, Some(body)) => {
                let sent_body = send_body(body, response, &driver, wait, next);
                sent_body.map_err(|error| failed(error, true))?
            }
            (ServerReply::Response((Err(error), _)), _) => return Err(broken(error, begins)),
            (ServerReply::Response(received), body) => (received, body),
            (ServerReply::Continue, None) => unreachable!("only streams expect 100 Continue"),
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

/// Sends the chunks of a stream and its end. Returns the response, and the open body if the response came before the
/// end.
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
            // An error drops the connection. The server discards a body without an end.
            match next()? {
                Some(buffers) => ready.extend(coalesce(buffers)),
                None => break,
            }
            continue;
        };
        // Limits the bytes that are sent within one timeout.
        if chunk.len() > BULK_CHUNK_BYTES {
            ready.push_front(chunk.split_off(BULK_CHUNK_BYTES));
        }
        let sent = async {
            tokio::select! {
                biased;
                received = response.as_mut() => Some(received),
                taken = body.send_data(chunk) => match taken {
                    Ok(()) => None,
                    // The server reads no more. The response gives the reason.
                    Err(_) => Some(response.as_mut().await),
                },
            }
        };
        if let Some(early) = driver.wait(wait, sent)? {
            return Ok((early, Some(body)));
        }
    }
    drop(body);
    Ok((driver.wait(wait, response)?, None))
}
