// SPDX-License-Identifier: Apache-2.0
//! A partitioned queue with messages in every phase: each partition of `orders` has one kind.

use oxbus_broker::ReceiverOptions;
use oxbus_broker::client::Settlement;
use oxbus_model::message::{AssignedId, Body, Fields, MessageId, PropertiesBuilder, StoredValue, Value};
use oxbus_model::name::SubQueue;
use oxbus_model::options::ReceiveMode;
use oxbus_model::{PartitionId, SequenceNumber};

use super::bus::{Bus, START, WAIT, key_of, text};

const PATH: &str = "orders";

/// One round; bodies begin with `name`.
pub(crate) fn round(bus: &Bus, name: &str) {
    ready(bus, name);
    locked_and_deferred(bus, name);
    scheduled_messages(bus, name);
    removed_and_dead_lettered(bus, name);
}

/// Partition 0: ready messages. One has every field, others have minimal or long content.
fn ready(bus: &Bus, name: &str) {
    let (key, id) = (key_of(0), format!("{name} whole"));
    let mut properties = PropertiesBuilder::default();
    properties.push("null", Value::Null);
    properties.push("bool", Value::Bool(true));
    properties.push("int", Value::Int(-42));
    properties.push("double", Value::Double(1.5));
    properties.push("text", Value::Text("鍵 é"));
    properties.push("bytes", Value::Bytes(&[0, 255, 1]));
    properties.push("uuid", Value::Uuid(*b"sixteen bytes it"));
    properties.push("time", Value::Time(1_600_000_000_000));
    properties.push("timespan", Value::Timespan(-10_000_000));
    // An AMQP symbol.
    properties.push_stored("amqp", StoredValue::Amqp(b"\xa3\x06symbol"));
    bus.send(
        PATH,
        &Fields {
            subject: Some("subject"),
            correlation_id: Some("correlation"),
            content_type: Some("text/plain"),
            to: Some("to"),
            reply_to: Some("reply-to"),
            reply_to_session_id: Some("reply-to-session"),
            time_to_live_ms: Some(3_600_000),
            application_properties: Some(properties.properties()),
            ..text(&id, &key)
        },
    );
    bus.send(
        PATH,
        &Fields {
            message_id: Some(MessageId::Assigned(AssignedId::new(0x0102_0304_0506_0708, 9))),
            body: Body::Null,
            partition_key: Some(&key),
            ..Fields::default()
        },
    );
    bus.send(
        PATH,
        &Fields {
            // The AMQP value "hi", and a header with durable and priority 7.
            body: Body::Sections(b"\x00\x53\x77\xa1\x02hi"),
            amqp: b"\x00\x53\x70\xc0\x04\x02\x41\x50\x07",
            partition_key: Some(&key),
            ..Fields::default()
        },
    );
    let (id, body) = (format!("{name} long"), "0123456789".repeat(250));
    bus.send(
        PATH,
        &Fields {
            body: Body::Data(body.as_bytes()),
            ..text(&id, &key)
        },
    );
}

/// Partition 1: a message locked for the second time, deferred ones, one deferred and locked, one completed in the
/// dead-letter queue.
fn locked_and_deferred(bus: &Bus, name: &str) {
    let send = |what: &str| bus.send_to(PATH, 1, &format!("{name} {what}"));
    let changes = [("changed", Value::Text(name)), ("at", Value::Int(1))];
    send("out for the second time");
    bus.receive_and_settle(PATH, 1, Settlement::Abandon(&changes));
    bus.receive(PATH, 1, SubQueue::Main);
    send("deferred");
    bus.receive_and_settle(PATH, 1, Settlement::Defer(&changes));
    send("deferred and out");
    let number = bus.receive_and_settle(PATH, 1, Settlement::Defer(&[]));
    fetch(bus, number);
    send("deferred, fetched and given back");
    let number = bus.receive_and_settle(PATH, 1, Settlement::Defer(&[]));
    let (receiver, key) = fetch(bus, number);
    bus.settle_by(&receiver, key, Settlement::Abandon(&changes));
    send("settled as a dead letter");
    bus.receive_and_settle(PATH, 1, dead_letter(&[]));
    bus.receive_and_settle_in(PATH, 1, SubQueue::DeadLetter, Settlement::Complete);
}

fn fetch(bus: &Bus, number: SequenceNumber) -> (oxbus_broker::Receiver, oxbus_broker::client::SettleKey) {
    let receiver = bus.receiver(PATH, ReceiverOptions::default());
    let fetched = receiver.receive_deferred(&[number], &WAIT).expect("it is deferred");
    bus.settle();
    let key = super::bus::key_of_delivery(&fetched[0]);
    (receiver, key)
}

/// Partition 2: scheduled messages: one waiting, one activated, one cancelled. Partition 3: an expired message.
fn scheduled_messages(bus: &Bus, name: &str) {
    let key = key_of(2);
    let now = bus.namespace.clock().now();
    for (what, due) in [("scheduled", START.plus_ms(86_400_000)), ("due", now.plus_ms(1_000))] {
        let body = format!("{name} {what}");
        bus.send(
            PATH,
            &Fields {
                scheduled_enqueue_time: Some(due),
                ..text(&body, &key)
            },
        );
    }
    let body = format!("{name} cancelled");
    let number = bus.send(
        PATH,
        &Fields {
            scheduled_enqueue_time: Some(now.plus_ms(3_600_000)),
            ..text(&body, &key)
        },
    );
    let sender = bus.namespace.sender(PATH).expect("the queue exists");
    sender.cancel_scheduled(&[number], &WAIT).expect("it is scheduled");
    bus.settle();
    let (key, body) = (key_of(3), format!("{name} expired"));
    bus.send(
        PATH,
        &Fields {
            time_to_live_ms: Some(1_000),
            ..text(&body, &key)
        },
    );
    bus.advance(2_000);
    bus.tick(PATH);
    // This receive expires the message and delivers nothing: entries for a dead letter and for a delivery could share a
    // frame or not.
    let nothing = bus.receiver(PATH, from(3)).receive_now(1, &WAIT);
    assert!(nothing.expect("the partition works").is_none(), "it expired");
    bus.settle();
}

/// Options of a receiver from one partition.
fn from(partition: u16) -> ReceiverOptions {
    ReceiverOptions {
        partition: Some(PartitionId(partition)),
        ..ReceiverOptions::default()
    }
}

fn dead_letter<'a>(changes: &'a [(&'a str, Value<'a>)]) -> Settlement<'a> {
    Settlement::DeadLetter {
        reason: Some("tested"),
        description: Some("because somebody asked for it"),
        changes,
    }
}

/// Partition 3: removed messages and dead letters.
fn removed_and_dead_lettered(bus: &Bus, name: &str) {
    let send = |what: &str| bus.send_to(PATH, 3, &format!("{name} {what}"));
    send("dead letter");
    bus.receive_and_settle(PATH, 3, dead_letter(&[("seen", Value::Bool(true))]));
    send("out too often");
    for _ in 0..3 {
        bus.receive_and_settle(PATH, 3, Settlement::Abandon(&[]));
    }
    send("completed");
    bus.receive_and_settle(PATH, 3, Settlement::Complete);
    send("deleted by its receive");
    let receiver = bus.receiver(
        PATH,
        ReceiverOptions {
            mode: ReceiveMode::ReceiveAndDelete,
            ..from(3)
        },
    );
    bus.receive_by(&receiver);
    // Once per round: an abandoned dead letter.
    bus.receive_and_settle_in(PATH, 3, SubQueue::DeadLetter, Settlement::Abandon(&[]));
}
