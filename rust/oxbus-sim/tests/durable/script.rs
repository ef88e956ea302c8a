// SPDX-License-Identifier: Apache-2.0
//! The script, and what the next namespace must have of it.

use oxbus_store::Wait;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use oxbus_broker::client::{Delivery, SettleKey, Settlement};
use oxbus_broker::durable::StoreOptions;
use oxbus_broker::entity::Entity;
use oxbus_broker::{ManualClock, Namespace, NamespaceOptions, ReceiverOptions};
use oxbus_model::Timestamp;
use oxbus_model::message::{Body, Fields};
use oxbus_model::name::SubQueue;
use oxbus_model::options::{Durability, QueueSettings, ReceiveMode};
use oxbus_store::disk::Disk;

pub(crate) const PARTITIONS: u16 = 2;
/// The path of the namespace.
pub(crate) const ROOT: &str = "memory:///bus";
pub(crate) const START: Timestamp = Timestamp(1_000_000);

pub(crate) fn open(disk: Arc<dyn Disk>, clock: &Arc<ManualClock>) -> oxbus_model::Result<Namespace> {
    Namespace::open(NamespaceOptions {
        store: Some(StoreOptions {
            path: PathBuf::from(ROOT),
            durability: Durability::Fsync,
            owned: None,
            disk: Some(disk),
            // Small, so that the script needs several.
            segment_bytes: Some((4 << 10, 8 << 10)),
        }),
        partitions: Some(PARTITIONS),
        clock: Some(Arc::clone(clock)),
        ..NamespaceOptions::default()
    })
}

/// The expected state of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expectation {
    /// It must be there.
    There,
    /// It may be there or not.
    Unknown,
    /// It must not be there.
    Gone,
}

#[derive(Default)]
pub(crate) struct Script {
    pub(crate) expected: BTreeMap<u64, Expectation>,
    /// The known sequence number of each message.
    numbers: BTreeMap<u64, u64>,
    next: u64,
    queue: bool,
}

fn body_of(delivery: &Delivery) -> u64 {
    let fields = Fields::decode(delivery.claimed.record.in_memory().expect("delivered")).expect("stored by the sender");
    u64::from_be_bytes(fields.body.bytes().try_into().expect("eight bytes"))
}

impl Script {
    pub(crate) fn send(&mut self, namespace: &Namespace, key: &str, due: Option<Timestamp>) -> Option<()> {
        self.next += 1;
        let body = self.next.to_be_bytes();
        let fields = Fields {
            body: Body::Data(&body),
            partition_key: Some(key),
            scheduled_enqueue_time: due,
            ..Fields::default()
        };
        self.expected.insert(self.next, Expectation::Unknown);
        let sender = namespace.sender("q").ok()?;
        let number = sender.send(&fields, None, &Wait::FOREVER).ok()?;
        self.expected.insert(self.next, Expectation::There);
        if due.is_none() {
            self.numbers.insert(self.next, number.0);
        }
        Some(())
    }

    fn receive(&mut self, namespace: &Namespace, mode: ReceiveMode) -> Option<Vec<(u64, SettleKey)>> {
        let options = ReceiverOptions {
            mode,
            ..ReceiverOptions::default()
        };
        let receiver = namespace.receiver("q", options).ok()?;
        if mode == ReceiveMode::ReceiveAndDelete {
            // Any message may be removed, even if the call fails.
            for expectation in self
                .expected
                .values_mut()
                .filter(|expectation| **expectation == Expectation::There)
            {
                *expectation = Expectation::Unknown;
            }
        }
        let deliveries = receiver.receive_now(1, &Wait::FOREVER).ok()??;
        let mut received = Vec::new();
        for delivery in &deliveries {
            let body = body_of(delivery);
            let number = Entity::sequence_number(delivery.index, delivery.claimed.key.counter).0;
            self.numbers.insert(body, number);
            if mode == ReceiveMode::ReceiveAndDelete {
                self.expected.insert(body, Expectation::Gone);
            }
            let key = SettleKey {
                index: delivery.index,
                key: delivery.claimed.key,
            };
            received.push((body, key));
        }
        Some(received)
    }

    fn settle(&mut self, namespace: &Namespace, settlement: Settlement<'_>) -> Option<()> {
        let receiver = namespace.receiver("q", ReceiverOptions::default()).ok()?;
        let received = self.receive(namespace, ReceiveMode::PeekLock)?;
        for (body, key) in received {
            let completes = matches!(settlement, Settlement::Complete);
            if completes {
                self.expected.insert(body, Expectation::Unknown);
            }
            receiver.settle(key, settlement, &Wait::FOREVER).ok()?;
            if completes {
                self.expected.insert(body, Expectation::Gone);
            }
        }
        Some(())
    }

