// SPDX-License-Identifier: Apache-2.0
//! A stage: a file with rows that one task wrote for several partitions and that are published later.
//!
//! ```text
//! header page of 64 bytes, the id
//!  0  `oxbusstg`        8  u16 format version   10  u16 bytes of the id   12  u32 zeros
//! 16  16 bytes store id                         32  u64 entity            40  u64 milliseconds since 1970
//! 48  u64 number: the name of the file          56  u32 zeros             60  u32 CRC of bytes 0 … 60 and the id
//! runs, each:  u32 bytes, u32 rows, u16 partition, u16 zeros, u32 CRC of these twelve bytes and the payload,
//!               the payload
//! index, for each run:  u64 position, u32 bytes, u32 rows, u16 partition, u16 zeros
//! end:  u64 position of the index, u64 zeros, u32 runs, u32 CRC of the index and these twenty bytes, `oxbusend`
//! ```
//!
//! Every CRC except the header's begins at the CRC of the header, so the remains of another file are not accepted. A
//! stage is written under a temporary name and renamed when it is finished. The caller defines the content of the
//! rows.

mod reader;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

pub use reader::StageFile;
pub use writer::{SealedStage, StageWriter};

use super::header::VERSION;
use crate::disk::Disk;

const MAGIC: [u8; 8] = *b"oxbusstg";
const END_MAGIC: [u8; 8] = *b"oxbusend";
const HEADER_BYTES: usize = 64;
const HEADER_CRC_AT: usize = 60;
const RUN_HEADER_BYTES: usize = 16;
const INDEX_BYTES: usize = 20;
const END_BYTES: usize = 32;
const SUFFIX: &str = ".stage";
const TEMPORARY: &str = ".tmp";

/// The header of a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageHeader {
    /// The id of the namespace.
    pub store: [u8; 16],
    /// The entity that receives the rows.
    pub entity: u64,
    /// The creation time in milliseconds since 1970.
    pub created_at_ms: u64,
    /// The number in the file name. It is random, so that two owners of a directory do not use the same one.
    pub number: u64,
    /// The id of the stage.
    pub id: String,
}

/// Consecutive rows of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageRun {
    /// The position of the run's header.
    pub(super) position: u64,
    /// The partition of the rows.
    pub partition: u16,
    /// The number of rows.
    pub rows: u32,
    /// The bytes of the rows.
    pub bytes: u32,
}

/// Why a stage cannot be read.
#[derive(Debug)]
pub enum StageError {
    /// A file operation failed.
    Io(io::Error),
    /// A newer version wrote it.
    Newer {
        /// The format version in the file.
        version: u16,
    },
    /// It belongs to another namespace.
    Misplaced,
    /// Its bytes fail their checksums, or its end is missing.
    Damaged {
        /// The position of the damage, in bytes.
        position: u64,
        /// A description of the damage.
        detail: &'static str,
    },
}

impl From<io::Error> for StageError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Newer { version } => write!(f, "a newer version of oxbus wrote it: format={version}"),
            Self::Misplaced => write!(f, "it belongs to another namespace"),
            Self::Damaged { position, detail } => write!(f, "it is damaged at byte {position}: {detail}"),
        }
    }
}

impl std::error::Error for StageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Newer { .. } | Self::Misplaced | Self::Damaged { .. } => None,
        }
    }
}

/// The stages in a directory.
#[derive(Debug, Default)]
pub struct StageNames {
    /// Numbers of the finished stages, in ascending order.
    pub finished: Vec<u64>,
    /// Paths of unfinished files.
    pub unfinished: Vec<PathBuf>,
}

impl StageNames {
    /// Lists the stages in a directory. A missing directory counts as empty.
    pub fn list(disk: &dyn Disk, dir: &Path) -> io::Result<Self> {
        let names = match disk.list(dir) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let mut found = Self::default();
        for name in names {
            if let Some(number) = number_of(&name) {
                found.finished.push(number);
            } else if name.ends_with(TEMPORARY) {
                found.unfinished.push(dir.join(name));
            }
        }
        found.finished.sort_unstable();
        Ok(found)
    }
}

/// The path of the finished stage `number`.
pub fn stage_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:016x}{SUFFIX}"))
}

fn temporary_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:016x}{TEMPORARY}"))
}

fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    (digits.len() == 16)
        .then(|| u64::from_str_radix(digits, 16).ok())
        .flatten()
}

impl StageHeader {
    /// Encodes the header with the id. Also returns the CRC at which the file's other CRCs begin.
    fn encode(&self) -> io::Result<(Vec<u8>, u32)> {
        let id_bytes = u16::try_from(self.id.len()).map_err(io::Error::other)?;
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[10..12].copy_from_slice(&id_bytes.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.store);
        bytes[32..40].copy_from_slice(&self.entity.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.created_at_ms.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.number.to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..HEADER_CRC_AT]), self.id.as_bytes());
        bytes[HEADER_CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(self.id.as_bytes());
        Ok((bytes, crc))
    }
}

impl StageRun {
    /// The first twelve bytes of the run's header.
    fn prefix(&self) -> [u8; 12] {
        let mut head = [0; 12];
        head[0..4].copy_from_slice(&self.bytes.to_le_bytes());
        head[4..8].copy_from_slice(&self.rows.to_le_bytes());
        head[8..10].copy_from_slice(&self.partition.to_le_bytes());
        head
    }

    fn push_index(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.position.to_le_bytes());
        out.extend_from_slice(&self.prefix());
    }

    /// The position of the next run.
    fn end(&self) -> u64 {
        self.position + RUN_HEADER_BYTES as u64 + u64::from(self.bytes)
    }
}
