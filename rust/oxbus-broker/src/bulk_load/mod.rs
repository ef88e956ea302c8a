// SPDX-License-Identifier: Apache-2.0
//! Bulk load: rows for partitions that nobody has open.
//!
//! A task writes its rows into a file of its own beside the journal of each partition (`load`), at the speed of the disk and
//! without anything of the partition in memory. At its end it attaches them: for a moment it owns the partition, sees that
//! nobody attached rows of that name before, and gives the file its name. Whoever opens the partition next takes the rows
//! over (`take_over`), so they get their numbers then.
//!
//! ```text
//! DIR/shard-00/attached/NUMBER.tmp       rows that a task is writing
//! DIR/shard-00/attached/NUMBER.stage     rows that were attached
//! DIR/shard-00/attached/NAME-TIME.name   says that rows of that name were attached then
//! ```
//!
//! A crash at any step leaves a name attached once or not: the name of rows that were taken over is in the journal, in the
//! same entry, so a file that appears a second time is dropped.

mod salvage;
mod take_over;

use std::path::{Path, PathBuf};

use oxbus_model::{Identity, Result, Timestamp};

pub(crate) use salvage::WaitingLoads;
pub(crate) use take_over::take_over;

use crate::clock::Randomness;
use crate::durable::shard_dir;

const SUFFIX: &str = ".name";

/// Where rows for a partition wait.
pub(crate) fn attached_dir(dir: &Path, partition: u16) -> PathBuf {
    shard_dir(dir, partition).join("attached")
}

/// A number for a file that no other file has; it rises with time, and [`begun_at`] tells when.
pub(crate) fn new_number(now: Timestamp, randomness: &Randomness) -> Result<u64> {
    Ok(now.0 << 16 | u64::from(u16::from_le_bytes(randomness.bytes()?)))
}

/// When the file of that number was begun.
fn begun_at(number: u64) -> Timestamp {
    Timestamp(number >> 16)
}

/// What the files begin with that say that rows of a name were attached to an entity.
pub(crate) fn name_prefix(entity: u64, name: Identity) -> String {
    format!("{entity:x}-{:032x}-", name.0)
}

pub(crate) fn name_file(entity: u64, name: Identity, now: Timestamp) -> String {
    format!("{}{:012x}{SUFFIX}", name_prefix(entity, name), now.0)
}

/// When the rows were attached that a file tells of.
fn attached_at(file: &str) -> Option<Timestamp> {
    let (_, time) = file.strip_suffix(SUFFIX)?.rsplit_once('-')?;
    Some(Timestamp(u64::from_str_radix(time, 16).ok()?))
}
