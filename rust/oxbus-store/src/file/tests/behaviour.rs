// SPDX-License-Identifier: Apache-2.0
//! The behavior of a log on a working disk and on a full disk.

use crate::Wait;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use super::*;
use crate::disk::LocalDisk;

#[test]
fn entries_survive_a_reopen() {
    let disk = FaultDisk::new();
    for round in 0..4u64 {
        let (log, content, replayed) = open(&disk);
        assert_eq!(log.epoch(), round + 1, "every owner has a new epoch");
        assert_eq!((last_of(&content), replayed.entries), (round * 20, round * 20));
        check_entries(&content, 1);
        for _ in 0..20 {
            append(&log, Level::Synced).expect("appended");
        }
        log.close().expect("closed");
        let refused = log.append(
            log.next_lsn(),
            b"x",
            SpaceClass::Adds,
            Level::Written,
            None,
            &Wait::FOREVER,
        );
        assert_eq!(refused, Err(AppendError::Unavailable(LogFailure::Closed)));
    }
    assert!(segment_paths(&disk).len() >= 4);
}

#[test]
fn real_files_hold_the_same() {
    let dir = std::env::temp_dir().join(format!("oxbus-journal-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let mut last = 0;
    for round in 0..3 {
        let mut content = ReplayedLog::default();
        let opened =
            FileLog::open(Arc::new(LocalDisk), &dir, FileLogOptions::new(ID, round), &mut content).expect("opens");
        check_entries(&content, 1);
        assert_eq!(last_of(&content), last);
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
        let refused = log.append(Lsn(wrong), b"x", SpaceClass::Adds, Level::Written, None, &Wait::FOREVER);
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
    // Short entries, because a long one causes earlier entries to be written.
    let short = |number: u64| number.to_le_bytes();
    for number in 1..=10u64 {
        let (seen, level) = (
            Arc::clone(&ended),
            if number % 2 == 0 { Level::Synced } else { Level::Written },
        );
        let done: LevelCallback =
            Box::new(move |result| seen.lock().expect("unpoisoned").push(result.expect("appended")));
        log.append(
            Lsn(number),
            &short(number),
            SpaceClass::Adds,
            level,
            Some(done),
            &Wait::FOREVER,
        )
        .expect("buffered");
    }
    assert!(ended.lock().expect("unpoisoned").is_empty(), "nothing is written yet");
    log.commit(Lsn(10), Level::Written, &Wait::FOREVER).expect("written");
    let written: Vec<Lsn> = ended.lock().expect("unpoisoned").clone();
    assert_eq!(written, [1, 3, 5, 7, 9].map(Lsn));
    log.commit(Lsn(10), Level::Synced, &Wait::FOREVER).expect("synced");
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
                        match log.append(lsn, &entry(lsn.0), SpaceClass::Adds, level, None, &Wait::FOREVER) {
                            Ok(_) => {
                                log.commit(lsn, level, &Wait::FOREVER).expect("committed");
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
    let (_, content, replayed) = open(&disk.after_power_cut(0));
    check_entries(&content, 1);
    assert_eq!(last_of(&content), threads * each);
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
        let mut content = ReplayedLog::default();
        log.read(Lsn(from), &mut |lsn, bytes| {
            content.entry(lsn, bytes, None);
            true
        })
        .expect("read");
        check_entries(&content, from);
        assert_eq!(last_of(&content), 40);
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
    log.put_snapshot(Lsn(50), &mut parts(chunks))
        .expect("the snapshot is written");
    log.truncate_before(Lsn(51)).expect("truncated");
    assert!(log.disk_bytes() < before);
    for _ in 0..5 {
        append(&log, Level::Synced).expect("appended");
    }
    drop(log);
    for _ in 0..2 {
        let (log, content, _) = open(&disk.after_power_cut(1));
        assert_eq!(content.snapshot, Some((Lsn(50), b"one two".to_vec())));
        check_entries(&content, 51);
        assert_eq!((last_of(&content), log.next_lsn()), (65, Lsn(66)));
    }
}

#[test]
fn a_full_disk_rejects_adds_and_accepts_frees() {
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
    assert_eq!(refused, Some(AppendError::Full), "the disk is full at last");
    let last = log.next_lsn();
    // Entries that free space use the drain reserve.
    for _ in 0..100 {
        let lsn = log.next_lsn();
        log.append(lsn, b"complete", SpaceClass::Frees, Level::Synced, None, &Wait::FOREVER)
            .expect("appended");
        log.commit(lsn, Level::Synced, &Wait::FOREVER).expect("synced");
    }
    assert_eq!(log.next_lsn().0, last.0 + 100, "a rejected append uses no number");
    disk.set_capacity(None);
    log.prepare().expect("there is space again");
    append(&log, Level::Synced).expect("appended");
    drop(log);
    let (_, content, _) = open(&disk);
    assert_eq!(last_of(&content), last.0 + 100);
}

#[test]
fn one_entry_may_be_longer_than_a_segment() {
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    append(&log, Level::Written).expect("appended");
    let long = vec![7; 4 << 20];
    log.append(Lsn(2), &long, SpaceClass::Adds, Level::Synced, None, &Wait::FOREVER)
        .expect("appended");
    log.commit(Lsn(2), Level::Synced, &Wait::FOREVER).expect("synced");
    append(&log, Level::Synced).expect("appended");
    drop(log);
    let (_, content, _) = open(&disk);
    assert!(content.entries[1].1 == long);
    assert_eq!(content.entries[2].1, entry(3));
}
