// SPDX-License-Identifier: Apache-2.0
//! Tests of the journal on disks that fail, lose power or damage files. This module has the shared helpers.

mod behaviour;
mod closing;
mod committers;
mod crash;
mod damage;
mod draining;
mod flusher;
mod panics;
mod read_back;
mod recycled;
mod salvage;
mod stalled_disk;
mod store;
mod views;

use crate::Wait;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;
use crate::fault::FaultDisk;
use crate::shard_log::Chunk;

const DIR: &str = "/journal";
const ID: ShardId = ShardId {
    store: *b"0123456789abcdef",
    shard: 3,
};

/// The content that an open or a salvage returned.
#[derive(Debug, Default, PartialEq, Eq, Clone)]
struct ReplayedLog {
    snapshot: Option<(Lsn, Vec<u8>)>,
    entries: Vec<(Lsn, Vec<u8>)>,
}

impl Replay for ReplayedLog {
    fn snapshot(&mut self, covered: Lsn, part: &[u8], _: Option<&ExtentLocation>) {
        assert!(self.entries.is_empty(), "the snapshot comes first");
        let (of, bytes) = self.snapshot.get_or_insert_default();
        *of = covered;
        bytes.extend_from_slice(part);
    }

    fn entry(&mut self, lsn: Lsn, entry: &[u8], _: Option<&ExtentLocation>) {
        self.entries.push((lsn, entry.to_vec()));
    }
}

/// The chunks of a snapshot.
fn parts(parts: impl IntoIterator<Item = Vec<u8>>) -> impl Iterator<Item = std::io::Result<Chunk>> {
    parts.into_iter().map(|part| Ok(part.into()))
}

/// Options with small segments, so that a few entries need several.
fn options(salt: u32) -> FileLogOptions {
    FileLogOptions {
        segment_bytes_min: 16 << 10,
        segment_bytes_max: 64 << 10,
        ..FileLogOptions::new(ID, salt)
    }
}

fn try_open(disk: &FaultDisk) -> Result<(FileLog, ReplayedLog, ReplayResult), OpenError> {
    static SALT: AtomicU64 = AtomicU64::new(1);
    let salt = SALT.fetch_add(0x1234_5677, Ordering::Relaxed) as u32;
    let mut content = ReplayedLog::default();
    let opened = FileLog::open(Arc::new(disk.clone()), Path::new(DIR), options(salt), &mut content)?;
    Ok((opened.log, content, opened.replayed))
}

fn open(disk: &FaultDisk) -> (FileLog, ReplayedLog, ReplayResult) {
    try_open(disk).expect("the log opens")
}

/// The content of entry `lsn`: unique bytes of varying length, which sometimes fill much of a segment.
fn entry(lsn: u64) -> Vec<u8> {
    let len = match lsn % 7 {
        0 => 0,
        3 => 20_000,
        5 => 1_500,
        other => other as usize * 13,
    };
    (0..len)
        .map(|at| (lsn.wrapping_mul(31) ^ (at as u64 * 7)) as u8)
        .collect()
}

fn append(log: &FileLog, level: Level) -> Result<Lsn, AppendError> {
    let lsn = log.next_lsn();
    log.append(lsn, &entry(lsn.0), SpaceClass::Adds, level, None, &Wait::FOREVER)?;
    log.commit(lsn, level, &Wait::FOREVER)?;
    Ok(lsn)
}

fn check_entries(content: &ReplayedLog, from: u64) {
    for (index, (lsn, bytes)) in content.entries.iter().enumerate() {
        assert_eq!(lsn.0, from + index as u64, "no gap");
        assert!(*bytes == entry(lsn.0), "entry {} is unchanged", lsn.0);
    }
}

fn last_of(content: &ReplayedLog) -> u64 {
    content.entries.last().map_or(0, |(lsn, _)| lsn.0)
}

fn segment_paths(disk: &FaultDisk) -> Vec<PathBuf> {
    let mut paths = disk.paths();
    paths.retain(|path| path.extension().is_some_and(|it| it == "journal"));
    paths
}
