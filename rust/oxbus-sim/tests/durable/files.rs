// SPDX-License-Identifier: Apache-2.0
//! Files: a kill, a power cut or an error at every call to the disk.

use std::sync::Arc;

use oxbus_broker::{ManualClock, Namespace};
use oxbus_model::PartitionId;
use oxbus_store::Wait;
use oxbus_store::fault::{FaultDisk, SimulatedFault};

use crate::script::{PARTITIONS, START, Script, check_next, open};

/// Runs the script with the configured fault, then ends the fault.
fn run_on(disk: &FaultDisk) -> (Script, Option<Namespace>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(START));
    let mut script = Script::default();
    let namespace = open(Arc::new(disk.clone()), &clock).ok();
    if let Some(namespace) = &namespace {
        let _ = script.run(namespace, &clock);
    }
    disk.end_faults();
    (script, namespace, clock)
}

fn calls() -> u64 {
    let disk = FaultDisk::new();
    let (script, namespace, clock) = run_on(&disk);
    let namespace = namespace.expect("opened");
    assert_eq!(script.expected.len(), 10, "the script ran to its end");
    script.check(&namespace, "without a fault");
    let calls = disk.calls();
    drop(namespace);
    check_next(&script, || Arc::new(disk.clone()), &clock, "without a fault");
    calls
}

#[test]
fn a_kill_at_every_call_loses_and_duplicates_nothing() {
    for call in 0..calls() {
        for fault in [SimulatedFault::Kill, SimulatedFault::PowerCut] {
            let disk = FaultDisk::new();
            disk.fail_at(call, fault);
            let (script, namespace, clock) = run_on(&disk);
            let left: Vec<FaultDisk> = match fault {
                SimulatedFault::Kill => vec![disk.after_kill()],
                _ => (0..3).map(|seed| disk.after_power_cut(seed)).collect(),
            };
            drop(namespace);
            for (index, left) in left.iter().enumerate() {
                check_next(
                    &script,
                    || Arc::new(left.clone()),
                    &clock,
                    &format!("{fault:?} at call {call}, disk {index}"),
                );
            }
        }
    }
}

#[test]
fn an_error_at_every_call_stops_one_partition_until_it_heals() {
    for call in 0..calls() {
        for fault in [SimulatedFault::Errno(5), SimulatedFault::ShortWrite] {
            let disk = FaultDisk::new();
            disk.fail_at(call, fault);
            let (script, namespace, clock) = run_on(&disk);
            let context = format!("{fault:?} at call {call}");
            if let Some(namespace) = namespace {
                for partition in 0..PARTITIONS {
                    namespace
                        .heal(PartitionId(partition), &Wait::FOREVER)
                        .unwrap_or_else(|error| panic!("{context}: {error}"));
                }
                script.check(&namespace, &format!("{context}, healed"));
                // The disk as it is now, without a close.
                let left = disk.after_kill();
                check_next(
                    &script,
                    || Arc::new(left.clone()),
                    &clock,
                    &format!("{context}, healed and killed"),
                );
                namespace.close();
            }
            check_next(
                &script,
                || Arc::new(disk.clone()),
                &clock,
                &format!("{context}, closed"),
            );
        }
    }
}
