// SPDX-License-Identifier: Apache-2.0
//! A full disk can be drained, even across reopens, with a reserve that does not grow, because draining entries are
//! folded.

use crate::Wait;
use std::collections::BTreeSet;

use super::*;
use crate::fault::SimulatedFault;

/// A draining entry: the numbers of a range are removed. Applying it twice is harmless.
fn drain_entry(from: u64, to: u64) -> Vec<u8> {
    [from.to_le_bytes(), to.to_le_bytes()].concat()
}

fn range_of(entry: &[u8]) -> std::ops::RangeInclusive<u64> {
    let number = |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().expect("eight bytes"));
    number(0)..=number(8)
}

/// One entry with the effect of adjacent `entries`.
fn sum(entries: &[Vec<u8>]) -> Vec<u8> {
    let all: BTreeSet<u64> = entries.iter().flat_map(|entry| range_of(entry)).collect();
    let (first, last) = (all.first().expect("some"), all.last().expect("some"));
    assert_eq!(last - first + 1, all.len() as u64, "no gap");
    drain_entry(*first, *last)
}

/// Drains one number. Folds when there is no space, as the broker does.
pub(super) fn drain(log: &FileLog, number: u64) -> Result<(), AppendError> {
    let entry = drain_entry(number, number);
    let lsn = loop {
        let lsn = log.next_lsn();
        match log.append(lsn, &entry, SpaceClass::Frees, Level::Synced, None, &Wait::FOREVER) {
            Err(AppendError::Full) if log.fold(&mut |entries| sum(entries))? => {}
            other => break other.map(|_| lsn)?,
        }
    };
    log.commit(lsn, Level::Synced, &Wait::FOREVER)
}

/// The drained numbers in a log, and the number of its other entries.
pub(super) fn drained(content: &ReplayedLog) -> (BTreeSet<u64>, usize) {
    let (drained, kept): (Vec<_>, Vec<_>) = content.entries.iter().partition(|(_, entry)| entry.len() == 16);
    (
        drained.iter().flat_map(|(_, entry)| range_of(entry)).collect(),
        kept.len(),
    )
}

/// A log on a full disk, and the number of its entries.
fn full() -> (FaultDisk, FileLog, usize) {
    full_on(FaultDisk::new())
}

pub(super) fn full_on(disk: FaultDisk) -> (FaultDisk, FileLog, usize) {
    let (log, ..) = open(&disk);
    let mut kept = 0;
    for _ in 0..3 {
        append(&log, Level::Synced).expect("appended");
        kept += 1;
    }
    disk.set_capacity(Some(0));
    while append(&log, Level::Synced).is_ok() {
        kept += 1;
    }
    (disk, log, kept)
}

fn bytes_of(disk: &FaultDisk) -> usize {
    let paths = disk.paths();
    paths
        .iter()
        .map(|path| disk.bytes(path).expect("it exists").len())
        .sum()
}

#[test]
fn a_full_disk_is_drained_for_ever_and_takes_no_more_room() {
    let (disk, log, kept) = full();
    let before = bytes_of(&disk);
    for number in 1..=20_000 {
        drain(&log, number).unwrap_or_else(|error| panic!("{number}: {error:?}"));
    }
    assert!(bytes_of(&disk) <= before, "{} > {before}", bytes_of(&disk));
    assert!(matches!(append(&log, Level::Synced), Err(AppendError::Full)));
    let (_, content, replayed) = open(&disk.after_kill());
    assert_eq!(replayed.torn_bytes, 0);
    assert_eq!(drained(&content), ((1..=20_000).collect(), kept));
    let mut salvaged = ReplayedLog::default();
    let found = salvage(&disk.after_kill(), Path::new(DIR), None, &mut salvaged).expect("listed");
    assert!(found.is_whole(), "{found:?}");
    assert_eq!(salvaged, content, "a salvage finds the same");
    disk.set_capacity(None);
    log.prepare().expect("room again");
    append(&log, Level::Synced).expect("appended");
    drain(&log, 20_001).expect("drained");
    drop(log);
    let (_, content, _) = open(&disk);
    assert_eq!(drained(&content), ((1..=20_001).collect(), kept + 1));
}

