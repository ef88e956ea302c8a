// SPDX-License-Identifier: Apache-2.0
//! The space that the files of a log use and may still use, and the lending of space from the drain reserve on a full
//! disk.

use std::io;
use std::sync::atomic::Ordering;

use super::FileLog;

impl FileLog {
    /// Creates the next file once the current one is nearly used up, and detects whether a full disk has space again.
    pub fn prepare(&self) -> io::Result<()> {
        self.commits.with_writer(|writer| {
            if self.commits.is_full() || writer.is_nearly_used() {
                self.commits.prepare(writer)
            } else {
                Ok(())
            }
        })
    }

    /// Size of the newest snapshot in bytes.
    pub fn snapshot_bytes(&self) -> u64 {
        self.snapshot_bytes.load(Ordering::Acquire)
    }

    /// Bytes of the newest snapshot that it does not share with other files.
    pub fn snapshot_written(&self) -> u64 {
        self.snapshot_written.load(Ordering::Acquire)
    }

    /// Bytes of the files that a new snapshot would replace.
    pub fn replaceable_bytes(&self) -> u64 {
        self.snapshot_bytes() + self.commits.with_writer(|writer| writer.kept_bytes())
    }

    /// Bytes that the log's files may still use.
    pub fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes(&self.dir)
    }

    /// Maximum size of a snapshot for which a file of the drain reserve is lent.
    pub fn lendable_bytes(&self) -> u64 {
        self.commits.options.segment_bytes_min / 2
    }

    /// Runs `work`, which writes a small snapshot, while a file of the drain reserve is removed to give it space. Then
    /// recreates the file.
    pub fn with_lent_reserve<R>(&self, work: impl FnOnce() -> R) -> R {
        self.commits.is_reserve_lent.store(true, Ordering::Release);
        // If the removal fails, `work` finds no space.
        let _ = self
            .commits
            .with_writer(|writer| self.commits.release_reserve_file(writer));
        let done = work();
        self.commits.is_reserve_lent.store(false, Ordering::Release);
        // An error means that the disk is full, which is recorded.
        let _ = self.prepare();
        done
    }

    /// Removes the drain reserve of a log without messages. The next entry that adds recreates it.
    pub fn release_reserve(&self) -> io::Result<()> {
        self.commits.with_writer(|writer| {
            while !writer.reserve.is_empty() {
                self.commits.release_reserve_file(writer)?;
            }
            Ok(())
        })
    }
}
