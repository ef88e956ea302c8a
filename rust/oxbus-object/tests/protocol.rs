// SPDX-License-Identifier: Apache-2.0
//! Tries every order of the requests of one writer and two sealers of a lane on a simulated store.
//!
//! A creation may take effect at any later time, twice, or with its answer lost. Any party may pause for ever. Deletions
//! may be repeated at any time. Checked in every state: no acknowledged object lies at or beyond the end that a sealer
//! found; no object is missing between what a checkpoint covers and that end; and both sealers find the same end.
//!
//! Each of the four rules of the protocol is needed: without it, a violation is found.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;

use oxbus_object::lane::{CreateAnswer, Found, LaneSealer, LaneWriter, ObjectNumber, SealRequest, WriteRequest};

/// Objects that the writer begins.
const OBJECTS: usize = 3;
const DEPTH: usize = 2;
const SEALERS: usize = 2;

/// A rule of the protocol.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    AcknowledgeInOrder,
    StoreFloorFirst,
    ReadFloorAgain,
    KeepFences,
}

/// The rule that a test breaks, if any.
type Broken = Option<Rule>;

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    /// By number; one more than the writer begins, for the fence after the last one.
    objects: [Found; OBJECTS + 1],
    floor: u64,
    writer: LaneWriter,
    /// What the checkpoint covers.
    covered: u64,
    /// By number: creations that have not reached the store, and all that were sent.
    late: [u8; OBJECTS],
    sent: [u8; OBJECTS],
    /// The objects that the writer knows to be stored, one bit each.
    known: u8,
    sealers: [LaneSealer; SEALERS],
    /// The floor that each sealer read first.
    first_floors: [Option<u64>; SEALERS],
    /// A taker may still stop the writer with a fence anywhere, before it ends the lane.
    may_set_bar: bool,
    /// Creations of each object, repeated ones included.
    attempts: u8,
}

impl World {
    /// The first state. With a bar, no creation is repeated, because there would be too many states.
    fn new(may_set_bar: bool) -> Self {
        Self {
            objects: [Found::Missing; OBJECTS + 1],
            floor: 0,
            writer: LaneWriter::new(DEPTH),
            covered: 0,
            late: [0; OBJECTS],
            sent: [0; OBJECTS],
            known: 0,
            sealers: std::array::from_fn(|_| LaneSealer::default()),
            first_floors: [None; SEALERS],
            may_set_bar,
            attempts: if may_set_bar { 1 } else { 2 },
        }
    }

    fn ends(&self) -> impl Iterator<Item = u64> {
        self.sealers.iter().filter_map(|sealer| match sealer.request() {
            SealRequest::Sealed(end) => Some(end.0),
            _ => None,
        })
    }

    /// Numbers of acknowledged objects.
    fn acknowledged(&self, broken: Broken) -> Vec<u64> {
        if broken == Some(Rule::AcknowledgeInOrder) {
            (0..OBJECTS as u64)
                .filter(|number| self.known >> number & 1 == 1)
                .collect()
        } else {
            (0..self.writer.acknowledged().0).collect()
        }
    }

    /// The broken promise of this state, if there is one.
    fn violation(&self, broken: Broken) -> Option<String> {
        let mut first = None;
        for end in self.ends() {
            if let Some(lost) = self.acknowledged(broken).into_iter().find(|number| *number >= end) {
                return Some(format!("object {lost} is acknowledged, and the lane ended at {end}"));
            }
            let is_missing = |number: &u64| self.objects[*number as usize] != Found::Data;
            if let Some(hole) = (self.covered..end).find(is_missing) {
                return Some(format!("object {hole} is missing before the end at {end}"));
            }
            if *first.get_or_insert(end) != end {
                return Some("two sealers found two ends".to_owned());
            }
        }
        None
    }

    /// All states after one step of anybody.
    fn successors(&self, broken: Broken) -> Vec<Self> {
        let mut all = Vec::new();
        self.steps_of_writer(broken, &mut all);
        for number in 0..OBJECTS {
            if self.late[number] > 0 {
                self.arrivals(number, &mut all);
            }
        }
        self.steps_of_deletion(broken, &mut all);
        self.bars(&mut all);
        for at in 0..SEALERS {
            all.push(self.step_of_sealer(at, broken));
            all.extend(self.read_ahead_of_sealer(at));
        }
        all
    }

    /// Begins an object, or sends one again.
    fn steps_of_writer(&self, broken: Broken, all: &mut Vec<Self>) {
        let mut begun = self.clone();
        if (self.writer.next().0 as usize) < OBJECTS
            && let Some(WriteRequest::Create(number)) = begun.writer.begin()
        {
            begun.late[number.0 as usize] += 1;
            begun.sent[number.0 as usize] += 1;
            all.push(begun);
        }
        if self.writer.has_ended() {
            return;
        }
        for number in self.writer.on_the_way().map(|it| it.0 as usize) {
            if self.sent[number] < self.attempts {
                let mut again = self.clone();
                again.late[number] += 1;
                again.sent[number] += 1;
                all.push(again);
            }
        }
        // A snapshot of what is acknowledged.
        let acknowledged = if broken == Some(Rule::AcknowledgeInOrder) {
            u64::from((!self.known).trailing_zeros())
        } else {
            self.writer.acknowledged().0
        };
        if acknowledged > self.covered {
            let mut saved = self.clone();
            saved.covered = acknowledged;
            all.push(saved);
        }
    }

