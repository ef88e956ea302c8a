// SPDX-License-Identifier: Apache-2.0
//! A disk in a store: its syncs end in the background, several are in progress, and a caller waits outside of it.

use std::io;
use std::sync::atomic::AtomicUsize;
use std::task::{Wake, Waker};

use super::*;
use crate::late_disk::LateDisk;

fn open_late() -> (LateDisk, FileLog) {
    let disk = LateDisk::default();
    let opened = FileLog::open(
        Arc::new(disk.clone()),
        Path::new(DIR),
        options(7),
        &mut ReplayedLog::default(),
    );
    (disk, opened.expect("the log opens").log)
}

/// Appends the next entry, and begins its sync as a caller does that has others to begin.
fn begin(log: &FileLog) -> Lsn {
    let lsn = log.next_lsn();
    log.append(
        lsn,
        &entry(lsn.0),
        SpaceClass::Adds,
        Level::Written,
        None,
        &Wait::FOREVER,
    )
    .expect("appended");
    log.commit_soon();
    lsn
}

fn is_over() -> Wait<'static> {
    Wait::until(&|| true)
}

#[test]
fn a_sync_begins_while_others_are_in_progress() {
    let (disk, log) = open_late();
    let entries = [begin(&log), begin(&log), begin(&log)];
    assert_eq!(disk.pending(), 3, "none waits for another");
    let (begun, ended) = log.disk_operations();
    assert_eq!(begun - ended, 3, "a store that does not answer is noticed");
    for lsn in entries {
        assert!(log.reached(Level::Synced) < lsn);
        disk.end_sync(Ok(()));
        assert_eq!(log.reached(Level::Synced), lsn);
        assert_eq!(log.commit(lsn, Level::Synced, &is_over()), Ok(()));
    }
    assert!(!log.is_disk_busy());
}

#[test]
fn callers_wait_outside_the_store() {
    let (disk, log) = open_late();
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..8)
            .map(|_| {
                let lsn = begin(&log);
                let log = &log;
                scope.spawn(move || log.commit(lsn, Level::Written, &Wait::FOREVER))
            })
            .collect();
        // A thread may begin the sync of an entry that another one appended.
        while log.reached(Level::Synced) < Lsn(8) {
            if disk.pending() > 0 {
                disk.end_sync(Ok(()));
            }
        }
        for thread in waiting {
            thread.join().expect("no panic").expect("synced");
        }
    });
    let (_, content, _) = super::open(disk.below());
    assert_eq!(content.entries.len(), 8);
    check_entries(&content, 1);
}

#[test]
fn a_caller_that_stops_waiting_ends_the_log() {
    let (disk, log) = open_late();
    let lsn = begin(&log);
    let unresponsive = AppendError::Unknown(LogFailure::Unresponsive);
    assert_eq!(log.commit(lsn, Level::Synced, &is_over()), Err(unresponsive));
    // The late answer changes nothing: the call was told that its outcome is unknown.
    disk.end_sync(Ok(()));
    let refused = log.append(
        log.next_lsn(),
        b"x",
        SpaceClass::Adds,
        Level::Synced,
        None,
        &Wait::FOREVER,
    );
    assert_eq!(refused, Err(AppendError::Unavailable(LogFailure::Unresponsive)));
}

#[test]
fn a_failed_sync_ends_the_log_and_tells_every_caller() {
    let (disk, log) = open_late();
    let (first, second) = (begin(&log), begin(&log));
    disk.end_sync(Err(io::ErrorKind::PermissionDenied.into()));
    for lsn in [first, second] {
        let failed = log.commit(lsn, Level::Synced, &Wait::FOREVER);
        assert!(
            matches!(failed, Err(AppendError::Unknown(LogFailure::Io { .. }))),
            "{failed:?}"
        );
    }
}

/// Counts how often it is woken.
#[derive(Default)]
struct WakeCount(AtomicUsize);

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_suspended_call_is_woken_once_its_entry_is_synced() {
    let (disk, log) = open_late();
    let (first, second) = (begin(&log), begin(&log));
    let count = Arc::new(WakeCount::default());
    let waker = Waker::from(Arc::clone(&count));
    let woken = || count.0.load(Ordering::SeqCst);
    for _ in 0..3 {
        // A call also asks to see whether its wait is over.
        assert!(!log.is_committed(second, Level::Synced, &waker));
    }
    disk.end_sync(Ok(()));
    assert!(log.is_committed(first, Level::Synced, &waker));
    assert_eq!(woken(), 0, "its own entry is not synced");
    disk.end_sync(Ok(()));
    assert_eq!(woken(), 1);
    assert!(log.is_committed(second, Level::Synced, &waker));
    assert_eq!(log.commit(second, Level::Synced, &is_over()), Ok(()));
}

#[test]
fn a_suspended_call_begins_the_sync_of_its_entry() {
    let (disk, log) = open_late();
    let lsn = log.next_lsn();
    log.append(lsn, b"x", SpaceClass::Adds, Level::Written, None, &Wait::FOREVER)
        .expect("appended");
    assert_eq!(disk.pending(), 0);
    assert!(!log.is_committed(lsn, Level::Written, Waker::noop()));
    assert_eq!(disk.pending(), 1);
    disk.end_sync(Ok(()));
}

#[test]
fn a_failed_sync_wakes_suspended_calls() {
    let (disk, log) = open_late();
    let lsn = begin(&log);
    let count = Arc::new(WakeCount::default());
    let waker = Waker::from(Arc::clone(&count));
    assert!(!log.is_committed(lsn, Level::Synced, &waker));
    disk.end_sync(Err(io::ErrorKind::PermissionDenied.into()));
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    assert!(log.is_committed(lsn, Level::Synced, &waker), "its outcome is known");
    log.commit(lsn, Level::Synced, &Wait::FOREVER)
        .expect_err("the sync failed");
}

#[test]
fn calls_of_a_disk_are_not_suspended() {
    let (log, ..) = super::open(&FaultDisk::new());
    let lsn = log.next_lsn();
    log.append(lsn, b"x", SpaceClass::Adds, Level::Written, None, &Wait::FOREVER)
        .expect("appended");
    assert!(log.is_committed(lsn, Level::Synced, Waker::noop()));
    assert_eq!(log.reached(Level::Synced), Lsn(0), "the caller syncs");
}

#[test]
fn an_answer_for_a_log_that_is_gone_does_no_harm() {
    let (disk, log) = open_late();
    let lsn = begin(&log);
    let _ = log.commit(lsn, Level::Synced, &is_over());
    drop(log);
    disk.end_sync(Ok(()));
}

#[test]
fn while_changes_wait_the_standby_makes_them() {
    let (disk, log) = open_late();
    disk.set_crowded(true);
    // The standby syncs in the foreground.
    append(&log, Level::Synced).expect("the standby serves it");
    assert_eq!(disk.pending(), 0);
}
