// SPDX-License-Identifier: Apache-2.0
//! The journal against a disk that fails, loses power and forgets.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::*;
use crate::disk::LocalDisk;
use crate::fault::{Fault, FaultDisk};

const DIR: &str = "/journal";
const ID: ShardId = ShardId {
    store: *b"0123456789abcdef",
    shard: 3,
};

/// What an open showed.
#[derive(Debug, Default, PartialEq, Eq, Clone)]
struct Shown {
    snapshot: Option<(Lsn, Vec<u8>)>,
    entries: Vec<(Lsn, Vec<u8>)>,
}

impl Replay for Shown {
    fn snapshot(&mut self, covered: Lsn, bytes: &[u8]) {
        assert!(self.entries.is_empty(), "the snapshot comes first");
        self.snapshot = Some((covered, bytes.to_vec()));
    }

    fn entry(&mut self, lsn: Lsn, entry: &[u8]) {
        self.entries.push((lsn, entry.to_vec()));
    }
}

/// Small segments, so that a few entries need several.
fn options(salt: u32) -> FileLogOptions {
    FileLogOptions {
        segment_bytes_min: 16 << 10,
        segment_bytes_max: 64 << 10,
        ..FileLogOptions::new(ID, salt)
    }
}

fn try_open(disk: &FaultDisk) -> Result<(FileLog, Shown, Replayed), OpenError> {
    static SALT: AtomicU64 = AtomicU64::new(1);
    let salt = SALT.fetch_add(0x1234_5677, Ordering::Relaxed) as u32;
    let mut shown = Shown::default();
    let opened = FileLog::open(Arc::new(disk.clone()), Path::new(DIR), options(salt), &mut shown)?;
    Ok((opened.log, shown, opened.replayed))
}

fn open(disk: &FaultDisk) -> (FileLog, Shown, Replayed) {
    try_open(disk).expect("the log opens")
}

/// Entry number `lsn`: bytes that no other entry has, of a length that varies and sometimes fills much of a segment.
fn entry(lsn: u64) -> Vec<u8> {
    let len = match lsn % 7 {
        0 => 0,
        3 => 20_000,
        5 => 1_500,
        other => other as usize * 13,
    };
    (0..len)
        .map(|at| (lsn.wrapping_mul(31) ^ (at as u64 * 7)) as u8)
        .collect()
}

fn append(log: &FileLog, level: Level) -> Result<Lsn, AppendError> {
    let lsn = log.next_lsn();
    log.append(lsn, &entry(lsn.0), Room::Adds, level, None)?;
    log.commit(lsn, level)?;
    Ok(lsn)
}

fn check_entries(shown: &Shown, from: u64) {
    for (index, (lsn, bytes)) in shown.entries.iter().enumerate() {
        assert_eq!(lsn.0, from + index as u64, "no gap");
        assert!(*bytes == entry(lsn.0), "entry {} is as it was written", lsn.0);
    }
}

fn last_of(shown: &Shown) -> u64 {
    shown.entries.last().map_or(0, |(lsn, _)| lsn.0)
}

fn segment_paths(disk: &FaultDisk) -> Vec<PathBuf> {
    let mut paths = disk.paths();
    paths.retain(|path| path.extension().is_some_and(|it| it == "journal"));
    paths
}

#[test]
fn entries_survive_a_reopen() {
    let disk = FaultDisk::new();
    for round in 0..4u64 {
        let (log, shown, replayed) = open(&disk);
        assert_eq!(log.epoch(), round + 1, "every owner has an epoch of its own");
        assert_eq!((last_of(&shown), replayed.entries), (round * 20, round * 20));
        check_entries(&shown, 1);
        for _ in 0..20 {
            append(&log, Level::Synced).expect("appended");
        }
        log.close().expect("closed");
        let refused = log.append(log.next_lsn(), b"x", Room::Adds, Level::Written, None);
        assert_eq!(refused, Err(AppendError::Unavailable(Failure::Closed)));
    }
    assert!(segment_paths(&disk).len() >= 4);
}

#[test]
fn real_files_hold_the_same() {
    let dir = std::env::temp_dir().join(format!("oxbus-journal-{}", std::process::id()));
    let mut last = 0;
    for round in 0..3 {
        let mut shown = Shown::default();
        let opened =
            FileLog::open(Arc::new(LocalDisk), &dir, FileLogOptions::new(ID, round), &mut shown).expect("opens");
        check_entries(&shown, 1);
        assert_eq!(last_of(&shown), last);
        for _ in 0..15 {
            last = append(&opened.log, Level::Synced).expect("appended").0;
        }
    }
    std::fs::remove_dir_all(&dir).expect("removed");
}

