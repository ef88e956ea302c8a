// SPDX-License-Identifier: Apache-2.0
//! A bulk load on a disk that fails at every call with every fault. After a retry each row exists once, even if the
//! partitions were opened in between.

use oxbus_store::Wait;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use oxbus_broker::durable::StoreOptions;
use oxbus_broker::{BulkLoad, Namespace, NamespaceOptions, ReceiverOptions};
use oxbus_model::PartitionId;
use oxbus_model::message::{Body, Fields};
use oxbus_model::options::{Durability, QueueSettings};
use oxbus_store::fault::{FaultDisk, SimulatedFault};

const PARTITIONS: u16 = 2;
const ROWS: u64 = 40;

fn open(disk: &FaultDisk, owned: Option<u64>) -> oxbus_model::Result<Namespace> {
    Namespace::open(NamespaceOptions {
        store: Some(StoreOptions {
            path: PathBuf::from("/bus"),
            durability: Durability::Fsync,
            owned,
            disk: Some(Arc::new(disk.clone())),
            segment_bytes: Some((4 << 10, 8 << 10)),
        }),
        partitions: Some(PARTITIONS),
        ..NamespaceOptions::default()
    })
}

fn new_disk() -> FaultDisk {
    let disk = FaultDisk::new();
    let namespace = open(&disk, None).expect("nothing fails yet");
    let settings = QueueSettings {
        enable_partitioning: true,
        ..QueueSettings::default()
    };
    namespace
        .create_queue("q", settings, &Wait::FOREVER)
        .expect("it is new");
    namespace.close();
    disk
}

/// Runs a task and returns the number of rows that it attached.
fn load(disk: &FaultDisk) -> oxbus_model::Result<u64> {
    let namespace = open(disk, Some(0))?;
    let mut load = BulkLoad::begin(&namespace, "q", "job/0", None)?;
    for number in 0..ROWS {
        let (body, key) = (number.to_be_bytes(), format!("key-{}", number % 7));
        let fields = Fields {
            body: Body::Data(&body),
            partition_key: Some(&key),
            ..Fields::default()
        };
        load.push(&fields, PartitionId(0))?;
    }
    let loaded = load.finish(Duration::ZERO, &Wait::FOREVER)?;
    Ok(loaded.iter().filter(|it| it.is_attached).map(|it| it.rows).sum())
}

/// The number of copies of each row in the queue.
fn stored_rows(disk: &FaultDisk) -> BTreeMap<u64, usize> {
    let namespace = open(disk, None).expect("nothing fails any more");
    let waiting = namespace.recovery().expect("it is in a directory").waiting_loads;
    assert!(waiting.is_empty(), "{waiting:?}");
    let receiver = namespace
        .receiver("q", ReceiverOptions::default())
        .expect("the queue exists");
    let mut found = BTreeMap::new();
    for browsed in receiver
        .browse(1000, None, &Wait::FOREVER)
        .expect("nothing fails any more")
    {
        let fields = Fields::decode(browsed.message.record.in_memory().expect("shown")).expect("whole");
        let body = u64::from_be_bytes(fields.body.bytes().try_into().expect("eight bytes"));
        *found.entry(body).or_default() += 1;
    }
    namespace.close();
    found
}

fn once() -> BTreeMap<u64, usize> {
    (0..ROWS).map(|number| (number, 1)).collect()
}

/// Runs `script` with every fault at every disk call, and checks the disk after a kill and after a power cut.
fn each_fault(before: &FaultDisk, script: impl Fn(&FaultDisk) -> bool, check: impl Fn(FaultDisk, bool, &str)) {
    let calls = {
        let disk = before.after_kill();
        let began = disk.calls();
        assert!(script(&disk), "it works without a fault");
        disk.calls() - began
    };
    assert!(calls > 10, "{calls}");
    for call in 0..calls {
        for fault in [
            SimulatedFault::Kill,
            SimulatedFault::PowerCut,
            SimulatedFault::ShortWrite,
            SimulatedFault::Errno(5),
            SimulatedFault::Errno(28),
        ] {
            let disk = before.after_kill();
            disk.fail_at(disk.calls() + call, fault);
            let done = script(&disk);
            for (way, disk) in [("killed", disk.after_kill()), ("power cut", disk.after_power_cut(call))] {
                check(disk, done, &format!("{fault:?} at {call}, {way}"));
            }
        }
    }
}

#[test]
fn a_load_that_fails_anywhere_is_whole_once_it_is_tried_again() {
    let before = new_disk();
    let script = |disk: &FaultDisk| load(disk).is_ok();
    each_fault(&before, script, |disk, done, context| {
        if done {
            assert_eq!(
                stored_rows(&disk.after_kill()),
                once(),
                "{context}: attached but not stored"
            );
        }
        // Some partitions may have their rows, and may have been opened since.
        let opened = disk.after_kill();
        assert!(
            stored_rows(&opened).values().all(|count| *count == 1),
            "{context}: twice"
        );
        for disk in [disk, opened] {
            load(&disk).unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(stored_rows(&disk), once(), "{context}");
            assert_eq!(load(&disk).ok(), Some(0), "{context}: the name is free again");
        }
    });
}

#[test]
fn rows_are_taken_over_once_whatever_fails() {
    let before = new_disk();
    assert_eq!(load(&before).ok(), Some(ROWS));
    let script = |disk: &FaultDisk| open(disk, None).map(|namespace| namespace.close()).is_ok();
    each_fault(&before, script, |disk, _, context| {
        assert_eq!(stored_rows(&disk), once(), "{context}");
        assert_eq!(stored_rows(&disk), once(), "{context}: opened once more");
    });
}
