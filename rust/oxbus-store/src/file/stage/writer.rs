// SPDX-License-Identifier: Apache-2.0
//! Writing a stage: run by run under a temporary name, then its end, then its name.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{END_MAGIC, INDEX_BYTES, Run, StageFile, StageHead, stage_path, temporary_path};
use crate::disk::{Disk, DiskFile};

/// Bytes that are collected before they are written.
const WRITE_BYTES: usize = 1 << 20;

/// A stage that is being written. Dropped unfinished, its file is removed.
#[derive(Debug)]
pub struct StageWriter {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    file: Arc<dyn DiskFile>,
    head: StageHead,
    crc: u32,
    runs: Vec<Run>,
    /// What is not written yet, and where it belongs.
    buffer: Vec<u8>,
    position: u64,
    /// It has its name, or nothing is there to be removed.
    is_done: bool,
}

impl StageWriter {
    /// Begins a stage in a directory that is there.
    pub fn create(disk: &Arc<dyn Disk>, dir: &Path, head: StageHead) -> io::Result<Self> {
        let (buffer, crc) = head.encode()?;
        let file = disk.create(&temporary_path(dir, head.number))?;
        Ok(Self {
            disk: Arc::clone(disk),
            dir: dir.to_owned(),
            file,
            head,
            crc,
            runs: Vec::new(),
            buffer,
            position: 0,
            is_done: false,
        })
    }

    /// Adds rows of a partition. After an error the stage cannot be finished.
    pub fn put(&mut self, partition: u16, rows: u32, payload: &[u8]) -> io::Result<()> {
        let run = Run {
            position: self.end(),
            partition,
            rows,
            bytes: u32::try_from(payload.len()).map_err(io::Error::other)?,
        };
        let head = run.head();
        let crc = crc32c::crc32c_append(crc32c::crc32c_append(self.crc, &head), payload);
        self.buffer.extend_from_slice(&head);
        self.buffer.extend_from_slice(&crc.to_le_bytes());
        self.buffer.extend_from_slice(payload);
        self.runs.push(run);
        if self.buffer.len() >= WRITE_BYTES {
            self.write()?;
        }
        Ok(())
    }

    /// Ends the stage and gives it its name; durable when this returns, if it is to be `synced`.
    pub fn finish(mut self, synced: bool) -> io::Result<StageFile> {
        let index_at = self.end();
        let mut tail = Vec::with_capacity(self.runs.len() * INDEX_BYTES + super::END_BYTES);
        for run in &self.runs {
            run.push_index(&mut tail);
        }
        tail.extend_from_slice(&index_at.to_le_bytes());
        tail.extend_from_slice(&[0; 8]);
        tail.extend_from_slice(&u32::try_from(self.runs.len()).map_err(io::Error::other)?.to_le_bytes());
        let crc = crc32c::crc32c_append(self.crc, &tail);
        tail.extend_from_slice(&crc.to_le_bytes());
        tail.extend_from_slice(&END_MAGIC);
        self.buffer.extend_from_slice(&tail);
        self.write()?;
        if synced {
            self.file.sync()?;
        }
        let path = stage_path(&self.dir, self.head.number);
        self.disk.rename(&temporary_path(&self.dir, self.head.number), &path)?;
        self.is_done = true;
        if synced && let Err(error) = self.disk.sync_dir(&self.dir) {
            // Nobody may find what its task was not told of.
            let _ = self.disk.remove(&path);
            return Err(error);
        }
        Ok(StageFile::written(
            self.head.clone(),
            path,
            self.crc,
            std::mem::take(&mut self.runs),
        ))
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.end()
    }

    fn end(&self) -> u64 {
        self.position + self.buffer.len() as u64
    }

    fn write(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.buffer, self.position)?;
        self.position += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl Drop for StageWriter {
    fn drop(&mut self) {
        if !self.is_done {
            // What stays is removed by the next open.
            let _ = self.disk.remove(&temporary_path(&self.dir, self.head.number));
        }
    }
}
