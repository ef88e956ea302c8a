// SPDX-License-Identifier: Apache-2.0
//! Writing a stage: runs under a temporary name, then the index and the end, then the rename.
//!
//! Rows are encoded directly into the write buffer: the open run is at the end of the buffer, after space for its
//! header.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{END_MAGIC, INDEX_BYTES, RUN_HEADER_BYTES, StageFile, StageHeader, StageRun, stage_path, temporary_path};
use crate::disk::{Disk, DiskFile};

/// The buffer is written at this size. A larger buffer would not fit in the processor's caches.
const WRITE_BYTES: usize = 256 << 10;
/// A run ends at this size. Its last row may exceed it.
const RUN_BYTES: usize = 256 << 10;

/// A stage that is being written. Dropping it unfinished removes its file.
#[derive(Debug)]
pub struct StageWriter {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    file: Arc<dyn DiskFile>,
    header: StageHeader,
    crc: u32,
    runs: Vec<StageRun>,
    /// Bytes that have not been written yet, and their position in the file.
    buffer: Vec<u8>,
    position: u64,
    /// The open run at the end of the buffer.
    open_run: Option<OpenRun>,
    /// True if the file has been renamed or there is nothing to remove.
    is_done: bool,
}

/// A run that accepts more rows.
#[derive(Debug)]
struct OpenRun {
    partition: u16,
    rows: u32,
    /// The position of its header in the buffer.
    at: usize,
}

impl StageWriter {
    /// Creates a stage in an existing directory.
    pub fn create(disk: &Arc<dyn Disk>, dir: &Path, head: StageHeader) -> io::Result<Self> {
        let (buffer, crc) = head.encode()?;
        let file = disk.create(&temporary_path(dir, head.number))?;
        Ok(Self {
            disk: Arc::clone(disk),
            dir: dir.to_owned(),
            file,
            header: head,
            crc,
            runs: Vec::new(),
            buffer,
            position: 0,
            open_run: None,
            is_done: false,
        })
    }

    /// Adds a row of a partition: `encode` appends the row's bytes to the vector. After an error the stage cannot be
    /// finished.
    pub fn push(&mut self, partition: u16, encode: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        if self.open_run.as_ref().is_some_and(|run| run.partition != partition) {
            self.end_run()?;
        }
        let run = self.open_run.get_or_insert_with(|| {
            // This includes the excess of the last row, so that the buffer seldom grows.
            self.buffer.reserve(RUN_BYTES + RUN_BYTES / 4);
            OpenRun::at_end_of(&mut self.buffer, partition)
        });
        encode(&mut self.buffer);
        run.rows += 1;
        if self.buffer.len() - run.at >= RUN_HEADER_BYTES + RUN_BYTES {
            self.end_run()?;
        }
        Ok(())
    }

    /// Adds a complete run of encoded rows. After an error the stage cannot be finished.
    pub fn push_run(&mut self, partition: u16, rows: u32, payload: &[u8]) -> io::Result<()> {
        self.end_run()?;
        let begun = OpenRun::at_end_of(&mut self.buffer, partition);
        self.buffer.extend_from_slice(payload);
        self.open_run = Some(OpenRun { rows, ..begun });
        self.end_run()
    }

    /// Ends the open run, if any, and fills in its header.
    fn end_run(&mut self) -> io::Result<()> {
        let Some(OpenRun { partition, rows, at }) = self.open_run.take() else {
            return Ok(());
        };
        let (header, payload) = self.buffer[at..].split_at_mut(RUN_HEADER_BYTES);
        let run = StageRun {
            position: self.position + at as u64,
            partition,
            rows,
            bytes: u32::try_from(payload.len()).map_err(io::Error::other)?,
        };
        let head = run.prefix();
        let crc = crc32c::crc32c_append(crc32c::crc32c_append(self.crc, &head), payload);
        header[..head.len()].copy_from_slice(&head);
        header[head.len()..].copy_from_slice(&crc.to_le_bytes());
        self.runs.push(run);
        if self.buffer.len() >= WRITE_BYTES {
            self.write()?;
        }
        Ok(())
    }

    /// Ends and renames the stage. If `synced`, it is durable when this returns.
    pub fn finish(self, synced: bool) -> io::Result<StageFile> {
        self.seal(synced)?.publish()
    }

    /// Ends the stage without renaming it.
    pub fn seal(mut self, synced: bool) -> io::Result<SealedStage> {
        self.end_run()?;
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
        Ok(SealedStage { writer: self, synced })
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.end()
    }

    /// Rows added so far.
    pub fn rows(&self) -> u64 {
        let begun = self.open_run.as_ref().map_or(0, |run| u64::from(run.rows));
        self.runs.iter().map(|run| u64::from(run.rows)).sum::<u64>() + begun
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

impl OpenRun {
    /// Begins an empty run at the end of `buffer`.
    fn at_end_of(buffer: &mut Vec<u8>, partition: u16) -> Self {
        let at = buffer.len();
        buffer.resize(at + RUN_HEADER_BYTES, 0);
        Self { partition, rows: 0, at }
    }
}

/// A complete stage that has not been renamed yet. Dropping it removes its file.
#[derive(Debug)]
pub struct SealedStage {
    writer: StageWriter,
    synced: bool,
}

impl SealedStage {
    /// Renames the stage. If it is synced, the name is durable when this returns.
    pub fn publish(self) -> io::Result<StageFile> {
        let Self { mut writer, synced } = self;
        let path = stage_path(&writer.dir, writer.header.number);
        writer
            .disk
            .rename(&temporary_path(&writer.dir, writer.header.number), &path)?;
        writer.is_done = true;
        if synced && let Err(error) = writer.disk.sync_dir(&writer.dir) {
            // The task gets an error, so no commit may find the stage.
            let _ = writer.disk.remove(&path);
            return Err(error);
        }
        Ok(StageFile::written(
            writer.header.clone(),
            path,
            writer.crc,
            std::mem::take(&mut writer.runs),
        ))
    }
}

impl Drop for StageWriter {
    fn drop(&mut self) {
        if !self.is_done {
            // If the removal fails, the next open removes the file.
            let _ = self.disk.remove(&temporary_path(&self.dir, self.header.number));
        }
    }
}
