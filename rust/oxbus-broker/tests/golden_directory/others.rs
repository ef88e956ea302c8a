// SPDX-License-Identifier: Apache-2.0
//! Duplicate detection, sessions, a topic, forwarding, transactions and reservations.

use std::time::Duration;

use oxbus_broker::ReceiverOptions;
use oxbus_broker::client::{Batch, ReserveOptions, SessionSelector, Settlement, StartPosition};
use oxbus_model::message::{Fields, PropertiesBuilder, Value};
use oxbus_model::name::SubQueue;

use super::bus::{Bus, PARTITIONS, START, WAIT, key_of, text};

/// One round; bodies begin with `name`. Reservations of round `number` follow those of the round before.
pub(crate) fn round(bus: &Bus, name: &str, number: u64) {
    duplicates(bus, name);
    sessions(bus, name);
    topic(bus, name);
    forwards(bus, name);
    transactions(bus, name);
    reservations(bus, name, number);
}

/// A duplicate is dropped; another message is completed and remembered.
fn duplicates(bus: &Bus, name: &str) {
    let (twice, gone) = (format!("{name} twice"), format!("{name} remembered"));
    bus.send_to("once", 0, &twice);
    bus.send_to("once", 0, &twice);
    bus.send_to("once", 1, &gone);
    bus.receive_and_settle("once", 1, Settlement::Complete);
}

/// A session in each partition: with a state, with a cleared state, with a state set in a transaction, without a state.
fn sessions(bus: &Bus, name: &str) {
    for partition in 0..PARTITIONS {
        let (session, body) = (key_of(partition), format!("{name} in session {partition}"));
        bus.send(
            "talks",
            &Fields {
                session_id: Some(&session),
                ..text(&body, &session)
            },
        );
        let acceptor = bus.namespace.acceptor(
            "talks",
            SessionSelector::Id(session),
            ReceiverOptions::default(),
            "golden".to_owned(),
        );
        let accepted = acceptor.and_then(|acceptor| acceptor.accept_now(&WAIT));
        let receiver = accepted.expect("it is free").expect("it is named");
        bus.settle();
        let set = |state: Option<&[u8]>| {
            receiver.set_session_state(state, &WAIT).expect("it is accepted");
            bus.settle();
        };
        match partition {
            0 => set(Some(format!("state of {name}").as_bytes())),
            1 => {
                set(Some(b"to be cleared"));
                set(None);
            }
            2 => {
                let transaction = bus.namespace.transaction(false).expect("open");
                let key = bus.receive_by(&receiver);
                transaction
                    .settle(&receiver, &[key], Settlement::Complete, &WAIT)
                    .expect("its lock holds");
                transaction
                    .set_session_state(&receiver, Some(b"set in a transaction"), &WAIT)
                    .expect("it is accepted");
                transaction.commit(&WAIT).expect("its locks hold");
                bus.settle();
            }
            _ => {
                bus.receive_by(&receiver);
            }
        }
        receiver.close(&WAIT);
        bus.settle();
    }
}

/// Messages for one subscription or both; one copy of the first message is completed.
fn topic(bus: &Bus, name: &str) {
    let messages: [(u16, &str, &str, Value<'_>); 3] = [
        (0, "news", "color", Value::Text("blue")),
        (1, "alarm of fire", "priority", Value::Int(9)),
        (2, "paint", "color", Value::Text("blue")),
    ];
    for (partition, subject, property, value) in messages {
        let (key, body) = (key_of(partition), format!("{name} {subject}"));
        let mut properties = PropertiesBuilder::default();
        properties.push(property, value);
        bus.send(
            "events",
            &Fields {
                subject: Some(subject),
                application_properties: Some(properties.properties()),
                ..text(&body, &key)
            },
        );
    }
    bus.receive_and_settle("events/Subscriptions/all", 0, Settlement::Complete);
}

/// Forwards a message and a dead letter.
fn forwards(bus: &Bus, name: &str) {
    bus.send_to("inbox", 0, &format!("{name} forwarded"));
    bus.send_to("worker", 0, &format!("{name} forwarded as a dead letter"));
    let receiver = bus.receiver("worker", ReceiverOptions::default());
    let key = bus.receive_by(&receiver);
    let settlement = Settlement::DeadLetter {
        reason: Some("moved"),
        description: None,
        changes: &[],
    };
    bus.settle_by(&receiver, key, settlement);
}

/// A transaction that settles a message, sends messages to two entities, and schedules one.
fn transactions(bus: &Bus, name: &str) {
    bus.send_to("ledger", 0, &format!("{name} to be settled"));
    let (receiver, key) = bus.receive("ledger", 0, SubQueue::Main);
    let transaction = bus.namespace.transaction(true).expect("open");
    transaction
        .settle(&receiver, &[key], Settlement::Complete, &WAIT)
        .expect("its lock holds");
    let due = Some(START.plus_ms(86_400_000));
    for (path, what, due) in [
        ("ledger", "sent with it", None),
        ("ledger", "scheduled with it", due),
        ("orders", "sent elsewhere with it", None),
    ] {
        let (key, body) = (key_of(0), format!("{name} {what}"));
        let mut batch = Batch::new(1 << 20);
        batch
            .push(&Fields {
                scheduled_enqueue_time: due,
                ..text(&body, &key)
            })
            .expect("it has room");
        let sender = bus.namespace.sender(path).expect("the queue exists");
        transaction.send(&sender, batch, None).expect("the same partition");
    }
    transaction.commit(&WAIT).expect("its locks hold");
    bus.settle();
}

/// A consumer completes one reservation and holds another.
fn reservations(bus: &Bus, name: &str, number: u64) {
    for partition in 0..2 {
        for message in 0..3 {
            bus.send_to("reserved", partition, &format!("{name} {partition}/{message}"));
        }
    }
    let reservations = bus.namespace.reservations("reserved").expect("the queue exists");
    let acquired = reservations
        .acquire("consumer", StartPosition::Earliest, &WAIT)
        .expect("valid");
    bus.settle();
    let options = |messages| ReserveOptions {
        messages,
        bytes: 1 << 20,
        sessions: None,
        upto: None,
        lock: Duration::from_secs(600),
        wait: Duration::ZERO,
        attempts: 0,
    };
    let first = acquired.done + 1;
    assert_eq!(first, 2 * number + 1, "each round completes what is reserved");
    for (n, messages) in [(first, 2), (first + 1, 3)] {
        let plan = reservations
            .reserve("consumer", acquired.epoch, n, &options(messages), &WAIT)
            .expect("there are messages");
        assert_eq!(plan.messages(), messages as u64);
        bus.settle();
        if n == first {
            reservations
                .complete_up_to("consumer", acquired.epoch, n, &WAIT)
                .expect("it is reserved");
            bus.settle();
        } else {
            // One message of the reservation is settled alone.
            let number = plan.partitions[0].ranges[0].0;
            reservations
                .settle(&plan.id, acquired.epoch, &[number], Settlement::Complete, &WAIT)
                .expect("it is reserved");
            bus.settle();
        }
    }
    if number == 0 {
        // The next round continues after it.
        reservations
            .complete_up_to("consumer", acquired.epoch, first + 1, &WAIT)
            .expect("it is reserved");
        bus.settle();
    }
}
