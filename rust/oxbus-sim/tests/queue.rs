// SPDX-License-Identifier: Apache-2.0
//! The broker beside the reference model, step by step, under a clock moved by hand.

use std::sync::Arc;

use oxbus_broker::client::{Batch, Delivery, SettleKey, Settlement};
use oxbus_broker::entity::Queue;
use oxbus_broker::{ManualClock, Namespace, NamespaceOptions, Receiver, ReceiverOptions, Sender};
use oxbus_model::message::{Body, Fields};
use oxbus_model::name::SubQueue;
use oxbus_model::options::QueueSettings;
use oxbus_model::{ErrorKind, SequenceNumber, Timestamp};
use oxbus_sim::{Model, State};
use proptest::prelude::*;

const LOCK_MS: u64 = 1_000;
const MAX_DELIVERY_COUNT: u32 = 3;

#[derive(Debug, Clone, Copy)]
enum Step {
    Send { key: Option<u8> },
    SendBatch { key: Option<u8>, count: usize },
    Receive { receiver: usize, max: usize },
    Complete(usize),
    Abandon(usize),
    Defer(usize),
    DeadLetter(usize),
    Renew(usize),
    FetchDeferred(usize),
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop::option::of(0u8..6).prop_map(|key| Step::Send { key }),
        1 => (prop::option::of(0u8..6), 1usize..90).prop_map(|(key, count)| Step::SendBatch { key, count }),
        5 => (0usize..2, 1usize..40).prop_map(|(receiver, max)| Step::Receive { receiver, max }),
        3 => (0usize..400).prop_map(Step::Complete),
        2 => (0usize..400).prop_map(Step::Abandon),
        2 => (0usize..400).prop_map(Step::Defer),
        1 => (0usize..400).prop_map(Step::DeadLetter),
        1 => (0usize..400).prop_map(Step::Renew),
        2 => (0usize..400).prop_map(Step::FetchDeferred),
        2 => prop_oneof![1u64..LOCK_MS, Just(LOCK_MS), Just(5 * 3_600_000)].prop_map(Step::Advance),
    ]
}

struct Bench {
    clock: Arc<ManualClock>,
    namespace: Namespace,
    sender: Sender,
    receivers: [Receiver; 2],
    model: Model,
    next_body: u64,
    /// Every delivery ever made, dead holds included.
    held: Vec<SettleKey>,
}

