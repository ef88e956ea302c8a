// SPDX-License-Identifier: Apache-2.0
//! A disk that hangs: callers can stop waiting, and an abandoned write never counts.

use super::*;
use crate::Wait;
use crate::injected::{DiskFault, InjectedDisk, Injection};

/// A log on a disk that hangs on request.
fn hanging() -> (FaultDisk, Arc<Injection>, FileLog) {
    let below = FaultDisk::new();
    let injection = Arc::new(Injection::default());
    let disk = InjectedDisk::new(Arc::new(below.clone()), Arc::clone(&injection));
    let opened = FileLog::open(Arc::new(disk), Path::new(DIR), options(7), &mut ReplayedLog::default());
    (below, injection, opened.expect("the log opens").log)
}

/// Runs `work` with a wait that ends at the second check.
fn timing_out<R>(work: impl FnOnce(&Wait<'_>) -> R) -> R {
    let asked = AtomicBool::new(false);
    work(&Wait::until(&|| asked.swap(true, Ordering::Relaxed)))
}

fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

#[test]
fn a_caller_that_times_out_ends_the_log() {
    for (after, level) in [(0, Level::Written), (1, Level::Synced)] {
        let (below, injection, log) = hanging();
        let log = Arc::new(log);
        append(&log, Level::Synced).expect("the disk answers");
        injection.begin(DiskFault::Stall, after);
        let lsn = log.next_lsn();
        log.append(lsn, &entry(lsn.0), SpaceClass::Adds, level, None, &Wait::FOREVER)
            .expect("appended");
        // Stop waiting during the hanging operation: the write is the first operation, the sync the second.
        let (asked, turn) = (Arc::clone(&log), log.disk_operations().0 + 1 + after);
        let hangs = move || asked.disk_operations() == (turn, turn - 1);
        let left = log.commit(lsn, level, &Wait::until(&hangs));
        assert_eq!(left, Err(AppendError::Unknown(LogFailure::Unresponsive)));
        assert!(log.is_disk_busy(), "the call has not returned");
        let refused = log.append(log.next_lsn(), b"x", SpaceClass::Adds, level, None, &Wait::FOREVER);
        assert_eq!(refused, Err(AppendError::Unavailable(LogFailure::Unresponsive)));
        // The late write arrives after the stall, and the restarted log must not contain it.
        injection.end();
        until(|| !log.is_disk_busy());
        let mut kept = parts([b"the acknowledged state".to_vec()]);
        let restarted = FileLog::restart(&log, options(8), &mut kept).expect("the disk answers");
        append(&restarted, Level::Synced).expect("the disk answers");
        drop((restarted, log));
        let (_, content, _) = open(&below);
        assert_eq!(content.snapshot, Some((lsn, b"the acknowledged state".to_vec())));
        assert_eq!(content.entries, [(lsn.next(), entry(lsn.0 + 1))]);
    }
}

#[test]
fn a_caller_without_a_timeout_is_served() {
    let (_, injection, log) = hanging();
    append(&log, Level::Synced).expect("the disk answers");
    injection.begin(DiskFault::Stall, 0);
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| log.commit(Lsn(2), Level::Synced, &Wait::FOREVER)))
            .collect();
        log.append(Lsn(2), &entry(2), SpaceClass::Adds, Level::Synced, None, &Wait::FOREVER)
            .expect("appended");
        until(|| log.is_disk_busy());
        injection.end();
        for thread in waiting {
            thread.join().expect("no panic").expect("synced");
        }
    });
    until(|| !log.is_disk_busy());
    append(&log, Level::Synced).expect("the disk answers");
}

#[test]
fn a_caller_that_stops_waiting_for_room_has_written_nothing() {
    let (_, injection, log) = hanging();
    injection.begin(DiskFault::Stall, 0);
    assert!(!log.has_room(10, SpaceClass::Adds), "there is no segment yet");
    assert_eq!(
        timing_out(|wait| log.make_room(10, SpaceClass::Adds, wait)),
        Err(AppendError::TimedOut)
    );
    let refused = timing_out(|wait| log.append(Lsn(1), b"x", SpaceClass::Adds, Level::Written, None, wait));
    assert_eq!(refused, Err(AppendError::TimedOut));
    assert_eq!(log.next_lsn(), Lsn(1));
    injection.end();
    log.make_room(10, SpaceClass::Adds, &Wait::FOREVER)
        .expect("the disk answers");
    assert_eq!(append(&log, Level::Synced), Ok(Lsn(1)));
}

#[test]
fn a_stalled_log_still_works() {
    let (below, _, log) = hanging();
    for stalled in [true, false, true] {
        log.set_stalled(stalled);
        for _ in 0..20 {
            append(&log, Level::Synced).expect("the disk answers");
        }
    }
    log.close().expect("synced");
    let (_, content, _) = open(&below);
    check_entries(&content, 1);
    assert_eq!(last_of(&content), 60);
}

#[test]
fn an_open_reports_the_epoch_of_each_entry() {
    #[derive(Default)]
    struct Epochs(Vec<(u64, Lsn)>, u64);
    impl Replay for Epochs {
        fn snapshot(&mut self, _: Lsn, _: &[u8], _: Option<&ExtentLocation>) {}
        fn epoch(&mut self, epoch: u64) {
            self.1 = epoch;
        }
        fn entry(&mut self, lsn: Lsn, _: &[u8], _: Option<&ExtentLocation>) {
            self.0.push((self.1, lsn));
        }
    }
    let disk = FaultDisk::new();
    let mut written = Vec::new();
    for _ in 0..3 {
        let (log, _, _) = open(&disk);
        for _ in 0..2 {
            written.push((log.epoch(), append(&log, Level::Synced).expect("the disk answers")));
        }
    }
    let mut content = Epochs::default();
    FileLog::open(Arc::new(disk), Path::new(DIR), options(9), &mut content).expect("the log opens");
    assert_eq!(content.0, written);
}

#[test]
fn a_panic_at_the_disk_ends_the_log() {
    let (log, ..) = open(&FaultDisk::new());
    append(&log, Level::Synced).expect("appended");
    log.append(Lsn(2), b"two", SpaceClass::Adds, Level::Synced, None, &Wait::FOREVER)
        .expect("appended");
    let panics = || log.commits.with_writer(|_| panic!("the test panics"));
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).expect_err("it panics");
    let failure = LogFailure::Panicked;
    assert_eq!(
        log.commit(Lsn(2), Level::Synced, &Wait::FOREVER),
        Err(AppendError::Unknown(failure))
    );
    assert_eq!(append(&log, Level::Written), Err(AppendError::Unavailable(failure)));
    assert!(!log.is_disk_busy());
}
