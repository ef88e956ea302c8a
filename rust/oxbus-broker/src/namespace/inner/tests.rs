// SPDX-License-Identifier: Apache-2.0
//! Closing, while the thread that writes snapshots goes on.

use std::path::PathBuf;
use std::sync::Arc;

use oxbus_model::message::{Body, Fields};
use oxbus_model::options::{Durability, QueueSettings};
use oxbus_store::fault::FaultDisk;

use super::Inner;
use crate::durable::{Kept, StoreOptions};
use crate::{Namespace, NamespaceOptions, ReceiverOptions};

const MESSAGES: usize = 20;

fn open(disk: &FaultDisk) -> Namespace {
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

/// Sends to both partitions, ends the namespace and does what the upkeep does, which looked before and comes late.
fn late(close: impl FnOnce(&Inner), upkeep: impl Fn(&Inner)) -> usize {
    let disk = FaultDisk::default();
    let namespace = open(&disk);
    let settings = QueueSettings {
        enable_partitioning: true,
        ..QueueSettings::default()
    };
    namespace.create_queue("q", settings).expect("it is new");
    let sender = namespace.sender("q").expect("it is there");
    for number in 0..MESSAGES {
        let key = number.to_string();
        let fields = Fields {
            body: Body::Data(key.as_bytes()),
            partition_key: Some(&key),
            ..Fields::default()
        };
        sender.send(&fields, None).expect("the partition works");
    }
    close(&namespace.inner);
    upkeep(&namespace.inner);
    drop((sender, namespace));
    let again = open(&disk);
    let receiver = again.receiver("q", ReceiverOptions::default()).expect("it is there");
    let mut found = 0;
    while let Some(deliveries) = receiver.receive_now(MESSAGES).expect("the partitions work") {
        found += deliveries.len();
    }
    found
}

#[test]
fn a_snapshot_that_comes_late_takes_nothing_away() {
    for as_it_is in [true, false] {
        let found = late(
            |inner| inner.close(as_it_is),
            |inner| inner.shards.iter().for_each(|shard| Kept::save(inner, shard)),
        );
        assert_eq!(found, MESSAGES, "closed as it is: {as_it_is}");
    }
}

#[test]
fn healing_that_comes_late_takes_nothing_away() {
    let found = late(
        |inner| inner.close(true),
        |inner| {
            for shard in &*inner.shards {
                Kept::try_heal(inner, shard);
            }
        },
    );
    assert_eq!(found, MESSAGES);
}