    /// A creation reaches the store, and its answer the writer or nobody.
    fn arrivals(&self, number: usize, all: &mut Vec<Self>) {
        let mut stored = self.clone();
        stored.late[number] -= 1;
        let answer = if self.objects[number] == Found::Missing {
            stored.objects[number] = Found::Data;
            CreateAnswer::Created
        } else {
            CreateAnswer::Exists
        };
        all.push(stored.clone());
        let key = ObjectNumber(number as u64);
        if let Some(WriteRequest::Look(_)) = stored.writer.created(key, answer) {
            stored.writer.looked(key, stored.objects[number]);
        }
        if stored.objects[number] == Found::Data && !stored.writer.has_ended() {
            stored.known |= 1 << number;
        }
        all.push(stored);
    }

    /// Stores the floor, or deletes an object below it, perhaps again.
    fn steps_of_deletion(&self, broken: Broken, all: &mut Vec<Self>) {
        if self.covered > self.floor {
            let mut raised = self.clone();
            raised.floor = self.covered;
            all.push(raised);
        }
        let below = if broken == Some(Rule::StoreFloorFirst) {
            self.covered
        } else {
            self.floor
        };
        for number in 0..below as usize {
            let mut gone = self.clone();
            gone.objects[number] = Found::Missing;
            all.push(gone);
        }
        if broken == Some(Rule::KeepFences) && self.ends().next().is_some() {
            for number in (0..=OBJECTS).filter(|number| self.objects[*number] == Found::Fence) {
                let mut gone = self.clone();
                gone.objects[number] = Found::Missing;
                all.push(gone);
            }
        }
    }

    /// A taker stops the writer with a fence anywhere, once.
    fn bars(&self, all: &mut Vec<Self>) {
        for number in (0..self.objects.len()).filter(|number| self.objects[*number] == Found::Missing) {
            if self.may_set_bar {
                let mut barred = self.clone();
                barred.objects[number] = Found::Fence;
                barred.may_set_bar = false;
                all.push(barred);
            }
        }
    }

    /// A sealer has read the objects that follow, instead of trying a fence at each.
    fn read_ahead_of_sealer(&self, at: usize) -> Option<Self> {
        let SealRequest::CreateFence(number) = self.sealers[at].request() else {
            return None;
        };
        let data = self.objects[number.0 as usize..].iter();
        let data = data.take_while(|object| **object == Found::Data).count() as u64;
        let mut next = self.clone();
        next.sealers[at].saw_data_before(ObjectNumber(number.0 + data));
        (data > 0).then_some(next)
    }

    fn step_of_sealer(&self, at: usize, broken: Broken) -> Self {
        let mut next = self.clone();
        match self.sealers[at].request() {
            SealRequest::ReadFloor => {
                let first = *next.first_floors[at].get_or_insert(self.floor);
                let floor = if broken == Some(Rule::ReadFloorAgain) {
                    first
                } else {
                    self.floor
                };
                next.sealers[at].floor(ObjectNumber(floor));
            }
            // The writer begins no object beyond the last number, so there is one for a fence.
            SealRequest::CreateFence(number) => {
                let object = &mut next.objects[number.0 as usize];
                let is_free = *object == Found::Missing;
                if is_free {
                    *object = Found::Fence;
                }
                next.sealers[at].fence_created(if is_free {
                    CreateAnswer::Created
                } else {
                    CreateAnswer::Exists
                });
            }
            SealRequest::Look(number) => next.sealers[at].looked(self.objects[number.0 as usize]),
            SealRequest::Sealed(_) => {}
        }
        next
    }
}

/// Visits every state. Returns their number, or the first violation.
fn explore(first: World, broken: Broken) -> Result<usize, String> {
    let mut seen = HashSet::from([first.clone()]);
    let mut left = VecDeque::from([first]);
    while let Some(world) = left.pop_front() {
        if let Some(violation) = world.violation(broken) {
            return Err(violation);
        }
        for next in world.successors(broken) {
            if !seen.contains(&next) {
                seen.insert(next.clone());
                left.push_back(next);
            }
        }
    }
    Ok(seen.len())
}

#[test]
fn every_state_keeps_the_promises() {
    for (may_set_bar, least) in [(false, 1_000_000), (true, 100_000)] {
        let states = explore(World::new(may_set_bar), None).expect("no violation");
        assert!(states > least, "{states} states are too few to have tried everything");
    }
}

#[test]
fn each_rule_is_needed() {
    for rule in [
        Rule::AcknowledgeInOrder,
        Rule::StoreFloorFirst,
        Rule::ReadFloorAgain,
        Rule::KeepFences,
    ] {
        assert!(explore(World::new(false), Some(rule)).is_err());
    }
}
