// SPDX-License-Identifier: Apache-2.0
//! Changed or missing files cause an error or a shorter log, never another entry.

use super::*;
use crate::Wait;

/// A log whose last segment contains a few synced entries and a few that were only written.
pub(super) fn with_a_tail() -> (FaultDisk, u64, u64) {
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    for _ in 0..2 {
        append(&log, Level::Synced).expect("appended");
    }
    for number in [3u64, 4] {
        // Short entries, so that every byte can be damaged.
        log.append(
            Lsn(number),
            &number.to_le_bytes(),
            SpaceClass::Adds,
            Level::Written,
            None,
            &Wait::FOREVER,
        )
        .expect("buffered");
        log.commit(Lsn(number), Level::Written, &Wait::FOREVER)
            .expect("written");
    }
    log.commit(Lsn(4), Level::Synced, &Wait::FOREVER).expect("synced");
    for number in [5u64, 6] {
        log.append(
            Lsn(number),
            &number.to_le_bytes(),
            SpaceClass::Adds,
            Level::Written,
            None,
            &Wait::FOREVER,
        )
        .expect("buffered");
        log.commit(Lsn(number), Level::Written, &Wait::FOREVER)
            .expect("written");
    }
    let left = disk.after_kill();
    (left, 4, 6)
}

pub(super) fn tail_entry(lsn: u64) -> Vec<u8> {
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
    let whole = disk.bytes(&path).expect("it exists");
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
                Ok((log, content, replayed)) => {
                    for (index, (lsn, bytes)) in content.entries.iter().enumerate() {
                        assert_eq!(lsn.0, index as u64 + 1);
                        assert_eq!(*bytes, tail_entry(lsn.0), "byte {at} bit {bit}");
                    }
                    // A later frame proves that entry 4 was synced, so only later entries may be lost.
                    assert!(
                        last_of(&content) >= 4,
                        "byte {at} bit {bit}: lost {}",
                        last_of(&content)
                    );
                    assert!(last_of(&content) == 6 || replayed.torn_bytes > 0);
                    assert_eq!(log.next_lsn().0, last_of(&content) + 1);
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
    let whole = disk.bytes(&path).expect("it exists");
    let used = whole.iter().rposition(|byte| *byte != 0).expect("not empty") + 1;
    for len in (0..used).filter(|len| *len < 64 || *len > 4090) {
        let disk = disk.after_kill();
        disk.set_bytes(&path, whole[..len].to_vec());
        let Ok((_, content, _)) = try_open(&disk) else { continue };
        for (lsn, bytes) in &content.entries {
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
    swapped.set_bytes(&paths[0], disk.bytes(&paths[1]).expect("it exists"));
    let older = disk.after_kill();
    older.set_bytes(&paths[2], disk.bytes(&paths[0]).expect("it exists"));
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
    let error = FileLog::open(
        Arc::new(disk.clone()),
        Path::new(DIR),
        other,
        &mut ReplayedLog::default(),
    );
    assert!(matches!(
        error,
        Err(OpenError::Header {
            error: HeaderError::Misplaced,
            ..
        })
    ));
    let path = segment_paths(&disk).remove(0);
    let mut bytes = disk.bytes(&path).expect("it exists");
    bytes[8] = 9;
    disk.set_bytes(&path, bytes);
    let error = try_open(&disk).expect_err("newer");
    assert!(error.to_string().contains("format=9"), "{error}");
}

#[test]
fn a_snapshot_with_zeroed_pages_is_damaged() {
    // Found by the fuzz target `recover`: zeros after the header were read as an empty snapshot.
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    append(&log, Level::Synced).expect("appended");
    log.put_snapshot(Lsn(1), &mut parts([vec![7; 900]]))
        .expect("the snapshot is written");
    drop(log);
    let path = Path::new(DIR).join("00000000000000000001.snapshot");
    let mut bytes = disk.bytes(&path).expect("it exists");
    bytes[header::HEADER_BYTES..].fill(0);
    disk.set_bytes(&path, bytes);
    let error = try_open(&disk).expect_err("damaged");
    assert!(error.to_string().contains("is missing"), "{error}");
}

#[test]
fn segments_that_end_before_the_snapshot_are_damaged() {
    // Found by the fuzz target `recover`: such a log opened, accepted entries in a new segment, and could never be
    // opened again.
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    for _ in 0..2 {
        append(&log, Level::Synced).expect("appended");
    }
    log.put_snapshot(Lsn(2), &mut parts([b"two".to_vec()]))
        .expect("the snapshot is written");
    // A close would remove the segment.
    let disk = disk.after_kill();
    let path = segment_paths(&disk).remove(0);
    let mut bytes = disk.bytes(&path).expect("it exists");
    // The first frame has 56 bytes.
    bytes.truncate(header::HEADER_BYTES + 56 + 10);
    disk.set_bytes(&path, bytes);
    let error = try_open(&disk).expect_err("damaged");
    assert!(error.to_string().contains("first lost entry=2"), "{error}");
    // Without any segment nothing contradicts the snapshot.
    disk.remove(&path).expect("removed");
    let (log, content, _) = open(&disk);
    assert_eq!((content.snapshot.is_some(), log.next_lsn()), (true, Lsn(3)));
}
