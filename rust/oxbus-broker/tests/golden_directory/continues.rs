// SPDX-License-Identifier: Apache-2.0
//! Uses the directory as its next owner: it must know everything that the previous owner knew.

use std::sync::Arc;
use std::time::Duration;

use oxbus_broker::client::Settlement;
use oxbus_broker::entity::Entity;
use oxbus_broker::{Namespace, ReceiverOptions};
use oxbus_model::message::{Fields, PropertiesBuilder, Value};
use oxbus_model::name::SubQueue;
use oxbus_store::fault::FaultDisk;

use super::bus::{Bus, PARTITIONS, WAIT, key_of, text};
use super::{rows, script};

/// Active, deferred, scheduled and dead-lettered messages. Deferred ones are active too.
fn counts(namespace: &Namespace, path: &str) -> [u64; 4] {
    let total = namespace
        .entity(path)
        .expect("the queue exists")
        .counts(&WAIT)
        .expect("it owns the namespace")
        .total;
    [total.active, total.deferred, total.scheduled, total.dead_letter]
}

/// Opens the directory and uses it.
pub(crate) fn check(disk: &FaultDisk, which: &str) {
    let clock = script::at_end();
    // Only the closed directory has rows of a bulk load that its next owner takes over.
    let loaded = if which.ends_with("closed") { 8 } else { 0 };
    let bus = Bus {
        namespace: super::open(disk),
        clock: Arc::clone(&clock),
    };
    check_counts(&bus.namespace, loaded, which);
    check_duplicates(&bus, which);
    check_numbers(&bus, which);
    check_topic_and_forwarding(&bus, which);
    check_reservations(&bus, which);
    check_stages(&bus, loaded, which);
    check_deferred_and_dead_letters(&bus, which);
    bus.namespace.close();
    drop(bus);
    for (name, rows) in [("job/0", 0), ("job/1", 8 - loaded)] {
        assert_eq!(
            rows::load(disk, &clock, 6, name),
            rows,
            "{which}: {name} was attached before"
        );
    }
}

/// Each of the script's two rounds leaves the same number of messages of each kind.
fn check_counts(namespace: &Namespace, loaded: u64, which: &str) {
    for (path, expected) in [
        // One message of the first owner. In each round: partition 0: 4, and 1 by a transaction; 1: 1 locked, 3
        // deferred; 2: 1 activated, 1 scheduled; 3: 3 dead letters.
        ("orders", [1 + 2 * (4 + 1 + 1 + 3 + 1), 2 * 3, 2, 2 * 3]),
        ("once", [2, 0, 0, 0]),
        ("talks", [2 * 3, 0, 0, 0]),
        ("archive", [2 * 2, 0, 0, 0]),
        ("inbox", [0, 0, 0, 0]),
        ("worker", [0, 0, 0, 0]),
        ("ledger", [2, 0, 2, 0]),
        // A bulk load, and a commit in each round.
        ("loaded", [8 + 2 * 4 + loaded, 0, 0, 0]),
        // Each round sends 6. The first completes 5 (2 reservations), the second 3 (a reservation of 2, and 1 alone).
        ("reserved", [12 - 5 - 3, 0, 0, 0]),
        ("closed", [0, 0, 0, 0]),
        ("events/Subscriptions/all", [2 * 2, 0, 0, 0]),
        ("events/Subscriptions/chosen", [2 * 2, 0, 0, 0]),
    ] {
        assert_eq!(counts(namespace, path), expected, "{which}: {path}");
    }
    assert!(namespace.entity("gone").is_err(), "{which}: it was deleted");
}

fn check_duplicates(bus: &Bus, which: &str) {
    for (partition, id) in [
        (0, "early twice"),
        (0, "late twice"),
        (1, "early remembered"),
        (1, "late remembered"),
    ] {
        bus.send_to("once", partition, id);
    }
    assert_eq!(counts(&bus.namespace, "once"), [2, 0, 0, 0], "{which}: remembered");
    bus.send_to("once", 0, "another");
    assert_eq!(counts(&bus.namespace, "once"), [3, 0, 0, 0], "{which}: new");
}

