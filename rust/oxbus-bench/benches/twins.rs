// SPDX-License-Identifier: Apache-2.0
//! The slot log against its mutex twin: messages per second and the slowest cycles, by threads, batch and partitions.
//!
//! Each thread appends, claims and completes a batch, each time in some partition. The twins take turns, in alternating
//! order; the table shows medians over the rounds, and the ratio is the median of the ratios of the rounds.
//! Records are allocated and freed as in the wheel. The last rows keep every core busy with other work, so that a thread is descheduled in the middle of a step.
//! `cargo bench -p oxbus-bench --bench twins [-- ROUNDS [THREADSxBATCHxPARTITIONS+BUSY]]`.

#![expect(clippy::print_stdout, reason = "a bench prints its table")]

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use oxbus_model::{Ticks, Timestamp};
use oxbus_store::{ClaimMode, MessageStore, NewMessage, Record, SlotLog};
use oxbus_twin::MutexLog;

/// The allocator of the wheel.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NOW: Timestamp = Timestamp(1_700_000_000_000);
const HOLD: ClaimMode = ClaimMode::Lock {
    deadline: Ticks(60_000),
};
const BODY: &[u8] = &[7; 100];
/// How long each contender runs in a round, once for its rate and once for its slowest cycles.
const TURN: Duration = Duration::from_millis(150);
const ROUNDS: usize = 5;
/// Messages that wait in each partition before and after.
const BACKLOG: usize = 256;

/// What one row of the table measures.
#[derive(Clone, Copy)]
struct Shape {
    threads: usize,
    batch: usize,
    partitions: usize,
    /// Threads that compute something else meanwhile.
    busy: usize,
}

/// What a contender reached in a turn.
struct Reached {
    messages_per_second: f64,
    /// Nanoseconds of a cycle.
    p50: u32,
    p999: u32,
}

fn main() {
    // Cargo passes `--bench`.
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    let rounds = words.first().map_or(ROUNDS, |word| {
        word.parse().expect("the first word is a number of rounds")
    });
    println!(
        "| threads | batch | partitions | busy beside | slot log, M/s | mutex twin, M/s | ratio | p50 / p99.9 µs | twin |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut shapes = Vec::new();
    for busy in [0, 2] {
        for threads in [1, 2, 4] {
            for batch in [1, 32] {
                for partitions in [1, 16] {
                    shapes.push(Shape {
                        threads,
                        batch,
                        partitions,
                        busy,
                    });
                }
            }
        }
    }
    for shape in shapes {
        let name = format!("{}x{}x{}+{}", shape.threads, shape.batch, shape.partitions, shape.busy);
        if words.get(1).is_none_or(|only| *only == name) {
            row(shape, rounds);
        }
    }
}

fn row(shape: Shape, rounds: usize) {
    let (mut ours, mut twins) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        if round % 2 == 0 {
            ours.push(turn::<SlotLog>(shape));
            twins.push(turn::<MutexLog>(shape));
        } else {
            twins.push(turn::<MutexLog>(shape));
            ours.push(turn::<SlotLog>(shape));
        }
    }
    let ratios = ours
        .iter()
        .zip(&twins)
        .map(|(our, twin)| our.messages_per_second / twin.messages_per_second);
    let rate = |all: &[Reached]| median(all.iter().map(|one| one.messages_per_second)) / 1e6;
    let tail = |all: &[Reached]| {
        let micros = |pick: fn(&Reached) -> u32| median(all.iter().map(|one| f64::from(pick(one)) / 1e3));
        format!("{:.2} / {:.1}", micros(|one| one.p50), micros(|one| one.p999))
    };
    println!(
        "| {} | {} | {} | {} | {:.2} | {:.2} | {:.2} | {} | {} |",
        shape.threads,
        shape.batch,
        shape.partitions,
        shape.busy,
        rate(&ours),
        rate(&twins),
        median(ratios),
        tail(&ours),
        tail(&twins),
    );
}

