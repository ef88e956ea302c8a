// SPDX-License-Identifier: Apache-2.0
//! The steps that write the directory: create, bulk load, reopen, use, checkpoint, use; then kill or close.

use std::path::Path;
use std::sync::Arc;

use oxbus_broker::ManualClock;
use oxbus_model::Clock;
use oxbus_store::fault::{FaultDisk, SimulatedFault};

use super::bus::{Bus, DIRECTORY, START, open};
use super::{entities, orders, others, rows};

/// The directories after a kill, after a kill of the next owner in the middle of a snapshot, and after a close.
pub(crate) struct Directories {
    pub(crate) killed: FaultDisk,
    pub(crate) snapshotting: FaultDisk,
    pub(crate) closed: FaultDisk,
}

/// A clock at the end of the script.
pub(crate) fn at_end() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(START.plus_ms(10_000)))
}

/// Writes all directories.
pub(crate) fn write() -> Directories {
    let (disk, clock) = (FaultDisk::new(), Arc::new(ManualClock::new(START)));
    let first = Bus {
        namespace: open(&disk, &clock, 1, None),
        clock: Arc::clone(&clock),
    };
    entities::create(&first.namespace);
    first.settle();
    first.send_to("orders", 0, "from the first owner");
    first.namespace.close();
    drop(first);
    assert_eq!(rows::load(&disk, &clock, 2, "job/0"), 8);
    let second = Bus {
        namespace: open(&disk, &clock, 3, None),
        clock: Arc::clone(&clock),
    };
    // Syncs the rows that were taken over.
    second.settle();
    for (number, name) in (0..).zip(["early", "late"]) {
        orders::round(&second, name);
        others::round(&second, name, number);
        rows::round(&second, name, number);
        if number == 0 {
            second.namespace.checkpoint().expect("the disk works");
        }
    }
    let unfinished = rows::stage(&second, "never finished");
    second.settle();
    let killed = disk.after_kill();
    let snapshotting = killed_in_a_snapshot(&killed, &clock);
    drop(unfinished);
    second.namespace.close();
    drop(second);
    assert_eq!(rows::load(&disk, &clock, 4, "job/1"), 8);
    assert!(clock.now() < at_end().now(), "the clock of the next owner is later");
    Directories {
        killed,
        snapshotting,
        closed: disk,
    }
}

/// The directory of an owner that was killed when its first snapshot had its bytes, and not yet its name.
fn killed_in_a_snapshot(start: &FaultDisk, clock: &Arc<ManualClock>) -> FaultDisk {
    let unnamed = Path::new(DIRECTORY).join("shard-00/snapshot.tmp");
    let killed_at = |call| {
        let disk = start.after_kill();
        let owner = Bus {
            namespace: open(&disk, clock, 6, None),
            clock: Arc::clone(clock),
        };
        owner.settle();
        disk.fail_at(disk.calls() + call, SimulatedFault::Kill);
        owner.namespace.checkpoint().expect_err("the owner is killed");
        disk.after_kill()
    };
    (0..100)
        .map(killed_at)
        .find(|disk| disk.bytes(&unnamed).is_some_and(|bytes| !bytes.is_empty()))
        .expect("a snapshot begins under this name")
}
