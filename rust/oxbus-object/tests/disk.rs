// SPDX-License-Identifier: Apache-2.0
//! A disk in a store behaves like a disk whose changes are durable in order, whatever the store does to requests.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};

use oxbus_blob::{Fault, MemoryStore};
use oxbus_object::{LaneDisk, LaneDiskOptions, OpenError, Takeover};
use oxbus_store::disk::{Disk, DiskFile};

const ROOT: &str = "memory:///";

fn path(name: &str) -> PathBuf {
    PathBuf::from(ROOT).join(name)
}

fn open(store: &MemoryStore) -> LaneDisk {
    let store = Arc::new(store.clone());
    LaneDisk::open(store, LaneDiskOptions::default()).expect("opened").0
}

/// What the files hold.
type Content = BTreeMap<String, Vec<u8>>;

fn content(disk: &LaneDisk) -> Content {
    let names = disk.list(&path("d")).unwrap_or_default();
    names
        .into_iter()
        .map(|name| {
            let file = disk.open(&path("d").join(&name)).expect("a listed file opens");
            let mut bytes = vec![0; file.len().expect("a length") as usize];
            let mut filled = 0;
            while filled < bytes.len() {
                let read = file.read_at(&mut bytes[filled..], filled as u64).expect("read");
                assert!(read > 0, "the file ends before its length");
                filled += read;
            }
            (name, bytes)
        })
        .collect()
}

/// A small generator, so that a failure names a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn step(disk: &LaneDisk, model: &mut Content, random: &mut Random) {
    let name = format!("f{}", random.below(6));
    let at = path("d").join(&name);
    match random.below(10) {
        0 => {
            let created = disk.create(&at);
            assert_eq!(created.is_ok(), !model.contains_key(&name));
            model.entry(name).or_default();
        }
        1 => {
            assert_eq!(disk.remove(&at).is_ok(), model.remove(&name).is_some());
        }
        2 => {
            let to = format!("f{}", random.below(6));
            let renamed = disk.rename(&at, &path("d").join(&to)).is_ok();
            assert_eq!(renamed, model.contains_key(&name));
            if let Some(bytes) = model.remove(&name) {
                model.insert(to, bytes);
            }
        }
        action => {
            let (Ok(file), true) = (disk.open(&at), model.contains_key(&name)) else {
                assert!(!model.contains_key(&name));
                return;
            };
            let position = random.below(20_000) as usize;
            if action == 5 {
                share(disk, model, &name, position, random);
                return;
            }
            let bytes = model.get_mut(&name).expect("it is there");
            match action {
                3 => {
                    file.truncate(position as u64).expect("cut");
                    bytes.resize(position, 0);
                }
                4 => {
                    file.allocate(position as u64).expect("allocated");
                    bytes.resize(bytes.len().max(position), 0);
                }
                _ => {
                    let value = if random.below(4) == 0 {
                        0
                    } else {
                        random.below(256) as u8
                    };
                    let part = vec![value; 1 + random.below(9_000) as usize];
                    let written = file.write_at(&part, position as u64).expect("written");
                    assert_eq!(written, part.len());
                    bytes.resize(bytes.len().max(position + part.len()), 0);
                    bytes[position..position + part.len()].copy_from_slice(&part);
                }
            }
        }
    }
}

/// Shares bytes of a file, perhaps beyond its end, with this one, perhaps the same.
fn share(disk: &LaneDisk, model: &mut Content, name: &str, position: usize, random: &mut Random) {
    let other = format!("f{}", random.below(6));
    let (Ok(to), Ok(of)) = (disk.open(&path("d").join(name)), disk.open(&path("d").join(&other))) else {
        return;
    };
    let (from, len) = (random.below(20_000) as usize, 1 + random.below(9_000) as usize);
    let number = of.number().expect("the disk shares bytes");
    to.share(number, from as u64, len as u64, position as u64)
        .expect("shared");
    let mut part: Vec<u8> = model[&other].iter().skip(from).take(len).copied().collect();
    part.resize(len, 0);
    let bytes = model.get_mut(name).expect("it is there");
    bytes.resize(bytes.len().max(position + len), 0);
    bytes[position..position + len].copy_from_slice(&part);
}

/// Takes steps, some of them followed by a sync. Returns what the files may hold after a crash.
fn work(disk: &LaneDisk, model: &mut Content, random: &mut Random, steps: u64) -> Vec<Content> {
    let mut later = vec![model.clone()];
    for _ in 0..steps {
        step(disk, model, random);
        later.push(model.clone());
        if random.below(8) == 0 {
            disk.sync_dir(&path("d")).expect("synced");
            later = vec![model.clone()];
        }
    }
    later
}

#[test]
fn files_are_as_they_were_after_a_close_and_after_a_crash() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let store = MemoryStore::default();
        let mut model = Content::new();
        let mut disk = open(&store);
        disk.create_dir(&path("d")).expect("created");
        for _ in 0..8 {
            let steps = random.below(60);
            let mut later = work(&disk, &mut model, &mut random, steps);
            assert_eq!(content(&disk), model, "seed {seed}");
            if random.below(2) == 0 {
                disk.release();
                later = vec![model.clone()];
            }
            drop(disk);
            disk = open(&store);
            let found = content(&disk);
            assert!(later.contains(&found), "seed {seed}: no state since the last sync");
            model = found;
        }
    }
}

