// SPDX-License-Identifier: Apache-2.0
//! Deliveries while the disk fails at every call with every fault.
//!
//! In the past, a removal that could not be written returned an empty result without an error, and the message was
//! lost at the next open. Now each call delivers messages, keeps them, or reports its effect in the error (R-01,
//! A result is empty only if there is no message, and a call whose error has the effect `none` can be retried.

use oxbus_store::Wait;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use oxbus_broker::client::{Deliveries, SessionSelector, Settlement};
use oxbus_broker::durable::StoreOptions;
use oxbus_broker::entity::Entity;
use oxbus_broker::{ManualClock, Namespace, NamespaceOptions, Receiver, ReceiverOptions};
use oxbus_model::message::{Body, Fields};
use oxbus_model::options::{Durability, LockPolicy, QueueSettings, ReceiveMode};
use oxbus_model::{Effect, Error, ErrorKind, PartitionId, SequenceNumber, Timestamp};
use oxbus_store::fault::{FaultDisk, SimulatedFault};

const START: Timestamp = Timestamp(1_000_000);
const MESSAGES: usize = 12;
/// Large, so that deliveries make the journal begin another segment.
const BODY_BYTES: usize = 300;

const EIO: SimulatedFault = SimulatedFault::Errno(5);
const ENOSPC: SimulatedFault = SimulatedFault::Errno(28);

/// The ways to deliver messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeliveryPath {
    /// Receive and delete.
    Delete,
    /// Receive and delete by a receiver with a faithful cache, which never returns messages.
    DeleteFromCache,
    /// The same from a session.
    DeleteFromSession,
    /// Receive under locks.
    Lock,
    /// The same from a session.
    LockFromSession,
    /// Fetch by number under locks.
    Fetch,
    /// Fetch by number and delete.
    FetchAndDelete,
}

impl DeliveryPath {
    const ALL: [Self; 7] = [
        Self::Delete,
        Self::DeleteFromCache,
        Self::DeleteFromSession,
        Self::Lock,
        Self::LockFromSession,
        Self::Fetch,
        Self::FetchAndDelete,
    ];

    fn mode(self) -> ReceiveMode {
        match self {
            Self::Lock | Self::LockFromSession | Self::Fetch => ReceiveMode::PeekLock,
            _ => ReceiveMode::ReceiveAndDelete,
        }
    }

    fn fetches(self) -> bool {
        matches!(self, Self::Fetch | Self::FetchAndDelete)
    }

    fn in_session(self) -> bool {
        matches!(self, Self::DeleteFromSession | Self::LockFromSession)
    }

    fn options(self) -> ReceiverOptions {
        let from_cache = self == Self::DeleteFromCache;
        ReceiverOptions {
            mode: self.mode(),
            lock_policy: from_cache.then_some(LockPolicy::Faithful),
            prefetch: if from_cache { 3 } else { 0 },
            ..ReceiverOptions::default()
        }
    }

    fn receiver(self, namespace: &Namespace) -> Receiver {
        if !self.in_session() {
            return namespace.receiver("q", self.options()).expect("there is the queue");
        }
        let wanted = SessionSelector::Id("s".to_owned());
        let acceptor = namespace.acceptor("q", wanted, self.options(), "test".to_owned());
        let accepted = acceptor.expect("there is the queue").accept_now(&Wait::FOREVER);
        accepted.expect("nothing fails yet").expect("no other receiver has it")
    }
}

fn open(disk: &FaultDisk, durability: Durability) -> Namespace {
    let options = NamespaceOptions {
        store: Some(StoreOptions {
            path: PathBuf::from("/bus"),
            durability,
            owned: None,
            disk: Some(Arc::new(disk.clone())),
            segment_bytes: Some((4 << 10, 8 << 10)),
        }),
        partitions: Some(1),
        clock: Some(Arc::new(ManualClock::new(START))),
        ..NamespaceOptions::default()
    };
    Namespace::open(options).expect("an intact directory")
}

