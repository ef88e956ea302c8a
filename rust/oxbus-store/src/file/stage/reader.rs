// SPDX-License-Identifier: Apache-2.0
//! Reading a stage. The header and index are read when it is found, the runs when they are published.

use std::path::{Path, PathBuf};

use super::{
    END_BYTES, END_MAGIC, HEADER_BYTES, HEADER_CRC_AT, INDEX_BYTES, MAGIC, RUN_HEADER_BYTES, StageError, StageHeader,
    StageRun, VERSION, stage_path,
};
use crate::disk::{Disk, DiskFile};

/// A finished stage.
#[derive(Debug, Clone)]
pub struct StageFile {
    header: StageHeader,
    path: PathBuf,
    crc: u32,
    runs: Vec<StageRun>,
}

fn damaged(position: usize, detail: &'static str) -> StageError {
    let position = position as u64;
    StageError::Damaged { position, detail }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl StageFile {
    pub(super) fn written(head: StageHeader, path: PathBuf, crc: u32, runs: Vec<StageRun>) -> Self {
        Self {
            header: head,
            path,
            crc,
            runs,
        }
    }

    /// Reads the header of stage `number`, whether or not its end is valid.
    pub fn read_header(disk: &dyn Disk, dir: &Path, number: u64, store: [u8; 16]) -> Result<StageHeader, StageError> {
        let file = disk.open(&stage_path(dir, number))?;
        Ok(parse_header(&*file, number, store)?.0)
    }

    /// Opens the finished stage `number`. Its runs are not read.
    pub fn open(disk: &dyn Disk, dir: &Path, number: u64, store: [u8; 16]) -> Result<Self, StageError> {
        let path = stage_path(dir, number);
        let file = disk.open(&path)?;
        let (head, crc) = parse_header(&*file, number, store)?;
        let first = HEADER_BYTES + head.id.len();
        let runs = read_index(&*file, first, crc)?;
        Ok(Self {
            header: head,
            path,
            crc,
            runs,
        })
    }

    /// The header of the stage.
    pub fn header(&self) -> &StageHeader {
        &self.header
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The runs, in the order in which they were written.
    pub fn runs(&self) -> &[StageRun] {
        &self.runs
    }

    /// Reads the given runs and passes each with its verified payload to `visit`.
    pub fn read<E: From<StageError>>(
        &self,
        disk: &dyn Disk,
        runs: &[StageRun],
        mut visit: impl FnMut(&StageRun, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if runs.is_empty() {
            return Ok(());
        }
        let io = |error| E::from(StageError::Io(error));
        let file = disk.open(&self.path).map_err(io)?;
        let mut bytes = Vec::new();
        for run in runs {
            let at = run.position as usize;
            bytes.resize(RUN_HEADER_BYTES + run.bytes as usize, 0);
            let read = file.read_full_at(&mut bytes, run.position).map_err(io)?;
            if read < bytes.len() {
                return Err(damaged(at + read, "rows are missing").into());
            }
            let (head, payload) = bytes.split_at(RUN_HEADER_BYTES);
            let crc = crc32c::crc32c_append(crc32c::crc32c_append(self.crc, &head[..12]), payload);
            if head[..12] != run.prefix() || crc != u32_at(head, 12) {
                return Err(damaged(at, "rows fail their checksum").into());
            }
            visit(run, payload)?;
        }
        Ok(())
    }
}

fn parse_header(
    file: &(dyn DiskFile + 'static),
    number: u64,
    store: [u8; 16],
) -> Result<(StageHeader, u32), StageError> {
    let mut page = [0; HEADER_BYTES];
    let read = read_full(file, &mut page, 0)?;
    if read < HEADER_BYTES {
        return Err(damaged(read, "the header is cut short"));
    }
    if page[..8] != MAGIC {
        return Err(damaged(0, "it is not a stage file"));
    }
    // Checked before the checksum, because a newer version may use another one.
    let version = u16_at(&page, 8);
    if version > VERSION {
        return Err(StageError::Newer { version });
    }
    let mut id = vec![0; u16_at(&page, 10).into()];
    let read = read_full(file, &mut id, HEADER_BYTES as u64)?;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&page[..HEADER_CRC_AT]), &id[..read]);
    if version == 0 || read < id.len() || crc != u32_at(&page, HEADER_CRC_AT) {
        return Err(damaged(0, "the header fails its checksum"));
    }
    if page[16..32] != store || u64_at(&page, 48) != number {
        return Err(StageError::Misplaced);
    }
    let head = StageHeader {
        store,
        entity: u64_at(&page, 32),
        created_at_ms: u64_at(&page, 40),
        number,
        id: String::from_utf8(id).map_err(|_| damaged(HEADER_BYTES, "the id is not valid UTF-8"))?,
    };
    Ok((head, crc))
}

fn read_index(file: &(dyn DiskFile + 'static), first: usize, header_crc: u32) -> Result<Vec<StageRun>, StageError> {
    let len = file.len()? as usize;
    let cut = || damaged(len, "the end is missing");
    let end_at = len.checked_sub(END_BYTES).filter(|at| *at >= first).ok_or_else(cut)?;
    let mut end = [0; END_BYTES];
    if read_full(file, &mut end, end_at as u64)? < END_BYTES || end[24..] != END_MAGIC {
        return Err(cut());
    }
    let count = u32_at(&end, 16) as usize;
    let wrong = || damaged(end_at, "the index fails its checksum");
    let index_at = count
        .checked_mul(INDEX_BYTES)
        .and_then(|bytes| end_at.checked_sub(bytes));
    let index_at = index_at
        .filter(|at| *at >= first && *at as u64 == u64_at(&end, 0))
        .ok_or_else(wrong)?;
    let mut index = vec![0; end_at - index_at];
    let read = read_full(file, &mut index, index_at as u64)?;
    let crc = crc32c::crc32c_append(crc32c::crc32c_append(header_crc, &index[..read]), &end[..20]);
    if read < index.len() || crc != u32_at(&end, 20) {
        return Err(wrong());
    }
    let run = |bytes: &[u8]| StageRun {
        position: u64_at(bytes, 0),
        bytes: u32_at(bytes, 8),
        rows: u32_at(bytes, 12),
        partition: u16_at(bytes, 16),
    };
    let runs: Vec<StageRun> = index.chunks_exact(INDEX_BYTES).map(run).collect();
    // The checksum is right, so a writer wrote these numbers. Forged numbers must still be rejected.
    let mut next = first as u64;
    for run in &runs {
        if run.position != next || run.end() > index_at as u64 {
            return Err(damaged(index_at, "the index does not fit its runs"));
        }
        next = run.end();
    }
    Ok(runs)
}

fn read_full(file: &(dyn DiskFile + 'static), buffer: &mut [u8], position: u64) -> Result<usize, StageError> {
    Ok(file.read_full_at(buffer, position)?)
}
