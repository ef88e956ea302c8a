// SPDX-License-Identifier: Apache-2.0
//! An open file of a disk in a store.

use std::fmt;
use std::io;
use std::sync::Arc;

use oxbus_store::disk::{DiskFile, SyncCallback};

use super::change::{Change, FileId};
use super::state::{OBJECT_BYTES, State, WRITE_BYTES_MAX};
use super::{Shared, missing};

/// A write of this many zeros is kept as their number.
const CLEARS_FROM: usize = 4096;

/// An open file.
pub(super) struct LaneFile {
    shared: Arc<Shared>,
    file: FileId,
    pid: u32,
}

impl fmt::Debug for LaneFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LaneFile({})", self.file.0)
    }
}

impl LaneFile {
    /// A handle of a file that the map counts as open.
    pub(super) fn new(shared: &Arc<Shared>, file: FileId) -> Self {
        Self {
            shared: Arc::clone(shared),
            file,
            pid: std::process::id(),
        }
    }

    fn len_of(&self, state: &State) -> io::Result<u64> {
        state.map.len(self.file).map_or_else(missing, Ok)
    }
}

impl DiskFile for LaneFile {
    fn len(&self) -> io::Result<u64> {
        self.len_of(&self.shared.state.lock())
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.shared.read(self.file, buffer, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(WRITE_BYTES_MAX)];
        let len = bytes.len() as u64;
        let mut state = self.shared.state.lock_for_change()?;
        let began = !state.has_changes();
        let file = self.file;
        if bytes.len() >= CLEARS_FROM && bytes.iter().all(|byte| *byte == 0) {
            if position + len > self.len_of(&state)? || !state.map.is_clear(file, position, len) {
                state.change(&Change::Clear { file, position, len });
            }
        } else if !bytes.is_empty() {
            state.write(file, position, bytes);
        }
        let is_due = began || state.gathered_bytes() >= OBJECT_BYTES;
        drop(state);
        if is_due {
            self.shared.work.notify_one();
        }
        Ok(bytes.len())
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.shared.state.lock_for_change()?;
        if state.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if self.len_of(&state)? < bytes {
            state.change(&Change::Length(self.file, bytes));
        }
        Ok(())
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.shared.state.lock_for_change()?;
        if self.len_of(&state)? != bytes {
            state.change(&Change::Length(self.file, bytes));
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.shared.sync()
    }

    fn sync_later(&self, done: SyncCallback) {
        self.shared.sync_later(done);
    }

    fn number(&self) -> Option<u64> {
        Some(self.file.0)
    }

    fn share(&self, of: u64, from: u64, len: u64, position: u64) -> io::Result<()> {
        let mut state = self.shared.state.lock_for_change()?;
        state.share(FileId(of), from, self.file, position, len)?;
        drop(state);
        self.shared.work.notify_one();
        Ok(())
    }
}

impl Drop for LaneFile {
    fn drop(&mut self) {
        // In a forked child, a thread of the parent may have held the lock.
        if self.pid == std::process::id() {
            self.shared.state.lock().map.close(self.file);
        }
    }
}
