// SPDX-License-Identifier: Apache-2.0
//! Staged sends on a faulty disk: for each disk call and each fault, a run fails at that call.
//! After a fault, each batch is published completely or not at all. After a retry, each row exists exactly once.

use oxbus_store::Wait;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use oxbus_broker::durable::StoreOptions;
use oxbus_broker::namespace::{SubscriptionOptions, TopicOptions};
use oxbus_broker::{ManualClock, Namespace, NamespaceOptions, ReceiverOptions, StageState};
use oxbus_model::message::{Body, Fields, MessageId};
use oxbus_model::options::{Durability, QueueSettings};
use oxbus_model::{ErrorKind, PartitionId, Result, Timestamp};
use oxbus_store::fault::{FaultDisk, SimulatedFault};

const PARTITIONS: u16 = 2;
const START: Timestamp = Timestamp(1_000_000);
const SINK: &str = "sink";
/// The rows of each batch by entity: a topic with two subscriptions, a queue with duplicate detection, plain queues.
const BATCHES: [&[(&str, u64)]; 3] = [
    &[("plain", 5), ("once", 3), ("topic", 4)],
    &[("plain", 2)],
    &[("home", 3)],
];
/// Each entity and a path where its rows arrive.
const DESTINATIONS: [(&str, &str); 5] = [
    ("plain", "plain"),
    ("once", "once"),
    ("home", "home"),
    ("topic", "topic/Subscriptions/one"),
    ("topic", "topic/Subscriptions/two"),
];

fn open(disk: &FaultDisk, durability: Durability) -> Result<Namespace> {
    Namespace::open(NamespaceOptions {
        store: Some(StoreOptions {
            path: PathBuf::from("/bus"),
            durability,
            owned: None,
            disk: Some(Arc::new(disk.clone())),
            segment_bytes: Some((4 << 10, 8 << 10)),
        }),
        partitions: Some(PARTITIONS),
        clock: Some(Arc::new(ManualClock::new(START))),
        ..NamespaceOptions::default()
    })
}

/// Creates the entities that are missing.
fn create(namespace: &Namespace) -> Result<()> {
    let partitioned = QueueSettings {
        enable_partitioning: true,
        ..QueueSettings::default()
    };
    let once = QueueSettings {
        requires_duplicate_detection: true,
        ..partitioned.clone()
    };
    let (support_ordering, dead_letter_failed) = (true, false);
    let (topic, subscription) = (
        TopicOptions { support_ordering },
        SubscriptionOptions { dead_letter_failed },
    );
    let created = [
        namespace
            .create_queue("plain", partitioned.clone(), &Wait::FOREVER)
            .err(),
        namespace
            .create_queue("home", QueueSettings::default(), &Wait::FOREVER)
            .err(),
        namespace.create_queue("once", once, &Wait::FOREVER).err(),
        namespace
            .create_topic("topic", partitioned.clone(), topic, &Wait::FOREVER)
            .err(),
        namespace
            .create_subscription("topic", "one", partitioned.clone(), subscription, None, &Wait::FOREVER)
            .err(),
        namespace
            .create_subscription("topic", "two", partitioned, subscription, None, &Wait::FOREVER)
            .err(),
    ];
    let mut errors = created.into_iter().flatten();
    errors
        .find(|error| error.kind() != ErrorKind::EntityAlreadyExists)
        .map_or(Ok(()), Err)
}

/// Stages rows for one entity. The body of a row names its batch, entity and position. Every second row has a key.
fn stage(namespace: &Namespace, id: &str, batch: usize, entity: &str, rows: u64) -> Result<()> {
    let mut staging = namespace.stages().begin(entity, id)?;
    for row in 0..rows {
        let body = format!("{batch}/{entity}/{row}");
        let fields = Fields {
            body: Body::Data(body.as_bytes()),
            message_id: Some(MessageId::Given(&body)),
            partition_key: (row % 2 == 0).then_some(&body),
            ..Fields::default()
        };
        staging.push(None, vec![staging.entity().encode(&fields)?])?;
    }
    assert_eq!(staging.finish()?, rows);
    Ok(())
}

