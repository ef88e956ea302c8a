// SPDX-License-Identifier: Apache-2.0
//! Append, claim and complete on one thread, in the slot log and in its mutex twin.
//!
//! Case ids are `cycle/STORE/SHAPE`. `twins` measures several threads.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime};
use oxbus_model::{Ticks, Timestamp};
use oxbus_store::{ClaimMode, MessageStore, NewMessage, Record, SlotLog};
use oxbus_twin::MutexLog;

const NOW: Timestamp = Timestamp(1_700_000_000_000);
const LOCK: ClaimMode = ClaimMode::Lock {
    deadline: Ticks(60_000),
};
const BODY: &[u8] = &[7; 100];

fn message() -> NewMessage {
    NewMessage {
        record: Record::from_slice(BODY).into(),
        expires_at: Timestamp::NEVER,
    }
}

/// Appends, claims and completes `rounds` batches. Panics when a lock was lost.
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
        store.claim(batch, LOCK, NOW, &mut out, &mut expired);
        keys.extend(out.iter().map(|claimed| claimed.key));
        black_box(&out);
        out.clear();
        store.complete(&keys, Ticks(1), &mut lost);
        keys.clear();
    }
    assert!(
        lost.is_empty() && expired.is_empty(),
        "no lock was lost, no message expired"
    );
}

fn one_thread<S: MessageStore + Default>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, batch: usize) {
    group.throughput(Throughput::Elements(batch as u64));
    group.bench_function(format!("{name}/batch_{batch}"), |bencher| {
        let store = S::default();
        bencher.iter_custom(|rounds| {
            let start = Instant::now();
            cycle(&store, batch, rounds);
            start.elapsed()
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
    group.finish();
}

criterion_group!(benches, cycles);
criterion_main!(benches);
