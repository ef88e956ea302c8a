// SPDX-License-Identifier: Apache-2.0
//! Forwarding on a disk that fails at every call with every fault. After a fault between any two steps of a forward
//! across partitions, each acknowledged message is in exactly one entity (B-330).

use oxbus_store::Wait;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use oxbus_broker::client::{SettleKey, Settlement};
use oxbus_broker::durable::StoreOptions;
use oxbus_broker::{ManualClock, Namespace, NamespaceOptions, ReceiverOptions};
use oxbus_model::message::{Body, Fields};
use oxbus_model::name::SubQueue;
use oxbus_model::options::{Durability, QueueSettings};
use oxbus_model::{PartitionId, Timestamp};
use oxbus_store::fault::{FaultDisk, SimulatedFault};

const PARTITIONS: u16 = 2;
const START: Timestamp = Timestamp(1_000_000);
/// Each entity forwards to the one before it. Only some are partitioned (true), so that some forwards stay in one
/// partition and others cross partitions.
const CHAIN: [(&str, bool); 4] = [("end", false), ("second", true), ("first", false), ("start", true)];
const KEYS: [&str; 4] = ["a", "b", "c", "d"];
/// The queue whose dead letters are forwarded to `end`.
const WORK: &str = "work";

fn open(disk: &FaultDisk, clock: &Arc<ManualClock>) -> oxbus_model::Result<Namespace> {
    Namespace::open(NamespaceOptions {
        store: Some(StoreOptions {
            path: PathBuf::from("/bus"),
            durability: Durability::Fsync,
            owned: None,
            disk: Some(Arc::new(disk.clone())),
            segment_bytes: Some((4 << 10, 8 << 10)),
        }),
        partitions: Some(PARTITIONS),
        clock: Some(Arc::clone(clock)),
        ..NamespaceOptions::default()
    })
}

#[derive(Default)]
struct Script {
    /// Whether each message was acknowledged.
    sent: BTreeMap<u64, bool>,
}

impl Script {
    fn send(&mut self, namespace: &Namespace, queue: &str, key: &str) -> Option<()> {
        let number = self.sent.len() as u64;
        let body = number.to_be_bytes();
        let fields = Fields {
            body: Body::Data(&body),
            partition_key: Some(key),
            ..Fields::default()
        };
        self.sent.insert(number, false);
        namespace.sender(queue).ok()?.send(&fields, None, &Wait::FOREVER).ok()?;
        self.sent.insert(number, true);
        Some(())
    }

    fn dead_letter_all(namespace: &Namespace) -> Option<()> {
        let receiver = namespace.receiver(WORK, ReceiverOptions::default()).ok()?;
        while let Some(deliveries) = receiver.receive_now(10, &Wait::FOREVER).ok()? {
            for delivery in &deliveries {
                let (index, key) = (delivery.index, delivery.claimed.key);
                let settlement = Settlement::DeadLetter {
                    reason: Some("tested"),
                    description: None,
                    changes: &[],
                };
                receiver
                    .settle(SettleKey { index, key }, settlement, &Wait::FOREVER)
                    .ok()?;
            }
        }
        Some(())
    }

    /// Runs until a call fails.
    fn run(&mut self, namespace: &Namespace) -> Option<()> {
        let mut before: Option<String> = None;
        for (name, enable_partitioning) in CHAIN {
            let settings = QueueSettings {
                enable_partitioning,
                forward_to: before.replace(name.to_owned()),
                max_delivery_count: 1,
                ..QueueSettings::default()
            };
            namespace.create_queue(name, settings, &Wait::FOREVER).ok()?;
        }
        let settings = QueueSettings {
            enable_partitioning: true,
            forward_dead_letters_to: Some("end".to_owned()),
            ..QueueSettings::default()
        };
        namespace.create_queue(WORK, settings, &Wait::FOREVER).ok()?;
        for key in KEYS {
            self.send(namespace, "start", key)?;
            self.send(namespace, WORK, key)?;
        }
        Self::dead_letter_all(namespace)?;
        // A backlog that is forwarded all at once.
        let first = namespace.queue("first").ok()?;
        namespace
            .update(&first, |it| it.forward_to = None, &Wait::FOREVER)
            .ok()?;
        for key in KEYS {
            self.send(namespace, "start", key)?;
        }
        namespace.checkpoint().ok()?;
        let path = Some("second".to_owned());
        namespace
            .update(&first, |it| it.forward_to = path, &Wait::FOREVER)
            .ok()?;
        self.send(namespace, "first", "a")?;
        namespace.checkpoint().ok()
    }

