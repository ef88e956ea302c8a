// SPDX-License-Identifier: Apache-2.0
//! Golden bytes: `golden_events.txt` has the bytes of each kind of event, as they are in files.
//!
//! A change to these bytes changes the format. `OXBUS_WRITE_GOLDEN=1 cargo test -p oxbus-broker golden` rewrites the
//! file.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Identity, Timestamp};

use super::*;

const FILE: &str = include_str!("golden_events.txt");
/// Kinds of events, numbered from 1.
const KINDS: u8 = 18;

fn handed_out(counter: u64, generation: u32, count_after: u32, deferred: bool) -> DeliveryRecord {
    DeliveryRecord {
        counter: Counter(counter),
        generation,
        count_after,
        deferred,
    }
}

fn delayed(deferred: bool) -> StoredPhase {
    StoredPhase::Delayed {
        until: Timestamp(1_700_000_000_317),
        deferred,
    }
}

fn keep(phase: StoredPhase) -> JournalEvent<'static> {
    keep_record(phase, KeptRecord::Here(b"kept"))
}

fn keep_record(phase: StoredPhase, record: KeptRecord<'static>) -> JournalEvent<'static> {
    JournalEvent::Keep {
        sub_queue: SubQueue::Main,
        counter: Counter(0x1234),
        enqueued_at: Timestamp(1_700_000_000_001),
        expires_at: Timestamp(1_700_000_000_002),
        delivery_count: 3,
        generation: 0x5_6789,
        record_generation: 4,
        phase,
        record,
    }
}

fn keep_apart() -> JournalEvent<'static> {
    let (len, position) = (0x321, 0x12_3456);
    keep_record(StoredPhase::Ready, KeptRecord::Apart { len, position })
}

fn consumer() -> ConsumerRecord {
    ConsumerRecord {
        epoch: 5,
        done: 6,
        stamp: 7,
        starts: vec![Counter(8), Counter(0x900)],
        reservations: vec![ReservationRecord {
            n: 10,
            stamp: 11,
            epoch: 12,
            lock_ms: 13_000,
            reserved: 14,
            expired: true,
            parts: vec![(15, Ranges::from_iter([16, 17, 18, 30].map(Counter)))],
        }],
    }
}

fn intent() -> Intent {
    Intent {
        query: "a query".to_owned(),
        batch: 19,
        at: Timestamp(1_700_000_000_020),
        is_done: true,
        piece_bytes: 21,
        stages: vec!["stage".to_owned(), "鍵".to_owned()],
        targets: vec![IntentTarget {
            entity: EntityId(22),
            index: 23,
            pieces: 24,
        }],
    }
}

const AT: Timestamp = Timestamp(1_700_000_000_100);
const NEVER: Timestamp = Timestamp::NEVER;

type GoldenLine = (&'static str, Vec<u8>);

/// Encodes an event and checks that it decodes to the same event.
fn golden_line(name: &'static str, event: &JournalEvent<'_>) -> GoldenLine {
    let mut bytes = Vec::new();
    event.encode(EntityId(0x1_0007), &mut bytes);
    let read: Vec<_> = EventReader::of(&bytes).collect();
    assert_eq!(
        read,
        [Ok((EntityId(0x1_0007), event.clone()))],
        "it decodes to the same event"
    );
    (name, bytes)
}

fn changed() -> RecordChange<'static> {
    RecordChange::Edited {
        front: [51, 52, 53],
        keep: 54,
        middle: b"changed",
        tail: 55,
    }
}

/// Events of arriving messages.
fn arriving() -> Vec<GoldenLine> {
    let appended = |bytes, expires_at| AppendedMessage { expires_at, bytes };
    let copy = |entity, counter, expires_at| FanOutCopy {
        entity: EntityId(entity),
        counter: Counter(counter),
        expires_at,
    };
    vec![
        golden_line(
            "append",
            &JournalEvent::Append {
                first: Counter(300),
                enqueued_at: AT,
                messages: vec![appended(b"one", NEVER), appended(b"two", AT)],
            },
        ),
        golden_line(
            "schedule",
            &JournalEvent::Schedule {
                counter: Counter(301),
                due: Timestamp(1_700_000_000_302),
                enqueued_at: AT,
                expires_at: NEVER,
                bytes: b"later",
            },
        ),
        golden_line(
            "activate",
            &JournalEvent::Activate {
                counter: Counter(303),
                new_counter: Counter(304),
                enqueued_at: AT,
                expires_at: Timestamp(1_700_000_000_305),
                bytes: b"now",
            },
        ),
        golden_line(
            "fan out",
            &JournalEvent::FanOut {
                enqueued_at: AT,
                bytes: b"copied",
                copies: vec![copy(313, 314, NEVER), copy(315, 316, AT)],
            },
        ),
    ]
}

