// SPDX-License-Identifier: Apache-2.0
//! The rows of a finished stage: in memory, or in a file.
//!
//! In both cases they form runs. A run has consecutive rows of one partition. A batch is thus split into the same
//! pieces each time it is published.

use std::sync::Arc;

use oxbus_model::varint::{self, VarintReader};
use oxbus_model::{Error, ErrorKind, Result, SharedError};
use oxbus_store::Record;
use oxbus_store::disk::Disk;
use oxbus_store::file::{StageError, StageFile, StageRun};

use crate::write::EncodedMessage;

/// The rows of a stage.
#[derive(Debug)]
pub(super) enum StageContent {
    /// In memory.
    Memory(Vec<MemoryRun>),
    /// In a file.
    File(StageFile),
    /// The file is unreadable.
    Unreadable {
        /// The reason, in words.
        why: String,
        /// The error.
        source: SharedError,
        /// The number of the file.
        number: u64,
    },
}

/// Consecutive rows of one partition.
#[derive(Debug)]
pub(super) struct MemoryRun {
    pub(super) partition: u16,
    pub(super) rows: Vec<EncodedMessage>,
    pub(super) bytes: usize,
}

/// The partition and the size of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunInfo {
    pub(super) partition: u16,
    pub(super) rows: u64,
    pub(super) bytes: usize,
}

impl StageContent {
    /// The runs, in the order in which they were written.
    pub(super) fn runs(&self) -> Vec<RunInfo> {
        let in_memory = |run: &MemoryRun| RunInfo {
            partition: run.partition,
            rows: run.rows.len() as u64,
            bytes: run.bytes,
        };
        let in_file = |run: &StageRun| RunInfo {
            partition: run.partition,
            rows: run.rows.into(),
            bytes: run.bytes as usize,
        };
        match self {
            Self::Memory(runs) => runs.iter().map(in_memory).collect(),
            Self::File(file) => file.runs().iter().map(in_file).collect(),
            Self::Unreadable { .. } => Vec::new(),
        }
    }

    /// Total rows and bytes.
    pub(super) fn totals(&self) -> (u64, u64) {
        let runs = self.runs();
        let totals = runs.iter().map(|run| (run.rows, run.bytes as u64));
        totals.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }

    /// Reads and checks all rows. The error names the stage.
    pub(super) fn verify(&self, id: &str, disk: Option<&Arc<dyn Disk>>) -> Result<()> {
        match (self, disk) {
            (Self::File(file), Some(disk)) => {
                let read = file.read::<StageError>(&**disk, file.runs(), |_, _| Ok(()));
                read.map_err(|error| unreadable(id, &error.to_string()).with_source(error))
            }
            (Self::Unreadable { why, source, .. }, _) => {
                Err(unreadable(id, why).with_shared_source(Some(Arc::clone(source))))
            }
            _ => Ok(()),
        }
    }

    /// Appends the rows of the runs at `positions` to `out`.
    pub(super) fn load(
        &self,
        id: &str,
        disk: Option<&Arc<dyn Disk>>,
        positions: &[usize],
        out: &mut Vec<EncodedMessage>,
    ) -> Result<()> {
        match (self, disk) {
            (Self::Memory(runs), _) => {
                for position in positions {
                    out.extend_from_slice(&runs[*position].rows);
                }
                Ok(())
            }
            (Self::File(file), Some(disk)) => {
                let wanted: Vec<StageRun> = positions.iter().map(|position| file.runs()[*position]).collect();
                let read = file.read::<StageError>(&**disk, &wanted, |run, payload| {
                    rows_of(run.rows, payload, out).ok_or(StageError::Damaged {
                        position: 0,
                        detail: "its rows are not messages",
                    })
                });
                read.map_err(|error| unreadable(id, &error.to_string()).with_source(error))
            }
            (Self::Unreadable { why, source, .. }, _) => {
                Err(unreadable(id, why).with_shared_source(Some(Arc::clone(source))))
            }
            (Self::File(_), None) => Err(unreadable(id, "there is no disk")),
        }
    }
}

/// Appends a row to the payload of a run.
pub(super) fn encode(row: &EncodedMessage, out: &mut Vec<u8>) {
    varint::push_bytes(out, &row.record);
}

/// Decodes the rows of a payload into `out`. Returns `None` if they are not messages.
pub(crate) fn rows_of(rows: u32, payload: &[u8], out: &mut Vec<EncodedMessage>) -> Option<()> {
    let mut rest = VarintReader(payload);
    out.reserve(rows as usize);
    for _ in 0..rows {
        out.push(EncodedMessage::of_record(Record::from_slice(rest.bytes()?)).ok()?);
    }
    rest.0.is_empty().then_some(())
}

/// The error of a stage that cannot be read.
pub(super) fn unreadable(id: &str, why: &str) -> Error {
    let detail = format!(
        "the stage cannot be read and none of its rows are published ({why}); stage its rows again, or discard it and lose them: id=`{id}`"
    );
    Error::new(ErrorKind::Corrupt, detail)
}
