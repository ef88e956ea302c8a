// SPDX-License-Identifier: Apache-2.0
//! The journal compared with its disk: commits per second, and bytes per second in recovery.
//!
//! Each line is one shape with its messages per second, and their ratio to the appends and syncs of 100 bytes per
//! second to a plain file. Both alternate. Ratios are comparable within one run only. `OXBUS_BENCH_DIR` chooses the
//! disk.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench prints its times"
)]

use oxbus_store::Wait;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use oxbus_store::disk::LocalDisk;
use oxbus_store::extent::ExtentLocation;
use oxbus_store::file::{FileLog, FileLogOptions, Replay, ShardId};
use oxbus_store::shard_log::{Level, Lsn, ShardLog, SpaceClass};

const ID: ShardId = ShardId {
    store: [7; 16],
    shard: 0,
};
const ROUNDS: usize = 5;

struct Count(u64);

impl Replay for Count {
    fn snapshot(&mut self, _covered: Lsn, _part: &[u8], _place: Option<&ExtentLocation>) {}

    fn entry(&mut self, _lsn: Lsn, entry: &[u8], _place: Option<&ExtentLocation>) {
        self.0 += entry.len() as u64;
    }
}

fn open(dir: &Path) -> (FileLog, Count) {
    let mut count = Count(0);
    let opened = FileLog::open(Arc::new(LocalDisk), dir, FileLogOptions::new(ID, 1), &mut count).expect("opens");
    (opened.log, count)
}

/// Appends as a shard does: takes the number and appends under a mutex.
fn append(log: &FileLog, shard: &Mutex<()>, entry: &[u8], level: Level) {
    let guard = shard.lock().expect("unpoisoned");
    let lsn = log.next_lsn();
    log.append(lsn, entry, SpaceClass::Adds, level, None, &Wait::FOREVER)
        .expect("appends");
    drop(guard);
    log.commit(lsn, level, &Wait::FOREVER).expect("commits");
}

/// Commits per second of `threads` threads that make `each` commits each.
fn commits(dir: &Path, threads: usize, each: usize, entry: &[u8], level: Level) -> f64 {
    let (log, _) = open(dir);
    let shard = Mutex::new(());
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| (0..each).for_each(|_| append(&log, &shard, entry, level)));
        }
    });
    let rate = (threads * each) as f64 / began.elapsed().as_secs_f64();
    drop(log);
    std::fs::remove_dir_all(dir).expect("removes");
    rate
}

/// Appends with a sync per second to a plain file.
fn plain(dir: &Path, each: usize, entry: &[u8]) -> f64 {
    std::fs::create_dir_all(dir).expect("creates the directory");
    let path = dir.join("plain");
    let file: File = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .open(&path)
        .expect("opens");
    let began = Instant::now();
    for index in 0..each {
        file.write_all_at(entry, (index * entry.len()) as u64).expect("writes");
        file.sync_data().expect("syncs");
    }
    let rate = each as f64 / began.elapsed().as_secs_f64();
    std::fs::remove_file(path).expect("removes");
    rate
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let base = std::env::var_os("OXBUS_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = base.join(format!("oxbus-bench-journal-{}", std::process::id()));
    let small = [7u8; 100];
    let hundred = vec![7u8; 100 * 300];
    let shapes: [(&str, usize, usize, &[u8], Level, usize); 5] = [
        ("synced, 1 sender, 100 B", 1, 300, &small, Level::Synced, 1),
        ("synced, 64 senders, 100 B", 64, 50, &small, Level::Synced, 1),
        ("synced, 4 senders, 100 x 300 B", 4, 100, &hundred, Level::Synced, 100),
        ("written, 1 sender, 100 B", 1, 50_000, &small, Level::Written, 1),
        (
            "written, 1 sender, 100 x 300 B",
            1,
            2_000,
            &hundred,
            Level::Written,
            100,
        ),
    ];
    let mut rates = vec![Vec::new(); shapes.len()];
    let mut ratios = vec![Vec::new(); shapes.len()];
    for _ in 0..ROUNDS {
        let disk = plain(&dir, 300, &small);
        for (index, (_, threads, each, entry, level, messages)) in shapes.iter().enumerate() {
            let rate = commits(&dir, *threads, *each, entry, *level) * *messages as f64;
            rates[index].push(rate);
            ratios[index].push(rate / disk);
        }
    }
    for (index, (name, ..)) in shapes.iter().enumerate() {
        let (rate, ratio) = (median(rates[index].clone()), median(ratios[index].clone()));
        println!("{name:32} {rate:12.0} messages/s {ratio:10.2} x append + sync of 100 B");
    }
    let (log, _) = open(&dir);
    for _ in 0..3_000 {
        append(&log, &Mutex::new(()), &hundred, Level::Written);
    }
    drop(log);
    let read = median(
        (0..ROUNDS)
            .map(|_| {
                let began = Instant::now();
                let (log, count) = open(&dir);
                let rate = count.0 as f64 / began.elapsed().as_secs_f64() / 1e6;
                drop(log);
                rate
            })
            .collect(),
    );
    println!("{:32} {read:12.0} MB/s", "recovery, one shard");
    std::fs::remove_dir_all(dir).expect("removes");
}
