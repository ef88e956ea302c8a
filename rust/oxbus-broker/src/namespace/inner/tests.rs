// SPDX-License-Identifier: Apache-2.0
//! Tests of close and heal while other threads use the namespace.

use oxbus_store::Wait;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use oxbus_model::message::{Body, Fields};
use oxbus_model::options::{Durability, QueueSettings};
use oxbus_model::{ErrorKind, PartitionId};
use oxbus_store::fault::FaultDisk;
use oxbus_store::injected::DiskFault;

use super::Inner;
use crate::catalog::CatalogChange;
use crate::durable::{StoreOptions, UpkeepTarget};
use crate::shard::InjectedFault;
use crate::{Namespace, NamespaceOptions, ReceiverOptions};

const MESSAGES: usize = 20;

pub(super) fn open(disk: &FaultDisk) -> Namespace {
    let opened = Namespace::open(NamespaceOptions {
        store: Some(StoreOptions {
            path: PathBuf::from("/bus"),
            durability: Durability::Os,
            owned: None,
            disk: Some(Arc::new(disk.clone())),
            segment_bytes: None,
        }),
        partitions: Some(2),
        ..NamespaceOptions::default()
    });
    opened.expect("the disk is well")
}

/// Sends to both partitions, closes the namespace, and then runs upkeep work that began before the close. Returns the
/// number of messages that the next open finds.
fn messages_after(close: impl FnOnce(&Inner), upkeep: impl Fn(&Inner)) -> usize {
    let disk = FaultDisk::default();
    let namespace = open(&disk);
    let settings = QueueSettings {
        enable_partitioning: true,
        ..QueueSettings::default()
    };
    namespace
        .create_queue("q", settings, &Wait::FOREVER)
        .expect("it is new");
    let sender = namespace.sender("q").expect("the queue exists");
    for number in 0..MESSAGES {
        let key = number.to_string();
        let fields = Fields {
            body: Body::Data(key.as_bytes()),
            partition_key: Some(&key),
            ..Fields::default()
        };
        sender.send(&fields, None, &Wait::FOREVER).expect("the partition works");
    }
    close(&namespace.inner);
    upkeep(&namespace.inner);
    drop((sender, namespace));
    let again = open(&disk);
    let receiver = again
        .receiver("q", ReceiverOptions::default())
        .expect("the queue exists");
    let mut found = 0;
    while let Some(deliveries) = receiver
        .receive_now(MESSAGES, &Wait::FOREVER)
        .expect("the partitions work")
    {
        found += deliveries.len();
    }
    found
}

#[test]
fn a_snapshot_after_close_loses_nothing() {
    for without_snapshots in [true, false] {
        let found = messages_after(
            |inner| inner.close(without_snapshots),
            |inner| {
                inner
                    .shards
                    .iter()
                    .for_each(|shard| assert!(UpkeepTarget::save(inner, shard)));
            },
        );
        assert_eq!(found, MESSAGES, "without_snapshots={without_snapshots}");
    }
}

#[test]
fn healing_after_close_loses_nothing() {
    let found = messages_after(
        |inner| inner.close(true),
        |inner| {
            for shard in &*inner.shards {
                UpkeepTarget::try_heal(inner, shard);
            }
        },
    );
    assert_eq!(found, MESSAGES);
}

#[test]
fn a_closed_namespace_refuses_catalog_changes() {
    let namespace = open(&FaultDisk::default());
    namespace.close();
    let stores = namespace.stores().expect("it has a directory");
    let refused = stores
        .change(|_| Some(CatalogChange::Remove(Vec::new())))
        .expect_err("it was closed");
    assert_eq!(refused.kind(), ErrorKind::Closed);
}

#[test]
fn dropping_the_last_handle_closes_a_namespace_that_upkeep_still_holds() {
    let namespace = open(&FaultDisk::default());
    let upkeep_handle = Arc::clone(&namespace.inner);
    let other = namespace.clone();
    drop(namespace);
    assert!(other.is_open());
    drop(other);
    assert!(upkeep_handle.core.check_open().is_err());
}

/// Senders that see the failure only after the partition was healed do not take it out of service again.
#[test]
fn a_stale_failure_report_leaves_the_healed_partition_in_service() {
    const ROUNDS: usize = 100;
    const SENDERS: usize = 8;
    let namespace = open(&FaultDisk::default());
    namespace
        .create_queue("q", QueueSettings::default(), &Wait::FOREVER)
        .expect("it is new");
    let health = namespace.inner.shards[0].health();
    for round in 0..ROUNDS {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let fault = InjectedFault::Disk(DiskFault::Write);
            namespace
                .inject_fault(PartitionId(0), fault, 20)
                .expect("there is a disk");
            for _ in 0..SENDERS {
                scope.spawn(|| {
                    let sender = namespace.sender("q").expect("the queue exists");
                    let fields = Fields {
                        body: Body::Data(b"x"),
                        ..Fields::default()
                    };
                    while sender.send(&fields, None, &Wait::FOREVER).is_ok() {
                        if is_over.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                });
            }
            while health.fault().is_none() {
                std::thread::yield_now();
            }
            namespace
                .heal(PartitionId(0), &Wait::FOREVER)
                .expect("the disk is well");
            is_over.store(true, Ordering::Relaxed);
        });
        assert_eq!(health.fault(), None, "round {round}");
    }
}