impl Bench {
    fn new(partitioned: bool, partitions: u16, prefetch: usize) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp(1_000_000)));
        let options = NamespaceOptions {
            partitions: Some(partitions),
            clock: Some(Arc::clone(&clock)),
            ..NamespaceOptions::default()
        };
        let namespace = Namespace::open(options).expect("valid options");
        let settings = QueueSettings {
            enable_partitioning: partitioned,
            lock_duration_ms: LOCK_MS,
            max_delivery_count: MAX_DELIVERY_COUNT,
            ..QueueSettings::default()
        };
        namespace.create_queue("q", settings).expect("valid settings");
        let receiver = || {
            namespace
                .receiver(
                    "q",
                    ReceiverOptions {
                        prefetch,
                        ..ReceiverOptions::default()
                    },
                )
                .expect("it exists")
        };
        Self {
            sender: namespace.sender("q").expect("it exists"),
            receivers: [receiver(), receiver()],
            model: Model::new(LOCK_MS, MAX_DELIVERY_COUNT),
            next_body: 0,
            held: Vec::new(),
            clock,
            namespace,
        }
    }

    fn body(&mut self) -> [u8; 8] {
        self.next_body += 1;
        self.next_body.to_be_bytes()
    }

    fn note(&mut self, delivery: &Delivery) {
        let number = Queue::sequence_number(delivery.index, delivery.claimed.key.counter).0;
        let body = Fields::decode(delivery.claimed.record.in_memory().expect("handed out"))
            .expect("stored by the sender")
            .body
            .bytes();
        let body = u64::from_be_bytes(body.try_into().expect("eight bytes"));
        if !delivery.claimed.deferred {
            self.model.received(number, body, delivery.claimed.delivery_count);
        }
        self.held.push(SettleKey {
            index: delivery.index,
            key: delivery.claimed.key,
        });
    }

    /// A hold by position, with the model's word on whether it is alive: only the newest hold of a message can be.
    fn hold(&self, position: usize) -> Option<(SettleKey, u64, bool)> {
        let at = *self.held.get(position % self.held.len().max(1))?;
        let number = Queue::sequence_number(at.index, at.key.counter).0;
        let newest = self
            .held
            .iter()
            .rev()
            .find(|other| (other.index, other.key.counter) == (at.index, at.key.counter));
        Some((at, number, newest == Some(&at)))
    }

    fn settle(&mut self, position: usize, settlement: Settlement<'_>, apply: fn(&mut Model, u64) -> bool) {
        let Some((at, number, newest)) = self.hold(position) else {
            return;
        };
        let expected = newest && apply(&mut self.model, number);
        let result = self.receivers[position % 2].settle(at, settlement);
        assert_eq!(result.is_ok(), expected, "settling {number}: {result:?}");
        if let Err(error) = result {
            assert_eq!(error.kind(), ErrorKind::MessageLockLost);
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm per step")]
    fn run(&mut self, step: Step) {
        match step {
            Step::Send { key } => {
                let body = self.body();
                let key = key.map(|key| key.to_string());
                let fields = Fields {
                    body: Body::Data(&body),
                    partition_key: key.as_deref(),
                    ..Fields::default()
                };
                let number = self.sender.send(&fields, None).expect("nothing refuses");
                self.model.sent(number.0, self.next_body);
            }
            Step::SendBatch { key, count } => {
                let key = key.map(|key| key.to_string());
                let mut batch = Batch::new(1 << 20);
                let first = self.next_body + 1;
                for _ in 0..count {
                    let body = self.body();
                    let fields = Fields {
                        body: Body::Data(&body),
                        session_id: key.as_deref(),
                        ..Fields::default()
                    };
                    batch.push(&fields).expect("it fits");
                }
                let numbers = self.sender.send_batch(batch, None).expect("nothing refuses");
                let partition = numbers[0].partition();
                assert!(
                    numbers.iter().all(|number| number.partition() == partition),
                    "a batch goes whole to one partition"
                );
                for (number, body) in numbers.iter().zip(first..) {
                    self.model.sent(number.0, body);
                }
            }
            Step::Receive { receiver, max } => {
                let deliveries = self.receivers[receiver]
                    .receive_now(max)
                    .expect("it is open")
                    .unwrap_or_default();
                assert!(deliveries.len() <= max);
                let possible = self.model.ready().count();
                assert!(
                    !deliveries.is_empty() || possible == 0,
                    "{possible} messages are ready and none came"
                );
                for delivery in &deliveries {
                    self.note(delivery);
                }
            }
            Step::Complete(position) => self.settle(position, Settlement::Complete, Model::complete),
            Step::Abandon(position) => self.settle(position, Settlement::Abandon(&[]), Model::abandon),
            Step::Defer(position) => self.settle(position, Settlement::Defer(&[]), Model::defer),
            Step::DeadLetter(position) => {
                let settlement = Settlement::DeadLetter {
                    reason: Some("r"),
                    description: None,
                    changes: &[],
                };
                self.settle(position, settlement, Model::dead_letter);
            }
            Step::Renew(position) => {
                let Some((at, number, newest)) = self.hold(position) else {
                    return;
                };
                let expected = newest && self.model.renew(number);
                assert_eq!(self.receivers[0].renew(at).is_ok(), expected, "renewing {number}");
            }
            Step::FetchDeferred(position) => {
                let deferred: Vec<u64> = self.model.in_state(|state| state == State::Deferred).collect();
                let Some(&first) = deferred.get(position % deferred.len().max(1)) else {
                    return;
                };
                let partition = SequenceNumber(first).partition();
                let mut numbers: Vec<u64> = deferred
                    .iter()
                    .copied()
                    .filter(|it| SequenceNumber(*it).partition() == partition)
                    .take(3)
                    .collect();
                if position % 4 == 0 {
                    numbers.push(u64::from(partition.0) << 48 | 1);
                }
                let expected = self.model.fetch_deferred(&numbers);
                let wanted: Vec<SequenceNumber> = numbers.iter().copied().map(SequenceNumber).collect();
                match self.receivers[1].receive_deferred(&wanted) {
                    Ok(deliveries) => {
                        assert!(expected, "fetched {numbers:?}");
                        for delivery in &deliveries {
                            let number = Queue::sequence_number(delivery.index, delivery.claimed.key.counter).0;
                            assert_eq!(
                                delivery.claimed.delivery_count,
                                self.model.messages[&number].delivery_count
                            );
                            self.note(delivery);
                        }
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::MessageNotFound);
                        assert!(!expected, "refused {numbers:?}: {error}");
                    }
                }
            }
            Step::Advance(ms) => {
                self.clock.advance(ms);
                self.model.advance(ms);
            }
        }
    }

    /// Counts and a full browse agree with the model.
    fn compare(&self) {
        let total = self.namespace.queue_counts("q").expect("it exists").total;
        let count = |is: fn(State) -> bool| self.model.in_state(is).count() as u64;
        let dead = count(|state| state == State::DeadLettered);
        assert_eq!(total.dead_letter, dead);
        assert_eq!(total.active, self.model.messages.len() as u64 - dead);
        assert_eq!(total.locked, count(|state| matches!(state, State::Locked { .. })));
        assert_eq!(
            total.deferred,
            count(|state| matches!(state, State::Deferred | State::Locked { deferred: true, .. }))
        );
        let browser = self
            .namespace
            .receiver("q", ReceiverOptions::default())
            .expect("it exists");
        let mut seen = Vec::new();
        loop {
            let found = browser.browse(250, None).expect("it is open");
            if found.is_empty() {
                break;
            }
            seen.extend(found.iter().map(|it| {
                (
                    Queue::sequence_number(it.index, it.message.counter).0,
                    it.message.delivery_count,
                )
            }));
        }
        seen.sort_unstable();
        let expected: Vec<(u64, u32)> = self
            .model
            .messages
            .iter()
            .filter(|(_, it)| it.state != State::DeadLettered)
            .map(|(number, it)| (*number, it.delivery_count))
            .collect();
        assert_eq!(seen, expected, "browsing sees each message once");
        let options = ReceiverOptions {
            sub_queue: SubQueue::DeadLetter,
            ..ReceiverOptions::default()
        };
        let dead_letters = self
            .namespace
            .receiver("q", options)
            .expect("it exists")
            .browse(250, None)
            .expect("it is open");
        assert_eq!(dead_letters.len() as u64, dead.min(250));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_broker_does_what_the_model_allows(
        partitioned: bool,
        partitions in 1u16..20,
        prefetch in prop_oneof![Just(0usize), 0usize..60],
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut bench = Bench::new(partitioned, partitions, prefetch);
        for (number, step) in steps.into_iter().enumerate() {
            bench.run(step);
            if number % 8 == 0 {
                bench.compare();
            }
        }
        bench.compare();
    }
}
