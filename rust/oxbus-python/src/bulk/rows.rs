// SPDX-License-Identifier: Apache-2.0
//! Upload and download of rows.

use crate::arrow::{ArrowTable, Batches};
use std::fmt::Display;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use oxbus_arrow::stream::{Decoder, Encoder, split_batch};
use oxbus_model::caps::{BULK_CHUNK_BYTES, BULK_PAGE_BYTES_MAX};
use oxbus_model::{Error, Result};
use oxbus_wire::client::{BulkResponse, ClientError, NetworkWaitOptions};

/// Initial and largest buffer of an answer whose size is unknown.
const BUFFER_BYTES_MIN: usize = 64 << 10;
const BUFFER_BYTES_MAX: usize = 8 * BULK_CHUNK_BYTES;

/// Encodes rows piece by piece.
pub(super) struct Upload {
    batches: Batches,
    /// Remaining parts of a batch that was too large for one piece.
    pending: Box<dyn Iterator<Item = RecordBatch> + Send>,
    encoder: Option<Encoder>,
}

impl Upload {
    pub(super) fn new(batches: Batches) -> Result<Self> {
        let encoder = Encoder::new(&batches.schema())?;
        Ok(Self {
            batches,
            pending: Box::new(std::iter::empty()),
            encoder: Some(encoder),
        })
    }

    /// Returns the next piece, and `None` after the last one.
    pub(super) fn next(&mut self) -> Result<Option<Vec<Buffer>>> {
        let Some(encoder) = self.encoder.as_mut() else {
            return Ok(None);
        };
        loop {
            if let Some(part) = self.pending.next() {
                return encoder.batch(&part).map(Some);
            }
            match self.batches.next()? {
                Some(batch) => self.pending = Box::new(split_batch(batch, BULK_CHUNK_BYTES)),
                None => return self.encoder.take().map(Encoder::finish).transpose(),
            }
        }
    }
}

/// Rows received from a server.
pub(super) struct Download {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Download {
    /// Reads all rows of an answer.
    pub(super) fn read(
        mut answer: BulkResponse<'_>,
        wait: &NetworkWaitOptions<'_>,
    ) -> std::result::Result<Self, ClientError> {
        let mut decoder = Decoder::default();
        let mut batches = Vec::new();
        // Buffers are large, and there is only one if the size is known: the decoder reads a column in place, without
        // a copy, if one buffer holds all of it.
        let known = answer.bytes_left().and_then(|bytes| usize::try_from(bytes).ok());
        let mut capacity = known.map_or(BUFFER_BYTES_MIN, |bytes| bytes.min(2 * BULK_PAGE_BYTES_MAX));
        let mut buffer = Vec::new();
        while let Some(piece) = answer.next_chunk(wait)? {
            let mut rest = &piece[..];
            while !rest.is_empty() {
                buffer.reserve_exact(capacity - buffer.len());
                let (here, later) = rest.split_at(rest.len().min(capacity - buffer.len()));
                buffer.extend_from_slice(here);
                rest = later;
                if buffer.len() == capacity {
                    capacity = (2 * capacity).clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX);
                    let full = Buffer::from_vec(std::mem::take(&mut buffer));
                    batches.extend(decoder.push(full).map_err(decode_failure)?);
                }
            }
        }
        batches.extend(decoder.push(Buffer::from_vec(buffer)).map_err(decode_failure)?);
        let schema = decoder.schema();
        decoder.finish().map_err(decode_failure)?;
        let schema = schema.ok_or_else(|| ClientError::connection(unreadable(&"the table is missing")))?;
        Ok(Self { schema, batches })
    }

    pub(super) fn table(self) -> ArrowTable {
        ArrowTable::new(self.schema, self.batches)
    }
}

fn decode_failure(error: Error) -> ClientError {
    ClientError::connection_with_source(unreadable(&error), error)
}

fn unreadable(error: &dyn Display) -> String {
    format!("the server's answer cannot be read; is a proxy in between? {error}")
}
