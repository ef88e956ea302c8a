// SPDX-License-Identifier: Apache-2.0
//! A script of three owners with a fault at every disk call: no acknowledged entry is lost, and no other entry
//! appears.

use super::*;
use crate::Wait;
use crate::fault::SimulatedFault;

/// The progress of the script as acknowledged by the log.
#[derive(Debug, Default)]
pub(super) struct ScriptProgress {
    opened: bool,
    written: u64,
    synced: u64,
    attempted: u64,
    /// The last entry that a snapshot certainly covers.
    covered: u64,
}

/// Runs three owners with entries of all sizes, three snapshots and truncations, a close that leaves only a snapshot,
/// and segments in recycled files, until a call fails.
pub(super) fn script(disk: &FaultDisk) -> ScriptProgress {
    let mut progress = ScriptProgress::default();
    for owner in 0..3 {
        let Ok((log, ..)) = try_open(disk) else { return progress };
        progress.opened = true;
        for step in 0..9u64 {
            let level = if step % 3 == 2 { Level::Synced } else { Level::Written };
            progress.attempted = log.next_lsn().0;
            match append(&log, level) {
                Ok(lsn) => {
                    progress.written = lsn.0;
                    progress.synced = log.reached(Level::Synced).0;
                }
                Err(AppendError::Unknown(_)) => {
                    let next = log.append(
                        log.next_lsn(),
                        b"x",
                        SpaceClass::Frees,
                        Level::Written,
                        None,
                        &Wait::FOREVER,
                    );
                    assert!(
                        matches!(next, Err(AppendError::Unavailable(_))),
                        "a failed log accepts no append"
                    );
                    assert!(log.close().is_err());
                    return progress;
                }
                Err(_) => {
                    progress.attempted -= 1;
                    return progress;
                }
            }
        }
        if owner > 0 {
            snapshot(&log, Lsn(progress.written - 3), &mut progress);
            progress.synced = progress.synced.max(log.reached(Level::Synced).0);
            for step in 0..34 {
                if step == 9 {
                    // This snapshot covers complete segments of this owner, whose files are recycled.
                    snapshot(&log, Lsn(progress.written), &mut progress);
                    progress.synced = progress.synced.max(log.reached(Level::Synced).0);
                }
                progress.attempted = progress.written + 1;
                if append(&log, Level::Synced).is_err() {
                    return progress;
                }
                progress.written += 1;
                progress.synced = progress.written;
            }
        }
        if owner == 0 {
            // This snapshot covers all entries, so the close leaves no segment.
            snapshot(&log, Lsn(progress.written), &mut progress);
        }
    }
    progress
}

fn snapshot(log: &FileLog, at: Lsn, progress: &mut ScriptProgress) {
    if log.put_snapshot(at, &mut parts([at.0.to_le_bytes().to_vec()])).is_ok() {
        progress.covered = at.0;
        progress.synced = progress.synced.max(at.0);
        let _ = log.truncate_before(at.next());
    }
}

/// Opens the remaining disk twice and compares the content with the progress.
fn check_left(disk: &FaultDisk, progress: &ScriptProgress, at_least: u64, what: &str) {
    let mut known = None;
    for round in 0..2 {
        let (log, content, _) = try_open(disk).unwrap_or_else(|error| panic!("{what}: {error} {progress:?}"));
        let covered = content.snapshot.as_ref().map_or(0, |(lsn, _)| lsn.0);
        if let Some((lsn, bytes)) = &content.snapshot {
            assert_eq!(bytes[..], lsn.0.to_le_bytes(), "{what}");
        }
        assert!(covered >= progress.covered, "{what}: the snapshot is lost");
        check_entries(&content, covered + 1);
        let last = last_of(&content).max(covered);
        assert!(last >= at_least, "{what}: lost {last} < {at_least} {progress:?}");
        assert!(last <= progress.attempted, "{what}: a ghost {last} {progress:?}");
        assert_eq!(log.next_lsn(), Lsn(last + 1), "{what}");
        assert_eq!(
            *known.get_or_insert((round, last)),
            (0, last),
            "{what}: the second open finds the same"
        );
        known = Some((0, last));
    }
}

/// The number of segments in recycled files.
fn recycled(disk: &FaultDisk) -> usize {
    let is_recycled = |path: &PathBuf| disk.bytes(path).is_some_and(|bytes| bytes[64] == 1);
    segment_paths(disk).iter().filter(|path| is_recycled(path)).count()
}

#[test]
fn a_crash_at_every_call_loses_nothing_acknowledged() {
    let calls = {
        let disk = FaultDisk::new();
        let progress = script(&disk);
        assert_eq!(progress.written, 95, "the script completes");
        assert!(recycled(&disk) > 0, "a segment is in a recycled file");
        disk.calls()
    };
    assert!(calls > 60, "{calls} calls");
    let faults = [
        SimulatedFault::Kill,
        SimulatedFault::PowerCut,
        SimulatedFault::ShortWrite,
        SimulatedFault::Errno(5),
        SimulatedFault::Errno(28),
        SimulatedFault::Errno(4),
    ];
    for fault in faults {
        for call in 0..calls {
            let disk = FaultDisk::new();
            disk.fail_at(call, fault);
            let progress = script(&disk);
            let what = format!("{fault:?} at call {call}");
            if fault != SimulatedFault::PowerCut {
                check_left(&disk.after_kill(), &progress, progress.written, &what);
            }
            for seed in 0..3 {
                check_left(&disk.after_power_cut(seed), &progress, progress.synced, &what);
            }
        }
    }
}

#[test]
fn a_crash_during_recovery_loses_nothing_either() {
    let disk = FaultDisk::new();
    let progress = script(&disk);
    let calls = {
        let disk = disk.after_power_cut(5);
        drop(open(&disk));
        disk.calls()
    };
    for call in 0..calls {
        for fault in [SimulatedFault::Kill, SimulatedFault::PowerCut, SimulatedFault::Errno(5)] {
            let disk = disk.after_power_cut(5);
            disk.fail_at(call, fault);
            drop(try_open(&disk));
            check_left(
                &disk.after_kill(),
                &progress,
                progress.synced,
                &format!("{fault:?} at {call}"),
            );
            check_left(
                &disk.after_power_cut(call),
                &progress,
                progress.synced,
                &format!("{fault:?} at {call}"),
            );
        }
    }
}
