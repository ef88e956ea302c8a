// SPDX-License-Identifier: Apache-2.0
//! Calls that are suspended while a store takes its time: they hold no thread, take effect when the store answers, and
//! always end.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use oxbus_broker::client::{Batch, Deliveries, Keyless, Partitioner, SettleKey, Settlement};
use oxbus_broker::durable::StoreOptions;
use oxbus_broker::entity::Entity;
use oxbus_broker::{Namespace, NamespaceOptions, Receiver, ReceiverOptions, Sender};
use oxbus_model::message::{Body, Fields, MessageId};
use oxbus_model::options::{Durability, QueueSettings, ReceiveMode};
use oxbus_model::{Effect, ErrorKind, Result, Timestamp};
use oxbus_store::Wait;
use oxbus_store::late_disk::LateDisk;
use oxbus_store::suspended::SuspendedCall;

const WAIT: Wait<'static> = Wait::FOREVER;

/// A queue in a store whose syncs end when the test says so.
struct LateQueue {
    disk: LateDisk,
    namespace: Namespace,
}

impl LateQueue {
    fn open(partitions: u16, settings: QueueSettings) -> Self {
        let disk = LateDisk::default();
        disk.set_prompt(true);
        let namespace = Namespace::open(NamespaceOptions {
            store: Some(StoreOptions {
                path: PathBuf::from("/bus"),
                durability: Durability::Fsync,
                owned: None,
                disk: Some(Arc::new(disk.clone())),
                segment_bytes: None,
            }),
            partitions: Some(partitions),
            ..NamespaceOptions::default()
        })
        .expect("the disk is well");
        namespace.create_queue("q", settings, &WAIT).expect("it is new");
        disk.set_prompt(false);
        Self { disk, namespace }
    }

    fn sender(&self) -> Sender {
        self.namespace.sender("q").expect("the queue exists")
    }

    fn receiver(&self, mode: ReceiveMode) -> Arc<Receiver> {
        let options = ReceiverOptions {
            mode,
            ..ReceiverOptions::default()
        };
        Arc::new(self.namespace.receiver("q", options).expect("the queue exists"))
    }

    /// Messages that the store has.
    fn with_messages(self, count: usize) -> Self {
        self.disk.set_prompt(true);
        for _ in 0..count {
            self.sender().send(&message(), None, &WAIT).expect("the disk is well");
        }
        self.disk.set_prompt(false);
        self
    }

    /// Begins a call, which the store suspends, and ends it with the answer.
    fn suspended<T: std::fmt::Debug>(&self, call: impl Future<Output = T> + Send + 'static) -> T {
        let call = SuspendedCall::new(call).go_on(Waker::noop());
        let call = call.expect_err("the store has not answered");
        assert!(self.disk.pending() > 0, "the sync has begun");
        while self.disk.pending() > 0 {
            self.disk.end_sync(Ok(()));
        }
        call.go_on(Waker::noop()).expect("the store has answered")
    }

    /// Browses all messages.
    fn count(&self) -> usize {
        let receiver = self.receiver(ReceiveMode::PeekLock);
        let browse = |_| receiver.browse(250, None, &WAIT).expect("the queue is well").len();
        (0..8).map(browse).sum()
    }
}

impl Drop for LateQueue {
    fn drop(&mut self) {
        self.disk.set_prompt(true);
    }
}

fn message() -> Fields<'static> {
    Fields {
        body: Body::Data(b"x"),
        ..Fields::default()
    }
}

fn keys(deliveries: &Deliveries) -> Vec<SettleKey> {
    let key = |it: &oxbus_broker::client::Delivery| SettleKey {
        index: it.index,
        key: it.claimed.key,
    };
    deliveries.iter().map(key).collect()
}

async fn suspending<T>(work: impl AsyncFnOnce(&Wait<'_>) -> T) -> T {
    work(&WAIT.suspending()).await
}

#[test]
fn a_send_is_visible_once_the_store_has_it() {
    let queue = LateQueue::open(1, QueueSettings::default());
    let sender = queue.sender();
    let call = SuspendedCall::new(suspending(async move |wait: &Wait<'_>| {
        sender.send_async(&message(), None, wait).await
    }));
    let call = call.go_on(Waker::noop()).expect_err("the store has not answered");
    let receiver = queue.receiver(ReceiveMode::PeekLock);
    assert!(receiver.receive_now(1, &WAIT).expect("the queue is well").is_none());
    queue.disk.end_sync(Ok(()));
    let sent = call.go_on(Waker::noop()).expect("the store has answered");
    sent.expect("stored");
    queue.disk.set_prompt(true);
    assert!(receiver.receive_now(1, &WAIT).expect("the queue is well").is_some());
}

