// SPDX-License-Identifier: Apache-2.0
//! A call that panics while it changes a partition takes only that partition out of service.

use oxbus_store::Wait;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use oxbus_model::message::{Body, Fields};
use oxbus_model::name::SubQueue;
use oxbus_model::options::QueueSettings;
use oxbus_model::{Effect, ErrorKind, PartitionId, Result, SequenceNumber};
use oxbus_store::NumberedStore;
use oxbus_store::fault::FaultDisk;

use super::tests::open;
use crate::client::{SettleKey, Settlement};
use crate::durable::UpkeepTarget;
use crate::entity::Entity;
use crate::shard::{PartitionFault, Shard};
use crate::{Namespace, NamespaceOptions, ReceiverOptions};

/// A key for each of the two partitions.
fn keys(namespace: &Namespace) -> [String; 2] {
    let of = |partition: u16| {
        let mut keys = (0..).map(|number: u32| number.to_string());
        let hashes_there = |key: &String| oxbus_model::hash::partition_of(key.as_bytes(), 2) == u32::from(partition);
        keys.find(hashes_there).expect("there are enough keys")
    };
    assert_eq!(namespace.partitions(), 2);
    [of(0), of(1)]
}

fn send(namespace: &Namespace, key: &str) -> Result<SequenceNumber> {
    let fields = Fields {
        body: Body::Data(key.as_bytes()),
        partition_key: Some(key),
        ..Fields::default()
    };
    namespace.sender("q")?.send(&fields, None, &Wait::FOREVER)
}

fn with_queue(namespace: Namespace) -> Namespace {
    let settings = QueueSettings {
        enable_partitioning: true,
        ..QueueSettings::default()
    };
    namespace
        .create_queue("q", settings, &Wait::FOREVER)
        .expect("it is new");
    namespace
}

fn in_memory() -> Namespace {
    let options = NamespaceOptions {
        partitions: Some(2),
        ..NamespaceOptions::default()
    };
    with_queue(Namespace::open(options).expect("there is memory"))
}

fn queue(namespace: &Namespace) -> Arc<Entity> {
    let queues = namespace.inner.core.entities();
    queues.values().next().cloned().expect("there is one")
}

fn shard(namespace: &Namespace) -> &Arc<Shard> {
    &namespace.inner.shards[0]
}

fn assert_panics(call: impl FnOnce()) {
    assert!(catch_unwind(AssertUnwindSafe(call)).is_err(), "the call panics");
}

fn received(namespace: &Namespace) -> usize {
    let receiver = namespace
        .receiver("q", ReceiverOptions::default())
        .expect("the queue exists");
    let mut found = 0;
    while let Some(deliveries) = receiver.receive_now(10, &Wait::FOREVER).expect("a partition works") {
        found += deliveries.len();
    }
    found
}

/// Checks that every kind of call on the partition fails with the reason and without waiting, and that the other
/// partition works.
fn check_out_of_service(namespace: &Namespace, expected_text: &str) {
    let [here, there] = keys(namespace);
    assert_eq!(shard(namespace).health().fault(), Some(PartitionFault::Panicked));
    let refused = send(namespace, &here).expect_err("the partition is out of service");
    assert_eq!(refused.kind(), ErrorKind::PartitionUnavailable);
    for part in [
        "a call panicked while it changed the partition",
        expected_text,
        "partition=0",
    ] {
        assert!(refused.detail().contains(part), "{part}: {refused}");
    }
    let healed = namespace
        .heal(PartitionId(0), &Wait::FOREVER)
        .expect_err("its content is unknown");
    assert!(healed.detail().contains(expected_text), "{healed}");
    let health = &namespace.partition_health()[0];
    assert_eq!(health.fault.map(PartitionFault::status), Some("offline"));
    assert!(
        health
            .reason
            .as_ref()
            .is_some_and(|reason| reason.contains(expected_text)),
        "{health:?}"
    );
    send(namespace, &there).expect("the other partition works");
    assert!(received(namespace) > 0, "the other partition works");
}

#[test]
fn a_panic_takes_a_partition_in_memory_out_of_service_for_good() {
    let namespace = in_memory();
    let [here, there] = keys(&namespace);
    send(&namespace, &here).expect("it works");
    send(&namespace, &there).expect("it works");
    assert_panics(|| shard(&namespace).panic_while_locked());
    check_out_of_service(&namespace, "it is in memory only and stays out of service");
    namespace.close();
}

#[test]
fn a_lock_in_a_panicked_partition_cannot_be_settled() {
    let namespace = in_memory();
    let [here, _] = keys(&namespace);
    send(&namespace, &here).expect("it works");
    let receiver = namespace
        .receiver("q", ReceiverOptions::default())
        .expect("the queue exists");
    let deliveries = receiver
        .receive_now(1, &Wait::FOREVER)
        .expect("it works")
        .expect("a message was received");
    let at = SettleKey {
        index: deliveries[0].index,
        key: deliveries[0].claimed.key,
    };
    assert_panics(|| shard(&namespace).panic_while_locked());
    let refused = receiver
        .settle(at, Settlement::Complete, &Wait::FOREVER)
        .expect_err("the partition is out of service");
    assert_eq!(refused.kind(), ErrorKind::PartitionUnavailable);
    assert_ne!(refused.effect(), Some(Effect::Unknown));
}

#[test]
fn the_next_open_finds_the_messages_acknowledged_before_a_panic() {
    // The state at each panic: nothing was done; numbers were reserved without a message, under the append guard or
    // during the wait for its entry; half of a mixed write was done.
    let steps: [fn(&Namespace); 4] = [
        |namespace| shard(namespace).panic_while_locked(),
        |namespace| {
            let shard = shard(namespace);
            let journal = shard.journal().expect("there is a disk");
            let _order = journal.lock_for_append(shard.health());
            queue(namespace).cell(0).expect("it has a message").main().reserve(1);
            panic!("requested by the test");
        },
        |namespace| {
            let shard = shard(namespace);
            let _in_flight = shard.health().enter(shard.id()).expect("few wait");
            queue(namespace).cell(0).expect("it has a message").main().reserve(1);
            panic!("requested by the test");
        },
        |namespace| {
            let queue = queue(namespace);
            let _no_snapshot = queue.cell(0).expect("it has a message").shard.hold_off_snapshots();
            panic!("requested by the test");
        },
    ];
    for step in steps {
        let disk = FaultDisk::default();
        let namespace = with_queue(open(&disk));
        let [here, there] = keys(&namespace);
        for key in [&here, &there, &here] {
            send(&namespace, key).expect("it works");
        }
        assert_panics(|| step(&namespace));
        check_out_of_service(&namespace, "open the namespace again");
        // The partition writes no snapshot and does not heal.
        assert!(!UpkeepTarget::save(&*namespace.inner, shard(&namespace)));
        assert!(
            !UpkeepTarget::try_heal(&*namespace.inner, shard(&namespace))
                || shard(&namespace).health().fault().is_some()
        );
        assert_eq!(shard(&namespace).health().fault(), Some(PartitionFault::Panicked));
        namespace.close();
        drop(namespace);
        let again = open(&disk);
        assert!(again.partition_health().iter().all(|it| it.fault.is_none()));
        send(&again, &here).expect("it works again");
        // There are three messages of `here`, one of them new, and two of `there`, which were received under locks.
        let queue = queue(&again);
        let kept = |index| {
            queue
                .cell(index)
                .map_or(0, |cell| cell.store(SubQueue::Main).counts().messages())
        };
        assert_eq!((kept(0), kept(1)), (3, 2));
    }
}
