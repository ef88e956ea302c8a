// SPDX-License-Identifier: Apache-2.0
//! Views of an open log have all entries up to the noted one, or say that it must be noted again, and keep nothing that
//! a full disk needs.

use std::collections::BTreeSet;

use super::draining::{drain, drained, full_on};
use super::*;
use crate::file::copy::FileView;

/// The content that a copy of the viewed files opens with.
fn content_of(views: &[FileView]) -> ReplayedLog {
    let disk = FaultDisk::new();
    disk.create_dir(Path::new(DIR)).expect("created");
    for view in views {
        let mut bytes = vec![0; view.len() as usize];
        assert_eq!(view.read_at(&mut bytes, 0).expect("read"), bytes.len());
        let file = disk.create(&Path::new(DIR).join(view.name())).expect("created");
        file.write_all_at(&bytes, 0).expect("written");
    }
    open(&disk).1
}

/// A log with a first snapshot on a full disk, and the number of its entries.
fn full() -> (FaultDisk, FileLog, usize) {
    let disk = FaultDisk::new();
    FileLog::create(&disk, Path::new(DIR), ID, &mut std::iter::empty()).expect("created");
    full_on(disk)
}

fn view(log: &FileLog, last: Lsn) -> Option<Vec<FileView>> {
    log.view_until(last, &Wait::FOREVER).expect("viewed")
}

fn last_lsn(log: &FileLog) -> Lsn {
    Lsn(log.next_lsn().0 - 1)
}

/// Drains numbers from `from` on until a fold has replaced entries. Returns the last number.
fn drain_until_folded(log: &FileLog, from: u64) -> u64 {
    let folded = |log: &FileLog| {
        let current = log.commits.with_writer(|writer| writer.current.clone());
        current.and_then(|segment| segment.header.resumes.map(|_| segment.header.segment))
    };
    let before = folded(log);
    let mut number = from;
    loop {
        drain(log, number).expect("drained");
        if folded(log).is_some_and(|segment| Some(segment) != before) {
            return number;
        }
        number += 1;
    }
}

#[test]
fn each_view_of_a_drained_disk_has_the_entries_until_then() {
    let (_disk, log, kept) = full();
    for number in 1..=3_000 {
        drain(&log, number).expect("drained");
        if number % 97 == 0 {
            let views = view(&log, last_lsn(&log)).expect("nothing was folded since");
            assert_eq!(drained(&content_of(&views)), ((1..=number).collect(), kept));
        }
    }
}

#[test]
fn a_fold_after_the_noted_entry_is_told() {
    let (_disk, log, _) = full();
    let number = drain_until_folded(&log, 1);
    drain(&log, number + 1).expect("drained");
    let noted = last_lsn(&log);
    drain_until_folded(&log, number + 2);
    assert!(view(&log, noted).is_none());
    assert!(view(&log, last_lsn(&log)).is_some());
}

#[test]
fn a_fold_after_the_noted_entry_is_told_if_only_draining_segments_are_left() {
    let (disk, log, _) = full();
    let number = drain_until_folded(&log, 1);
    // A snapshot leaves only the segment that drains.
    let at = last_lsn(&log);
    disk.set_capacity(None);
    log.put_snapshot(at, &mut parts([vec![1; 8]])).expect("written");
    log.truncate_before(at.next()).expect("truncated");
    disk.set_capacity(Some(0));
    drain(&log, number + 1).expect("drained");
    let noted = last_lsn(&log);
    drain_until_folded(&log, number + 2);
    let finished = log.commits.with_writer(|writer| writer.finished.len());
    assert_eq!(finished, 0, "only the folded segment is left");
    assert!(view(&log, noted).is_none());
}

#[test]
fn a_fold_of_later_entries_alone_changes_nothing() {
    let (_disk, log, kept) = full();
    let noted = last_lsn(&log);
    let number = drain_until_folded(&log, 1);
    assert!(number > 1);
    let views = view(&log, noted).expect("the noted entries are there");
    assert_eq!(drained(&content_of(&views)), (BTreeSet::new(), kept));
}

#[test]
fn a_view_does_not_keep_a_full_disk_from_being_drained() {
    let (_disk, log, kept) = full();
    let number = drain_until_folded(&log, 1);
    let views = view(&log, last_lsn(&log)).expect("viewed");
    for number in number + 1..=20_000 {
        drain(&log, number).unwrap_or_else(|error| panic!("{number}: {error:?}"));
    }
    assert_eq!(drained(&content_of(&views)), ((1..=number).collect(), kept));
}

#[test]
fn snapshots_of_two_copies_are_told_apart_by_any_part() {
    let before = FaultDisk::new();
    let (log, ..) = open(&before);
    append(&log, Level::Synced).expect("appended");
    drop(log);
    let identity_of = |content: [Vec<u8>; 3]| {
        let disk = before.after_kill();
        let (log, ..) = open(&disk);
        let at = append(&log, Level::Synced).expect("appended");
        log.put_snapshot(at, &mut parts(content)).expect("written");
        let path = snapshot::path_of(Path::new(DIR), at);
        let view = FileView::of_file(&disk, &path).expect("opened");
        (view.name().to_owned(), view.len(), view.identity().expect("read"))
    };
    let same = || [vec![1; 8], vec![2; 5_000], vec![3; 8]];
    let one = identity_of(same());
    assert_eq!(one, identity_of(same()), "equal files are shared");
    for part in 0..3 {
        let mut other = same();
        *other[part].last_mut().expect("some bytes") ^= 1;
        let other = identity_of(other);
        assert_eq!(
            (&one.0, one.1),
            (&other.0, other.1),
            "the name and the length are the same"
        );
        assert_ne!(one.2, other.2, "part {part}");
    }
}
