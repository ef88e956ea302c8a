// SPDX-License-Identifier: Apache-2.0
//! What the files of a log take, what they may still take, and who lends whom room on a full disk.

use std::io;
use std::sync::atomic::Ordering;

use super::FileLog;

impl FileLog {
    /// Makes the next file once the current one is nearly used up, and finds out whether a full disk has room again.
    pub fn prepare(&self) -> io::Result<()> {
        self.commits.with_writer(|writer| {
            if self.commits.is_full() || writer.is_nearly_used() {
                self.commits.prepare(writer)
            } else {
                Ok(())
            }
        })
    }

    /// Bytes of the newest snapshot.
    pub fn snapshot_bytes(&self) -> u64 {
        self.snapshot_bytes.load(Ordering::Acquire)
    }

    /// Bytes of the files that another snapshot would replace.
    pub fn replaceable_bytes(&self) -> u64 {
        self.snapshot_bytes() + self.commits.with_writer(|writer| writer.kept_bytes())
    }

    /// Bytes that its files may still take.
    pub fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes(&self.dir)
    }

    /// Bytes that a snapshot may have for which a file of the drain reserve is given up.
    pub fn lendable_bytes(&self) -> u64 {
        self.commits.options.segment_bytes_min / 2
    }

    /// Runs `work`, which writes a small snapshot, while one file of the drain reserve gives it room. Then the file is made
    /// again.
    pub fn with_lent_reserve<R>(&self, work: impl FnOnce() -> R) -> R {
        self.commits.is_reserve_lent.store(true, Ordering::Release);
        // One that cannot be removed lends nothing: then `work` finds no room.
        let _ = self
            .commits
            .with_writer(|writer| self.commits.release_reserve_file(writer));
        let done = work();
        self.commits.is_reserve_lent.store(false, Ordering::Release);
        // Without room for it the disk is full, which is known.
        let _ = self.prepare();
        done
    }

    /// Removes the drain reserve of a log that holds no message; the next entry that adds makes it again.
    pub fn release_reserve(&self) -> io::Result<()> {
        self.commits.with_writer(|writer| {
            while !writer.reserve.is_empty() {
                self.commits.release_reserve_file(writer)?;
            }
            Ok(())
        })
    }
}
