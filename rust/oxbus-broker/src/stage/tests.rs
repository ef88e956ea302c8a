// SPDX-License-Identifier: Apache-2.0
//! Tests of cases that public calls cannot produce: a batch in several pieces, and stages that are damaged between
//! commit and publish.

use oxbus_store::Wait;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use oxbus_model::caps::ATTACHED_RETENTION_MS;
use oxbus_model::message::{Body, Fields};
use oxbus_model::options::{Durability, QueueSettings};
use oxbus_model::{ErrorKind, Timestamp};
use oxbus_store::fault::FaultDisk;

use super::publish::{attach_name, split_into_pieces};
use super::{StageState, Stages};
use crate::durable::StoreOptions;
use crate::shard::journal::Intent;
use crate::{ManualClock, Namespace, NamespaceOptions, ReceiverOptions};

const SINK: &str = "sink";
const LARGE: usize = 100_000;
const START: Timestamp = Timestamp(1_000_000);

fn open(disk: &FaultDisk) -> Namespace {
    open_at(disk, START)
}

fn open_at(disk: &FaultDisk, now: Timestamp) -> Namespace {
    let options = NamespaceOptions {
        store: Some(StoreOptions {
            path: PathBuf::from("/bus"),
            durability: Durability::Fsync,
            owned: None,
            disk: Some(Arc::new(disk.clone())),
            segment_bytes: None,
        }),
        partitions: Some(2),
        clock: Some(Arc::new(ManualClock::new(now))),
        ..NamespaceOptions::default()
    };
    Namespace::open(options).expect("opened")
}

/// A namespace with a queue in one partition.
fn create(disk: &FaultDisk) -> Namespace {
    let namespace = open(disk);
    namespace
        .create_queue("q", QueueSettings::default(), &Wait::FOREVER)
        .expect("created");
    namespace
}

/// Stages rows whose bodies repeat their number.
fn stage(stages: &Stages, id: &str, numbers: std::ops::Range<u8>, bytes: usize) {
    let mut staging = stages.begin("q", id).expect("begun");
    for number in numbers {
        let body = vec![number; bytes];
        let fields = Fields {
            body: Body::Data(&body),
            ..Fields::default()
        };
        let row = staging.entity().encode(&fields).expect("a row");
        staging.push(None, vec![row]).expect("pushed");
    }
    staging.finish().expect("finished");
}

/// The numbers in the queue, in order.
fn numbers(namespace: &Namespace) -> Vec<u8> {
    let receiver = namespace.receiver("q", ReceiverOptions::default()).expect("there");
    let found = receiver.browse(1000, None, &Wait::FOREVER).expect("read");
    let number = |record: &[u8]| Fields::decode(record).expect("whole").body.bytes()[0];
    found
        .iter()
        .map(|it| number(it.message.record.in_memory().expect("shown")))
        .collect()
}

/// Decides a batch like a commit that crashes right afterwards.
fn decide(stages: &Stages, batch: u64, ids: &[&str], piece_bytes: u64) {
    let registry = &stages.registry;
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let named = registry.ready_stages(&ids).expect("there");
    let intent = Intent {
        query: "query".to_owned(),
        batch,
        at: registry.core.clock().now(),
        is_done: false,
        piece_bytes,
        stages: ids,
        targets: registry
            .check_targets(&named, piece_bytes, &Wait::FOREVER)
            .expect("room"),
    };
    registry.reserve(SINK, &intent).expect("ready");
    registry.decide(SINK, intent, &Wait::FOREVER).expect("decided");
}

fn damage(disk: &FaultDisk, which: impl Fn(&[u8]) -> bool) {
    let is_stage = |path: &PathBuf| path.starts_with("/bus/stages");
    let found = disk.paths().into_iter().filter(is_stage);
    let mut found = found.filter(|path| which(&disk.bytes(path).expect("there")));
    let path = found.next().expect("there is one");
    let mut bytes = disk.bytes(&path).expect("there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    disk.set_bytes(&path, bytes);
}

fn is_of(id: &str) -> impl Fn(&[u8]) -> bool + '_ {
    move |bytes| bytes.windows(id.len()).any(|window| window == id.as_bytes())
}