#[test]
fn a_wrong_number_is_a_conflict() {
    let (log, ..) = open(&FaultDisk::new());
    for wrong in [0, 2, 99] {
        let refused = log.append(Lsn(wrong), b"x", Room::Adds, Level::Written, None);
        assert_eq!(refused, Err(AppendError::Conflict { next: Lsn(1) }));
    }
    assert_eq!(append(&log, Level::Written), Ok(Lsn(1)));
}

#[test]
fn callbacks_run_once_and_after_their_level() {
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    let log = Arc::new(log);
    let ended = Arc::new(Mutex::new(Vec::new()));
    // Short entries: a long one would have those before it written.
    let short = |number: u64| number.to_le_bytes();
    for number in 1..=10u64 {
        let (seen, level) = (
            Arc::clone(&ended),
            if number % 2 == 0 { Level::Synced } else { Level::Written },
        );
        let done: Done = Box::new(move |result| seen.lock().expect("unpoisoned").push(result.expect("appended")));
        log.append(Lsn(number), &short(number), Room::Adds, level, Some(done))
            .expect("buffered");
    }
    assert!(ended.lock().expect("unpoisoned").is_empty(), "nothing is written yet");
    log.commit(Lsn(10), Level::Written).expect("written");
    let written: Vec<Lsn> = ended.lock().expect("unpoisoned").clone();
    assert_eq!(written, [1, 3, 5, 7, 9].map(Lsn));
    log.commit(Lsn(10), Level::Synced).expect("synced");
    assert_eq!(ended.lock().expect("unpoisoned").len(), 10);
}

#[test]
fn many_senders_share_frames_and_lose_nothing() {
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    let (threads, each) = (8, 150);
    let conflicts = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (log, conflicts) = (&log, &conflicts);
            scope.spawn(move || {
                let level = if thread % 2 == 0 { Level::Synced } else { Level::Written };
                for _ in 0..each {
                    loop {
                        let lsn = log.next_lsn();
                        match log.append(lsn, &entry(lsn.0), Room::Adds, level, None) {
                            Ok(()) => {
                                log.commit(lsn, level).expect("committed");
                                assert!(log.reached(level) >= lsn);
                                break;
                            }
                            Err(AppendError::Conflict { .. }) => {
                                conflicts.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                }
            });
        }
    });
    log.close().expect("closed");
    let (_, shown, replayed) = open(&disk.after_power_cut(0));
    check_entries(&shown, 1);
    assert_eq!(last_of(&shown), threads * each);
    assert!(replayed.frames <= replayed.entries);
}

#[test]
fn reading_back_begins_anywhere() {
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    for _ in 0..40 {
        append(&log, Level::Written).expect("appended");
    }
    for from in [1, 2, 17, 40] {
        let mut shown = Shown::default();
        log.read(Lsn(from), &mut |lsn, bytes| {
            shown.entry(lsn, bytes);
            true
        })
        .expect("read");
        check_entries(&shown, from);
        assert_eq!(last_of(&shown), 40);
    }
    let mut first = None;
    log.read(Lsn(5), &mut |lsn, _| {
        first = Some(lsn);
        false
    })
    .expect("read");
    assert_eq!(first, Some(Lsn(5)));
}

#[test]
fn a_snapshot_stands_for_what_came_before() {
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    for _ in 0..60 {
        append(&log, Level::Written).expect("appended");
    }
    let before = log.disk_bytes();
    let chunks = [b"one ".to_vec(), Vec::new(), b"two".to_vec()];
    log.put_snapshot(Lsn(50), &mut chunks.into_iter()).expect("kept");
    log.truncate_before(Lsn(51)).expect("let go");
    assert!(log.disk_bytes() < before);
    for _ in 0..5 {
        append(&log, Level::Synced).expect("appended");
    }
    drop(log);
    for _ in 0..2 {
        let (log, shown, _) = open(&disk.after_power_cut(1));
        assert_eq!(shown.snapshot, Some((Lsn(50), b"one two".to_vec())));
        check_entries(&shown, 51);
        assert_eq!((last_of(&shown), log.next_lsn()), (65, Lsn(66)));
    }
}

/// What the script was promised.
#[derive(Debug, Default)]
struct Promised {
    opened: bool,
    written: u64,
    synced: u64,
    attempted: u64,
    /// The last entry that a snapshot surely covers.
    covered: u64,
}

