// SPDX-License-Identifier: Apache-2.0
//! Rows on their way to a server and back.

use crate::arrow::{ArrowTable, Batches};
use std::fmt::Display;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use oxbus_arrow::stream::{Decoder, Encoder, parts};
use oxbus_model::caps::{BULK_PAGE_BYTES_MAX, BULK_PIECE_BYTES};
use oxbus_model::{Error, Result};
use oxbus_wire::client::{Answer, Failure, Patience};

/// Bytes that an answer is gathered in at first, and at most, while nobody knows how many there are.
const BUFFER_BYTES_MIN: usize = 64 << 10;
const BUFFER_BYTES_MAX: usize = 8 * BULK_PIECE_BYTES;

/// Makes the bytes of rows, piece by piece.
pub(super) struct Upload {
    batches: Batches,
    /// Parts of a batch that was too large for one piece.
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

    /// The next bytes; none after the end.
    pub(super) fn next(&mut self) -> Result<Option<Vec<Buffer>>> {
        let Some(encoder) = self.encoder.as_mut() else {
            return Ok(None);
        };
        loop {
            if let Some(part) = self.pending.next() {
                return encoder.batch(&part).map(Some);
            }
            match self.batches.next()? {
                Some(batch) => self.pending = Box::new(parts(batch, BULK_PIECE_BYTES)),
                None => return self.encoder.take().map(Encoder::finish).transpose(),
            }
        }
    }
}

/// Rows that a server sent.
pub(super) struct Download {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Download {
    /// Reads all rows of an answer.
    pub(super) fn read(mut answer: Answer<'_>, patience: &Patience<'_>) -> std::result::Result<Self, Failure> {
        let mut decoder = Decoder::default();
        let mut batches = Vec::new();
        // Gathered in large buffers, all of it in one where its size is known: columns that are whole in one are read from
        // there, and copied no more.
        let known = answer.bytes_left().and_then(|bytes| usize::try_from(bytes).ok());
        let mut capacity = known.map_or(BUFFER_BYTES_MIN, |bytes| bytes.min(2 * BULK_PAGE_BYTES_MAX));
        let mut buffer = Vec::new();
        while let Some(piece) = answer.piece(patience)? {
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
        let schema = schema.ok_or_else(|| Failure::connection(unreadable(&"there is no table")))?;
        Ok(Self { schema, batches })
    }

    pub(super) fn table(self) -> ArrowTable {
        ArrowTable::new(self.schema, self.batches)
    }
}

fn decode_failure(error: Error) -> Failure {
    Failure::connection_by(unreadable(&error), error)
}

fn unreadable(error: &dyn Display) -> String {
    format!("the server's answer cannot be read; is a proxy in between? {error}")
}
