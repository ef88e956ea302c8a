// SPDX-License-Identifier: Apache-2.0
//! A response, whose body is read as it arrives.

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::channel::Sender;
use hyper::Response;
use hyper::body::{Body, Incoming};
use oxbus_model::Effect;

use super::connection::{Connection, NetworkWaitOptions};
use super::{Client, ClientError};
use crate::NEXT_HEADER;
use crate::server_error::ServerError;

/// The maximum size of the body of an error response, in bytes.
const ERROR_BYTES_MAX: usize = 1 << 20;

/// The response to a request. Reading it to its end returns the connection to the client.
pub struct BulkResponse<'a> {
    client: &'a Client,
    connection: Option<Connection>,
    response: Response<Incoming>,
    /// Sends the rest of a request body. It stays open, because the server may still read that rest.
    /// `None` if the connection is free for the next request after the response.
    unfinished: Option<Sender<Bytes>>,
    /// The effect of the call if the response breaks off.
    effect: Effect,
}

impl<'a> BulkResponse<'a> {
    pub(super) fn new(
        client: &'a Client,
        connection: Connection,
        response: Response<Incoming>,
        unfinished: Option<Sender<Bytes>>,
        effect: Effect,
    ) -> Self {
        Self {
            client,
            connection: Some(connection),
            response,
            unfinished,
            effect,
        }
    }

    /// The sequence number at which the next page begins, and `None` after the last page.
    pub fn next(&self) -> Option<&str> {
        self.response.headers().get(NEXT_HEADER)?.to_str().ok()
    }

    /// The number of remaining bytes of the body, if the server announced its length.
    pub fn bytes_left(&self) -> Option<u64> {
        self.response.body().size_hint().exact()
    }

    /// The response, or its error if the status is not success.
    pub(super) fn into_result(mut self, wait: &NetworkWaitOptions<'_>) -> Result<Self, ClientError> {
        let status = self.response.status();
        if status.is_success() {
            return Ok(self);
        }
        let text = self.read_up_to(ERROR_BYTES_MAX, wait)?;
        Err(ServerError::from_json(&text).map_or_else(
            || {
                ClientError::connection(format!(
                    "the Endpoint is not an oxbus server of this version; correct the Endpoint: status {}",
                    status.as_u16()
                ))
            },
            ClientError::Server,
        ))
    }

    /// Reads the whole body. Fails if it exceeds `bytes_max`.
    pub fn read_up_to(&mut self, bytes_max: usize, wait: &NetworkWaitOptions<'_>) -> Result<Vec<u8>, ClientError> {
        let mut all = Vec::new();
        while let Some(chunk) = self.next_chunk(wait)? {
            all.extend_from_slice(&chunk);
            if all.len() > bytes_max {
                let detail =
                    format!("the server's response is too long; read less at once: more than {bytes_max} bytes");
                return Err(ClientError::connection(detail));
            }
        }
        Ok(all)
    }

    /// Reads the next bytes of the body. Returns `None` after its end.
    pub fn next_chunk(&mut self, wait: &NetworkWaitOptions<'_>) -> Result<Option<Bytes>, ClientError> {
        // An error drops the connection.
        while let Some(connection) = self.connection.take() {
            let frame = connection.driver.wait(wait, self.response.body_mut().frame());
            match frame.map_err(|error| error.with_effect(self.effect))? {
                Some(Ok(frame)) => {
                    self.connection = Some(connection);
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
                Some(Err(error)) => return Err(self.client.broken(error).with_effect(self.effect)),
                None if self.unfinished.is_none() => self.client.return_connection(connection),
                None => {}
            }
        }
        Ok(None)
    }
}