/// Lets all threads work on fresh stores, twice: for the rate, and with a clock around each cycle.
fn turn<S: MessageStore + Default>(shape: Shape) -> Reached {
    let stores: Vec<S> = (0..shape.partitions).map(|_| waiting()).collect();
    let (messages, seconds, _) = race(&stores, shape, false);
    let (_, _, mut cycles) = race(&stores, shape, true);
    // What a thread could not claim, since another was between append and claim, is still here.
    for store in &stores {
        let mut rest = Vec::new();
        store.claim(usize::MAX, HOLD, NOW, &mut rest, &mut Vec::new());
        assert_eq!(store.counts().locked, rest.len() as u64, "nothing is lost");
    }
    cycles.sort_unstable();
    let at = |share: f64| cycles[((cycles.len() - 1) as f64 * share) as usize];
    Reached {
        messages_per_second: messages as f64 / seconds,
        p50: at(0.5),
        p999: at(0.999),
    }
}

/// A store in which messages wait, so that what a thread claims is not always its own.
fn waiting<S: MessageStore + Default>() -> S {
    let store = S::default();
    for _ in 0..BACKLOG {
        store.append_one(message(), NOW);
    }
    store
}

/// A record of its own for each message: a shared one would make the threads meet on its count.
fn message() -> NewMessage {
    NewMessage {
        record: Record::from_slice(BODY).into(),
        expires_at: Timestamp::NEVER,
    }
}

fn race<S: MessageStore>(stores: &[S], shape: Shape, timed: bool) -> (u64, f64, Vec<u32>) {
    let gate = Barrier::new(shape.threads);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..shape.busy {
            scope.spawn(|| {
                let mut word = 1_u64;
                while !ended.load(Ordering::Relaxed) {
                    word = black_box(word.wrapping_mul(6_364_136_223_846_793_005));
                }
            });
        }
        let workers: Vec<_> = (0..shape.threads)
            .map(|thread| {
                let gate = &gate;
                scope.spawn(move || {
                    gate.wait();
                    work(stores, shape.batch, thread, timed)
                })
            })
            .collect();
        let (mut messages, mut seconds, mut cycles) = (0, 0_f64, Vec::new());
        for worker in workers {
            let (moved, took, mut each) = worker.join().expect("no panic in a bench thread");
            messages += moved;
            seconds = seconds.max(took);
            cycles.append(&mut each);
        }
        ended.store(true, Ordering::Relaxed);
        (messages, seconds, cycles)
    })
}

/// Moves batches for a turn; returns the messages, the seconds and, when asked, the nanoseconds of each cycle.
fn work<S: MessageStore>(stores: &[S], batch: usize, first: usize, timed: bool) -> (u64, f64, Vec<u32>) {
    let (mut messages, mut out, mut expired, mut lost) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut keys, mut cycles) = (Vec::new(), Vec::new());
    let (mut moved, mut at) = (0, first as u64 + 1);
    let start = Instant::now();
    loop {
        // The clock is read once in a while, unless each cycle is timed anyway.
        for _ in 0..if timed { 1 } else { 64 } {
            let begun = timed.then(Instant::now);
            // Any partition, or threads at one pace would follow each other through all of them.
            at = at
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let store = &stores[(at >> 33) as usize % stores.len()];
            if batch == 1 {
                store.append_one(message(), NOW);
            } else {
                messages.extend((0..batch).map(|_| message()));
                store.append(&mut messages, NOW);
            }
            store.claim(batch, HOLD, NOW, &mut out, &mut expired);
            keys.extend(out.iter().map(|claimed| claimed.key));
            black_box(&out);
            moved += out.len() as u64;
            out.clear();
            store.complete(&keys, Ticks(1), &mut lost);
            keys.clear();
            if let Some(begun) = begun {
                cycles.push(u32::try_from(begun.elapsed().as_nanos()).unwrap_or(u32::MAX));
            }
        }
        if start.elapsed() >= TURN {
            break;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    assert!(lost.is_empty() && expired.is_empty(), "every lock held");
    (moved, seconds, cycles)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
