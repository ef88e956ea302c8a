// SPDX-License-Identifier: Apache-2.0
//! The kinds of events in the journals and snapshots of a directory.

use std::collections::BTreeSet;
use std::path::Path;

use oxbus_broker::shard::journal::EventReader;
use oxbus_store::extent::ExtentLocation;
use oxbus_store::fault::FaultDisk;
use oxbus_store::file::{Replay, salvage};
use oxbus_store::shard_log::Lsn;

use super::bus::{DIRECTORY, PARTITIONS};

#[derive(Default)]
struct Kinds(BTreeSet<u8>);

impl Kinds {
    fn add(&mut self, entry: &[u8]) {
        for event in EventReader::of(entry) {
            let (entity, event) = event.expect("the broker wrote it");
            let mut bytes = Vec::new();
            event.encode(entity, &mut bytes);
            self.0.insert(bytes[0]);
        }
    }
}

impl Replay for Kinds {
    fn snapshot(&mut self, _: Lsn, part: &[u8], _: Option<&ExtentLocation>) {
        self.add(part);
    }

    fn entry(&mut self, _: Lsn, entry: &[u8], _: Option<&ExtentLocation>) {
        self.add(entry);
    }
}

/// The distinct first bytes of the events.
pub(crate) fn of(disk: &FaultDisk) -> Vec<u8> {
    let mut kinds = Kinds::default();
    for partition in 0..PARTITIONS {
        let dir = Path::new(DIRECTORY).join(format!("shard-{partition:02}"));
        let found = salvage(disk, &dir, None, &mut kinds).expect("the directory is listed");
        assert!(found.is_whole(), "{found:?}");
    }
    kinds.0.into_iter().collect()
}
