// SPDX-License-Identifier: Apache-2.0
//! Changes of entities through the public calls, and what the next owner of the directory finds.
//!
//! One test cuts the catalog anywhere. The others make a disk call fail, or end the process or the power, and send a
//! message after each change.

#[path = "catalog_changes/model.rs"]
mod model;

use model::{Bus, Change, Entities};
use oxbus_model::Effect;
use oxbus_store::fault::{FaultDisk, SimulatedFault};
use proptest::prelude::*;

fn change() -> impl Strategy<Value = Change> {
    let number = 0..3_u8;
    prop_oneof![
        3 => number.clone().prop_map(Change::CreateQueue),
        1 => number.clone().prop_map(Change::CreateTopic),
        3 => (number.clone(), number.clone()).prop_map(|(topic, it)| Change::CreateSubscription(topic, it)),
        2 => (number.clone(), 5_000..9_000_u64).prop_map(|(it, lock_ms)| Change::UpdateQueue(it, lock_ms)),
        3 => (number.clone(), number.clone()).prop_map(|(topic, it)| Change::CreateRule(topic, it)),
        1 => (number.clone(), number.clone()).prop_map(|(topic, it)| Change::UpdateRule(topic, it)),
        1 => (number.clone(), number.clone()).prop_map(|(topic, it)| Change::DeleteRule(topic, it)),
        1 => number.clone().prop_map(Change::DeleteQueue),
        1 => number.prop_map(Change::DeleteTopic),
    ]
}