/// Two owners, entries of all sizes, a snapshot and a truncation, until something fails.
fn script(disk: &FaultDisk) -> Promised {
    let mut promised = Promised::default();
    for owner in 0..2 {
        let Ok((log, ..)) = try_open(disk) else { return promised };
        promised.opened = true;
        for step in 0..9u64 {
            let level = if step % 3 == 2 { Level::Synced } else { Level::Written };
            promised.attempted = log.next_lsn().0;
            match append(&log, level) {
                Ok(lsn) => {
                    promised.written = lsn.0;
                    promised.synced = log.reached(Level::Synced).0;
                }
                Err(AppendError::Unknown(_)) => {
                    let next = log.append(log.next_lsn(), b"x", Room::Frees, Level::Written, None);
                    assert!(
                        matches!(next, Err(AppendError::Unavailable(_))),
                        "a failed log takes nothing"
                    );
                    assert!(log.close().is_err());
                    return promised;
                }
                Err(_) => {
                    promised.attempted -= 1;
                    return promised;
                }
            }
        }
        if owner == 1 {
            let at = Lsn(promised.written - 3);
            if log
                .put_snapshot(at, &mut std::iter::once(at.0.to_le_bytes().to_vec()))
                .is_ok()
            {
                promised.covered = at.0;
                promised.synced = promised.synced.max(at.0);
                let _ = log.truncate_before(at.next());
            }
            promised.synced = promised.synced.max(log.reached(Level::Synced).0);
            if append(&log, Level::Synced).is_ok() {
                promised.written += 1;
                promised.synced = promised.written;
            }
            promised.attempted = promised.written + 1;
        }
    }
    promised
}

/// Opens what is left, twice, and compares it with what was promised.
fn check_left(disk: &FaultDisk, promised: &Promised, at_least: u64, what: &str) {
    let mut known = None;
    for round in 0..2 {
        let (log, shown, _) = try_open(disk).unwrap_or_else(|error| panic!("{what}: {error} {promised:?}"));
        let covered = shown.snapshot.as_ref().map_or(0, |(lsn, _)| lsn.0);
        if let Some((lsn, bytes)) = &shown.snapshot {
            assert_eq!(bytes[..], lsn.0.to_le_bytes(), "{what}");
        }
        assert!(covered >= promised.covered, "{what}: the snapshot is gone");
        check_entries(&shown, covered + 1);
        let last = last_of(&shown).max(covered);
        assert!(last >= at_least, "{what}: lost {last} < {at_least} {promised:?}");
        assert!(last <= promised.attempted, "{what}: a ghost {last} {promised:?}");
        assert_eq!(log.next_lsn(), Lsn(last + 1), "{what}");
        assert_eq!(
            *known.get_or_insert((round, last)),
            (0, last),
            "{what}: the second open finds the same"
        );
        known = Some((0, last));
    }
}

#[test]
fn a_crash_at_every_call_loses_nothing_acknowledged() {
    let calls = {
        let disk = FaultDisk::new();
        let promised = script(&disk);
        assert_eq!(promised.written, 19, "the script runs through");
        disk.calls()
    };
    assert!(calls > 60, "{calls} calls");
    let faults = [
        Fault::Kill,
        Fault::PowerCut,
        Fault::ShortWrite,
        Fault::Errno(5),
        Fault::Errno(28),
        Fault::Errno(4),
    ];
    for fault in faults {
        for call in 0..calls {
            let disk = FaultDisk::new();
            disk.fail_at(call, fault);
            let promised = script(&disk);
            let what = format!("{fault:?} at call {call}");
            if fault != Fault::PowerCut {
                check_left(&disk.after_kill(), &promised, promised.written, &what);
            }
            for seed in 0..3 {
                check_left(&disk.after_power_cut(seed), &promised, promised.synced, &what);
            }
        }
    }
}

#[test]
fn a_crash_during_recovery_loses_nothing_either() {
    let disk = FaultDisk::new();
    let promised = script(&disk);
    let calls = {
        let disk = disk.after_power_cut(5);
        drop(open(&disk));
        disk.calls()
    };
    for call in 0..calls {
        for fault in [Fault::Kill, Fault::PowerCut, Fault::Errno(5)] {
            let disk = disk.after_power_cut(5);
            disk.fail_at(call, fault);
            drop(try_open(&disk));
            check_left(
                &disk.after_kill(),
                &promised,
                promised.synced,
                &format!("{fault:?} at {call}"),
            );
            check_left(
                &disk.after_power_cut(call),
                &promised,
                promised.synced,
                &format!("{fault:?} at {call}"),
            );
        }
    }
}

