// SPDX-License-Identifier: Apache-2.0
//! Reads many messages in order and combines reads of adjacent messages in a file.
//!
//! A journal or snapshot stores messages one after another with small gaps, so one system call reads a run of them
//! into one buffer. Each message's checksum is verified as in a single read.

use std::io;
use std::sync::Arc;

use crate::StoredRecord;
use crate::disk::DiskFile;
use crate::extent::{CHECKSUM_BYTES, checked};
use crate::slot_log::record::RecordLocation;

/// Bytes of one read, unless a single message is longer.
const SPAN_BYTES: u64 = 256 << 10;
/// A gap of up to this many bytes is read and discarded, which costs less than another system call.
const GAP_BYTES: u64 = 4 << 10;

/// Reads messages from memory and from disk. Reuse it to reuse its buffer.
#[derive(Debug, Default)]
pub struct CoalescingReader {
    span: ReadSpan,
    buffer: Vec<u8>,
}

/// Adjacent messages of a file that have not been read yet.
#[derive(Debug, Default)]
struct ReadSpan {
    file: Option<Arc<dyn DiskFile>>,
    start: u64,
    end: u64,
    /// The offset of each message from `start`, and its length in bytes.
    messages: Vec<(usize, usize)>,
}

impl CoalescingReader {
    /// Passes the bytes of each message to `visit`, in order. `unreadable` converts the error of a message that cannot
    /// be read or fails its checksum. Reading stops at the first error.
    pub fn read<'a, E>(
        &mut self,
        messages: impl Iterator<Item = &'a StoredRecord>,
        unreadable: impl Fn(io::Error) -> E,
        mut visit: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.span.clear();
        for message in messages {
            match message.location() {
                RecordLocation::Memory(record) => {
                    self.flush(&unreadable, &mut visit)?;
                    visit(record)?;
                }
                RecordLocation::Disk(file, position) => {
                    if !self.span.can_extend(&file, position, message.len()) {
                        self.flush(&unreadable, &mut visit)?;
                    }
                    self.span.push(file, position, message.len());
                }
            }
        }
        self.flush(&unreadable, &mut visit)
    }

    /// Reads and visits the collected span.
    fn flush<E>(
        &mut self,
        unreadable: impl Fn(io::Error) -> E,
        visit: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(file) = self.span.file.take() else {
            return Ok(());
        };
        let len = (self.span.end - self.span.start) as usize;
        if self.buffer.len() < len {
            self.buffer.resize(len, 0);
        }
        let read = file.read_full_at(&mut self.buffer[..len], self.span.start);
        let read = &self.buffer[..read.map_err(&unreadable)?];
        for (at, len) in self.span.messages.drain(..) {
            let rest = read.get(at..).unwrap_or_default();
            visit(checked(rest, len).map_err(&unreadable)?)?;
        }
        Ok(())
    }
}

impl ReadSpan {
    fn clear(&mut self) {
        self.file = None;
        self.messages.clear();
    }

    /// True if a message can extend the span.
    fn can_extend(&self, file: &Arc<dyn DiskFile>, position: u64, len: usize) -> bool {
        let same = self.file.as_ref().is_some_and(|it| Arc::ptr_eq(it, file));
        same && position >= self.end
            && position - self.end <= GAP_BYTES
            && position + (len + CHECKSUM_BYTES) as u64 - self.start <= SPAN_BYTES
    }

    fn push(&mut self, file: Arc<dyn DiskFile>, position: u64, len: usize) {
        if self.messages.is_empty() {
            self.start = position;
            self.file = Some(file);
        }
        self.messages.push(((position - self.start) as usize, len));
        self.end = position + (len + CHECKSUM_BYTES) as u64;
    }
}

#[cfg(test)]
mod tests;
