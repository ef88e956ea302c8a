// SPDX-License-Identifier: Apache-2.0
//! The hot paths as a program that does one of them so many times: something to count instructions of.
//!
//! `bench/instructions.py` runs it under callgrind with two numbers of rounds; the difference leaves out the start.
//! `instructions` lists the cases, `instructions CASE ROUNDS` runs one.

#![expect(clippy::print_stdout, reason = "it prints its cases")]

use oxbus_store::Wait;
use std::hint::black_box;

use oxbus_broker::client::{Batch, Deliveries, SettleKey, Settlement};
use oxbus_broker::filter::SqlFilter;
use oxbus_broker::{Namespace, NamespaceOptions, ReceiverOptions};
use oxbus_model::caps::BATCH_SIZE_BYTES_DEFAULT;
use oxbus_model::message::{Body, Fields};
use oxbus_model::options::QueueSettings;
use oxbus_model::{Ticks, Timestamp};
use oxbus_store::{Hold, MessageStore, NewMessage, Record, SlotLog};

/// The allocator of the wheel.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NOW: Timestamp = Timestamp(1_700_000_000_000);
const BODY: &[u8] = &[7; 100];

/// A name, and what does it so many times.
type Case = (&'static str, fn(usize));

const CASES: [Case; 7] = [
    ("store/single", |rounds| store(rounds, 1)),
    ("store/batch_32", |rounds| store(rounds, 32)),
    ("queue/single", |rounds| queue(1, rounds, None)),
    ("queue/single_at_once", |rounds| queue(rounds, 1, None)),
    ("queue/single_keyed", |rounds| queue(1, rounds, Some("customer-4711"))),
    ("queue/batch_100", queue_by_100),
    ("filter/parse", parse),
];

fn main() {
    // Cargo passes `--bench`.
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    let [name, rounds] = words.as_slice() else {
        for (name, _) in CASES {
            println!("{name}");
        }
        return;
    };
    let (_, run) = CASES
        .iter()
        .find(|(known, _)| known == name)
        .expect("a case that the list names");
    run(rounds.parse().expect("a number of rounds"));
}

/// Messages through the store alone: append, claim, complete.
fn store(rounds: usize, batch: usize) {
    let log = SlotLog::default();
    let hold = Hold::Lock {
        deadline: Ticks(60_000),
    };
    let message = || NewMessage {
        record: Record::from_slice(BODY).into(),
        expires_at: Timestamp::NEVER,
    };
    let (mut messages, mut out, mut expired, mut lost) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut keys = Vec::new();
    for _ in 0..rounds {
        if batch == 1 {
            log.append_one(message(), NOW);
        } else {
            messages.extend((0..batch).map(|_| message()));
            log.append(&mut messages, NOW);
        }
        assert_eq!(log.claim(batch, hold, NOW, &mut out, &mut expired), batch);
        keys.extend(out.iter().map(|claimed| claimed.key));
        black_box(&out);
        out.clear();
        log.complete(&keys, Ticks(1), &mut lost);
        keys.clear();
    }
    assert!(lost.is_empty() && expired.is_empty(), "every lock held");
}

/// A partitioned queue in memory.
fn namespace() -> Namespace {
    let namespace = Namespace::open(NamespaceOptions::default()).expect("a namespace in memory");
    let settings = QueueSettings {
        enable_partitioning: true,
        ..QueueSettings::default()
    };
    namespace
        .create_queue("orders", settings, &Wait::FOREVER)
        .expect("a new queue");
    namespace
}

fn fields(key: Option<&'static str>) -> Fields<'static> {
    Fields {
        body: Body::Data(BODY),
        partition_key: key,
        ..Fields::default()
    }
}

/// Messages one by one: so many sent, then each received and completed, so many times.
fn queue(rounds: usize, messages: usize, key: Option<&'static str>) {
    let namespace = namespace();
    let sender = namespace.sender("orders").expect("a sender");
    let receiver = namespace
        .receiver("orders", ReceiverOptions::default())
        .expect("a receiver");
    let fields = fields(key);
    let mut deliveries = Deliveries::new();
    for _ in 0..rounds {
        for _ in 0..messages {
            sender.send(black_box(&fields), None, &Wait::FOREVER).expect("room");
        }
        for _ in 0..messages {
            receiver
                .receive_into(1, &mut deliveries, &Wait::FOREVER)
                .expect("an open receiver");
            let delivery = deliveries.pop().expect("what was sent");
            let at = SettleKey {
                index: delivery.index,
                key: delivery.claimed.key,
            };
            receiver
                .settle(at, Settlement::Complete, &Wait::FOREVER)
                .expect("a lock that holds");
        }
    }
}

/// The same by the hundred.
fn queue_by_100(rounds: usize) {
    let namespace = namespace();
    let sender = namespace.sender("orders").expect("a sender");
    let receiver = namespace
        .receiver("orders", ReceiverOptions::default())
        .expect("a receiver");
    let fields = fields(None);
    let mut deliveries = Deliveries::new();
    let mut keys = Vec::new();
    for _ in 0..rounds {
        let mut batch = Batch::new(BATCH_SIZE_BYTES_DEFAULT).with_capacity(100);
        for _ in 0..100 {
            batch.push(black_box(&fields)).expect("room in the batch");
        }
        sender.send_batch(batch, None, &Wait::FOREVER).expect("room");
        let mut left = 100;
        while left > 0 {
            receiver
                .receive_into(left, &mut deliveries, &Wait::FOREVER)
                .expect("an open receiver");
            left -= deliveries.len();
            keys.extend(deliveries.drain(..).map(|delivery| SettleKey {
                index: delivery.index,
                key: delivery.claimed.key,
            }));
        }
        assert!(
            receiver
                .complete_many(&keys, &Wait::FOREVER)
                .expect("a store that works")
                .is_empty(),
            "every lock held"
        );
        keys.clear();
    }
}

/// A filter of a rule, from its text.
fn parse(rounds: usize) {
    const TYPICAL: &str = "sys.Label LIKE 'order.%' AND color IN ('red', 'blue') AND quantity > 5";
    for _ in 0..rounds {
        black_box(SqlFilter::parse(black_box(TYPICAL), &[]).expect("a filter"));
    }
}