/// A log whose last segment holds a few synced entries and a few that were only written.
fn with_a_tail() -> (FaultDisk, u64, u64) {
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    for _ in 0..2 {
        append(&log, Level::Synced).expect("appended");
    }
    for number in [3u64, 4] {
        // Short ones, so that every byte can be damaged.
        log.append(Lsn(number), &number.to_le_bytes(), Room::Adds, Level::Written, None)
            .expect("buffered");
        log.commit(Lsn(number), Level::Written).expect("written");
    }
    log.commit(Lsn(4), Level::Synced).expect("synced");
    for number in [5u64, 6] {
        log.append(Lsn(number), &number.to_le_bytes(), Room::Adds, Level::Written, None)
            .expect("buffered");
        log.commit(Lsn(number), Level::Written).expect("written");
    }
    let left = disk.after_kill();
    (left, 4, 6)
}

fn tail_entry(lsn: u64) -> Vec<u8> {
    if lsn <= 2 {
        entry(lsn)
    } else {
        lsn.to_le_bytes().to_vec()
    }
}

#[test]
fn damage_at_every_bit_of_the_tail_is_an_error_or_a_shorter_log() {
    let (disk, ..) = with_a_tail();
    let path = segment_paths(&disk).pop().expect("a segment");
    let whole = disk.bytes(&path).expect("there");
    let used = whole.iter().rposition(|byte| *byte != 0).expect("not empty") + 1;
    let mut errors = 0;
    for at in (0..64).chain(4096..used) {
        for bit in 0..8 {
            let disk = disk.after_kill();
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << bit;
            disk.set_bytes(&path, damaged);
            match try_open(&disk) {
                Err(_) => errors += 1,
                Ok((log, shown, replayed)) => {
                    for (index, (lsn, bytes)) in shown.entries.iter().enumerate() {
                        assert_eq!(lsn.0, index as u64 + 1);
                        assert_eq!(*bytes, tail_entry(lsn.0), "byte {at} bit {bit}");
                    }
                    // A later frame tells that entry 4 was synced, so only what came after it may go.
                    assert!(last_of(&shown) >= 4, "byte {at} bit {bit}: lost {}", last_of(&shown));
                    assert!(last_of(&shown) == 6 || replayed.torn_bytes > 0);
                    assert_eq!(log.next_lsn().0, last_of(&shown) + 1);
                }
            }
        }
    }
    assert!(errors > 0);
}

#[test]
fn a_log_cut_at_every_byte_is_shorter_or_an_error() {
    let (disk, ..) = with_a_tail();
    let path = segment_paths(&disk).pop().expect("a segment");
    let whole = disk.bytes(&path).expect("there");
    let used = whole.iter().rposition(|byte| *byte != 0).expect("not empty") + 1;
    for len in (0..used).filter(|len| *len < 64 || *len > 4090) {
        let disk = disk.after_kill();
        disk.set_bytes(&path, whole[..len].to_vec());
        let Ok((_, shown, _)) = try_open(&disk) else { continue };
        for (lsn, bytes) in &shown.entries {
            assert_eq!(*bytes, tail_entry(lsn.0), "cut at {len}");
        }
    }
}

#[test]
fn missing_and_foreign_files_are_refused() {
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    for _ in 0..40 {
        append(&log, Level::Synced).expect("appended");
    }
    drop(log);
    let paths = segment_paths(&disk);
    assert!(paths.len() >= 3);
    let swapped = disk.after_kill();
    swapped.set_bytes(&paths[0], disk.bytes(&paths[1]).expect("there"));
    let older = disk.after_kill();
    older.set_bytes(&paths[2], disk.bytes(&paths[0]).expect("there"));
    let missing = disk.after_kill();
    missing.remove(&paths[1]).expect("removed");
    let first_missing = disk.after_kill();
    first_missing.remove(&paths[0]).expect("removed");
    let empty = disk.after_kill();
    empty.set_bytes(&paths[0], Vec::new());
    let foreign = disk.after_kill();
    foreign.set_bytes(&paths[0], b"#!/bin/sh\n".repeat(1000));
    for (disk, what) in [
        (swapped, "swapped"),
        (older, "older"),
        (missing, "missing"),
        (first_missing, "first missing"),
        (empty, "empty"),
        (foreign, "foreign"),
    ] {
        let before: Vec<_> = disk.paths().iter().map(|path| disk.bytes(path)).collect();
        let error = try_open(&disk).err().unwrap_or_else(|| panic!("{what} opens"));
        assert!(error.to_string().contains(".journal"), "{what}: {error}");
        let after: Vec<_> = disk.paths().iter().map(|path| disk.bytes(path)).collect();
        assert!(before == after, "{what}: nothing is changed");
    }
}