/// Stages and commits a batch. The attempt's name makes the ids of its stages unique. Returns whether the batch is new.
fn try_batch(namespace: &Namespace, batch: usize, attempt: &str) -> Result<bool> {
    let mut ids = Vec::new();
    for (entity, rows) in BATCHES[batch] {
        let id = format!("{batch}/{entity}/{attempt}");
        stage(namespace, &id, batch, entity, *rows)?;
        ids.push(id);
    }
    namespace
        .stages()
        .commit(SINK, "query", batch as u64, &ids, &Wait::FOREVER)
}

/// A run of all batches, and what happened to them.
#[derive(Default)]
struct Script {
    /// Batches whose commit returned.
    acknowledged: BTreeSet<usize>,
    /// Batches that were attempted.
    tried: BTreeSet<usize>,
}

impl Script {
    /// Commits all batches, then aborts one with an orphan. Returns `None` if a call fails.
    fn run(&mut self, namespace: &Namespace) -> Option<()> {
        create(namespace).ok()?;
        stage(namespace, "orphan", 9, "plain", 1).ok()?;
        for batch in 0..BATCHES.len() {
            self.tried.insert(batch);
            assert!(try_batch(namespace, batch, "first").ok()?, "batch {batch} is new");
            self.acknowledged.insert(batch);
            if batch == 0 {
                namespace.checkpoint().ok()?;
            }
        }
        namespace
            .stages()
            .abort(SINK, "query", 3, &["orphan".to_owned()], &Wait::FOREVER)
            .ok()
    }

    /// Checks that each batch is published completely or not at all. Returns the published batches.
    fn check(&self, namespace: &Namespace, context: &str) -> BTreeSet<usize> {
        let mut found: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for (_, path) in DESTINATIONS {
            let Ok(receiver) = namespace.receiver(path, ReceiverOptions::default()) else {
                continue;
            };
            for browsed in receiver
                .browse(1000, None, &Wait::FOREVER)
                .expect("the faults have ended")
            {
                let fields = Fields::decode(browsed.message.record.in_memory().expect("the body is in memory"))
                    .expect("the record is valid");
                let body = String::from_utf8(fields.body.bytes().to_vec()).expect("the body is UTF-8");
                let is_new = found.entry(body.clone()).or_default().insert(path);
                assert!(is_new, "{context}: {path} holds {body} twice");
            }
        }
        let mut published = BTreeSet::new();
        for (batch, entities) in BATCHES.iter().enumerate() {
            let mut present = Vec::new();
            for (entity, rows) in *entities {
                for (_, path) in DESTINATIONS.iter().filter(|(of, _)| of == entity) {
                    let is_row_present = |row| {
                        let paths = found.get(&format!("{batch}/{entity}/{row}"));
                        paths.is_some_and(|paths| paths.contains(path))
                    };
                    present.extend((0..*rows).map(is_row_present));
                }
            }
            assert!(
                present.iter().all(|it| *it == present[0]),
                "{context}: batch {batch} is published in part"
            );
            assert!(
                present[0] || !self.acknowledged.contains(&batch),
                "{context}: batch {batch} is lost"
            );
            assert!(
                !present[0] || self.tried.contains(&batch),
                "{context}: batch {batch} is published but was never tried"
            );
            if present[0] {
                published.insert(batch);
            }
        }
        published
    }

    /// Retries every batch, as a restarted query does. Each row must exist exactly once.
    fn retry_all(&mut self, namespace: &Namespace, context: &str, name: &str) {
        create(namespace).unwrap_or_else(|error| panic!("{context}: {error}"));
        let published = self.check(namespace, context);
        for batch in 0..BATCHES.len() {
            let is_new = try_batch(namespace, batch, name).unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(is_new, !published.contains(&batch), "{context}: batch {batch}");
            self.tried.insert(batch);
            self.acknowledged.insert(batch);
        }
        self.check(namespace, context);
        for stage in namespace.stages().list() {
            assert_eq!(stage.state, StageState::Ready, "{context}: {stage:?}");
            assert!(
                namespace
                    .stages()
                    .discard(&stage.id, &Wait::FOREVER)
                    .expect("the faults have ended"),
                "{context}"
            );
        }
    }
}

