// SPDX-License-Identifier: Apache-2.0
//! In a store, a snapshot refers to the bodies of messages where they are: it does not write them again, and an open
//! does not read them.

use std::collections::BTreeMap;
use std::sync::Arc;

use oxbus_blob::MemoryStore;
use oxbus_broker::client::{SettleKey, Settlement};
use oxbus_broker::shard::{InjectedFault, PartitionFault};
use oxbus_broker::{ManualClock, Namespace, ReceiverOptions};
use oxbus_model::PartitionId;
use oxbus_model::message::{Body, Fields};
use oxbus_model::options::QueueSettings;
use oxbus_object::{LaneDisk, LaneDiskOptions};
use oxbus_store::Wait;
use oxbus_store::disk::Disk;

use crate::script::{PARTITIONS, START, open};

const MESSAGES: u64 = 400;
const BODY_BYTES: usize = 16 << 10;
const ALL_BYTES: u64 = MESSAGES * BODY_BYTES as u64;
/// Bodies that are stored once, with the header page of each small segment.
const STORED_BYTES_MAX: u64 = ALL_BYTES / 2 * 3;

/// The body of a message, which no other message has.
fn body(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    number
        .to_be_bytes()
        .into_iter()
        .chain((0..BODY_BYTES / 8 - 1).flat_map(|_| next()))
        .collect()
}

struct Opened {
    namespace: Namespace,
    disk: Arc<LaneDisk>,
    /// A client of the store that no earlier owner used.
    store: MemoryStore,
}

fn open_at(store: &MemoryStore, clock: &Arc<ManualClock>) -> Opened {
    let store = store.another_client();
    let (disk, _) = LaneDisk::open(Arc::new(store.clone()), LaneDiskOptions::default()).expect("opened");
    let disk = Arc::new(disk);
    let namespace = open(Arc::<LaneDisk>::clone(&disk), clock).expect("opened");
    Opened { namespace, disk, store }
}

impl Opened {
    fn send(&self, numbers: std::ops::Range<u64>) {
        let sender = self.namespace.sender("q").expect("there");
        for number in numbers {
            let body = body(number);
            let fields = Fields {
                body: Body::Data(&body),
                ..Fields::default()
            };
            sender.send(&fields, None, &Wait::FOREVER).expect("sent");
        }
    }

    /// Heals all partitions, which writes a snapshot of each.
    fn heal_all(&self) {
        for partition in (0..PARTITIONS).map(PartitionId) {
            let failed = InjectedFault::Shard(PartitionFault::Failed);
            self.namespace.inject_fault(partition, failed, 0).expect("injected");
            self.namespace.heal(partition, &Wait::FOREVER).expect("healed");
        }
    }

    /// Receives and completes up to `count` messages, and checks their bodies. Returns the numbers in them.
    fn drain(&self, count: usize) -> BTreeMap<u64, u32> {
        let receiver = self.namespace.receiver("q", ReceiverOptions::default()).expect("there");
        let mut found = BTreeMap::new();
        while found.len() < count {
            let Some(deliveries) = receiver.receive_now(50, &Wait::FOREVER).expect("received") else {
                break;
            };
            for delivery in &deliveries {
                let record = delivery.claimed.record.in_memory().expect("delivered");
                let fields = Fields::decode(record).expect("stored by the sender");
                let bytes = fields.body.bytes();
                let number = u64::from_be_bytes(bytes[..8].try_into().expect("eight bytes"));
                assert!(bytes == body(number), "message {number} has another body");
                *found.entry(number).or_default() += 1;
                let key = SettleKey {
                    index: delivery.index,
                    key: delivery.claimed.key,
                };
                receiver
                    .settle(key, Settlement::Complete, &Wait::FOREVER)
                    .expect("completed");
            }
        }
        found
    }

    fn close(self) {
        self.namespace.close();
        self.disk.release();
    }
}

#[test]
fn a_snapshot_writes_no_body_again_and_an_open_reads_none() {
    let (store, clock) = (MemoryStore::default(), Arc::new(ManualClock::new(START)));
    let first = open_at(&store, &clock);
    let settings = QueueSettings {
        enable_partitioning: true,
        ..QueueSettings::default()
    };
    first
        .namespace
        .create_queue("q", settings, &Wait::FOREVER)
        .expect("created");
    first.send(0..MESSAGES);
    for _ in 0..3 {
        first.heal_all();
    }
    first.close();
    let after_close = store.bytes();
    assert!(
        after_close < STORED_BYTES_MAX,
        "{after_close} bytes for {ALL_BYTES} bytes of bodies"
    );
    for _ in 0..3 {
        let next = open_at(&store, &clock);
        let read = next.store.bytes_read();
        assert!(read < ALL_BYTES / 4, "{read} bytes were read");
        next.heal_all();
        next.close();
    }
    let again = store.bytes();
    assert!(
        again < STORED_BYTES_MAX,
        "{again} bytes for {ALL_BYTES} bytes of bodies"
    );
    let last = open_at(&store, &clock);
    let half = last.drain(MESSAGES as usize / 2);
    last.heal_all();
    // A crash: the next owner has the other half, with what was sent meanwhile.
    last.send(MESSAGES..MESSAGES + 10);
    last.disk.abandon();
    drop(last);
    let next = open_at(&store, &clock);
    let mut all = next.drain(usize::MAX);
    all.extend(half);
    let expected: BTreeMap<u64, u32> = (0..MESSAGES + 10).map(|number| (number, 1)).collect();
    assert_eq!(all, expected);
    next.close();
}
