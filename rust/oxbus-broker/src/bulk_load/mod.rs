// SPDX-License-Identifier: Apache-2.0
//! Bulk load: rows for partitions that no process has open.
//!
//! A task has a name, which is the same for each of its attempts. It writes its rows into its own file beside the
//! journal of each partition (`namespace::bulk_load`), at the speed of the disk and without loading the partition. To
//! attach them, it takes ownership of the partition for a moment, checks that no rows of its name were attached
//! before, and renames the file. The next process that opens the partition takes the rows over (`take_over`) and
//! assigns their sequence numbers.
//!
//! ```text
//! DIR/shard-00/attached/NUMBER.tmp       rows that a task is writing
//! DIR/shard-00/attached/NUMBER.stage     attached rows
//! DIR/shard-00/attached/NAME-TIME.name   records that rows of NAME were attached at TIME
//! ```
//!
//! After a crash at any step, the rows of a name are attached once or not at all: the take-over writes the name into
//! the journal entry of its rows, so a file that appears a second time is dropped.

mod salvage;
mod take_over;

use std::path::{Path, PathBuf};

use oxbus_model::{Identity, Result, Timestamp};

pub(crate) use salvage::WaitingLoads;
pub(crate) use take_over::take_over;

use crate::clock::Randomness;
use crate::durable::shard_dir;

const SUFFIX: &str = ".name";

/// The directory of attached rows of a partition.
pub(crate) fn attached_dir(dir: &Path, partition: u16) -> PathBuf {
    shard_dir(dir, partition).join("attached")
}

/// A unique number for a file. Numbers rise with time, and [`begun_at`] returns the time of a number.
pub(crate) fn new_number(now: Timestamp, randomness: &Randomness) -> Result<u64> {
    Ok(now.0 << 16 | u64::from(u16::from_le_bytes(randomness.bytes()?)))
}

/// When the file with this number was begun.
fn begun_at(number: u64) -> Timestamp {
    Timestamp(number >> 16)
}

/// Prefix of the files that record that rows of `name` were attached to `entity`.
pub(crate) fn name_prefix(entity: u64, name: Identity) -> String {
    format!("{entity:x}-{:032x}-", name.0)
}

/// Name of the file that records an attach at `now`.
pub(crate) fn name_file(entity: u64, name: Identity, now: Timestamp) -> String {
    format!("{}{:012x}{SUFFIX}", name_prefix(entity, name), now.0)
}

/// The time of the attach that a file records.
fn attached_at(file: &str) -> Option<Timestamp> {
    let (_, time) = file.strip_suffix(SUFFIX)?.rsplit_once('-')?;
    Some(Timestamp(u64::from_str_radix(time, 16).ok()?))
}
