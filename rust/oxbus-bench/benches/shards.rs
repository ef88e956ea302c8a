// SPDX-License-Identifier: Apache-2.0
//! Throughput by the number of partitions, on a disk whose sync takes 5 ms: shards do not wait for each other.
//!
//! Four senders per partition send one message after the other at level `fsync`. Target: 0.8 × N for N partitions.

#![expect(clippy::print_stdout, reason = "a bench prints its table")]

use oxbus_store::Wait;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use oxbus_broker::durable::StoreOptions;
use oxbus_broker::{Namespace, NamespaceOptions};
use oxbus_model::hash::partition_of;
use oxbus_model::message::{Body, Fields};
use oxbus_model::options::{Durability, QueueSettings};
use oxbus_store::disk::{Disk, DiskFile};
use oxbus_store::fault::FaultDisk;

const SYNC: Duration = Duration::from_millis(5);
const SENDERS: usize = 4;
const DURATION: Duration = Duration::from_secs(2);

/// A file system in memory whose syncs take [`SYNC`].
#[derive(Debug)]
struct SlowDisk(FaultDisk);

#[derive(Debug)]
struct SlowFile(Arc<dyn DiskFile>);

fn slow(file: io::Result<Arc<dyn DiskFile>>) -> io::Result<Arc<dyn DiskFile>> {
    file.map(|file| Arc::new(SlowFile(file)) as Arc<dyn DiskFile>)
}

impl Disk for SlowDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.0.create_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.0.list(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        slow(self.0.create(path))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        slow(self.0.open(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.sync_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.0.free_bytes(dir)
    }
}

impl DiskFile for SlowFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.read_at(buffer, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        self.0.write_at(bytes, position)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.0.allocate(bytes)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.0.truncate(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        std::thread::sleep(SYNC);
        self.0.sync()
    }
}

fn main() {
    println!("| partitions | messages/s | ratio to 1 partition | ratio / N |");
    println!("|---|---|---|---|");
    let mut one = None;
    for partitions in [1, 2, 4, 16] {
        let rate = messages_per_second(partitions);
        let over = rate / *one.get_or_insert(rate);
        println!(
            "| {partitions} | {rate:.0} | {over:.2} | {:.2} |",
            over / f64::from(partitions)
        );
    }
}

fn messages_per_second(partitions: u16) -> f64 {
    let namespace = Namespace::open(NamespaceOptions {
        partitions: Some(partitions),
        store: Some(StoreOptions {
            path: PathBuf::from("/bus"),
            durability: Durability::Fsync,
            owned: None,
            disk: Some(Arc::new(SlowDisk(FaultDisk::new()))),
            segment_bytes: None,
        }),
        ..NamespaceOptions::default()
    })
    .expect("opens");
    let settings = QueueSettings {
        enable_partitioning: true,
        ..QueueSettings::default()
    };
    namespace
        .create_queue("orders", settings, &Wait::FOREVER)
        .expect("creates the queue");
    let keys: Vec<String> = (0..partitions).map(|partition| key_of(partition, partitions)).collect();
    let threads = usize::from(partitions) * SENDERS;
    let gate = Barrier::new(threads);
    let sent: usize = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..threads)
            .map(|thread| {
                let (gate, key) = (&gate, keys[thread % keys.len()].as_str());
                let sender = namespace.sender("orders").expect("opens a sender");
                scope.spawn(move || {
                    let fields = Fields {
                        body: Body::Data(&[7; 100]),
                        partition_key: Some(key),
                        ..Fields::default()
                    };
                    gate.wait();
                    let start = Instant::now();
                    let mut sent = 0;
                    while start.elapsed() < DURATION {
                        sender.send(&fields, None, &Wait::FOREVER).expect("sends");
                        sent += 1;
                    }
                    sent
                })
            })
            .collect();
        senders.into_iter().map(|sender| sender.join().expect("no panic")).sum()
    });
    let counts = namespace
        .queue("orders")
        .expect("the queue exists")
        .counts(&Wait::FOREVER)
        .expect("the store answers");
    assert_eq!(counts.total.active, sent as u64, "every sent message is in the queue");
    sent as f64 / DURATION.as_secs_f64()
}

/// A partition key of `partition`.
fn key_of(partition: u16, partitions: u16) -> String {
    (0..)
        .map(|number: u32| number.to_string())
        .find(|key| partition_of(key.as_bytes(), u32::from(partitions)) == u32::from(partition))
        .expect("every partition has keys")
}
