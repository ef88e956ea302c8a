// SPDX-License-Identifier: Apache-2.0
//! A whole namespace beside its model, with a manual clock: random steps, each checked by the model.
//!
//! `OXBUS_SIM_STEPS` is the number of steps, `PROPTEST_RNG_SEED` the seed. A failure shrinks to a short list of steps
//! and prints its run; `OXBUS_SIM_RUN` repeats only that run.

mod bus;
mod management;
#[path = "../support/owner.rs"]
mod owner;
mod place;
mod receives;
mod restart;
mod sends;
mod settles;
mod step;
mod stored;
mod transactions;

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};

use bus::Bus;
use place::PlaceKind;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestError, TestRng, TestRunner};
use step::{End, Step, creation};
use stored::HAPPENED;

/// Default number of steps of each of the tests.
const STEPS: [u64; 3] = [180_000, 40_000, 20_000];
/// Approximate steps per run.
const RUN: u64 = 100;
/// A test ends after this many failing runs: one bug may cause many of them.
const FAILURES_MAX: usize = 8;
/// Steps between two full comparisons.
const COMPARE_EVERY: usize = 5;

/// The partitions of a run, its creations and its other steps.
type Steps = (u16, Vec<Step>, Vec<Step>);

impl Bus {
    fn apply(&mut self, step: &Step) {
        self.world.step += 1;
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
            Step::Settle { pick, action } => self.settle(pick, action),
            Step::SettleMany { slot, action } => self.settle_many(slot, action),
            Step::Renew { pick } => self.renew(pick),
            Step::Fetch {
                slot,
                pick,
                count,
                any_message,
            } => self.fetch(slot, pick, count, any_message),
            Step::RenewSession { slot } => self.renew_session(slot),
            Step::ReadState { slot } => self.read_state(slot),
            Step::SetState { slot, state } => self.set_state(slot, state),
            Step::Begin { work } => self.begin(work),
            Step::SettleIn {
                work,
                pick,
                count,
                action,
            } => self.settle_in(work, (pick, count), action),
            Step::StateIn { work, slot, state } => self.state_in(work, slot, state),
            Step::Commit { work } => self.commit(work),
            Step::RollBack { work } => self.roll_back(work),
            Step::Create { entity, settings, rule } => self.create(entity, settings, rule.as_ref()),
            Step::Advance { ms } => {
                self.clock.advance(ms);
                self.world.advanced(ms);
            }
            Step::Reopen { end, ms } => self.reopen(end, ms),
            other => self.apply_to_entity(other),
        }
        self.browse_unknown();
    }

    /// Applies the steps that need an existing entity.
    fn apply_to_entity(&mut self, step: Step) {
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
        match end {
            End::Close | End::CheckpointAndClose => self.close_and_open(),
            End::Kill(kill) => self.kill_and_open(kill),
        }
        self.browse_unknown();
        self.clock.advance(ms);
        self.world.advanced(ms);
    }
}

/// The first steps create every entity.
fn creations() -> impl Strategy<Value = Vec<Step>> {
    (0..bus::PATHS.len())
        .map(|entity| creation(Just(entity)))
        .collect::<Vec<_>>()
}

/// Runs `steps` steps, in runs with a bus each, some at once. Each run has its own seed, so that it can be repeated
/// alone.
fn run_steps(place: PlaceKind, steps: u64) {
    // The tests divide the requested steps in the proportion of their defaults.
    let steps = number("OXBUS_SIM_STEPS").map_or(steps, |asked| asked * steps / STEPS.iter().sum::<u64>());
    // The default seed is fixed, so that a failure points to a change.
    let seed = number("PROPTEST_RNG_SEED").unwrap_or(0);
    silence_panics();
    let only = number("OXBUS_SIM_RUN");
    let (next, last) = only.map_or((0, steps / RUN), |only| (only, only));
    let (next, applied) = (AtomicU64::new(next), AtomicU64::new(0));
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) * place.threads_per_processor() {
            scope.spawn(|| {
                loop {
                    let run = next.fetch_add(1, Ordering::Relaxed);
                    if run > last || failures.lock().expect("no thread panics").len() == FAILURES_MAX {
                        return;
                    }
                    if let Err(failure) = run_once(place, seed, run, &applied) {
                        let failure = describe_failure(&failure);
                        let failure = format!("OXBUS_SIM_RUN={run} PROPTEST_RNG_SEED={seed}: {failure}");
                        failures.lock().expect("no thread panics").push(failure);
                    }
                }
            });
        }
    });
    report(place, applied.into_inner());
    let failures = failures.into_inner().expect("no thread panics");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Says how much was simulated, for `--nocapture`.
#[expect(clippy::print_stdout, reason = "the output of a test")]
fn report(place: PlaceKind, steps: u64) {
    println!("{place:?}: {steps} steps");
    if place == PlaceKind::Store {
        println!("{HAPPENED:?}");
    }
}

/// Runs random steps on a new bus, and counts them.
fn run_once(place: PlaceKind, seed: u64, run: u64, applied: &AtomicU64) -> Result<(), TestError<Steps>> {
    let all = (
        1u16..7,
        creations(),
        prop::collection::vec(step::step(place != PlaceKind::Memory), 1..RUN as usize * 2),
    );
    let config = ProptestConfig {
        cases: 1,
        failure_persistence: None,
        max_shrink_iters: 1_000_000,
        max_shrink_time: 30_000,
        ..ProptestConfig::default()
    };
    let mut runner = TestRunner::new_with_rng(config, rng(seed, run));
    let result = runner.run(&all, |(partitions, creations, steps)| {
        IS_SHRINKING.set(true);
        applied.fetch_add((creations.len() + steps.len()) as u64, Ordering::Relaxed);
        run_on_new_bus(partitions, place, creations.iter().chain(&steps));
        Ok(())
    });
    IS_SHRINKING.set(false);
    result
}

/// Applies steps to a new bus and compares.
fn run_on_new_bus<'a>(partitions: u16, place: PlaceKind, steps: impl Iterator<Item = &'a Step>) {
    let mut bus = Bus::new(partitions, place);
    for (position, step) in steps.enumerate() {
        bus.apply(step);
        if position % COMPARE_EVERY == 0 {
            bus.compare();
        }
    }
    bus.compare();
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn rng(seed: u64, run: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&run.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

thread_local! {
    /// A run fails many times while it shrinks, and is reported once.
    static IS_SHRINKING: Cell<bool> = const { Cell::new(false) };
}

/// Suppresses the panic messages of shrinking runs.
fn silence_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !IS_SHRINKING.get() {
                report(panic);
            }
        }));
    });
}

/// The shortest failing run, one step per line.
fn describe_failure(failure: &TestError<Steps>) -> String {
    let TestError::Fail(reason, (partitions, creations, steps)) = failure else {
        return failure.to_string();
    };
    let lines = creations.iter().chain(steps).map(|step| format!("{step:?}\n"));
    format!("{reason}\n{partitions} partitions\n{}", lines.collect::<String>())
}

#[test]
fn a_namespace_in_memory_does_what_the_model_allows() {
    run_steps(PlaceKind::Memory, STEPS[0]);
}

#[test]
fn a_namespace_in_a_directory_does_what_the_model_allows() {
    run_steps(PlaceKind::Directory, STEPS[1]);
}

#[test]
fn a_namespace_in_a_store_does_what_the_model_allows() {
    run_steps(PlaceKind::Store, STEPS[2]);
}