#[test]
fn runs_are_split_into_pieces_that_fit() {
    let cut = |runs: &[usize], max| split_into_pieces(runs.iter().copied(), max);
    assert_eq!(cut(&[], 10), []);
    assert_eq!(cut(&[4, 6, 1], 10), [0..2, 2..3]);
    assert_eq!(cut(&[11, 1, 9, 1], 10), [0..1, 1..3, 3..4]);
}

#[test]
fn attach_names_of_batches_differ() {
    let names = [
        attach_name("a", "bc", 1, 0),
        attach_name("ab", "c", 1, 0),
        attach_name("a", "bc", 1, 1),
        attach_name("a", "bc", 11, 0),
        attach_name("a", "bc1", 1, 0),
    ];
    for (position, name) in names.iter().enumerate() {
        assert!(!names[..position].contains(name), "{name}");
    }
}

#[test]
fn a_batch_in_several_pieces_is_published_once() {
    let ids = ["one", "two"];
    let prepare = |disk: &FaultDisk| {
        let namespace = create(disk);
        let stages = namespace.stages();
        stages.registry.piece_bytes.store(3 * LARGE as u64, Ordering::Relaxed);
        stage(&stages, "one", 0..10, LARGE);
        stage(&stages, "two", 10..20, LARGE);
        namespace
    };
    let commit = |namespace: &Namespace| {
        namespace
            .stages()
            .commit(SINK, "query", 0, &ids.map(str::to_owned), &Wait::FOREVER)
    };
    let disk = FaultDisk::new();
    let namespace = prepare(&disk);
    let before = disk.calls();
    assert!(commit(&namespace).expect("committed"));
    assert_eq!(numbers(&namespace), (0..20).collect::<Vec<u8>>());
    for call in 0..disk.calls() - before {
        let disk = FaultDisk::new();
        let namespace = prepare(&disk);
        disk.fail_at(disk.calls() + call, oxbus_store::fault::SimulatedFault::Kill);
        let _ = commit(&namespace);
        let left = disk.after_kill();
        drop(namespace);
        let namespace = open(&left);
        let there = numbers(&namespace);
        // This namespace would use one piece; the intent still splits the batch as it was decided.
        assert!(
            there.is_empty() || there == (0..20).collect::<Vec<u8>>(),
            "call {call}: {there:?}"
        );
        assert_eq!(commit(&namespace).expect("committed"), there.is_empty(), "call {call}");
        assert_eq!(numbers(&namespace), (0..20).collect::<Vec<u8>>(), "call {call}");
    }
}

#[test]
fn a_damaged_stage_is_reported_and_nothing_is_published() {
    let disk = FaultDisk::new();
    let namespace = create(&disk);
    let stages = namespace.stages();
    stage(&stages, "whole", 0..2, 10);
    stage(&stages, "broken", 2..4, 1_000);
    damage(&disk, is_of("broken"));
    let ids = ["whole", "broken"].map(str::to_owned);
    let error = stages
        .commit(SINK, "query", 0, &ids, &Wait::FOREVER)
        .expect_err("damaged");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.detail().contains("`broken`"), "{error}");
    assert!(numbers(&namespace).is_empty());
    assert!(stages.discard("broken", &Wait::FOREVER).expect("discarded"));
    assert!(
        stages
            .commit(SINK, "query", 0, &ids[..1], &Wait::FOREVER)
            .expect("committed")
    );
    assert_eq!(numbers(&namespace), [0, 1]);
}