#[test]
fn another_shard_and_a_newer_format_are_refused() {
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    append(&log, Level::Synced).expect("appended");
    drop(log);
    let other = ShardId { shard: 4, ..ID };
    let other = FileLogOptions {
        id: other,
        ..options(1)
    };
    let error = FileLog::open(Arc::new(disk.clone()), Path::new(DIR), other, &mut Shown::default());
    assert!(matches!(
        error,
        Err(OpenError::Header {
            error: HeaderError::Misplaced,
            ..
        })
    ));
    let path = segment_paths(&disk).remove(0);
    let mut bytes = disk.bytes(&path).expect("there");
    bytes[8] = 9;
    disk.set_bytes(&path, bytes);
    let error = try_open(&disk).expect_err("newer");
    assert!(error.to_string().contains("format=9"), "{error}");
}

#[test]
fn a_full_disk_refuses_what_adds_and_takes_what_frees() {
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    for _ in 0..5 {
        append(&log, Level::Synced).expect("appended");
    }
    disk.set_capacity(Some(0));
    let mut refused = None;
    for _ in 0..200 {
        if let Err(error) = append(&log, Level::Synced) {
            refused = Some(error);
            break;
        }
    }
    assert_eq!(refused, Some(AppendError::Full), "in the end there is no room");
    let last = log.next_lsn();
    for _ in 0..500 {
        let lsn = log.next_lsn();
        log.append(lsn, b"complete", Room::Frees, Level::Synced, None)
            .expect("taken");
        log.commit(lsn, Level::Synced).expect("synced");
    }
    assert_eq!(log.next_lsn().0, last.0 + 500, "no number is lost by a refusal");
    disk.set_capacity(None);
    log.prepare().expect("there is room again");
    append(&log, Level::Synced).expect("appended");
    drop(log);
    let (_, shown, _) = open(&disk);
    assert_eq!(last_of(&shown), last.0 + 500);
}

#[test]
fn one_entry_may_be_longer_than_a_segment() {
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    append(&log, Level::Written).expect("appended");
    let long = vec![7; 4 << 20];
    log.append(Lsn(2), &long, Room::Adds, Level::Synced, None)
        .expect("taken");
    log.commit(Lsn(2), Level::Synced).expect("synced");
    append(&log, Level::Synced).expect("appended");
    drop(log);
    let (_, shown, _) = open(&disk);
    assert!(shown.entries[1].1 == long);
    assert_eq!(shown.entries[2].1, entry(3));
}

#[test]
fn what_nobody_waits_for_is_synced_too() {
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    let log = Arc::new(log);
    let flusher = Flusher::start(2, std::time::Duration::from_millis(1)).expect("started");
    flusher.add(&log);
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let done: Done = Box::new(move |result| sender.send(result).expect("somebody waits"));
    log.append(Lsn(1), b"one", Room::Adds, Level::Synced, Some(done))
        .expect("taken");
    assert_eq!(
        receiver.recv_timeout(std::time::Duration::from_secs(60)),
        Ok(Ok(Lsn(1)))
    );
    drop(flusher);
    let (_, shown, _) = open(&disk.after_power_cut(3));
    assert_eq!(last_of(&shown), 1);
}

#[test]
fn a_failed_disk_does_not_stop_the_flusher() {
    let (broken, sound) = (FaultDisk::new(), FaultDisk::new());
    let (first, ..) = open(&broken);
    let (second, ..) = open(&sound);
    let (first, second) = (Arc::new(first), Arc::new(second));
    // One thread for both.
    let flusher = Flusher::start(1, std::time::Duration::from_millis(1)).expect("started");
    flusher.add(&first);
    flusher.add(&second);
    broken.fail_at(broken.calls(), Fault::Errno(5));
    let (sender, receiver) = std::sync::mpsc::sync_channel(2);
    for (log, number) in [(&first, 1u8), (&second, 2)] {
        let sender = sender.clone();
        let done: Done = Box::new(move |result| sender.send((number, result.is_ok())).expect("somebody waits"));
        log.append(Lsn(1), b"one", Room::Adds, Level::Synced, Some(done))
            .expect("taken");
    }
    let mut ended = [(); 2].map(|()| {
        receiver
            .recv_timeout(std::time::Duration::from_secs(60))
            .expect("both end")
    });
    ended.sort_unstable();
    assert_eq!(ended, [(1, false), (2, true)]);
}