/// A namespace with messages, and their numbers.
fn prepare(disk: &FaultDisk, durability: Durability, path: DeliveryPath) -> (Namespace, Vec<SequenceNumber>) {
    let namespace = open(disk, durability);
    let settings = QueueSettings {
        max_delivery_count: 100,
        requires_session: path.in_session(),
        ..QueueSettings::default()
    };
    namespace
        .create_queue("q", settings, &Wait::FOREVER)
        .expect("nothing fails yet");
    let sender = namespace.sender("q").expect("there is the queue");
    let body = [7; BODY_BYTES];
    let fields = Fields {
        body: Body::Data(&body),
        session_id: path.in_session().then_some("s"),
        ..Fields::default()
    };
    let send = |_| sender.send(&fields, None, &Wait::FOREVER).expect("nothing fails yet");
    let numbers: Vec<SequenceNumber> = (0..MESSAGES).map(send).collect();
    if path.fetches() {
        let receiver = namespace.receiver("q", ReceiverOptions::default()).expect("there");
        let taken = receiver
            .receive_now(MESSAGES, &Wait::FOREVER)
            .expect("nothing fails yet");
        for delivery in taken.expect("the messages were received") {
            let at = oxbus_broker::client::SettleKey {
                index: delivery.index,
                key: delivery.claimed.key,
            };
            receiver
                .settle(at, Settlement::Defer(&[]), &Wait::FOREVER)
                .expect("nothing fails yet");
        }
    }
    (namespace, numbers)
}

/// The results of the calls.
#[derive(Default)]
struct CallResults {
    delivered: BTreeSet<SequenceNumber>,
    /// Messages of errors with an unknown effect.
    unknown: BTreeSet<SequenceNumber>,
    errors: Vec<Error>,
    /// True if a receiver under locks skipped a partition that is out of service.
    passed_over: bool,
}

/// Receives messages until there are none, or a call fails.
fn take_all(
    namespace: &Namespace,
    receiver: &Receiver,
    path: DeliveryPath,
    numbers: &[SequenceNumber],
    context: &str,
) -> CallResults {
    let mut results = CallResults::default();
    for number in numbers {
        let taken = if path.fetches() {
            receiver.receive_deferred(&[*number], &Wait::FOREVER).map(Some)
        } else {
            receiver.receive_now(1, &Wait::FOREVER)
        };
        match taken {
            Ok(deliveries) => {
                let deliveries = deliveries.unwrap_or_default();
                if deliveries.is_empty() {
                    // Under locks a receiver skips a partition that is out of service, and its messages wait (B-093).
                    let fault = namespace.partition_health()[0].fault;
                    assert!(
                        path == DeliveryPath::Lock && fault.is_some(),
                        "{context}: an empty answer while {number} is ready"
                    );
                    results.passed_over = true;
                    break;
                }
                results.note(&deliveries, context);
            }
            Err(error) => {
                results.note_error(error, context);
                break;
            }
        }
    }
    results
}

impl CallResults {
    fn note(&mut self, deliveries: &Deliveries, context: &str) {
        for delivery in deliveries {
            let number = Entity::sequence_number(delivery.index, delivery.claimed.key.counter);
            assert!(self.delivered.insert(number), "{context}: {number} came twice");
            assert_eq!(
                delivery.claimed.record.in_memory().map(|it| it.len() > BODY_BYTES),
                Some(true)
            );
        }
    }

    fn note_error(&mut self, error: Error, context: &str) {
        let effect = error
            .effect()
            .unwrap_or_else(|| panic!("{context}: {error} has no effect"));
        assert!(!error.numbers().is_empty(), "{context}: {error} names no message");
        if effect == Effect::Unknown {
            self.unknown.extend(error.numbers());
        }
        self.errors.push(error);
    }

    /// True if no error has an unknown effect.
    fn all_effects_are_known(&self) -> bool {
        self.unknown.is_empty()
    }
}

/// The messages of the queue with their delivery counts.
fn contents(namespace: &Namespace) -> BTreeMap<SequenceNumber, u32> {
    let receiver = namespace
        .receiver("q", ReceiverOptions::default())
        .expect("there is the queue");
    let browsed = receiver
        .browse(100, None, &Wait::FOREVER)
        .expect("nothing fails any more");
    browsed
        .iter()
        .map(|it| {
            (
                Entity::sequence_number(it.index, it.message.counter),
                it.message.delivery_count,
            )
        })
        .collect()
}

