// SPDX-License-Identifier: Apache-2.0
//! A whole namespace beside the model of it, under a clock moved by hand: random steps, compared after each.
//!
//! `OXBUS_SIM_STEPS` says how many steps to take, `PROPTEST_RNG_SEED` which. A failure shrinks to a short list of steps.

mod bus;
mod management;
mod receives;
mod sends;
mod settles;
mod step;
mod transactions;

use std::sync::atomic::{AtomicU64, Ordering};

use bus::Bus;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestError, TestRunner};
use step::{End, Step, creation};

/// Steps that a plain `cargo test` takes in each of the two tests.
const STEPS: [u64; 2] = [180_000, 40_000];
/// Steps of one run, about.
const RUN: u64 = 100;
/// After so many steps everything is compared.
const COMPARE_EVERY: usize = 5;

impl Bus {
    fn take(&mut self, step: &Step) {
        match step.clone() {
            Step::Open {
                slot,
                entity,
                dead,
                deletes,
                prefetch,
            } => {
                if let Some(entity) = self.entity(entity).filter(|it| self.world.is_receivable(*it)) {
                    self.open_slot(slot, entity, dead, deletes, prefetch);
                }
            }
            Step::Accept {
                slot,
                entity,
                session,
                deletes,
            } => {
                if let Some(entity) = self.entity(entity).filter(|it| self.world.is_receivable(*it)) {
                    self.accept(slot, entity, session, deletes);
                }
            }
            Step::Close { slot } => self.close_slot(slot),
            Step::Receive { slot, max } => drop(self.receive(slot, max)),
            Step::Drain { slot } => self.drain(slot),
            Step::Settle { pick, verb } => self.settle(pick, verb),
            Step::SettleMany { slot, verb } => self.settle_many(slot, verb),
            Step::Renew { pick } => self.renew(pick),
            Step::Fetch {
                slot,
                pick,
                count,
                stranger,
            } => self.fetch(slot, pick, count, stranger),
            Step::RenewSession { slot } => self.renew_session(slot),
            Step::ReadState { slot } => self.read_state(slot),
            Step::SetState { slot, state } => self.set_state(slot, state),
            Step::Begin { work } => self.begin(work),
            Step::SettleIn {
                work,
                pick,
                count,
                verb,
            } => self.settle_in(work, (pick, count), verb),
            Step::StateIn { work, slot, state } => self.state_in(work, slot, state),
            Step::Commit { work } => self.commit(work),
            Step::RollBack { work } => self.roll_back(work),
            Step::Create { entity, settings, rule } => self.create(entity, settings, rule.as_ref()),
            Step::Advance { ms } => {
                self.clock.advance(ms);
                self.world.advanced(ms);
            }
            Step::Reopen { end, ms } => self.reopen(end, ms),
            other => self.take_on_entity(other),
        }
        self.look_around();
    }

    /// Steps that need their entity.
    fn take_on_entity(&mut self, step: Step) {
        match step {
            Step::Send { entity, load } => self.on(entity, |bus, entity| bus.send(entity, load)),
            Step::SendIn { work, entity, load } => self.on(entity, |bus, entity| bus.send_in(work, entity, load)),
            Step::Cancel { entity, pick, count } => self.on(entity, |bus, entity| bus.cancel(entity, pick, count)),
            Step::Purge { entity, dead, limit } => self.on(entity, |bus, entity| bus.purge(entity, dead, limit)),
            Step::Resubmit { entity, limit } => self.on(entity, |bus, entity| bus.resubmit(entity, limit)),
            Step::Update { entity, change } => self.on(entity, |bus, entity| bus.update(entity, change)),
            Step::Delete { entity } => self.on(entity, Bus::delete),
            Step::AddRule { entity, rule } => self.on(entity, |bus, entity| bus.add_rule(entity, rule)),
            Step::RemoveRule { entity, pick } => self.on(entity, |bus, entity| bus.remove_rule(entity, pick)),
            _ => {}
        }
    }

    fn on(&mut self, position: usize, call: impl FnOnce(&mut Self, usize)) {
        if let Some(entity) = self.entity(position) {
            call(self, entity);
        }
    }

    fn reopen(&mut self, end: End, ms: u64) {
        if matches!(end, End::CheckpointAndClose) {
            self.namespace.checkpoint().expect("the disk works");
        }
        self.restart(!matches!(end, End::Kill));
        self.look_around();
        self.clock.advance(ms);
        self.world.advanced(ms);
    }
}

/// The first steps make every entity.
fn creations() -> impl Strategy<Value = Vec<Step>> {
    (0..bus::PATHS.len())
        .map(|entity| creation(Just(entity)))
        .collect::<Vec<_>>()
}

/// Takes so many steps in runs of a bus each.
fn play(is_durable: bool, steps: u64) {
    let asked = std::env::var("OXBUS_SIM_STEPS")
        .ok()
        .and_then(|text| text.parse::<u64>().ok());
    // The two tests share what is asked for as they share what is usual.
    let steps = asked.map_or(steps, |asked| asked * steps / (STEPS[0] + STEPS[1]));
    let mut config = ProptestConfig {
        cases: u32::try_from(steps / RUN + 1).unwrap_or(u32::MAX),
        failure_persistence: None,
        max_shrink_time: 30_000,
        ..ProptestConfig::default()
    };
    if config.rng_seed == RngSeed::Random {
        // Without a seed the same runs each time: a change is not refused for what it did not do.
        config.rng_seed = RngSeed::Fixed(0);
    }
    let seed = config.rng_seed;
    let taken = AtomicU64::new(0);
    let runs = (
        1u16..7,
        creations(),
        prop::collection::vec(step::step(is_durable), 1..RUN as usize * 2),
    );
    let result = TestRunner::new(config).run(&runs, |(partitions, creations, steps)| {
        let mut bus = Bus::new(partitions, is_durable);
        for (position, step) in creations.iter().chain(&steps).enumerate() {
            bus.take(step);
            if position % COMPARE_EVERY == 0 {
                bus.compare();
            }
        }
        bus.compare();
        taken.fetch_add(steps.len() as u64, Ordering::Relaxed);
        Ok(())
    });
    let taken = taken.into_inner();
    if let Err(failure) = result {
        panic!("{seed:?}, after {taken} steps: {}", told(&failure));
    }
}

/// The shortest run that fails, a step a line.
fn told(failure: &TestError<(u16, Vec<Step>, Vec<Step>)>) -> String {
    let TestError::Fail(reason, (partitions, creations, steps)) = failure else {
        return failure.to_string();
    };
    let lines = creations.iter().chain(steps).map(|step| format!("{step:?}\n"));
    format!("{reason}\n{partitions} partitions\n{}", lines.collect::<String>())
}

#[test]
fn a_namespace_in_memory_does_what_the_model_allows() {
    play(false, STEPS[0]);
}

#[test]
fn a_namespace_in_a_directory_does_what_the_model_allows() {
    play(true, STEPS[1]);
}
