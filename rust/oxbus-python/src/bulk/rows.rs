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

/// Makes the bytes of rows, piece by piece.
pub(super) struct Upload {
    batches: Batches,
    /// Parts of a batch that was too large for one piece.
    waiting: Box<dyn Iterator<Item = RecordBatch> + Send>,
    encoder: Option<Encoder>,
}

impl Upload {
    pub(super) fn new(batches: Batches) -> Result<Self> {
        let encoder = Encoder::new(&batches.schema())?;
        Ok(Self {
            batches,
            waiting: Box::new(std::iter::empty()),
            encoder: Some(encoder),
        })
    }

    /// The next bytes; none after the end.
    pub(super) fn next(&mut self) -> Result<Option<Vec<Buffer>>> {
        let Some(encoder) = self.encoder.as_mut() else {
            return Ok(None);
        };
        loop {
            if let Some(part) = self.waiting.next() {
                return encoder.batch(&part).map(Some);
            }
            match self.batches.next()? {
                Some(batch) => self.waiting = Box::new(parts(batch, BULK_PIECE_BYTES)),
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
        // All in one place where its size is known: the columns are read from there, and no byte is copied again.
        let known = answer.bytes_left().and_then(|bytes| usize::try_from(bytes).ok());
        if let Some(bytes) = known {
            let mut all = Vec::with_capacity(bytes.min(2 * BULK_PAGE_BYTES_MAX));
            while let Some(piece) = answer.piece(patience)? {
                all.extend_from_slice(&piece);
            }
            batches = decoder.push(Buffer::from_vec(all)).map_err(garbled)?;
        } else {
            while let Some(piece) = answer.piece(patience)? {
                batches.extend(decoder.push(Buffer::from(piece)).map_err(garbled)?);
            }
        }
        let schema = decoder.schema();
        decoder.finish().map_err(garbled)?;
        let schema = schema.ok_or_else(|| Failure::connection(unreadable(&"there is no table")))?;
        Ok(Self { schema, batches })
    }

    pub(super) fn table(self) -> ArrowTable {
        ArrowTable::new(self.schema, self.batches)
    }
}

fn garbled(error: Error) -> Failure {
    Failure::connection_by(unreadable(&error), error)
}

fn unreadable(error: &dyn Display) -> String {
    format!("the server's answer cannot be read; is a proxy in between? {error}")
}
