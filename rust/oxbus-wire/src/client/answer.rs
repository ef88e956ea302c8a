// SPDX-License-Identifier: Apache-2.0
//! An answer, and its body as it arrives.

use oxbus_model::Effect;

use super::connection::{Connection, Head, Patience};
use super::{Client, Failure};
use crate::fault::Fault;

/// Bytes of the text of an error that are read.
const FAULT_BYTES_MAX: usize = 1 << 20;

/// What is left of a body.
enum Left {
    /// So many bytes.
    Bytes(u64),
    /// So many bytes of a chunk, and further chunks.
    Chunk(u64),
    /// Chunks.
    Chunks,
    Nothing,
}

/// The answer to a call. Read to its end, it leaves the connection to the next call.
pub struct Answer<'a> {
    client: &'a Client,
    connection: Option<Connection>,
    head: Head,
    left: Left,
    is_reusable: bool,
    /// What the call did if its answer breaks off.
    effect: Effect,
}

impl<'a> Answer<'a> {
    pub(super) fn new(client: &'a Client, connection: Connection, head: Head, took_body: bool, effect: Effect) -> Self {
        let left = if head.is_chunked {
            Left::Chunks
        } else {
            Left::Bytes(head.length.unwrap_or(0))
        };
        let is_reusable = took_body && head.keeps_open && (head.is_chunked || head.length.is_some());
        Self {
            client,
            connection: Some(connection),
            head,
            left,
            is_reusable,
            effect,
        }
    }

    /// Where the next page begins.
    pub fn next(&self) -> Option<&str> {
        self.head.next.as_deref()
    }

    /// Bytes of the body that are to come, when the server said how many.
    pub fn bytes_left(&self) -> Option<u64> {
        match self.left {
            Left::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Itself, or the error that it tells.
    pub(super) fn or_fault(mut self, patience: &Patience<'_>) -> Result<Self, Failure> {
        if (200..300).contains(&self.head.status) {
            return Ok(self);
        }
        let status = self.head.status;
        let text = self.read_up_to(FAULT_BYTES_MAX, patience)?;
        Err(Fault::from_json(&text).map_or_else(
            || {
                Failure::connection(format!(
                    "what answers there is no bulk server of this version of oxbus; correct the Endpoint: status {status}"
                ))
            },
            Failure::Fault,
        ))
    }

    /// The whole body, if it is no longer than that.
    pub fn read_up_to(&mut self, bytes_max: usize, patience: &Patience<'_>) -> Result<Vec<u8>, Failure> {
        let mut all = Vec::new();
        let mut piece = [0; 8192];
        loop {
            match self.read(&mut piece, patience)? {
                0 => return Ok(all),
                read => all.extend_from_slice(&piece[..read]),
            }
            if all.len() > bytes_max {
                let detail = format!("the server's answer is longer than it may be: {bytes_max} bytes");
                return Err(Failure::connection(detail));
            }
        }
    }

    /// Bytes of the body; 0 at its end.
    pub fn read(&mut self, out: &mut [u8], patience: &Patience<'_>) -> Result<usize, Failure> {
        let Some(connection) = self.connection.as_mut() else {
            return Ok(0);
        };
        let failed = |failure| (failure, false);
        let read = next_bytes(connection, &mut self.left, out, patience).map_err(failed);
        match read {
            Ok(0) if !out.is_empty() => {
                if let Some(connection) = self.connection.take().filter(|_| self.is_reusable) {
                    self.client.give_back(connection);
                }
                Ok(0)
            }
            Ok(read) => Ok(read),
            Err((failure, _)) => {
                // Half an answer is none, and nobody knows where the next would begin.
                self.connection = None;
                Err(failure.with_effect(self.effect))
            }
        }
    }
}

fn next_bytes(
    connection: &mut Connection,
    left: &mut Left,
    out: &mut [u8],
    patience: &Patience<'_>,
) -> Result<usize, Failure> {
    if matches!(left, Left::Chunks) {
        let line = connection.read_line(patience)?;
        let size = std::str::from_utf8(&line)
            .ok()
            .and_then(|line| u64::from_str_radix(line.split(';').next().unwrap_or("").trim(), 16).ok());
        *left = match size {
            Some(0) => {
                while !connection.read_line(patience)?.is_empty() {}
                Left::Nothing
            }
            Some(size) => Left::Chunk(size),
            None => {
                let detail = "the server's answer is malformed; is a proxy in between?";
                return Err(Failure::connection(detail));
            }
        };
    }
    let (Left::Bytes(bytes) | Left::Chunk(bytes)) = left else {
        return Ok(0);
    };
    if *bytes == 0 {
        return Ok(0);
    }
    let most = usize::try_from(*bytes).map_or(out.len(), |bytes| bytes.min(out.len()));
    let read = connection.read(&mut out[..most], patience)?;
    *bytes -= read as u64;
    if matches!(left, Left::Chunk(0)) {
        connection.read_line(patience)?;
        *left = Left::Chunks;
    }
    Ok(read)
}