#[test]
fn each_owner_can_drain_a_full_disk() {
    let (mut disk, mut log, kept) = full();
    let mut number = 0;
    for owner in 0..40u64 {
        if owner % 2 == 0 {
            drop(log);
        }
        // In the other rounds the owner is killed; its copy of the disk is no longer used.
        disk = disk.after_kill();
        disk.set_capacity(Some(bytes_of(&disk) as u64));
        let content;
        (log, content, _) = open(&disk);
        assert_eq!(drained(&content), ((1..=number).collect(), kept), "owner {owner}");
        for _ in 0..=owner * 37 % 500 {
            number += 1;
            drain(&log, number).unwrap_or_else(|error| panic!("owner {owner}, {number}: {error:?}"));
        }
    }
    assert!(number > 5_000, "{number}");
}

#[test]
fn a_crash_at_every_call_of_a_drain_keeps_what_was_acknowledged() {
    let script = |disk: &FaultDisk, log: &FileLog| {
        let mut acknowledged = 0;
        while acknowledged < 900 && drain(log, acknowledged + 1).is_ok() {
            acknowledged += 1;
            if acknowledged == 600 {
                disk.set_capacity(None);
                let _ = log.prepare();
                let at = Lsn(log.next_lsn().0 - 1);
                let snapshot = vec![acknowledged as u8; 8];
                let _ = log.put_snapshot(at, &mut parts([snapshot]));
            }
        }
        acknowledged
    };
    let (disk, log, kept) = full();
    let begin = disk.calls();
    assert_eq!(script(&disk, &log), 900);
    let end = disk.calls();
    drop(log);
    for fault in [SimulatedFault::Kill, SimulatedFault::PowerCut, SimulatedFault::Errno(5)] {
        // Tries every call around a fold, and a sample of the others.
        for call in (begin..end).filter(|call| call % 7 == 0 || (call - begin) % 400 < 40) {
            let (disk, log, _) = full();
            disk.fail_at(call, fault);
            let acknowledged = script(&disk, &log);
            let left = [
                disk.after_kill(),
                disk.after_power_cut(call),
                disk.after_power_cut(call + 1),
            ];
            for (at, left) in left
                .iter()
                .enumerate()
                .skip(usize::from(fault == SimulatedFault::PowerCut))
            {
                let what = format!("{fault:?} at {call}, {at}");
                let (_, content, _) = try_open(left).unwrap_or_else(|error| panic!("{what}: {error}"));
                let (gone, others) = drained(&content);
                let from = if content.snapshot.is_some() { 601 } else { 1 };
                for number in from..=acknowledged {
                    assert!(gone.contains(&number), "{what}: {number} of {acknowledged} is back");
                }
                assert!(gone.last().is_none_or(|last| *last <= acknowledged + 1), "{what}");
                assert!(
                    content.snapshot.is_some() || others == kept,
                    "{what}: {others} of {kept}"
                );
            }
        }
    }
}

#[test]
fn the_reserve_is_there_before_the_first_entry_and_after_every_end() {
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    append(&log, Level::Synced).expect("appended");
    let reserve = |disk: &FaultDisk| {
        let mut paths = disk.paths();
        paths.retain(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("reserve-"))
        });
        paths
            .iter()
            .map(|path| disk.bytes(path).expect("it exists").len())
            .collect::<Vec<_>>()
    };
    assert_eq!(reserve(&disk), [16 << 10; 2]);
    assert_eq!(reserve(&disk.after_kill()), [16 << 10; 2]);
    let killed = disk.after_kill();
    let (reopened, ..) = open(&killed);
    assert_eq!(reserve(&killed), [16 << 10; 2]);
    drop(reopened);
    drop(log);
    assert_eq!(reserve(&disk), [16 << 10; 2]);
    let (log, ..) = open(&disk);
    log.release_reserve().expect("given up");
    assert!(reserve(&disk).is_empty());
}

#[test]
fn the_next_owner_truncates_unused_space() {
    let mut disk = FaultDisk::new();
    for owner in 0..50u64 {
        let (log, content, _) = open(&disk);
        assert_eq!(last_of(&content), owner);
        let lsn = log.next_lsn();
        log.append(lsn, &entry(1), SpaceClass::Adds, Level::Synced, None, &Wait::FOREVER)
            .expect("appended");
        log.commit(lsn, Level::Synced, &Wait::FOREVER).expect("synced");
        disk = disk.after_kill();
    }
    let (_log, ..) = open(&disk);
    let journals: Vec<usize> = segment_paths(&disk)
        .iter()
        .map(|path| disk.bytes(path).expect("it exists").len())
        .collect();
    assert_eq!(journals.len(), 50);
    assert!(journals.iter().all(|bytes| *bytes < 4096 + 128), "{journals:?}");
}
