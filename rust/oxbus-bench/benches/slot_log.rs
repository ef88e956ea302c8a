// SPDX-License-Identifier: Apache-2.0
//! A message's whole life in a store — append, claim, complete — in the slot log and in its mutex twin.
//!
//! Ids read `cycle/store/shape`; throughput is messages per second over all threads.
//! Two threads share one log: each appends, claims and completes, and what it claims may be the other's.

#![expect(missing_docs, reason = "criterion's macros make public items")]

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime};
use oxbus_model::{Ticks, Timestamp};
use oxbus_store::{Hold, MessageStore, MutexLog, NewMessage, Record, SlotLog};

const NOW: Timestamp = Timestamp(1_700_000_000_000);
const HOLD: Hold = Hold::Lock {
    deadline: Ticks(60_000),
};
const BODY: &[u8] = &[7; 100];

fn message() -> NewMessage {
    NewMessage {
        record: Record::from_slice(BODY).into(),
        expires_at: Timestamp::NEVER,
    }
}

/// Moves `rounds` batches through the store and checks that no lock was lost.
fn cycle(store: &dyn MessageStore, batch: usize, rounds: u64) {
    let record = message().record;
    let (mut messages, mut out, mut expired, mut lost) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut keys = Vec::new();
    for _ in 0..rounds {
        if batch == 1 {
            store.append_one(
                NewMessage {
                    record: record.clone(),
                    expires_at: Timestamp::NEVER,
                },
                NOW,
            );
        } else {
            messages.extend((0..batch).map(|_| NewMessage {
                record: record.clone(),
                expires_at: Timestamp::NEVER,
            }));
            store.append(&mut messages, NOW);
        }
        store.claim(batch, HOLD, NOW, &mut out, &mut expired);
        keys.extend(out.iter().map(|claimed| claimed.key));
        black_box(&out);
        out.clear();
        store.complete(&keys, Ticks(1), &mut lost);
        keys.clear();
    }
    assert!(lost.is_empty() && expired.is_empty(), "every lock held");
}

fn one_thread<S: MessageStore + Default>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, batch: usize) {
    group.throughput(Throughput::Elements(batch as u64));
    group.bench_function(format!("{name}/threads_1/batch_{batch}"), |bencher| {
        let store = S::default();
        bencher.iter_custom(|rounds| {
            let start = Instant::now();
            cycle(&store, batch, rounds);
            start.elapsed()
        });
    });
}

fn two_threads<S: MessageStore + Default>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, batch: usize) {
    group.throughput(Throughput::Elements(2 * batch as u64));
    group.bench_function(format!("{name}/threads_2/batch_{batch}"), |bencher| {
        bencher.iter_custom(|rounds| {
            let store = S::default();
            let gate = Barrier::new(2);
            let elapsed = std::thread::scope(|scope| {
                let run = || {
                    gate.wait();
                    let start = Instant::now();
                    cycle(&store, batch, rounds);
                    start.elapsed()
                };
                let other = scope.spawn(run);
                let mine = run();
                mine.max(other.join().expect("no panic in a bench thread"))
            });
            // What one thread could not claim, since the other was between append and claim, is still here.
            let mut rest = Vec::new();
            store.claim(usize::MAX, HOLD, NOW, &mut rest, &mut Vec::new());
            assert_eq!(store.counts().locked, rest.len() as u64, "nothing is lost");
            elapsed
        });
    });
}

fn cycles(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cycle");
    group
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    for batch in [1, 32, 100] {
        one_thread::<SlotLog>(&mut group, "slot_log", batch);
        one_thread::<MutexLog>(&mut group, "mutex_log", batch);
    }
    for batch in [1, 32] {
        two_threads::<SlotLog>(&mut group, "slot_log", batch);
        two_threads::<MutexLog>(&mut group, "mutex_log", batch);
    }
    group.finish();
}

criterion_group!(benches, cycles);
criterion_main!(benches);
