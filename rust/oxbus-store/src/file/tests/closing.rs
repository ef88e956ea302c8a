// SPDX-License-Identifier: Apache-2.0
//! The files after a close, and how the next owner uses them.

use super::*;
use crate::fault::SimulatedFault;

/// Writes a snapshot of all entries and drops the covered segments.
fn snapshot_all(log: &FileLog) {
    let last = Lsn(log.next_lsn().0 - 1);
    log.put_snapshot(last, &mut parts([b"all".to_vec()]))
        .expect("the snapshot is written");
    log.truncate_before(last.next()).expect("truncated");
}

#[test]
fn a_close_removes_a_segment_that_the_snapshot_covers() {
    let disk = FaultDisk::new();
    let mut expected = 0;
    for owner in 1..=3 {
        let (log, content, replayed) = open(&disk);
        assert_eq!((log.next_lsn(), replayed.entries), (Lsn(expected + 1), 0));
        assert_eq!(content.snapshot.map(|(lsn, _)| lsn.0).unwrap_or_default(), expected);
        for _ in 0..30 {
            append(&log, Level::Written).expect("appended");
        }
        expected += 30;
        snapshot_all(&log);
        assert_eq!(segment_paths(&disk).len(), 1);
        let before = log.disk_bytes();
        log.close().expect("closed");
        assert_eq!(segment_paths(&disk), Vec::<PathBuf>::new(), "owner {owner}");
        assert!(log.disk_bytes() < before);
    }
    // An open creates no segment. The first append does.
    drop(open(&disk));
    assert_eq!(segment_paths(&disk).len(), 0);
    let (log, ..) = open(&disk);
    append(&log, Level::Synced).expect("appended");
    drop(log);
    assert_eq!(segment_paths(&disk).len(), 1);
    let (log, content, _) = open(&disk.after_power_cut(1));
    check_entries(&content, expected + 1);
    assert_eq!((last_of(&content), log.next_lsn()), (expected + 1, Lsn(expected + 2)));
}

#[test]
fn an_append_during_a_close_is_rejected_or_kept() {
    for round in 0..3000 {
        let disk = FaultDisk::new();
        let (log, ..) = open(&disk);
        append(&log, Level::Synced).expect("appended");
        snapshot_all(&log);
        let (ready, begin) = (AtomicBool::new(false), AtomicBool::new(false));
        let appended = std::thread::scope(|scope| {
            let appending = scope.spawn(|| {
                ready.store(true, Ordering::Release);
                while !begin.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                append(&log, Level::Written).is_ok()
            });
            while !ready.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            begin.store(true, Ordering::Release);
            // The append happens before, during or after the close.
            for _ in 0..round * 2 {
                std::hint::spin_loop();
            }
            log.close().expect("closed");
            appending.join().expect("no panic")
        });
        let (next, content, _) = open(&disk);
        check_entries(&content, 2);
        assert!(!appended || next.next_lsn() == Lsn(3), "round {round}");
    }
}

#[test]
fn the_epoch_of_an_owner_that_left_a_segment_is_not_reused() {
    for call in 0..40 {
        let disk = FaultDisk::new();
        let (log, ..) = open(&disk);
        append(&log, Level::Synced).expect("appended");
        snapshot_all(&log);
        log.close().expect("closed");
        let (log, ..) = open(&disk);
        disk.fail_at(disk.calls() + call, SimulatedFault::Errno(5));
        let appended = append(&log, Level::Written);
        let epoch = log.epoch();
        drop(log);
        if segment_paths(&disk).is_empty() {
            assert!(appended.is_err(), "an acknowledged entry is in a segment");
            continue;
        }
        // The next owner appends nothing, so it leaves no trace.
        let disk = disk.after_kill();
        open(&disk).0.close().expect("closed");
        assert!(open(&disk).0.epoch() > epoch, "call {call}");
    }
}

#[test]
fn the_epoch_rises_above_epochs_without_a_trace() {
    let disk = FaultDisk::new();
    for (above, expected) in [(0, 1), (41, 42), (7, 43)] {
        let options = FileLogOptions {
            epoch_above: above,
            ..options(9)
        };
        let opened = FileLog::open(
            Arc::new(disk.clone()),
            Path::new(DIR),
            options,
            &mut ReplayedLog::default(),
        );
        let log = opened.expect("the log opens").log;
        assert_eq!(log.epoch(), expected);
        append(&log, Level::Synced).expect("appended");
    }
}