/// The state after each change since the catalog was last written as a whole, with the length of its file then.
fn states_by_length(disk: &FaultDisk, bus: &Bus, changes: &[Change]) -> Vec<(usize, Entities)> {
    let (mut head, mut states) = (Vec::new(), Vec::new());
    for change in [&[None], &*changes.iter().map(Some).collect::<Vec<_>>()].concat() {
        if let Some(change) = change {
            // Some changes are refused, because their entity is missing or exists already.
            let _ = bus.make(change);
        }
        let bytes = model::catalog_bytes(disk);
        if bytes[..48] != head {
            head = bytes[..48].to_vec();
            states.clear();
        }
        states.push((bytes.len(), bus.entities()));
    }
    states
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_catalog_cut_anywhere_has_the_changes_before_the_cut(
        changes in prop::collection::vec(change(), 1..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let disk = FaultDisk::new();
        let bus = Bus::open(&disk);
        let states = states_by_length(&disk, &bus, &changes);
        let (whole, left) = (model::catalog_bytes(&disk), disk.after_kill());
        let first = states[0].0;
        let len = first + cut.index(whole.len() - first + 1);
        model::cut_catalog(&left, len);
        let (kept, expected) = states.iter().rev().find(|(end, _)| *end <= len).expect("the content is whole");
        let again = Bus::open(&left);
        prop_assert_eq!(&again.entities(), expected, "{} of {} bytes", len, whole.len());
        let cut_bytes = again.namespace().recovery().expect("a directory").truncated_bytes;
        prop_assert_eq!(cut_bytes as usize, len - kept);
        // The cut is reported once, and the next owner continues.
        let _ = again.make(&Change::CreateQueue(9));
        let expected = again.entities();
        let last = Bus::open(&left.after_kill());
        prop_assert_eq!(last.entities(), expected);
        prop_assert_eq!(last.namespace().recovery().expect("a directory").truncated_bytes, 0);
    }
}

/// Every kind of change, and more than one rewrite of the catalog.
fn script() -> Vec<Change> {
    let mut changes = vec![
        Change::CreateQueue(0),
        Change::CreateTopic(0),
        Change::CreateSubscription(0, 1),
        Change::CreateRule(0, 1),
        Change::UpdateRule(0, 1),
        Change::UpdateQueue(0, 7_000),
        Change::CreateQueue(1),
        Change::DeleteQueue(0),
        Change::CreateQueue(0),
        Change::DeleteRule(0, 1),
        Change::DeleteTopic(0),
    ];
    changes.extend((2..9).map(Change::CreateQueue));
    changes.push(Change::DeleteQueue(1));
    changes
}

/// What the next owner may find, and the messages it must find.
struct Expected {
    states: Vec<Entities>,
    messages: [usize; 2],
}

/// Runs the script, with a message to each of the first two queues after each change, until the process dies.
fn run(disk: &FaultDisk) -> Expected {
    let mut expected = Expected {
        states: vec![Entities::default()],
        messages: [0; 2],
    };
    let Ok(bus) = Bus::try_open(disk) else { return expected };
    for change in script() {
        let before = bus.entities();
        let after = before.after(&change);
        if let Change::DeleteQueue(number @ 0..2) = change {
            expected.messages[usize::from(number)] = 0;
        }
        match bus.make(&change) {
            Ok(()) => {
                assert_eq!(bus.entities(), after, "{change:?}");
                expected.states = vec![after];
            }
            Err(_) if disk.has_crashed() => {
                expected.states.push(after);
                return expected;
            }
            Err(error) if error.effect() == Some(Effect::Unknown) => {
                // A deletion in doubt holds in this process, so that nothing more is stored in the entity.
                let held = if change.is_deletion() { &after } else { &before };
                assert_eq!(&bus.entities(), held, "{change:?}: {error}");
                expected.states.extend([before, after]);
            }
            Err(error) => {
                // The entity may be missing because an earlier change failed.
                assert_eq!(bus.entities(), before, "{change:?}: {error}");
            }
        }
        for number in 0..2 {
            if bus.send(number).is_ok() {
                let has_queue = expected.states.iter().all(|state| state.has_queue(number));
                assert!(has_queue, "{change:?}: a message is in an entity that may not exist");
                expected.messages[usize::from(number)] += 1;
            }
            if disk.has_crashed() {
                return expected;
            }
        }
    }
    expected
}

fn check(disk: &FaultDisk, expected: &Expected, context: &str) {
    let bus = Bus::open(disk);
    let found = bus.entities();
    assert!(expected.states.contains(&found), "{context}: {found:?}");
    for (number, messages) in (0..).zip(expected.messages) {
        if expected.states.iter().all(|state| state.has_queue(number)) {
            assert!(bus.messages(number) >= messages, "{context}: queue {number}");
        }
    }
}

fn calls() -> u64 {
    let disk = FaultDisk::new();
    let expected = run(&disk);
    check(&disk.after_kill(), &expected, "no fault");
    assert_eq!(expected.states.len(), 1);
    disk.calls()
}

#[test]
fn a_crash_at_every_call_keeps_acknowledged_changes() {
    for call in 0..calls() {
        for fault in [SimulatedFault::Kill, SimulatedFault::PowerCut] {
            let disk = FaultDisk::new();
            disk.fail_at(call, fault);
            let expected = run(&disk);
            let context = format!("{fault:?} at {call}");
            check(&disk.after_kill(), &expected, &context);
            for seed in 0..2 {
                check(&disk.after_power_cut(seed), &expected, &context);
            }
        }
    }
}

#[test]
fn errors_at_every_call_have_the_right_effect() {
    for call in 0..calls() {
        // The second failing call may be the one that takes a record back.
        for (fault, distance) in [
            (SimulatedFault::ShortWrite, None),
            (SimulatedFault::Errno(5), None),
            (SimulatedFault::Errno(28), None),
            (SimulatedFault::Errno(5), Some(1)),
            (SimulatedFault::Errno(5), Some(2)),
        ] {
            let disk = FaultDisk::new();
            disk.fail_at(call, fault);
            if let Some(distance) = distance {
                disk.fail_at(call + distance, fault);
            }
            let expected = run(&disk);
            let context = format!("{fault:?} at {call}, then {distance:?}");
            check(&disk.after_kill(), &expected, &context);
            check(&disk.after_power_cut(call), &expected, &context);
        }
    }
}