struct FaultRun {
    path: DeliveryPath,
    numbers: Vec<SequenceNumber>,
    results: CallResults,
    context: String,
}

impl FaultRun {
    /// Checks the remaining messages. `decided` is true if this process's state in memory was kept, so that no effect
    /// is unknown.
    fn check(&self, found: &BTreeMap<SequenceNumber, u32>, decided: bool, context: &str) {
        let context = format!("{}, {context}", self.context);
        let deletes = self.path.mode() == ReceiveMode::ReceiveAndDelete;
        for number in &self.numbers {
            let count = found.get(number).copied();
            if self.results.delivered.contains(number) {
                if deletes {
                    assert_eq!(count, None, "{context}: {number} was delivered and is still stored");
                } else {
                    assert!(count.is_some(), "{context}: {number} is lost with its lock");
                }
            } else if self.path == DeliveryPath::DeleteFromCache {
                // Messages in its cache are lost with it (B-144).
            } else if decided || !self.results.unknown.contains(number) {
                assert!(count.is_some(), "{context}: {number} was not delivered and is lost");
            }
            let refused = self.results.errors.iter().any(|error| error.numbers().contains(number));
            let is_kept = decided && !self.results.delivered.contains(number);
            if self.path != DeliveryPath::DeleteFromCache
                && (is_kept || (refused && self.results.all_effects_are_known()))
            {
                assert_eq!(count, Some(0), "{context}: {number} has a delivery counted for nothing");
            }
        }
    }
}

/// The range of disk calls that deliveries make.
fn calls_of(durability: Durability, path: DeliveryPath) -> (u64, u64) {
    let disk = FaultDisk::new();
    let (namespace, numbers) = prepare(&disk, durability, path);
    let receiver = path.receiver(&namespace);
    let first = disk.calls();
    let results = take_all(&namespace, &receiver, path, &numbers, "without a fault");
    assert_eq!(results.delivered.len(), MESSAGES, "all are delivered");
    (first, disk.calls())
}

fn run(
    durability: Durability,
    path: DeliveryPath,
    call: u64,
    fault: SimulatedFault,
) -> (FaultRun, FaultDisk, Namespace) {
    let context = format!("{path:?}, {durability:?}, {fault:?} at call {call}");
    let disk = FaultDisk::new();
    let (namespace, numbers) = prepare(&disk, durability, path);
    let receiver = path.receiver(&namespace);
    disk.fail_at(call, fault);
    let results = take_all(&namespace, &receiver, path, &numbers, &context);
    disk.end_faults();
    drop(receiver);
    let run = FaultRun {
        path,
        numbers,
        results,
        context,
    };
    (run, disk, namespace)
}

fn every_call(
    path: DeliveryPath,
    faults: &[SimulatedFault],
    check: impl Fn(FaultRun, FaultDisk, Namespace, Durability) -> usize,
) -> usize {
    let mut refused = 0;
    for durability in [Durability::Os, Durability::Fsync] {
        let (first, end) = calls_of(durability, path);
        assert!(first < end, "{path:?} {durability:?} calls the disk");
        for call in first..end {
            for fault in faults {
                let (run, disk, namespace) = run(durability, path, call, *fault);
                refused += check(run, disk, namespace, durability);
            }
        }
    }
    refused
}

/// Checks the state that a new process finds after a kill: the results must be true of it too.
fn check_killed(run: &FaultRun, disk: &FaultDisk, durability: Durability) {
    let next = open(&disk.after_kill(), durability);
    run.check(&contents(&next), false, "killed");
}

#[test]
fn every_error_at_every_call_delivers_keeps_or_reports() {
    for path in DeliveryPath::ALL {
        let refused = every_call(
            path,
            &[EIO, ENOSPC, SimulatedFault::ShortWrite],
            |run, disk, namespace, durability| {
                check_killed(&run, &disk, durability);
                namespace
                    .heal(PartitionId(0), &Wait::FOREVER)
                    .expect("the disk works again");
                run.check(&contents(&namespace), true, "healed");
                check_killed(&run, &disk, durability);
                drop(namespace);
                run.check(&contents(&open(&disk, durability)), true, "closed");
                run.results.errors.len() + usize::from(run.results.passed_over)
            },
        );
        assert!(refused > 0, "{path:?} meets an error");
    }
}

