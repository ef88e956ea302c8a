// SPDX-License-Identifier: Apache-2.0
//! An answer, and its body as it arrives.

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

/// Bytes of the text of an error that are read.
const FAULT_BYTES_MAX: usize = 1 << 20;

/// The answer to a call. Read to its end, it leaves the connection to the next call.
pub struct BulkResponse<'a> {
    client: &'a Client,
    connection: Option<Connection>,
    response: Response<Incoming>,
    /// Feeds the rest of a body that the server did not take: it may wait for that while it answers. Nothing when the
    /// connection can take the next request.
    unfinished: Option<Sender<Bytes>>,
    /// The effect of the call if its answer breaks off.
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

    /// Where the next page begins.
    pub fn next(&self) -> Option<&str> {
        self.response.headers().get(NEXT_HEADER)?.to_str().ok()
    }

    /// Bytes of the body that are to come, when the server said how many.
    pub fn bytes_left(&self) -> Option<u64> {
        self.response.body().size_hint().exact()
    }

    /// The response itself, or the error that it reports.
    pub(super) fn into_result(mut self, wait: &NetworkWaitOptions<'_>) -> Result<Self, ClientError> {
        let status = self.response.status();
        if status.is_success() {
            return Ok(self);
        }
        let text = self.read_up_to(FAULT_BYTES_MAX, wait)?;
        Err(ServerError::from_json(&text).map_or_else(
            || {
                ClientError::connection(format!(
                    "what answers there is no server of this version of oxbus; correct the Endpoint: status {}",
                    status.as_u16()
                ))
            },
            ClientError::Server,
        ))
    }

    /// The whole body, if it is no longer than that.
    pub fn read_up_to(&mut self, bytes_max: usize, wait: &NetworkWaitOptions<'_>) -> Result<Vec<u8>, ClientError> {
        let mut all = Vec::new();
        while let Some(chunk) = self.next_chunk(wait)? {
            all.extend_from_slice(&chunk);
            if all.len() > bytes_max {
                let detail = format!("the server's answer is longer than it may be: {bytes_max} bytes");
                return Err(ClientError::connection(detail));
            }
        }
        Ok(all)
    }

    /// The next bytes of the body; nothing after its end.
    pub fn next_chunk(&mut self, wait: &NetworkWaitOptions<'_>) -> Result<Option<Bytes>, ClientError> {
        // Half an answer is none: the connection ends with an error.
        while let Some(connection) = self.connection.take() {
            let frame = connection.driver.wait(wait, self.response.body_mut().frame());
            match frame.map_err(|failure| failure.with_effect(self.effect))? {
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
