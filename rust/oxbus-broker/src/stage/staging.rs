// SPDX-License-Identifier: Apache-2.0
//! A stage that is being written.

use oxbus_model::{Error, ErrorKind, Result};

use crate::client::Row;

/// A stage that is being written. Dropped unfinished, it is removed.
pub struct Staging {}

impl Staging {
    /// Adds rows: to one partition when it is given, else where a sender would send them.
    pub fn push(&mut self, partition: Option<u16>, rows: Vec<Row>) -> Result<()> {
        let _ = (partition, rows);
        Err(coming())
    }

    /// Ends the stage; how many rows it has. It is as safe as the namespace keeps messages.
    pub fn finish(self) -> Result<u64> {
        Err(coming())
    }

    /// Bytes that one row may have, for [`Row::new`].
    pub fn row_bytes_max(&self) -> usize {
        0
    }
}

pub(super) fn begin(_entity: &str, _id: &str) -> Result<Staging> {
    Err(coming())
}

pub(super) fn coming() -> Error {
    Error::new(ErrorKind::NotSupported, "staged sends are on their way")
}
