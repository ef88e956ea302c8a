// SPDX-License-Identifier: Apache-2.0
//! A namespace on an in-memory disk, and calls that leave its journals synced.
//!
//! The threads of a namespace sync entries for which no call waits, at any time. A call here appends at most one such
//! entry per journal, and then `settle` syncs all journals. So the files do not depend on which thread writes a frame,
//! or when.

use std::path::PathBuf;
use std::sync::Arc;

use oxbus_broker::client::{Delivery, SettleKey, Settlement};
use oxbus_broker::durable::StoreOptions;
use oxbus_broker::entity::Entity;
use oxbus_broker::{ManualClock, Namespace, NamespaceOptions, Randomness, Receiver, ReceiverOptions};
use oxbus_model::hash::partition_of;
use oxbus_model::message::{Body, Fields, MessageId};
use oxbus_model::name::SubQueue;
use oxbus_model::options::Durability;
use oxbus_model::{PartitionId, SequenceNumber, Timestamp};
use oxbus_store::Wait;
use oxbus_store::fault::FaultDisk;
use oxbus_store::shard_log::{Level, Lsn, ShardLog};

pub(crate) const DIRECTORY: &str = "/bus";
pub(crate) const PARTITIONS: u16 = 4;
pub(crate) const START: Timestamp = Timestamp(1_700_000_000_000);
pub(crate) const WAIT: Wait<'static> = Wait::FOREVER;

/// Opens the namespace on a disk. `owned` are the partitions to own; `None` for all.
pub(crate) fn open(disk: &FaultDisk, clock: &Arc<ManualClock>, seed: u64, owned: Option<u64>) -> Namespace {
    let options = NamespaceOptions {
        store: Some(StoreOptions {
            path: PathBuf::from(DIRECTORY),
            durability: Durability::Fsync,
            owned,
            disk: Some(Arc::new(disk.clone())),
            // Small, so that the files are small and there are several segments.
            segment_bytes: Some((8 << 10, 16 << 10)),
        }),
        partitions: Some(PARTITIONS),
        clock: Some(Arc::clone(clock)),
        randomness: Randomness::seeded(seed),
        ..NamespaceOptions::default()
    };
    Namespace::open(options).expect("the directory is intact")
}

/// A key, or a session id, of a partition.
pub(crate) fn key_of(partition: u16) -> String {
    let mut keys = (0..).map(|number| format!("key-{number}"));
    let belongs = |key: &String| partition_of(key.as_bytes(), PARTITIONS.into()) == u32::from(partition);
    keys.find(belongs).expect("each partition has keys")
}

/// The namespace and the clock of a round.
pub(crate) struct Bus {
    pub(crate) namespace: Namespace,
    pub(crate) clock: Arc<ManualClock>,
}

impl Bus {
    /// Syncs all appended entries.
    pub(crate) fn settle(&self) {
        let stores = self.namespace.stores().expect("it is in a directory");
        for partition in 0..PARTITIONS {
            let log = stores.shard(partition).expect("all partitions are owned").log();
            let last = Lsn(log.next_lsn().0 - 1);
            log.commit(last, Level::Synced, &WAIT).expect("the disk works");
        }
    }

    /// Advances the clock, so that times differ.
    pub(crate) fn advance(&self, ms: u64) {
        self.clock.advance(ms);
    }

    /// Sends a message.
    pub(crate) fn send(&self, path: &str, fields: &Fields<'_>) -> SequenceNumber {
        self.advance(1);
        let sender = self.namespace.sender(path).expect("the queue exists");
        let number = sender.send(fields, None, &WAIT).expect("it has room");
        self.settle();
        number
    }

    /// Sends a message to a partition; `body` is its body and its id.
    pub(crate) fn send_to(&self, path: &str, partition: u16, body: &str) -> SequenceNumber {
        self.send(path, &text(body, &key_of(partition)))
    }

    pub(crate) fn receiver(&self, path: &str, options: ReceiverOptions) -> Receiver {
        self.namespace.receiver(path, options).expect("the queue exists")
    }

    /// Receives the first message of a partition, under a lock.
    pub(crate) fn receive(&self, path: &str, partition: u16, sub_queue: SubQueue) -> (Receiver, SettleKey) {
        let receiver = self.receiver(
            path,
            ReceiverOptions {
                sub_queue,
                partition: Some(PartitionId(partition)),
                ..ReceiverOptions::default()
            },
        );
        let key = self.receive_by(&receiver);
        (receiver, key)
    }

    /// Receives a message with an existing receiver.
    pub(crate) fn receive_by(&self, receiver: &Receiver) -> SettleKey {
        self.advance(1);
        let received = receiver.receive_now(1, &WAIT).expect("the partition works");
        self.settle();
        key_of_delivery(&received.expect("there is a message")[0])
    }

    /// Receives the first message of a partition and settles it.
    pub(crate) fn receive_and_settle(&self, path: &str, partition: u16, settlement: Settlement<'_>) -> SequenceNumber {
        self.receive_and_settle_in(path, partition, SubQueue::Main, settlement)
    }

    /// The same in a sub-queue.
    pub(crate) fn receive_and_settle_in(
        &self,
        path: &str,
        partition: u16,
        sub_queue: SubQueue,
        settlement: Settlement<'_>,
    ) -> SequenceNumber {
        let (receiver, key) = self.receive(path, partition, sub_queue);
        self.settle_by(&receiver, key, settlement);
        Entity::sequence_number(key.index, key.key.counter)
    }

    /// Settles a message.
    pub(crate) fn settle_by(&self, receiver: &Receiver, key: SettleKey, settlement: Settlement<'_>) {
        self.advance(1);
        receiver.settle(key, settlement, &WAIT).expect("its lock holds");
        self.settle();
    }

    /// Makes an entity process due and expired messages.
    pub(crate) fn tick(&self, path: &str) {
        self.namespace
            .entity(path)
            .expect("the queue exists")
            .counts(&WAIT)
            .expect("it owns the namespace");
        self.settle();
    }
}

pub(crate) fn key_of_delivery(delivery: &Delivery) -> SettleKey {
    SettleKey {
        index: delivery.index,
        key: delivery.claimed.key,
    }
}

/// A message whose id is its body.
pub(crate) fn text<'a>(body: &'a str, key: &'a str) -> Fields<'a> {
    Fields {
        body: Body::Data(body.as_bytes()),
        message_id: Some(MessageId::Given(body)),
        partition_key: Some(key),
        ..Fields::default()
    }
}