/// Runs the script with the configured fault, then ends the fault.
fn run_on(disk: &FaultDisk, durability: Durability) -> (Script, Option<Namespace>) {
    let mut script = Script::default();
    let namespace = open(disk, durability).ok();
    if let Some(namespace) = &namespace {
        let _ = script.run(namespace);
    }
    disk.end_faults();
    (script, namespace)
}

/// Twice opens the disk that the fault left and retries all batches.
fn check_after_reopen(script: &Script, disk: &FaultDisk, durability: Durability, context: &str) {
    let mut script = Script {
        acknowledged: script.acknowledged.clone(),
        tried: script.tried.clone(),
    };
    for name in ["second", "third"] {
        let namespace = open(disk, durability).unwrap_or_else(|error| panic!("{context}: {error}"));
        script.retry_all(&namespace, context, name);
        namespace.close();
        let stages: Vec<PathBuf> = disk
            .paths()
            .into_iter()
            .filter(|path| path.starts_with("/bus/stages"))
            .collect();
        assert_eq!(stages, [] as [PathBuf; 0], "{context}");
    }
}

/// Runs the script without a fault. Returns how many disk calls it makes.
fn count_disk_calls(durability: Durability) -> u64 {
    let disk = FaultDisk::new();
    let (script, namespace) = run_on(&disk, durability);
    let namespace = namespace.expect("the namespace opens without a fault");
    assert_eq!(script.acknowledged.len(), BATCHES.len(), "the script ran to its end");
    script.check(&namespace, "without a fault");
    let calls = disk.calls();
    drop(namespace);
    check_after_reopen(&script, &disk, durability, "without a fault");
    calls
}

#[test]
fn a_kill_at_every_call_publishes_all_or_nothing_once() {
    for call in 0..count_disk_calls(Durability::Fsync) {
        for fault in [SimulatedFault::Kill, SimulatedFault::PowerCut] {
            let disk = FaultDisk::new();
            disk.fail_at(call, fault);
            let (script, namespace) = run_on(&disk, Durability::Fsync);
            let disks: Vec<FaultDisk> = match fault {
                SimulatedFault::Kill => vec![disk.after_kill()],
                _ => (0..3).map(|seed| disk.after_power_cut(seed)).collect(),
            };
            drop(namespace);
            for (index, remaining) in disks.iter().enumerate() {
                let context = format!("{fault:?} at call {call}, disk {index}");
                check_after_reopen(&script, remaining, Durability::Fsync, &context);
            }
        }
    }
}

#[test]
fn a_kill_at_every_call_without_syncs_publishes_all_or_nothing_once() {
    for call in 0..count_disk_calls(Durability::Os) {
        let disk = FaultDisk::new();
        disk.fail_at(call, SimulatedFault::Kill);
        let (script, namespace) = run_on(&disk, Durability::Os);
        drop(namespace);
        check_after_reopen(
            &script,
            &disk.after_kill(),
            Durability::Os,
            &format!("kill at call {call}"),
        );
    }
}

#[test]
fn an_error_at_every_call_publishes_all_or_nothing_once() {
    for call in 0..count_disk_calls(Durability::Fsync) {
        for fault in [SimulatedFault::Errno(5), SimulatedFault::ShortWrite] {
            let disk = FaultDisk::new();
            disk.fail_at(call, fault);
            let (mut script, namespace) = run_on(&disk, Durability::Fsync);
            let context = format!("{fault:?} at call {call}");
            if let Some(namespace) = namespace {
                check_after_reopen(
                    &script,
                    &disk.after_kill(),
                    Durability::Fsync,
                    &format!("{context}, killed"),
                );
                for partition in 0..PARTITIONS {
                    let healed = namespace.heal(PartitionId(partition), &Wait::FOREVER);
                    healed.unwrap_or_else(|error| panic!("{context}: {error}"));
                }
                script.retry_all(&namespace, &format!("{context}, healed"), "healed");
                check_after_reopen(
                    &script,
                    &disk.after_kill(),
                    Durability::Fsync,
                    &format!("{context}, healed and killed"),
                );
                namespace.close();
            }
            check_after_reopen(&script, &disk, Durability::Fsync, &format!("{context}, closed"));
        }
    }
}
