// SPDX-License-Identifier: Apache-2.0
//! Many threads send into entities that forward to each other. Every message arrives within some sender's call, and the
//! messages of one thread with one key stay in order.

use oxbus_store::Wait;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use oxbus_broker::{ManualClock, Namespace, NamespaceOptions, ReceiverOptions};
use oxbus_model::Timestamp;
use oxbus_model::message::{Body, Fields};
use oxbus_model::options::{QueueSettings, ReceiveMode};

const THREADS: u64 = 8;
/// More than the messages that one thread forwards on behalf of the others.
const MESSAGES: u64 = 4000;

fn create(namespace: &Namespace, name: &str, enable_partitioning: bool, to: Option<&str>) {
    let settings = QueueSettings {
        enable_partitioning,
        forward_to: to.map(ToOwned::to_owned),
        ..QueueSettings::default()
    };
    namespace
        .create_queue(name, settings, &Wait::FOREVER)
        .expect("it is new");
}

/// Receives and deletes until no message comes. The clock stands still, so this does not forward from the sources.
fn drain(namespace: &Namespace) -> Vec<u64> {
    let options = ReceiverOptions {
        mode: ReceiveMode::ReceiveAndDelete,
        ..ReceiverOptions::default()
    };
    let receiver = namespace.receiver("end", options).expect("it exists");
    let mut found = Vec::new();
    let mut empty = 0;
    while empty < 3 {
        let Some(deliveries) = receiver.receive_now(1000, &Wait::FOREVER).expect("it works") else {
            empty += 1;
            continue;
        };
        for delivery in &deliveries {
            let fields = Fields::decode(delivery.claimed.record.in_memory().expect("in memory")).expect("whole");
            found.push(u64::from_be_bytes(fields.body.bytes().try_into().expect("eight bytes")));
        }
    }
    found
}

#[test]
fn every_message_arrives_and_order_holds() {
    for sources_are_partitioned in [false, true] {
        let namespace = Namespace::open(NamespaceOptions {
            clock: Some(Arc::new(ManualClock::new(Timestamp(1_000_000)))),
            ..NamespaceOptions::default()
        })
        .expect("in memory");
        create(&namespace, "end", !sources_are_partitioned, None);
        create(&namespace, "middle", true, Some("end"));
        create(&namespace, "left", sources_are_partitioned, Some("middle"));
        create(&namespace, "right", sources_are_partitioned, Some("middle"));
        // The forwarding of this tick is done.
        assert!(drain(&namespace).is_empty());
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let namespace = &namespace;
                scope.spawn(move || {
                    let to = ["left", "right", "middle", "end"][thread as usize % 4];
                    let sender = namespace.sender(to).expect("it exists");
                    let key = format!("key {thread}");
                    for number in 0..MESSAGES {
                        let body = (thread << 32 | number).to_be_bytes();
                        let fields = Fields {
                            body: Body::Data(&body),
                            partition_key: Some(&key),
                            ..Fields::default()
                        };
                        sender.send(&fields, None, &Wait::FOREVER).expect("it takes all");
                    }
                });
            }
        });
        let mut next: BTreeMap<u64, u64> = BTreeMap::new();
        for body in drain(&namespace) {
            let expected = next.entry(body >> 32).or_default();
            assert_eq!(body & 0xffff_ffff, *expected, "of thread {}", body >> 32);
            *expected += 1;
        }
        assert!(next.values().all(|count| *count == MESSAGES), "{next:?}");
        assert_eq!(next.len() as u64, THREADS);
    }
}

#[test]
fn a_sender_that_finds_the_entity_busy_is_served() {
    const ROUNDS: usize = 20_000;
    const SENDERS: usize = 2;
    let namespace = Namespace::open(NamespaceOptions {
        clock: Some(Arc::new(ManualClock::new(Timestamp(1_000_000)))),
        ..NamespaceOptions::default()
    })
    .expect("in memory");
    create(&namespace, "end", false, None);
    create(&namespace, "start", true, Some("end"));
    assert!(drain(&namespace).is_empty());
    // The senders spin, so that they send at the same time.
    let round = AtomicUsize::new(0);
    let end = Barrier::new(SENDERS + 1);
    let mut left_behind = Vec::new();
    std::thread::scope(|scope| {
        for thread in 0..SENDERS {
            let (namespace, round, end) = (&namespace, &round, &end);
            scope.spawn(move || {
                let sender = namespace.sender("start").expect("it exists");
                let body = (thread as u64).to_be_bytes();
                let fields = Fields {
                    body: Body::Data(&body),
                    ..Fields::default()
                };
                for next in 1..=ROUNDS {
                    let mut looks = 0_u32;
                    while round.load(Ordering::SeqCst) < next {
                        looks += 1;
                        if looks.is_multiple_of(128) {
                            // The thread that begins the round may need this processor.
                            std::thread::yield_now();
                        } else {
                            std::hint::spin_loop();
                        }
                    }
                    sender.send(&fields, None, &Wait::FOREVER).expect("it takes all");
                    end.wait();
                }
            });
        }
        for next in 1..=ROUNDS {
            round.store(next, Ordering::SeqCst);
            end.wait();
            if drain(&namespace).len() != SENDERS {
                left_behind.push(next);
            }
        }
    });
    assert!(left_behind.is_empty(), "after the rounds {left_behind:?}");
}