#[test]
fn one_thread_makes_a_thousand_sends_at_once() {
    let queue = LateQueue::open(
        4,
        QueueSettings {
            enable_partitioning: true,
            ..QueueSettings::default()
        },
    );
    let begin = |_| {
        let sender = queue.sender();
        let call = suspending(async move |wait: &Wait<'_>| sender.send_async(&message(), None, wait).await);
        let call = SuspendedCall::new(call).go_on(Waker::noop());
        call.expect_err("the store has not answered")
    };
    let mut calls: Vec<_> = (0..1_000).map(begin).collect();
    while !calls.is_empty() {
        while queue.disk.pending() > 0 {
            queue.disk.end_sync(Ok(()));
        }
        let went_on = calls.into_iter().map(|call| call.go_on(Waker::noop()));
        calls = went_on
            .filter_map(|call| call.map(|sent| sent.expect("stored")).err())
            .collect();
    }
    queue.disk.set_prompt(true);
    assert_eq!(queue.count(), 1_000);
}

#[test]
fn every_call_that_writes_is_suspended() {
    let queue = LateQueue::open(1, QueueSettings::default()).with_messages(6);
    let stored = |sent: Result<()>| sent.expect("the store is well");

    let sender = queue.sender();
    let mut batch = Batch::new(1 << 20);
    batch.push(&message()).expect("it fits");
    stored(queue.suspended(suspending(async move |wait: &Wait<'_>| {
        sender.send_batch_async(batch, None, wait).await.map(drop)
    })));

    let sender = queue.sender();
    let summary = queue.suspended(suspending(async move |wait: &Wait<'_>| {
        let mut partitioner = Partitioner::new(&sender, Keyless::Together).expect("the queue is well");
        let message = sender.entity().encode(&message()).expect("a valid message");
        partitioner.push(message, None).expect("it has no key");
        partitioner.send_async(wait).await
    }));
    assert_eq!(summary.stored.values().sum::<usize>(), 1);

    let receiver = queue.receiver(ReceiveMode::PeekLock);
    let receive = |max| {
        let receiver = Arc::clone(&receiver);
        let received = queue.suspended(suspending(async move |wait: &Wait<'_>| {
            receiver.receive_now_async(max, wait).await
        }));
        keys(&received.expect("the queue is well").expect("it has messages"))
    };
    let (one, list, completed) = (receive(1), receive(2), receive(2));

    let settles = Arc::clone(&receiver);
    stored(queue.suspended(suspending(async move |wait: &Wait<'_>| {
        settles.settle_async(one[0], Settlement::Complete, wait).await
    })));
    let settles = Arc::clone(&receiver);
    let lost = queue.suspended(suspending(async move |wait: &Wait<'_>| {
        settles.settle_many_async(&list, Settlement::Defer(&[]), wait).await
    }));
    assert_eq!(lost.expect("the store is well"), [0_usize; 0]);
    let settles = Arc::clone(&receiver);
    let lost = queue.suspended(suspending(async move |wait: &Wait<'_>| {
        settles.complete_many_async(&completed, wait).await
    }));
    assert_eq!(lost.expect("the store is well"), [0_usize; 0]);

    let deletes = queue.receiver(ReceiveMode::ReceiveAndDelete);
    let deleted = queue.suspended(suspending(async move |wait: &Wait<'_>| {
        deletes.receive_now_async(3, wait).await
    }));
    assert_eq!(deleted.expect("the queue is well").map(|it| it.len()), Some(3));
    assert_eq!(queue.count(), 2, "the deferred ones are left");
}

#[test]
fn schedules_transactions_and_deferred_messages_are_suspended() {
    let queue = LateQueue::open(1, QueueSettings::default()).with_messages(2);
    let stored = |done: Result<()>| done.expect("the store is well");

    let mut batch = Batch::new(1 << 20);
    batch.push(&message()).expect("it fits");
    batch.schedule_all(Timestamp(u64::MAX / 2)).expect("a valid time");
    let sender = queue.sender();
    let numbers = queue.suspended(suspending(async move |wait: &Wait<'_>| {
        sender.send_batch_async(batch, None, wait).await
    }));
    let numbers = numbers.expect("the store is well");
    let sender = queue.sender();
    stored(queue.suspended(suspending(async move |wait: &Wait<'_>| {
        sender.cancel_scheduled_async(&numbers, wait).await
    })));

    queue.disk.set_prompt(true);
    let receiver = queue.receiver(ReceiveMode::PeekLock);
    let received = receiver.receive_now(2, &WAIT).expect("the queue is well");
    let locked = keys(&received.expect("it has messages"));
    receiver
        .settle(locked[0], Settlement::Defer(&[]), &WAIT)
        .expect("deferred");
    queue.disk.set_prompt(false);

    let transaction = queue.namespace.transaction(false).expect("the namespace is open");
    let mut batch = Batch::new(1 << 20);
    batch.push(&message()).expect("it fits");
    transaction.send(&queue.sender(), batch, None).expect("joined");
    transaction
        .settle(&receiver, &locked[1..], Settlement::Complete, &WAIT)
        .expect("joined");
    stored(queue.suspended(suspending(async move |wait: &Wait<'_>| {
        transaction.commit_async(wait).await
    })));

    let number = Entity::sequence_number(locked[0].index, locked[0].key.counter);
    let fetches = Arc::clone(&receiver);
    let fetched = queue.suspended(suspending(async move |wait: &Wait<'_>| {
        fetches.receive_deferred_async(&[number], wait).await
    }));
    assert_eq!(fetched.expect("the queue is well").len(), 1);
    assert_eq!(queue.count(), 2, "the deferred one, and the one of the transaction");
}

