// SPDX-License-Identifier: Apache-2.0
//! The files of each partition as plain values, for people.

use std::time::Duration;

use oxbus_model::PartitionId;

use super::Namespace;

/// The journal and the snapshot of one partition of a namespace in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionFiles {
    /// The partition.
    pub partition: PartitionId,
    /// Bytes of journal since the last snapshot, which the next open reads.
    pub journal_bytes: u64,
    /// Bytes of the last snapshot.
    pub snapshot_bytes: u64,
    /// Time since the last snapshot, or since the open without one.
    pub snapshot_age: Duration,
    /// True while it accepts no messages because its disk is full.
    pub is_full: bool,
}

impl Namespace {
    /// The files of the partitions that this process owns; empty for a namespace in memory.
    pub fn partition_files(&self) -> Vec<PartitionFiles> {
        let shards = self.inner.shards.iter();
        let with_journal = shards.filter_map(|shard| Some((shard.id(), shard.journal()?)));
        with_journal
            .map(|(partition, journal)| PartitionFiles {
                partition,
                journal_bytes: journal.unsaved_bytes(),
                snapshot_bytes: journal.snapshot_bytes(),
                snapshot_age: journal.snapshot_age(),
                is_full: journal.is_full(),
            })
            .collect()
    }
}