#[test]
fn no_kill_or_power_cut_brings_back_a_delivered_message() {
    for path in [
        DeliveryPath::Delete,
        DeliveryPath::Lock,
        DeliveryPath::Fetch,
        DeliveryPath::FetchAndDelete,
    ] {
        every_call(
            path,
            &[SimulatedFault::PowerCut, SimulatedFault::Kill],
            |run, disk, namespace, durability| {
                drop(namespace);
                // A power cut may undo deliveries at the level `os`.
                if durability == Durability::Fsync {
                    for seed in 0..3 {
                        let next = open(&disk.after_power_cut(seed), durability);
                        run.check(&contents(&next), false, "after the power came back");
                    }
                }
                check_killed(&run, &disk, durability);
                0
            },
        );
    }
}

#[test]
fn a_faithful_cache_delivers_later_what_a_fault_withheld() {
    let path = DeliveryPath::DeleteFromCache;
    for durability in [Durability::Os, Durability::Fsync] {
        let (first, end) = calls_of(durability, path);
        for call in first..end {
            let disk = FaultDisk::new();
            let (namespace, numbers) = prepare(&disk, durability, path);
            let receiver = path.receiver(&namespace);
            disk.fail_at(call, EIO);
            let context = format!("{durability:?} at call {call}");
            let mut results = take_all(&namespace, &receiver, path, &numbers, &context);
            disk.end_faults();
            namespace
                .heal(PartitionId(0), &Wait::FOREVER)
                .expect("the disk works again");
            while let Some(deliveries) = receiver.receive_now(1, &Wait::FOREVER).expect("healed") {
                results.note(&deliveries, &context);
            }
            let all: BTreeSet<SequenceNumber> = numbers.into_iter().collect();
            assert_eq!(results.delivered, all, "{context}");
        }
    }
}

#[test]
fn a_full_disk_is_an_error_and_not_an_empty_answer() {
    for path in DeliveryPath::ALL {
        let disk = FaultDisk::new();
        let (namespace, numbers) = prepare(&disk, Durability::Os, path);
        let receiver = path.receiver(&namespace);
        // Files cannot grow any more. Deliveries use up the space that is left in the journal's file.
        disk.set_capacity(Some(0));
        let options = ReceiverOptions::default();
        let other = (!path.in_session()).then(|| namespace.receiver("q", options).expect("there"));
        let mut refusal = None;
        for _ in 0..300_000 {
            let Some(other) = &other else { break };
            let taken = if path.fetches() {
                other.receive_deferred(&numbers[..1], &Wait::FOREVER).map(Some)
            } else {
                other.receive_now(1, &Wait::FOREVER)
            };
            match taken {
                Ok(deliveries) => {
                    let deliveries = deliveries.unwrap_or_default();
                    assert_eq!(deliveries.len(), 1, "{path:?}: an empty answer on a full disk");
                    let held = deliveries.iter().map(|it| oxbus_broker::client::SettleKey {
                        index: it.index,
                        key: it.claimed.key,
                    });
                    other.release(&held.collect::<Vec<_>>(), &Wait::FOREVER);
                }
                Err(error) => {
                    refusal = Some(error);
                    break;
                }
            }
        }
        if other.is_some() {
            let error = refusal.unwrap_or_else(|| panic!("{path:?}: the file is never full"));
            assert_eq!(error.kind(), ErrorKind::QuotaExceeded, "{path:?}: {error}");
            assert_eq!(error.effect(), Some(Effect::None), "{path:?}: {error}");
            let results = take_all(&namespace, &receiver, path, &numbers, "full");
            for error in &results.errors {
                assert_eq!(error.kind(), ErrorKind::QuotaExceeded, "{path:?}: {error}");
            }
        }
        disk.set_capacity(None);
    }
}
