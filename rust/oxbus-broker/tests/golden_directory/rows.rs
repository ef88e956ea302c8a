// SPDX-License-Identifier: Apache-2.0
//! Bulk loads and staged sends.

use std::sync::Arc;
use std::time::Duration;

use oxbus_broker::{BulkLoad, ManualClock, Staging};
use oxbus_model::PartitionId;
use oxbus_store::fault::FaultDisk;

use super::bus::{Bus, PARTITIONS, WAIT, key_of, open, text};

const PATH: &str = "loaded";
pub(crate) const SINK: &str = "sink";
pub(crate) const QUERY: &str = "query";

/// Attaches rows to each partition as a task that owns none of them. Returns the number of newly attached rows.
pub(crate) fn load(disk: &FaultDisk, clock: &Arc<ManualClock>, seed: u64, name: &str) -> u64 {
    let namespace = open(disk, clock, seed, Some(0));
    let mut load = BulkLoad::begin(&namespace, PATH, name, None).expect("the queue exists");
    for partition in 0..PARTITIONS {
        for row in 0..2 {
            let (key, body) = (key_of(partition), format!("{name} {partition}/{row}"));
            load.push(&text(&body, &key), PartitionId(0)).expect("it has room");
        }
    }
    let loaded = load.finish(Duration::ZERO, &WAIT).expect("the partitions are free");
    loaded.iter().filter(|it| it.is_attached).map(|it| it.rows).sum()
}

/// An unfinished stage with a row for each partition.
pub(crate) fn stage(bus: &Bus, id: &str) -> Staging {
    bus.advance(1);
    let mut staging = bus.namespace.stages().begin(PATH, id).expect("the id is new");
    for partition in 0..PARTITIONS {
        let (key, body) = (key_of(partition), format!("{id} {partition}"));
        let row = staging.entity().encode(&text(&body, &key)).expect("valid");
        staging.push(None, vec![row]).expect("it has room");
    }
    staging
}

/// Commits a stage as a batch, and leaves another one finished.
pub(crate) fn round(bus: &Bus, name: &str, batch: u64) {
    let (committed, waiting) = (format!("{name} committed"), format!("{name} waiting"));
    stage(bus, &committed).finish().expect("the disk works");
    stage(bus, &waiting).finish().expect("the disk works");
    let stages = bus.namespace.stages();
    let commit = || stages.commit(SINK, QUERY, batch, std::slice::from_ref(&committed), &WAIT);
    assert!(commit().expect("it is ready"), "it is new");
    bus.settle();
    // All rows are synced by now, so this marks the batch as done, unless upkeep was faster.
    assert!(!commit().expect("it is known"), "it was committed before");
    bus.settle();
}