    /// Runs until a call fails.
    pub(crate) fn run(&mut self, namespace: &Namespace, clock: &ManualClock) -> Option<()> {
        let settings = QueueSettings {
            enable_partitioning: true,
            max_delivery_count: 100,
            ..QueueSettings::default()
        };
        namespace.create_queue("q", settings, &Wait::FOREVER).ok()?;
        self.queue = true;
        for key in ["a", "b", "c", "d", "a", "b"] {
            self.send(namespace, key, None)?;
        }
        self.settle(namespace, Settlement::Complete)?;
        self.settle(namespace, Settlement::Defer(&[]))?;
        self.settle(
            namespace,
            Settlement::DeadLetter {
                reason: Some("tested"),
                description: None,
                changes: &[],
            },
        )?;
        self.settle(namespace, Settlement::Abandon(&[]))?;
        self.send(namespace, "a", Some(START.plus_ms(5_000)))?;
        self.send(namespace, "b", Some(START.plus_ms(3_600_000)))?;
        namespace.checkpoint().ok()?;
        self.send(namespace, "c", None)?;
        clock.advance(6_000);
        self.settle(namespace, Settlement::Complete)?;
        self.receive(namespace, ReceiveMode::ReceiveAndDelete)?;
        self.send(namespace, "d", None)?;
        namespace
            .create_queue("other", QueueSettings::default(), &Wait::FOREVER)
            .ok()?;
        namespace.delete(&namespace.queue("other").ok()?).ok()
    }

    /// Checks the messages of a namespace against the expectations.
    pub(crate) fn check(&self, namespace: &Namespace, context: &str) {
        if namespace.queue("q").is_err() {
            assert!(!self.queue, "{context}: the queue is lost");
            return;
        }
        let mut found: BTreeMap<u64, u64> = BTreeMap::new();
        for sub_queue in [SubQueue::Main, SubQueue::DeadLetter] {
            let options = ReceiverOptions {
                sub_queue,
                ..ReceiverOptions::default()
            };
            let receiver = namespace.receiver("q", options).expect("it exists");
            for browsed in receiver
                .browse(1000, None, &Wait::FOREVER)
                .expect("nothing fails any more")
            {
                let fields = Fields::decode(browsed.message.record.in_memory().expect("shown")).expect("whole");
                let body = u64::from_be_bytes(fields.body.bytes().try_into().expect("eight bytes"));
                let number = Entity::sequence_number(browsed.index, browsed.message.counter).0;
                assert_eq!(
                    found.insert(body, number),
                    None,
                    "{context}: message {body} occurs twice"
                );
            }
        }
        for (body, expectation) in &self.expected {
            match expectation {
                Expectation::There => assert!(found.contains_key(body), "{context}: message {body} is lost"),
                Expectation::Gone => assert!(!found.contains_key(body), "{context}: message {body} came back"),
                Expectation::Unknown => {}
            }
        }
        let ghosts: Vec<_> = found.keys().filter(|body| !self.expected.contains_key(body)).collect();
        assert!(ghosts.is_empty(), "{context}: {ghosts:?} were never sent");
        let numbers: BTreeSet<_> = found.values().collect();
        assert_eq!(numbers.len(), found.len(), "{context}: a number occurs twice");
    }

    /// Checks that known numbers are not assigned again.
    pub(crate) fn check_numbers(&self, namespace: &Namespace, context: &str) {
        for key in ["a", "b", "c", "d"] {
            let fields = Fields {
                body: Body::Data(b"12345678"),
                partition_key: Some(key),
                ..Fields::default()
            };
            let Ok(sender) = namespace.sender("q") else { return };
            let number = sender
                .send(&fields, None, &Wait::FOREVER)
                .expect("nothing fails any more");
            let used = self.numbers.values().find(|used| **used == number.0);
            assert!(used.is_none(), "{context}: number {} is used again", number.0);
        }
    }
}

/// Checks the namespaces that the next owners of a disk find.
pub(crate) fn check_next(script: &Script, next: impl Fn() -> Arc<dyn Disk>, clock: &Arc<ManualClock>, context: &str) {
    // Opened twice: a second recovery gives the same result.
    for _ in 0..2 {
        let namespace = open(next(), clock).unwrap_or_else(|error| panic!("{context}: {error}"));
        let recovery = namespace.recovery().expect("durable").clone();
        assert!(
            recovery.corrupt_partitions.is_empty(),
            "{context}: {:?}",
            namespace.partition_health()
        );
        script.check(&namespace, context);
    }
    let namespace = open(next(), clock).unwrap_or_else(|error| panic!("{context}: {error}"));
    script.check_numbers(&namespace, context);
}