#[test]
fn a_truncated_stage_is_listed_as_damaged() {
    let disk = FaultDisk::new();
    let namespace = create(&disk);
    stage(&namespace.stages(), "torn", 0..4, 1_000);
    let left = disk.after_kill();
    let path = left
        .paths()
        .into_iter()
        .find(|path| path.starts_with("/bus/stages"))
        .expect("there");
    let bytes = left.bytes(&path).expect("there");
    left.set_bytes(&path, bytes[..bytes.len() / 2].to_vec());
    let namespace = open(&left);
    let listed = namespace.stages().list();
    assert_eq!((listed.len(), &*listed[0].id), (1, "torn"));
    assert!(
        matches!(&listed[0].state, StageState::Damaged(why) if why.contains(".stage")),
        "{listed:?}"
    );
    let error = namespace
        .stages()
        .commit(SINK, "query", 0, &["torn".to_owned()], &Wait::FOREVER)
        .expect_err("damaged");
    assert!(error.detail().contains("`torn`"), "{error}");
    assert!(namespace.stages().discard("torn", &Wait::FOREVER).expect("discarded"));
    assert!(left.bytes(&path).is_none());
}

#[test]
fn a_decided_batch_waits_until_its_damaged_stage_is_discarded() {
    for gone in [false, true] {
        let disk = FaultDisk::new();
        let namespace = create(&disk);
        stage(&namespace.stages(), "whole", 0..2, 10);
        stage(&namespace.stages(), "broken", 2..4, 1_000);
        decide(&namespace.stages(), 0, &["whole", "broken"], 1 << 20);
        let left = disk.after_kill();
        drop(namespace);
        if gone {
            let is_broken =
                |path: &PathBuf| path.starts_with("/bus/stages") && is_of("broken")(&left.bytes(path).expect("there"));
            let path = left.paths().into_iter().find(is_broken).expect("there");
            oxbus_store::disk::Disk::remove(&left, &path).expect("removed");
        } else {
            damage(&left, is_of("broken"));
        }
        let namespace = open(&left);
        let stages = namespace.stages();
        assert!(numbers(&namespace).is_empty());
        for batch in [0, 1] {
            let error = stages
                .commit(SINK, "query", batch, &[], &Wait::FOREVER)
                .expect_err("it waits");
            assert!(error.detail().contains("`broken`"), "{error}");
        }
        let error = stages.discard("whole", &Wait::FOREVER).expect_err("it is needed");
        assert_eq!(error.kind(), ErrorKind::InvalidOperation);
        assert!(stages.discard("broken", &Wait::FOREVER).expect("given up"));
        assert_eq!(numbers(&namespace), [0, 1]);
        assert!(!stages.commit(SINK, "query", 0, &[], &Wait::FOREVER).expect("committed"));
        assert_eq!(stages.list(), []);
        assert!(
            left.paths()
                .iter()
                .all(|path| !path.starts_with(Path::new("/bus/stages")))
        );
    }
}

#[test]
fn a_batch_is_published_once_although_partitions_forget_earlier_loads() {
    let disk = FaultDisk::new();
    let namespace = open(&disk);
    let settings = QueueSettings {
        enable_partitioning: true,
        ..QueueSettings::default()
    };
    namespace.create_queue("q", settings, &Wait::FOREVER).expect("created");
    let stages = namespace.stages();
    stage(&stages, "one", 0..4, 10);
    decide(&stages, 0, &["one"], 1 << 20);
    let intent = stages.registry.home_of(SINK).intent(SINK).expect("decided");
    assert_eq!(intent.targets.len(), 2);
    let queue = namespace.queue("q").expect("there");
    let named = stages.registry.stages_of(&intent).expect("there");
    let name = |piece| attach_name(SINK, "query", 0, piece);
    let attached = stages.registry.attach(
        (&queue, &intent.targets[0]),
        &named,
        intent.piece_bytes,
        &name,
        &Wait::FOREVER,
    );
    attached.expect("attached");
    let left = disk.after_kill();
    drop((stages, queue, namespace));
    // Names of attached loads of this age are forgotten.
    let namespace = open_at(&left, Timestamp(START.0 + ATTACHED_RETENTION_MS + 1));
    let mut found = numbers(&namespace);
    found.sort_unstable();
    assert_eq!(found, [0, 1, 2, 3]);
    assert!(
        !namespace
            .stages()
            .commit(SINK, "query", 0, &[], &Wait::FOREVER)
            .expect("committed")
    );
}
