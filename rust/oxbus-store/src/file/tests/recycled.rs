// SPDX-License-Identifier: Apache-2.0
//! Segments in recycled files: the rest of an earlier segment is never read as data.

use super::*;
use crate::Wait;

/// A log whose last segment is in a recycled file and ends with four short entries, two of them synced. Also returns
/// the number of the last synced entry.
fn with_a_recycled_tail() -> (FaultDisk, u64) {
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    let mut last = 0;
    while last < 200 {
        last = append(&log, Level::Synced).expect("appended").0;
        if last % 20 == 0 {
            let at = Lsn(last);
            log.put_snapshot(at, &mut parts([at.0.to_le_bytes().to_vec()]))
                .expect("the snapshot is written");
            log.truncate_before(at.next()).expect("truncated");
        }
        // The segment has several entries, and bytes of the earlier segment follow them.
        if last > 20 && last % 7 == 4 && is_recycled(&newest(&disk)) {
            break;
        }
    }
    assert!(is_recycled(&newest(&disk)), "a file was recycled");
    for number in last + 1..=last + 4 {
        log.append(
            Lsn(number),
            &short(number),
            SpaceClass::Adds,
            Level::Written,
            None,
            &Wait::FOREVER,
        )
        .expect("buffered");
        let level = if number == last + 2 {
            Level::Synced
        } else {
            Level::Written
        };
        log.commit(Lsn(number), level, &Wait::FOREVER).expect("committed");
    }
    (disk.after_kill(), last + 2)
}

fn short(lsn: u64) -> Vec<u8> {
    lsn.to_le_bytes().to_vec()
}

fn is_recycled(segment: &[u8]) -> bool {
    segment[64] == 1
}

/// The bytes of the newest segment.
fn newest(disk: &FaultDisk) -> Vec<u8> {
    let path = segment_paths(disk).pop().expect("a segment");
    disk.bytes(&path).expect("it exists")
}

/// The byte range of the last frame of a segment, which contains the entry `last`.
fn last_frame(segment: &[u8], last: u64) -> std::ops::Range<usize> {
    let bytes = [&1u32.to_le_bytes()[..], &last.to_le_bytes()].concat();
    let found = segment.windows(bytes.len()).rposition(|window| window == bytes);
    let start = found.expect("the header of the last frame") - 4;
    start..start + 32 + 16
}

#[test]
fn old_bytes_in_a_recycled_file_are_neither_torn_nor_damaged() {
    let (disk, synced) = with_a_recycled_tail();
    let end = last_frame(&newest(&disk), synced + 2).end;
    assert!(
        newest(&disk)[end..].iter().any(|byte| *byte != 0),
        "old bytes follow the last frame"
    );
    let salvaged = salvage(&disk, Path::new(DIR), Some(ID), &mut ReplayedLog::default()).expect("listed");
    assert!(salvaged.is_whole(), "{salvaged:?}");
    let (log, content, replayed) = open(&disk);
    assert_eq!(replayed.torn_bytes, 0);
    assert_eq!((last_of(&content), log.next_lsn()), (synced + 2, Lsn(synced + 3)));
}

#[test]
fn an_unfinished_frame_is_cut_once() {
    let (disk, synced) = with_a_recycled_tail();
    let path = segment_paths(&disk).pop().expect("a segment");
    let mut segment = newest(&disk);
    let frame = last_frame(&segment, synced + 2);
    segment[frame.end - 5] ^= 1;
    disk.set_bytes(&path, segment);
    let salvaged = salvage(&disk, Path::new(DIR), Some(ID), &mut ReplayedLog::default()).expect("listed");
    let bad: Vec<_> = salvaged.files.iter().flat_map(|file| &file.bad).cloned().collect();
    assert_eq!(bad.len(), 1);
    assert_eq!(bad[0], frame.start as u64..frame.end as u64);
    for torn_bytes in [frame.len() as u64, 0] {
        let (_, content, replayed) = open(&disk);
        assert_eq!((last_of(&content), replayed.torn_bytes), (synced + 1, torn_bytes));
    }
}

