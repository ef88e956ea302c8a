// SPDX-License-Identifier: Apache-2.0
//! The bytes of each kind of event, as files hold them: `golden_events.txt` has a line for each.
//!
//! A change of these bytes is a change of the format. `OXBUS_WRITE_GOLDEN=1 cargo test -p oxbus-broker golden` writes the file
//! anew.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Identity, Timestamp};

use super::*;

const FILE: &str = include_str!("golden_events.txt");
/// Kinds of events, from 1 on.
const KINDS: u8 = 17;

fn handed_out(counter: u64, generation: u32, count_after: u32, deferred: bool) -> HandedOut {
    HandedOut {
        counter: Counter(counter),
        generation,
        count_after,
        deferred,
    }
}

fn keep(rest: Rest) -> Event<'static> {
    Event::Keep {
        sub_queue: SubQueue::Main,
        counter: Counter(0x1234),
        enqueued_at: Timestamp(1_700_000_000_001),
        expires_at: Timestamp(1_700_000_000_002),
        delivery_count: 3,
        generation: 0x5_6789,
        record_generation: 4,
        rest,
        bytes: b"kept",
    }
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
            lapsed: true,
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
        targets: vec![Target {
            entity: EntityId(22),
            index: 23,
            pieces: 24,
        }],
    }
}

/// A name and the bytes of an event of each kind and form.
fn events() -> Vec<(&'static str, Vec<u8>)> {
    let at = Timestamp(1_700_000_000_100);
    let never = Timestamp::NEVER;
    let identities = vec![
        (at, Identity(0x0102_0304_0506_0708_090A_0B0C_0D0E_0F10)),
        (never, Identity(1)),
    ];
    let origins = vec![
        Origin {
            entity: EntityId(41),
            partition: 42,
            is_dead_letter: true,
            counter: Counter(43),
        },
        Origin {
            entity: EntityId(44),
            partition: 0,
            is_dead_letter: false,
            counter: Counter(45),
        },
    ];
    let appended = |bytes, expires_at| Appended { expires_at, bytes };
    let edited = Changed::Edited {
        front: [51, 52, 53],
        keep: 54,
        middle: b"changed",
        tail: 55,
    };
    let returned = |deferred, record| Event::Return {
        sub_queue: SubQueue::DeadLetter,
        counter: Counter(61),
        generation: 62,
        delivery_count: 63,
        deferred,
        record,
    };
    let dead_letter = |record| Event::DeadLetter {
        counter: Counter(71),
        enqueued_at: at,
        expires_at: never,
        delivery_count: 72,
        record,
    };
    let mut packed = Vec::new();
    Event::Number { next: Counter(81) }.encode(EntityId(82), &mut packed);
    let packed_copy = packed.repeat(9);
    let all: Vec<(&'static str, Event<'_>)> = vec![
        (
            "append",
            Event::Append {
                first: Counter(300),
                enqueued_at: at,
                messages: vec![appended(b"one", never), appended(b"two", at)],
            },
        ),
        (
            "schedule",
            Event::Schedule {
                counter: Counter(301),
                due: Timestamp(1_700_000_000_302),
                enqueued_at: at,
                expires_at: never,
                bytes: b"later",
            },
        ),
        (
            "activate",
            Event::Activate {
                counter: Counter(303),
                becomes: Counter(304),
                enqueued_at: at,
                expires_at: Timestamp(1_700_000_000_305),
                bytes: b"now",
            },
        ),
        (
            "hand out",
            Event::HandOut {
                sub_queue: SubQueue::DeadLetter,
                messages: vec![handed_out(306, 307, 308, false), handed_out(309, 310, 1, true)],
            },
        ),
        ("return", returned(false, None)),
        (
            "return deferred with a record",
            returned(true, Some(Changed::Whole(b"whole"))),
        ),
        ("return with a changed record", returned(false, Some(edited))),
        (
            "remove",
            Event::Remove {
                sub_queue: SubQueue::Main,
                counters: Ranges::from_iter([1, 2, 3, 200, 70_000].map(Counter)),
            },
        ),
        ("dead letter", dead_letter(Changed::Whole(b"dead"))),
        ("dead letter with a changed record", dead_letter(edited)),
        ("keep ready", keep(Rest::Ready)),
        ("keep deferred", keep(Rest::Deferred)),
        ("keep fetched", keep(Rest::Fetched)),
        (
            "keep scheduled",
            keep(Rest::Scheduled {
                due: Timestamp(1_700_000_000_311),
            }),
        ),
        ("number", Event::Number { next: Counter(312) }),
        (
            "seen",
            Event::Seen {
                identities: identities.clone(),
            },
        ),
        (
            "session state",
            Event::SessionState {
                id: "session",
                set_at: at,
                state: Some(b"state"),
            },
        ),
        (
            "session state cleared",
            Event::SessionState {
                id: "鍵",
                set_at: at,
                state: None,
            },
        ),
        (
            "fan out",
            Event::FanOut {
                enqueued_at: at,
                bytes: b"copied",
                copies: vec![
                    FannedOut {
                        entity: EntityId(313),
                        counter: Counter(314),
                        expires_at: never,
                    },
                    FannedOut {
                        entity: EntityId(315),
                        counter: Counter(316),
                        expires_at: at,
                    },
                ],
            },
        ),
        (
            "arrived",
            Event::Arrived {
                is_over: false,
                origins: origins.clone(),
            },
        ),
        ("arrived, over", Event::Arrived { is_over: true, origins }),
        ("attached", Event::Attached { identities }),
        (
            "consumer",
            Event::Consumer {
                sub_queue: SubQueue::DeadLetter,
                name: "consumer",
                record: Arc::new(consumer()),
            },
        ),
        (
            "intent",
            Event::Intent {
                sink: "sink",
                intent: intent(),
            },
        ),
    ];
    let encoded = |event: &Event<'_>| {
        let mut bytes = Vec::new();
        event.encode(EntityId(0x1_0007), &mut bytes);
        let read: Vec<_> = Events::of(&bytes).collect();
        assert_eq!(read, [Ok((EntityId(0x1_0007), event.clone()))], "it comes back");
        bytes
    };
    let mut named: Vec<(&'static str, Vec<u8>)> = all.iter().map(|(name, event)| (*name, encoded(event))).collect();
    let bytes = packed::packed(packed_copy, |packed| {
        let mut bytes = Vec::new();
        Event::Packed(packed).encode(EntityId(0), &mut bytes);
        bytes
    });
    named.push(("packed", bytes));
    named
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