/// Faults by chance: about one request in four.
fn faults(seed: u64) -> impl FnMut(&str, &str) -> Fault + Send {
    let mut random = Random(seed ^ 0x5EED);
    move |request, _key| match (random.below(16), request) {
        (0, _) => Fault::Lost,
        (1, "create" | "swap") => Fault::AnswerLost,
        (2, "create") => Fault::Late,
        (3, "create") => Fault::Twice,
        _ => Fault::None,
    }
}

#[test]
fn a_store_that_loses_and_repeats_requests_loses_nothing() {
    for seed in 0..12 {
        let mut random = Random(seed);
        let store = MemoryStore::default();
        let mut model = Content::new();
        let mut disk = open(&store);
        store.set_faults(faults(seed));
        disk.create_dir(&path("d")).expect("created");
        for _ in 0..4 {
            let later = work(&disk, &mut model, &mut random, 30);
            drop(disk);
            disk = open(&store);
            let found = content(&disk);
            assert!(later.contains(&found), "seed {seed}: no state since the last sync");
            model = found;
        }
    }
}

#[test]
fn an_open_namespace_is_in_use() {
    let store = MemoryStore::default();
    let disk = open(&store);
    let again = LaneDisk::open(Arc::new(store.clone()), LaneDiskOptions::default());
    match again {
        Err(OpenError::InUse(owner)) => assert_eq!(owner.pid, std::process::id()),
        other => panic!("{other:?}"),
    }
    disk.release();
    assert!(disk.create(&path("x")).is_err(), "it is closed");
    let (_, opened) = LaneDisk::open(Arc::new(store), LaneDiskOptions::default()).expect("free");
    assert!(!opened.took_over);
}

/// Begins a sync whose outcome arrives in a channel.
fn sync_later(file: &dyn DiskFile) -> Receiver<std::io::Result<()>> {
    let (sender, outcome) = sync_channel(1);
    file.sync_later(Box::new(move |synced| sender.send(synced).expect("the test waits")));
    outcome
}

#[test]
fn a_sync_in_the_background_ends_when_everything_before_it_is_stored() {
    let store = MemoryStore::default();
    let disk = open(&store);
    let file = disk.create(&path("f")).expect("created");
    for round in 0..50u8 {
        file.write_at(&[round], u64::from(round)).expect("written");
        let (first, second) = (sync_later(&*file), sync_later(&*file));
        first.recv().expect("it ends").expect("synced");
        second.recv().expect("it ends").expect("synced");
    }
    let nothing_new = sync_later(&*file);
    nothing_new.try_recv().expect("it ends at once").expect("synced");
    disk.abandon();
    let took_over = LaneDiskOptions {
        takeover: Takeover::AtOnce,
        ..LaneDiskOptions::default()
    };
    let (disk, _) = LaneDisk::open(Arc::new(store), took_over).expect("taken over");
    let kept = disk.open(&path("f")).expect("the file is there");
    assert_eq!(kept.len().expect("a length"), 50);
}

#[test]
fn a_sync_in_the_background_fails_when_the_disk_ends() {
    let store = MemoryStore::default();
    let disk = open(&store);
    let file = disk.create(&path("f")).expect("created");
    // Nothing is created any more, so the sync waits.
    store.set_faults(|_, _| Fault::Lost);
    file.write_at(b"x", 0).expect("written");
    let waiting = sync_later(&*file);
    assert!(waiting.try_recv().is_err());
    disk.abandon();
    assert!(waiting.recv().expect("it ends").is_err());
    let refused = sync_later(&*file);
    assert!(refused.recv().expect("it ends").is_err());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "deletion takes real time")]
fn objects_that_no_file_needs_are_deleted() {
    let store = MemoryStore::default();
    let disk = open(&store);
    disk.create_dir(&path("d")).expect("created");
    let kept = disk.create(&path("d/kept")).expect("created");
    for round in 0..60u64 {
        let name = path(&format!("d/f{round}"));
        let file = disk.create(&name).expect("created");
        let part = vec![round as u8 + 1; 1 << 20];
        for index in 0..2 {
            file.write_at(&part, index << 20).expect("written");
            kept.write_at(&[round as u8], round * 2 + index).expect("written");
        }
        file.sync().expect("synced");
        disk.remove(&name).expect("removed");
    }
    let began = oxbus_system::instant();
    let bytes = || store.bytes();
    while bytes() > 64 << 20 && began.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(bytes() <= 64 << 20, "{} bytes are left", bytes());
    let mut first = [9; 4];
    kept.read_at(&mut first, 0).expect("read");
    assert_eq!(first, [0, 0, 1, 1]);
}

#[test]
fn a_bound_limits_the_objects_that_are_created() {
    let store = MemoryStore::default();
    let options = LaneDiskOptions {
        creates_per_second_max: Some(20.0),
        ..LaneDiskOptions::default()
    };
    let (disk, _) = LaneDisk::open(Arc::new(store.clone()), options).expect("opened");
    let file = disk.create(&path("f")).expect("created");
    let began = oxbus_system::instant();
    let writes = AtomicU64::new(0);
    while began.elapsed().as_millis() < 1000 {
        file.write_at(&[1], writes.fetch_add(1, Ordering::Relaxed))
            .expect("written");
        file.sync().expect("synced");
    }
    let allowed = 8.0 + 20.0 * began.elapsed().as_secs_f64();
    let creates = store.requests()["create"] as f64;
    assert!(creates <= allowed, "{creates} objects, and {allowed} are allowed");
}