#[test]
fn damage_at_every_bit_of_a_recycled_tail_is_an_error_or_a_shorter_log() {
    let (disk, synced) = with_a_recycled_tail();
    let path = segment_paths(&disk).pop().expect("a segment");
    let whole = newest(&disk);
    let end = last_frame(&whole, synced + 2).end;
    let mut errors = 0;
    for at in (0..72).chain(end - 300..end + 300) {
        for bit in 0..8 {
            let disk = disk.after_kill();
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << bit;
            disk.set_bytes(&path, damaged);
            let Ok((log, content, _)) = try_open(&disk) else {
                errors += 1;
                continue;
            };
            for (lsn, bytes) in &content.entries {
                let written = if lsn.0 > synced - 2 { short(lsn.0) } else { entry(lsn.0) };
                assert!(*bytes == written, "byte {at} bit {bit}: entry {}", lsn.0);
            }
            let last = last_of(&content);
            assert!(last >= synced, "byte {at} bit {bit}: lost {last}");
            assert!(last == synced + 2 || at < end, "byte {at} bit {bit}: {last}");
            assert_eq!(log.next_lsn().0, last + 1);
        }
    }
    assert!(errors > 0);
}

#[test]
fn a_file_that_a_message_is_read_from_is_not_recycled() {
    let recycled_of = |disk: &FaultDisk| {
        disk.paths()
            .iter()
            .filter(|path| path.ends_with("0000000001.tmp"))
            .count()
    };
    for is_read in [true, false] {
        let disk = FaultDisk::new();
        let (log, ..) = open(&disk);
        let mut location = None;
        for lsn in 1..=10 {
            let appended = log.append(
                Lsn(lsn),
                &[7; 3000],
                SpaceClass::Adds,
                Level::Synced,
                None,
                &Wait::FOREVER,
            );
            log.commit(Lsn(lsn), Level::Synced, &Wait::FOREVER).expect("synced");
            location = location.or(appended.expect("appended"));
        }
        assert!(location.is_some());
        if !is_read {
            location = None;
        }
        let at = Lsn(10);
        log.put_snapshot(at, &mut parts([Vec::new()]))
            .expect("the snapshot is written");
        log.truncate_before(at.next()).expect("truncated");
        assert_eq!(recycled_of(&disk), usize::from(!is_read), "read: {is_read}");
        drop(location);
    }
}

#[test]
fn a_longer_spare_file_leaves_the_short_one_to_be_used() {
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    for _ in 0..60 {
        let last = append(&log, Level::Synced).expect("appended");
        if last.0.is_multiple_of(10) {
            log.put_snapshot(last, &mut parts([Vec::new()]))
                .expect("the snapshot is written");
            log.truncate_before(last.next()).expect("truncated");
        }
    }
    for long in 0..5u64 {
        let bytes = vec![7; (1 << 20) + long as usize * 100_000];
        let lsn = log.next_lsn();
        log.append(lsn, &bytes, SpaceClass::Adds, Level::Synced, None, &Wait::FOREVER)
            .expect("appended");
        log.commit(lsn, Level::Synced, &Wait::FOREVER).expect("synced");
        append(&log, Level::Synced).expect("appended");
    }
    let at = Lsn(log.next_lsn().0 - 1);
    log.put_snapshot(at, &mut parts([Vec::new()]))
        .expect("the snapshot is written");
    log.truncate_before(at.next()).expect("truncated");
    let files = disk.paths();
    let on_disk: usize = files
        .iter()
        .map(|path| disk.bytes(path).expect("it exists").len())
        .sum();
    assert_eq!(
        log.disk_bytes(),
        on_disk as u64,
        "the bytes of every file are counted: {files:?}"
    );
    drop(log);
    let left = disk.paths();
    let temporary = left
        .iter()
        .filter(|path| path.extension().is_some_and(|it| it == "tmp"));
    assert_eq!(temporary.count(), 2, "the drain reserve stays: {left:?}");
}

#[test]
fn on_a_full_disk_recycled_files_are_used_and_given_up() {
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    let mut last = 0;
    for _ in 0..60 {
        last = append(&log, Level::Synced).expect("appended").0;
    }
    log.put_snapshot(Lsn(last), &mut parts([Vec::new()]))
        .expect("the snapshot is written");
    log.truncate_before(Lsn(last + 1)).expect("truncated");
    disk.set_capacity(Some(0));
    let mut taken = 0;
    while append(&log, Level::Synced).is_ok() {
        taken += 1;
    }
    assert!(taken > 10, "{taken} entries in the recycled file");
    for _ in 0..100 {
        let lsn = log.next_lsn();
        log.append(lsn, b"complete", SpaceClass::Frees, Level::Synced, None, &Wait::FOREVER)
            .expect("appended");
        log.commit(lsn, Level::Synced, &Wait::FOREVER).expect("synced");
    }
}
