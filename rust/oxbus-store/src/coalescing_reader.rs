// SPDX-License-Identifier: Apache-2.0
//! Reading many messages in order: those that stand side by side in a file are read in one go.
//!
//! A message stands in a journal or a snapshot right behind the one before it, with little between. So a run of them costs
//! one call of the system and no memory of its own. Each is checked as one that is read alone.

use std::io;
use std::sync::Arc;

use crate::StoredRecord;
use crate::disk::DiskFile;
use crate::extent::{CHECKSUM_BYTES, checked};
use crate::slot_log::record::RecordLocation;

/// Bytes that are read in one go, unless one message has more.
const SPAN_BYTES: u64 = 256 << 10;
/// Bytes between two messages that are read and passed over: fewer than another call of the system costs.
const GAP_BYTES: u64 = 4 << 10;

/// Reads messages, wherever they are. Kept for further ones, it needs no memory anew.
#[derive(Debug, Default)]
pub struct CoalescingReader {
    span: ReadSpan,
    buffer: Vec<u8>,
}

/// Messages side by side in a file, not read yet.
#[derive(Debug, Default)]
struct ReadSpan {
    file: Option<Arc<dyn DiskFile>>,
    start: u64,
    end: u64,
    /// Where each begins, counted from `start`, and its bytes.
    messages: Vec<(usize, usize)>,
}

impl CoalescingReader {
    /// Shows the bytes of each message, in order. What cannot be read, or is not what was written, is an error for
    /// `unreadable` to name; nothing is shown after one.
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

    /// Reads what is side by side.
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

    /// True when a message continues it.
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