fn check_numbers(bus: &Bus, which: &str) {
    let highest = |partition: u16| {
        let browse = |sub_queue| {
            let receiver = bus.receiver(
                "orders",
                ReceiverOptions {
                    sub_queue,
                    ..ReceiverOptions::default()
                },
            );
            receiver.browse(250, None, &WAIT).expect("open")
        };
        let all = [SubQueue::Main, SubQueue::DeadLetter].map(browse).into_iter().flatten();
        let here = all.filter(|it| it.index == usize::from(partition));
        here.map(|it| Entity::sequence_number(it.index, it.message.counter))
            .max()
    };
    for partition in 0..PARTITIONS {
        let before = highest(partition);
        let number = bus.send_to("orders", partition, "new");
        assert!(Some(number) > before, "{which}: {number:?} after {before:?}");
    }
}

fn check_topic_and_forwarding(bus: &Bus, which: &str) {
    let key = key_of(3);
    let mut properties = PropertiesBuilder::default();
    properties.push("priority", Value::Int(5));
    bus.send(
        "events",
        &Fields {
            subject: Some("alarm"),
            application_properties: Some(properties.properties()),
            ..text("alarm", &key)
        },
    );
    let chosen = bus.receiver("events/Subscriptions/chosen", ReceiverOptions::default());
    let browsed = chosen.browse(250, None, &WAIT).expect("open");
    let last = browsed.iter().find(|it| it.index == 3).expect("the rule selects it");
    let record = last.message.record.in_memory().expect("a browse loads it");
    let fields = Fields::decode(record).expect("whole");
    let properties = fields.application_properties.expect("the action sets one");
    assert_eq!(
        (properties.get("level"), properties.get("priority")),
        (Some(Value::Text("high")), None),
        "{which}: by its action"
    );
    bus.send_to("inbox", 0, "forwarded");
    assert_eq!(counts(&bus.namespace, "archive"), [5, 0, 0, 0], "{which}: moved");
}

fn check_reservations(bus: &Bus, which: &str) {
    let reservations = bus.namespace.reservations("reserved").expect("the queue exists");
    let [held] = &reservations.list(&WAIT)[..] else {
        panic!("{which}: one reservation is open");
    };
    let lock = Duration::from_secs(600);
    let plan = reservations
        .plan("consumer", held.epoch, held.n, lock, &WAIT)
        .expect("it is held");
    assert_eq!((held.done, held.n, plan.messages()), (3, 4, 2), "{which}: {held:?}");
    let done = reservations.complete_up_to("consumer", held.epoch, held.n, &WAIT);
    assert_eq!(done.expect("it is held").completed, 2, "{which}");
    assert_eq!(counts(&bus.namespace, "reserved"), [2, 0, 0, 0], "{which}");
}

fn check_stages(bus: &Bus, loaded: u64, which: &str) {
    let stages = bus.namespace.stages();
    let commit = |batch, id: &str| {
        let committed = stages.commit(rows::SINK, rows::QUERY, batch, &[id.to_owned()], &WAIT);
        committed.expect("it is known or ready")
    };
    for batch in 0..2 {
        assert!(
            !commit(batch, "late committed"),
            "{which}: batch {batch} was committed before"
        );
    }
    assert!(commit(2, "early waiting"), "{which}: new");
    assert_eq!(counts(&bus.namespace, "loaded")[0], 8 + 2 * 4 + 4 + loaded, "{which}");
    let left: Vec<String> = stages
        .list()
        .into_iter()
        .map(|stage| stage.id)
        .filter(|id| id != "early waiting")
        .collect();
    assert_eq!(left, ["late waiting"], "{which}: of the others");
}

/// Receives and completes deferred messages and dead letters.
fn check_deferred_and_dead_letters(bus: &Bus, which: &str) {
    let receiver = bus.receiver("orders", ReceiverOptions::default());
    let browsed = receiver.browse(250, None, &WAIT).expect("open");
    let deferred = browsed
        .iter()
        .filter(|it| it.message.phase == oxbus_store::MessagePhase::Deferred);
    let numbers: Vec<_> = deferred
        .map(|it| Entity::sequence_number(it.index, it.message.counter))
        .collect();
    assert_eq!(numbers.len(), 6, "{which}");
    for number in numbers {
        let fetched = receiver.receive_deferred(&[number], &WAIT).expect("it is deferred");
        bus.settle_by(
            &receiver,
            super::bus::key_of_delivery(&fetched[0]),
            Settlement::Complete,
        );
    }
    for _ in 0..6 {
        bus.receive_and_settle_in("orders", 3, SubQueue::DeadLetter, Settlement::Complete);
    }
    let [_, deferred, _, dead_letters] = counts(&bus.namespace, "orders");
    assert_eq!((deferred, dead_letters), (0, 0), "{which}");
}