/// Events of deliveries and settlements.
fn delivering() -> Vec<GoldenLine> {
    let returned = |phase, record| JournalEvent::Return {
        sub_queue: SubQueue::DeadLetter,
        counter: Counter(61),
        generation: 62,
        delivery_count: 63,
        phase,
        record,
    };
    let dead_letter = |record| JournalEvent::DeadLetter {
        counter: Counter(71),
        enqueued_at: AT,
        expires_at: NEVER,
        delivery_count: 72,
        record,
    };
    vec![
        golden_line(
            "hand out",
            &JournalEvent::HandOut {
                sub_queue: SubQueue::DeadLetter,
                messages: vec![handed_out(306, 307, 308, false), handed_out(309, 310, 1, true)],
            },
        ),
        golden_line("return", &returned(StoredPhase::Ready, None)),
        golden_line(
            "return deferred with a record",
            &returned(StoredPhase::Deferred, Some(RecordChange::Whole(b"whole"))),
        ),
        golden_line(
            "return with a changed record",
            &returned(StoredPhase::Ready, Some(changed())),
        ),
        golden_line("return delayed", &returned(delayed(false), None)),
        golden_line("return deferred and delayed", &returned(delayed(true), Some(changed()))),
        golden_line(
            "remove",
            &JournalEvent::Remove {
                sub_queue: SubQueue::Main,
                counters: Ranges::from_iter([1, 2, 3, 200, 70_000].map(Counter)),
            },
        ),
        golden_line("dead letter", &dead_letter(RecordChange::Whole(b"dead"))),
        golden_line("dead letter with a changed record", &dead_letter(changed())),
    ]
}

/// Events of snapshots.
fn snapshot() -> Vec<GoldenLine> {
    let due = Timestamp(1_700_000_000_311);
    vec![
        golden_line("keep ready", &keep(StoredPhase::Ready)),
        golden_line("keep deferred", &keep(StoredPhase::Deferred)),
        golden_line("keep fetched", &keep(StoredPhase::Fetched)),
        golden_line("keep scheduled", &keep(StoredPhase::Scheduled { due })),
        golden_line("keep delayed", &keep(delayed(false))),
        golden_line("keep deferred and delayed", &keep(delayed(true))),
        golden_line("keep apart", &keep_apart()),
        golden_line("number", &JournalEvent::Number { next: Counter(312) }),
    ]
}

/// Events of what an entity stores besides messages.
fn remembered() -> Vec<GoldenLine> {
    let identities = vec![
        (AT, Identity(0x0102_0304_0506_0708_090A_0B0C_0D0E_0F10)),
        (NEVER, Identity(1)),
    ];
    let state = |id, state| JournalEvent::SessionState { id, set_at: AT, state };
    vec![
        golden_line(
            "seen",
            &JournalEvent::Seen {
                identities: identities.clone(),
            },
        ),
        golden_line("session state", &state("session", Some(b"state"))),
        golden_line("session state cleared", &state("鍵", None)),
        golden_line("attached", &JournalEvent::Attached { identities }),
        golden_line(
            "consumer",
            &JournalEvent::Consumer {
                sub_queue: SubQueue::DeadLetter,
                name: "consumer",
                record: Arc::new(consumer()),
            },
        ),
        golden_line(
            "intent",
            &JournalEvent::Intent {
                sink: "sink",
                intent: intent(),
            },
        ),
    ]
}

/// Events of messages from other shards.
fn arrived() -> Vec<GoldenLine> {
    let origin = |entity, partition, is_dead_letter, counter| Origin {
        entity: EntityId(entity),
        partition,
        is_dead_letter,
        counter: Counter(counter),
    };
    let arrived = |forget| JournalEvent::Arrived {
        forget,
        origins: vec![origin(41, 42, true, 43), origin(44, 0, false, 45)],
    };
    vec![
        golden_line("arrived", &arrived(false)),
        golden_line("arrived, over", &arrived(true)),
    ]
}

/// Packed events. They do not decode to one event.
fn folded() -> Vec<GoldenLine> {
    let mut events = Vec::new();
    JournalEvent::Number { next: Counter(81) }.encode(EntityId(82), &mut events);
    let bytes = packed::packed(events.repeat(9), |packed| {
        let mut bytes = Vec::new();
        JournalEvent::Packed(packed).encode(EntityId(0), &mut bytes);
        bytes
    });
    vec![("packed", bytes)]
}

/// Name and bytes of every kind and form of event.
fn events() -> Vec<GoldenLine> {
    [arriving(), delivering(), snapshot(), remembered(), arrived(), folded()].concat()
}

fn lines() -> String {
    let mut text = String::new();
    for (name, bytes) in events() {
        let hex: String = bytes.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        let _ = writeln!(text, "{name}: {hex}");
    }
    text
}

#[test]
fn events_have_the_bytes_that_files_hold() {
    let lines = lines();
    if std::env::var_os("OXBUS_WRITE_GOLDEN").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/shard/journal/golden_events.txt");
        std::fs::write(path, &lines).expect("the file can be written");
        return;
    }
    for (line, golden) in lines.lines().zip(FILE.lines()) {
        assert_eq!(line, golden);
    }
    assert_eq!(lines.lines().count(), FILE.lines().count(), "one line for each event");
}

#[test]
fn every_kind_of_event_has_a_golden_line() {
    let kinds: BTreeSet<u8> = events().iter().map(|(_, bytes)| bytes[0]).collect();
    assert_eq!(kinds, (1..=KINDS).collect());
}
