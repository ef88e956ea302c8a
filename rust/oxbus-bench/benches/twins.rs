// SPDX-License-Identifier: Apache-2.0
//! The slot log compared with its mutex twin: messages per second and slowest cycles, by threads, batch and partitions.
//!
//! A thread appends, claims and completes a batch in each cycle, in a random partition. The two stores alternate, and
//! so does their order in a round. The table shows medians of the rounds; the ratio is the median of the rounds'
//! ratios. The allocator is that of the wheel. The last rows keep the cores busy with other work, so that the scheduler
//! interrupts threads in the middle of a step.
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
const LOCK: ClaimMode = ClaimMode::Lock {
    deadline: Ticks(60_000),
};
const BODY: &[u8] = &[7; 100];
/// Duration of one measurement. Each store is measured twice in a round: its rate, and the times of its cycles.
const DURATION: Duration = Duration::from_millis(150);
const ROUNDS: usize = 5;
/// Messages in each partition before and after a cycle.
const BACKLOG: usize = 256;

/// The shape of one row of the table.
#[derive(Clone, Copy)]
struct Shape {
    threads: usize,
    batch: usize,
    partitions: usize,
    /// Threads that do other work at the same time.
    busy: usize,
}

/// The measurement of one store in a round.
struct StoreMeasurement {
    messages_per_second: f64,
    /// Median nanoseconds of a cycle.
    p50: u32,
    p999: u32,
}

fn main() {
    // Cargo passes `--bench`.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let rounds = arguments.first().map_or(ROUNDS, |argument| {
        argument.parse().expect("the first argument is a number of rounds")
    });
    println!(
        "| threads | batch | partitions | busy threads | slot log, M/s | mutex twin, M/s | ratio | slot log, p50 / p99.9 µs | mutex twin, p50 / p99.9 µs |"
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
        if arguments.get(1).is_none_or(|only| *only == name) {
            print_row(shape, rounds);
        }
    }
}

fn print_row(shape: Shape, rounds: usize) {
    let (mut slot_logs, mut twins) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        if round % 2 == 0 {
            slot_logs.push(measure::<SlotLog>(shape));
            twins.push(measure::<MutexLog>(shape));
        } else {
            twins.push(measure::<MutexLog>(shape));
            slot_logs.push(measure::<SlotLog>(shape));
        }
    }
    let ratios = slot_logs
        .iter()
        .zip(&twins)
        .map(|(slot_log, twin)| slot_log.messages_per_second / twin.messages_per_second);
    let rate = |all: &[StoreMeasurement]| median(all.iter().map(|one| one.messages_per_second)) / 1e6;
    let cycle_times = |all: &[StoreMeasurement]| {
        let micros = |pick: fn(&StoreMeasurement) -> u32| median(all.iter().map(|one| f64::from(pick(one)) / 1e3));
        format!("{:.2} / {:.1}", micros(|one| one.p50), micros(|one| one.p999))
    };
    println!(
        "| {} | {} | {} | {} | {:.2} | {:.2} | {:.2} | {} | {} |",
        shape.threads,
        shape.batch,
        shape.partitions,
        shape.busy,
        rate(&slot_logs),
        rate(&twins),
        median(ratios),
        cycle_times(&slot_logs),
        cycle_times(&twins),
    );
}

/// Measures all threads on new stores twice: the rate, and the time of each cycle.
fn measure<S: MessageStore + Default>(shape: Shape) -> StoreMeasurement {
    let stores: Vec<S> = (0..shape.partitions).map(|_| filled()).collect();
    let (messages, seconds, _) = run_threads(&stores, shape, false);
    let (_, _, mut cycles) = run_threads(&stores, shape, true);
    // A thread may claim fewer messages than it appended, while another is between append and claim. They are still
    // here.
    for store in &stores {
        let mut rest = Vec::new();
        store.claim(usize::MAX, LOCK, NOW, &mut rest, &mut Vec::new());
        assert_eq!(store.counts().locked, rest.len() as u64, "no message is lost");
    }
    cycles.sort_unstable();
    let at = |share: f64| cycles[((cycles.len() - 1) as f64 * share) as usize];
    StoreMeasurement {
        messages_per_second: messages as f64 / seconds,
        p50: at(0.5),
        p999: at(0.999),
    }
}

/// A store with a backlog, so that a thread does not always claim its own messages.
fn filled<S: MessageStore + Default>() -> S {
    let store = S::default();
    for _ in 0..BACKLOG {
        store.append_one(message(), NOW);
    }
    store
}

/// A message with its own record: threads would contend for the reference count of a shared one.
fn message() -> NewMessage {
    NewMessage {
        record: Record::from_slice(BODY).into(),
        expires_at: Timestamp::NEVER,
    }
}

fn run_threads<S: MessageStore>(stores: &[S], shape: Shape, timed: bool) -> (u64, f64, Vec<u32>) {
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

/// Runs cycles for `DURATION`. Returns the messages, the seconds and, when `timed`, the nanoseconds of each cycle.
fn work<S: MessageStore>(stores: &[S], batch: usize, first: usize, timed: bool) -> (u64, f64, Vec<u32>) {
    let (mut messages, mut out, mut expired, mut lost) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut keys, mut cycles) = (Vec::new(), Vec::new());
    let (mut moved, mut at) = (0, first as u64 + 1);
    let start = Instant::now();
    loop {
        // Reads the clock every 64 cycles, unless each cycle is timed.
        for _ in 0..if timed { 1 } else { 64 } {
            let begun = timed.then(Instant::now);
            // A random partition: in a fixed order, threads of the same pace would follow each other.
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
            store.claim(batch, LOCK, NOW, &mut out, &mut expired);
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
        if start.elapsed() >= DURATION {
            break;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    assert!(
        lost.is_empty() && expired.is_empty(),
        "no lock was lost, no message expired"
    );
    (moved, seconds, cycles)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
