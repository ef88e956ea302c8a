// SPDX-License-Identifier: Apache-2.0
//! Many callers leave their syncs to the committers.
//!
//! One caller is enough to use the committers here, and the maximum wait is a day unless a test sets it. So every
//! commit is done by the committers, or by callers that were woken because there are no committers.

use crate::Wait;
use std::sync::Barrier;
use std::time::Duration;

use super::super::committers::{CommitterLimits, Committers};
use super::*;
use crate::injected::{DiskFault, InjectedDisk, Injection};

const A_DAY: Duration = Duration::from_secs(24 * 3600);
const THREADS: u64 = 24;
const EACH: u64 = 40;

fn committers(threads_max: usize, max_wait: Duration) -> Committers {
    Committers::new(CommitterLimits {
        threads_max,
        callers_min: 1,
        max_wait,
    })
}

fn served(disk: &FaultDisk, committers: &Committers) -> FileLog {
    let (log, ..) = open(disk);
    committers.serve(&log.commits);
    log
}

/// Appends the next entry while other threads do the same.
fn append_among_others(log: &FileLog) {
    loop {
        match append(log, Level::Synced) {
            Ok(lsn) => break assert!(log.reached(Level::Synced) >= lsn),
            Err(AppendError::Conflict { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// Appends from many threads. Each thread appends its share, alternating between the logs.
fn append_from_many_threads(logs: &[FileLog]) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for turn in 0..EACH {
                    append_among_others(&logs[(thread + turn) as usize % logs.len()]);
                }
            });
        }
    });
}

fn check_all_there(disks: &[FaultDisk]) {
    let mut entries = 0;
    for disk in disks {
        let (_, content, _) = open(&disk.after_power_cut(0));
        check_entries(&content, 1);
        entries += last_of(&content);
    }
    assert_eq!(entries, THREADS * EACH);
}

#[test]
fn entries_acknowledged_to_many_callers_survive_a_power_cut() {
    let disks = [FaultDisk::new(), FaultDisk::new(), FaultDisk::new()];
    let committers = committers(2, A_DAY);
    let logs = disks.each_ref().map(|disk| served(disk, &committers));
    append_from_many_threads(&logs);
    check_all_there(&disks);
}

#[test]
fn callers_continue_when_the_committers_end() {
    let disks = [FaultDisk::new(), FaultDisk::new()];
    let committers = committers(2, A_DAY);
    let logs = disks.each_ref().map(|disk| served(disk, &committers));
    std::thread::scope(|scope| {
        scope.spawn(|| append_from_many_threads(&logs));
        while logs[0].reached(Level::Synced) < Lsn(5) {
            std::thread::yield_now();
        }
        drop(committers);
    });
    check_all_there(&disks);
}

#[test]
fn callers_get_the_error_of_a_failing_disk() {
    let disk = FaultDisk::new();
    let committers = committers(1, A_DAY);
    let log = served(&disk, &committers);
    append_among_others(&log);
    disk.fail_at(disk.calls(), crate::fault::SimulatedFault::Errno(5));
    let begin = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                begin.wait();
                loop {
                    match append(&log, Level::Synced) {
                        Err(AppendError::Conflict { .. }) => {}
                        other => {
                            break assert!(matches!(
                                other,
                                Err(AppendError::Unknown(_) | AppendError::Unavailable(_))
                            ));
                        }
                    }
                }
            });
        }
    });
    let (_, content, _) = open(&disk.after_power_cut(0));
    check_entries(&content, 1);
    assert!(last_of(&content) >= 1);
}

#[test]
fn callers_do_not_wait_for_committers_on_other_hung_disks() {
    let injection = Arc::new(Injection::default());
    let committers = committers(2, Duration::from_millis(1));
    let hanging: Vec<_> = (0..3)
        .map(|salt| {
            let disk = InjectedDisk::new(Arc::new(FaultDisk::new()), Arc::clone(&injection));
            let opened = FileLog::open(
                Arc::new(disk),
                Path::new(DIR),
                options(salt),
                &mut ReplayedLog::default(),
            );
            let log = opened.expect("the log opens").log;
            append(&log, Level::Synced).expect("the disk answers");
            committers.serve(&log.commits);
            log
        })
        .collect();
    // Unlike with a stall, the disk does not report that calls hang.
    injection.begin(DiskFault::Latency(A_DAY), 0);
    let disks = [FaultDisk::new()];
    let logs = disks.each_ref().map(|disk| served(disk, &committers));
    std::thread::scope(|scope| {
        for log in &hanging {
            scope.spawn(|| append(log, Level::Synced).expect("the disk answers after the fault"));
            scope.spawn(|| {
                log.commit(Lsn(2), Level::Synced, &Wait::FOREVER)
                    .expect("the disk answers after the fault");
            });
        }
        for log in &hanging {
            while !log.is_disk_busy() {
                std::thread::yield_now();
            }
        }
        append_from_many_threads(&logs);
        injection.end();
    });
    check_all_there(&disks);
    for log in &hanging {
        assert_eq!(log.reached(Level::Synced), Lsn(2));
    }
}
