// SPDX-License-Identifier: Apache-2.0
//! The Arrow IPC streaming format, incrementally.
//!
//! Encoding does not copy columns. Decoding validates everything: offsets, text and types.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamEncoder;
use arrow_schema::{DataType, Schema, SchemaRef};
use oxbus_model::Result;

use crate::unreadable;

/// Encodes batches of one schema.
pub struct Encoder(StreamEncoder);

impl Encoder {
    /// An encoder for batches of this schema.
    pub fn new(schema: &Schema) -> Result<Self> {
        StreamEncoder::try_new(schema).map(Self).map_err(unreadable)
    }

    /// Encodes a batch. The first call also encodes the schema.
    pub fn batch(&mut self, batch: &RecordBatch) -> Result<Vec<Buffer>> {
        self.0.encode(batch).map_err(unreadable)
    }

    /// The end of the stream.
    pub fn finish(self) -> Result<Vec<Buffer>> {
        self.0.finish().map_err(unreadable)
    }
}

/// Decodes batches from chunks of bytes of any size.
#[derive(Debug, Default)]
pub struct Decoder(StreamDecoder);

impl Decoder {
    /// Adds bytes. Returns the batches that they complete.
    pub fn push(&mut self, mut bytes: Buffer) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        while !bytes.is_empty() {
            let batch = self.0.decode(&mut bytes).map_err(unreadable)?;
            batches.extend(batch);
        }
        Ok(batches)
    }

    /// The schema, once it is decoded.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.0.schema()
    }

    /// Fails if the stream ended within a message.
    pub fn finish(mut self) -> Result<()> {
        self.0.finish().map_err(unreadable)
    }
}

/// Splits a batch into parts of about this many bytes, without a copy if the columns allow it.
pub fn split_batch(batch: RecordBatch, bytes: usize) -> impl Iterator<Item = RecordBatch> + use<> {
    let rows = batch.num_rows();
    let size = batch.get_array_memory_size().max(1);
    let step = if size <= bytes {
        rows.max(1)
    } else {
        // Assumes that all rows have the average size. A part has at least one row.
        usize::try_from(rows as u128 * bytes as u128 / size as u128).map_or(rows, |rows| rows.max(1))
    };

    let part = move |first: usize| {
        let part = batch.slice(first, step.min(rows - first));
        if step < rows { without_unused_bytes(&part) } else { part }
    };
    (0..rows).step_by(step).map(part)
}

/// Drops bytes of view columns that no row of the slice uses.
fn without_unused_bytes(batch: &RecordBatch) -> RecordBatch {
    let column = |array: &ArrayRef| -> ArrayRef {
        match array.data_type() {
            DataType::Utf8View => std::sync::Arc::new(array.as_string_view().gc()),
            DataType::BinaryView => std::sync::Arc::new(array.as_binary_view().gc()),
            _ => array.clone(),
        }
    };
    let columns = batch.columns().iter().map(column).collect();
    RecordBatch::try_new(batch.schema(), columns).unwrap_or_else(|_| batch.clone())
}