    /// The entity of each message.
    fn check(&self, namespace: &Namespace, context: &str) -> BTreeMap<u64, &'static str> {
        let mut found = BTreeMap::new();
        for name in CHAIN.iter().map(|(name, _)| *name).chain([WORK]) {
            if namespace.queue(name).is_err() {
                continue;
            }
            for sub_queue in [SubQueue::Main, SubQueue::DeadLetter] {
                let options = ReceiverOptions {
                    sub_queue,
                    ..ReceiverOptions::default()
                };
                let receiver = namespace.receiver(name, options).expect("it exists");
                for browsed in receiver
                    .browse(1000, None, &Wait::FOREVER)
                    .expect("nothing fails any more")
                {
                    assert!(
                        sub_queue == SubQueue::Main || name == WORK,
                        "{context}: a dead letter in {name}"
                    );
                    let fields = Fields::decode(browsed.message.record.in_memory().expect("shown")).expect("whole");
                    let body = u64::from_be_bytes(fields.body.bytes().try_into().expect("eight bytes"));
                    let other = found.insert(body, name);
                    assert_eq!(other, None, "{context}: message {body} occurs twice, in {name}");
                }
            }
        }
        for (number, _) in self.sent.iter().filter(|(_, acknowledged)| **acknowledged) {
            assert!(found.contains_key(number), "{context}: message {number} is lost");
        }
        found
    }
}

/// Runs the script with the configured fault, then ends the fault.
fn run_on(disk: &FaultDisk) -> (Script, Option<Namespace>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(START));
    let mut script = Script::default();
    let namespace = open(disk, &clock).ok();
    if let Some(namespace) = &namespace {
        let _ = script.run(namespace);
    }
    disk.end_faults();
    (script, namespace, clock)
}

/// Opens the remaining disk twice. The second recovery moves no message.
fn check_next(script: &Script, disk: &FaultDisk, clock: &Arc<ManualClock>, context: &str) {
    let mut before = None;
    for _ in 0..2 {
        let namespace = open(disk, clock).unwrap_or_else(|error| panic!("{context}: {error}"));
        let found = script.check(&namespace, context);
        assert!(before.is_none_or(|before| before == found), "{context}: messages moved");
        before = Some(found);
    }
}

fn calls() -> u64 {
    let disk = FaultDisk::new();
    let (script, namespace, clock) = run_on(&disk);
    let namespace = namespace.expect("opened");
    assert_eq!(script.sent.len(), 13, "the script ran to its end");
    let found = script.check(&namespace, "without a fault");
    assert!(found.values().all(|name| *name == "end"), "{found:?}");
    let calls = disk.calls();
    drop(namespace);
    check_next(&script, &disk, &clock, "without a fault");
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
                let context = format!("{fault:?} at call {call}, disk {index}");
                check_next(&script, left, &clock, &context);
            }
        }
    }
}

#[test]
fn an_error_at_every_call_loses_and_duplicates_nothing() {
    for call in 0..calls() {
        for fault in [SimulatedFault::Errno(5), SimulatedFault::ShortWrite] {
            let disk = FaultDisk::new();
            disk.fail_at(call, fault);
            let (script, namespace, clock) = run_on(&disk);
            let context = format!("{fault:?} at call {call}");
            if let Some(namespace) = namespace {
                check_next(&script, &disk.after_kill(), &clock, &format!("{context}, killed"));
                for partition in 0..PARTITIONS {
                    namespace
                        .heal(PartitionId(partition), &Wait::FOREVER)
                        .unwrap_or_else(|error| panic!("{context}: {error}"));
                }
                script.check(&namespace, &format!("{context}, healed"));
                let left = disk.after_kill();
                check_next(&script, &left, &clock, &format!("{context}, healed and killed"));
                namespace.close();
            }
            check_next(&script, &disk, &clock, &format!("{context}, closed"));
        }
    }
}
