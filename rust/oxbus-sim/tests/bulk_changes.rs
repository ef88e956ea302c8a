// SPDX-License-Identifier: Apache-2.0
//! Calls that change many messages of two partitions, while each disk call fails with each fault.
//!
//! An error without an effect must have changed nothing, and after healing no call has left a message locked.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use oxbus_broker::client::{ReserveOptions, SettleKey, Settlement, StartPosition};
use oxbus_broker::durable::StoreOptions;
use oxbus_broker::entity::MessageSelector;
use oxbus_broker::{ManualClock, Namespace, NamespaceOptions, ReceiverOptions};
use oxbus_model::message::{Body, Fields};
use oxbus_model::name::SubQueue;
use oxbus_model::options::{Durability, QueueSettings};
use oxbus_model::{Effect, PartitionId, Result, Timestamp};
use oxbus_store::Wait;
use oxbus_store::fault::{FaultDisk, SimulatedFault};

const MESSAGES: u64 = 12;
const PARTITIONS: u16 = 2;
const FAULTS: [SimulatedFault; 3] = [
    SimulatedFault::Errno(5),
    SimulatedFault::Errno(28),
    SimulatedFault::ShortWrite,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BulkCall {
    Purge,
    Resubmit,
    CompleteReservation,
}

/// Numbers of messages: in the queue, in its dead-letter queue, and locked.
type Counts = (u64, u64, u64);

fn counts(namespace: &Namespace) -> Counts {
    let total = namespace.queue_counts("q", &Wait::FOREVER).expect("there").total;
    (total.active, total.dead_letter, total.locked)
}

fn open(disk: &FaultDisk, durability: Durability) -> Namespace {
    let options = NamespaceOptions {
        store: Some(StoreOptions {
            path: PathBuf::from("/bus"),
            durability,
            owned: None,
            disk: Some(Arc::new(disk.clone())),
            segment_bytes: None,
        }),
        partitions: Some(PARTITIONS),
        clock: Some(Arc::new(ManualClock::new(Timestamp(1_000_000)))),
        ..NamespaceOptions::default()
    };
    Namespace::open(options).expect("an intact directory")
}

/// A queue with messages in both partitions, ready for the call.
fn prepare(disk: &FaultDisk, durability: Durability, call: BulkCall) -> Namespace {
    let namespace = open(disk, durability);
    let settings = QueueSettings {
        enable_partitioning: true,
        ..QueueSettings::default()
    };
    namespace
        .create_queue("q", settings, &Wait::FOREVER)
        .expect("nothing fails yet");
    let sender = namespace.sender("q").expect("there is the queue");
    for number in 0..MESSAGES {
        let key = number.to_string();
        let fields = Fields {
            body: Body::Data(key.as_bytes()),
            partition_key: Some(&key),
            ..Fields::default()
        };
        sender.send(&fields, None, &Wait::FOREVER).expect("nothing fails yet");
    }
    match call {
        BulkCall::Purge => {}
        BulkCall::Resubmit => {
            let receiver = namespace.receiver("q", ReceiverOptions::default()).expect("there");
            while let Some(taken) = receiver.receive_now(100, &Wait::FOREVER).expect("nothing fails yet") {
                for delivery in taken {
                    let at = SettleKey {
                        index: delivery.index,
                        key: delivery.claimed.key,
                    };
                    let settlement = Settlement::DeadLetter {
                        reason: None,
                        description: None,
                        changes: &[],
                    };
                    receiver
                        .settle(at, settlement, &Wait::FOREVER)
                        .expect("nothing fails yet");
                }
            }
        }
        BulkCall::CompleteReservation => {
            let reservations = namespace.reservations("q").expect("there is the queue");
            let acquired = reservations.acquire("c", StartPosition::Earliest, &Wait::FOREVER);
            let options = ReserveOptions {
                messages: 100,
                bytes: 1 << 20,
                sessions: None,
                upto: None,
                lock: Duration::from_secs(90),
                wait: Duration::ZERO,
                attempts: 0,
            };
            let epoch = acquired.expect("nothing fails yet").epoch;
            let plan = reservations.reserve("c", epoch, 1, &options, &Wait::FOREVER);
            assert_eq!(
                plan.expect("nothing fails yet").partitions.len(),
                usize::from(PARTITIONS)
            );
        }
    }
    namespace
}

fn make(namespace: &Namespace, call: BulkCall) -> Result<()> {
    let queue = namespace.entity("q")?;
    let all = MessageSelector::default();
    match call {
        BulkCall::Purge => queue.purge(SubQueue::Main, &all, &Wait::FOREVER).map(drop),
        BulkCall::Resubmit => queue.resubmit(&all, &Wait::FOREVER).map(drop),
        BulkCall::CompleteReservation => {
            let reservations = namespace.reservations("q")?;
            reservations.complete_up_to("c", 1, 1, &Wait::FOREVER).map(drop)
        }
    }
}

fn run(durability: Durability, call: BulkCall, at: u64, fault: SimulatedFault) -> Option<Effect> {
    let context = format!("{call:?}, {durability:?}, {fault:?} at call {at}");
    let disk = FaultDisk::new();
    let namespace = prepare(&disk, durability, call);
    let before = counts(&namespace);
    disk.fail_at(at, fault);
    let done = make(&namespace, call);
    disk.end_faults();
    for partition in 0..PARTITIONS {
        namespace
            .heal(PartitionId(partition), &Wait::FOREVER)
            .expect("the disk works again");
    }
    let after = counts(&namespace);
    let effect = match &done {
        Ok(()) => None,
        Err(error) => error.effect().or(Some(Effect::None)),
    };
    if effect == Some(Effect::None) {
        assert_eq!(after, before, "{context}: {done:?}");
    }
    if call != BulkCall::CompleteReservation {
        assert_eq!(after.2, 0, "{context}: {done:?} left locks");
    }
    // The call can be made again.
    make(&namespace, call).unwrap_or_else(|error| panic!("{context}: {error}"));
    let end = match call {
        BulkCall::Purge | BulkCall::CompleteReservation => (0, 0, 0),
        BulkCall::Resubmit => (MESSAGES, 0, 0),
    };
    assert_eq!(counts(&namespace), end, "{context}: made again");
    effect
}

#[test]
fn a_bulk_change_that_fails_reports_its_effect_and_leaves_no_lock() {
    for call in [BulkCall::Purge, BulkCall::Resubmit, BulkCall::CompleteReservation] {
        let mut failures = 0;
        for durability in [Durability::Os, Durability::Fsync] {
            let disk = FaultDisk::new();
            let namespace = prepare(&disk, durability, call);
            let first = disk.calls();
            make(&namespace, call).expect("nothing fails");
            for at in first..disk.calls() {
                for fault in FAULTS {
                    failures += usize::from(run(durability, call, at, fault).is_some());
                }
            }
        }
        assert!(failures > 0, "{call:?} meets an error");
    }
}