#[test]
fn a_snapshot_waits_for_a_suspended_write_that_may_end_on_another_thread() {
    let queue = LateQueue::open(1, QueueSettings::default()).with_messages(1);
    let receiver = queue.receiver(ReceiveMode::ReceiveAndDelete);
    let call = suspending(async move |wait: &Wait<'_>| receiver.receive_now_async(1, wait).await);
    let call = SuspendedCall::new(call).go_on(Waker::noop());
    let call = call.expect_err("the store has not answered");
    std::thread::scope(|scope| {
        let saving = scope.spawn(|| queue.namespace.checkpoint());
        let goes_on = scope.spawn(|| {
            while queue.disk.pending() > 0 {
                queue.disk.end_sync(Ok(()));
            }
            call.go_on(Waker::noop()).expect("the store has answered")
        });
        let received = goes_on.join().expect("no panic").expect("the queue is well");
        assert_eq!(received.map(|it| it.len()), Some(1));
        queue.disk.set_prompt(true);
        saving.join().expect("no panic").expect("saved");
    });
}

#[test]
fn a_copy_of_a_suspended_message_is_suspended_until_that_is_decided() {
    for fails in [false, true] {
        let settings = QueueSettings {
            requires_duplicate_detection: true,
            ..QueueSettings::default()
        };
        let queue = LateQueue::open(1, settings);
        let send = || {
            let sender = queue.sender();
            let call = suspending(async move |wait: &Wait<'_>| {
                let fields = Fields {
                    message_id: Some(MessageId::Given("same")),
                    ..message()
                };
                sender.send_async(&fields, None, wait).await
            });
            SuspendedCall::new(call)
        };
        let first = send().go_on(Waker::noop()).expect_err("the store has not answered");
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&woken));
        let copy = send().go_on(&waker).expect_err("the first is not decided");
        let answer = if fails {
            Err(std::io::ErrorKind::PermissionDenied.into())
        } else {
            Ok(())
        };
        queue.disk.end_sync(answer);
        assert!(!woken.0.load(Ordering::SeqCst));
        let first = first.go_on(Waker::noop()).expect("the store has answered");
        assert_eq!(first.is_err(), fails);
        assert!(woken.0.load(Ordering::SeqCst));
        queue.disk.set_prompt(true);
        let copy = copy.go_on(&waker).expect("the first is decided");
        assert_eq!(copy.is_err(), fails, "the partition is out of service");
        if !fails {
            assert_eq!(queue.count(), 1);
        }
    }
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_dropped_call_ends_first() {
    let queue = LateQueue::open(1, QueueSettings::default());
    let sender = queue.sender();
    let call = suspending(async move |wait: &Wait<'_>| sender.send_async(&message(), None, wait).await);
    let call = SuspendedCall::new(call).go_on(Waker::noop());
    let call = call.expect_err("the store has not answered");
    std::thread::scope(|scope| {
        let dropping = scope.spawn(|| drop(call));
        queue.disk.end_sync(Ok(()));
        dropping.join().expect("no panic");
    });
    queue.disk.set_prompt(true);
    assert_eq!(queue.count(), 1, "its message is not left half-way");
}

#[test]
fn a_suspended_call_whose_wait_ends_fails_with_an_unknown_effect() {
    let queue = LateQueue::open(1, QueueSettings::default());
    let sender = queue.sender();
    let over = Arc::new(AtomicBool::new(false));
    let is_past = Arc::clone(&over);
    let call = SuspendedCall::new(async move {
        let is_over = || is_past.load(Ordering::SeqCst);
        let wait = Wait::until(&is_over).suspending();
        sender.send_async(&message(), None, &wait).await
    });
    let call = call.go_on(Waker::noop()).expect_err("the store has not answered");
    over.store(true, Ordering::SeqCst);
    let sent = call.go_on(Waker::noop()).expect("its wait is over");
    let error = sent.expect_err("the store did not answer");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Timeout, Some(Effect::Unknown))
    );
    queue.disk.set_prompt(true);
}

#[test]
fn a_suspended_call_whose_sync_fails_reports_it() {
    let queue = LateQueue::open(1, QueueSettings::default());
    let sender = queue.sender();
    let call = suspending(async move |wait: &Wait<'_>| sender.send_async(&message(), None, wait).await);
    let call = SuspendedCall::new(call).go_on(Waker::noop());
    let call = call.expect_err("the store has not answered");
    queue.disk.end_sync(Err(std::io::ErrorKind::PermissionDenied.into()));
    let sent = call.go_on(Waker::noop()).expect("the store has answered");
    let error = sent.expect_err("the sync failed");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::PartitionUnavailable, Some(Effect::Unknown))
    );
}
