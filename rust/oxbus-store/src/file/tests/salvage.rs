// SPDX-License-Identifier: Apache-2.0
//! A salvage of logs that do not open: which entries it returns, and what it reports as lost.

use super::crash::script;
use super::damage::{tail_entry, with_a_tail};
use super::*;
use crate::fault::SimulatedFault;
use crate::file::header::HEADER_BYTES;

/// Salvages a log and checks that the disk is unchanged.
fn check_salvage(disk: &FaultDisk) -> (SalvageResult, ReplayedLog) {
    let all = || disk.paths().into_iter().map(|path| (disk.bytes(&path), path));
    let before: Vec<_> = all().collect();
    let calls = disk.calls();
    let mut content = ReplayedLog::default();
    let salvaged = salvage(disk, Path::new(DIR), None, &mut content).expect("the directory exists");
    assert_eq!(disk.calls(), calls, "nothing is written");
    assert!(all().eq(before), "nothing is changed");
    assert_eq!(
        salvaged.files.iter().map(|file| file.entries).sum::<u64>(),
        content.entries.len() as u64
    );
    (salvaged, content)
}

fn numbers(content: &ReplayedLog) -> Vec<u64> {
    content.entries.iter().map(|(lsn, _)| lsn.0).collect()
}

fn check_contents(content: &ReplayedLog) {
    for (lsn, bytes) in &content.entries {
        assert!(*bytes == entry(lsn.0), "entry {} is unchanged", lsn.0);
    }
}

fn report<'a>(salvaged: &'a SalvageResult, path: &Path) -> &'a SalvagedFile {
    let named = |file: &&SalvagedFile| Path::new(&file.name) == path.file_name().expect("a file");
    salvaged.files.iter().find(named).expect("reported")
}

/// The first entry of a segment.
fn first_of(disk: &FaultDisk, path: &Path) -> u64 {
    let bytes = disk.bytes(path).expect("it exists");
    u64::from_le_bytes(bytes[48..56].try_into().expect("eight bytes"))
}

/// A log of `entries` entries in several segments, each entry in its own frame.
fn written(entries: u64) -> FaultDisk {
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    for _ in 0..entries {
        append(&log, Level::Synced).expect("appended");
    }
    drop(log);
    disk
}

fn flip(disk: &FaultDisk, path: &Path, at: usize, bits: u8) {
    let mut bytes = disk.bytes(path).expect("it exists");
    bytes[at] ^= bits;
    disk.set_bytes(path, bytes);
}

#[test]
fn an_undamaged_log_is_salvaged_whole() {
    let disk = FaultDisk::new();
    assert_eq!(check_salvage(&disk), (SalvageResult::default(), ReplayedLog::default()));
    for owner in 0..3 {
        let (log, ..) = open(&disk);
        for _ in 0..20 {
            append(&log, Level::Written).expect("appended");
        }
        if owner == 1 {
            log.put_snapshot(Lsn(30), &mut parts([b"thirty".to_vec()]))
                .expect("the snapshot is written");
            log.truncate_before(Lsn(31)).expect("truncated");
        }
    }
    let (salvaged, content) = check_salvage(&disk);
    assert!(salvaged.is_whole(), "{salvaged:?}");
    assert_eq!((salvaged.id, salvaged.snapshot), (Some(ID), Some(Lsn(30))));
    let (_, opened, _) = open(&disk);
    assert_eq!(content, opened);
    assert_eq!(last_of(&content), 60);
}

#[test]
fn a_flipped_bit_loses_only_the_entries_of_its_frame() {
    let (disk, _, last) = with_a_tail();
    let path = segment_paths(&disk).pop().expect("a segment");
    let whole = disk.bytes(&path).expect("it exists");
    let used = whole.iter().rposition(|byte| *byte != 0).expect("not empty") + 1;
    for bit in HEADER_BYTES * 8..used * 8 {
        let disk = disk.after_kill();
        flip(&disk, &path, bit / 8, 1 << (bit % 8));
        let (salvaged, content) = check_salvage(&disk);
        for (lsn, bytes) in &content.entries {
            assert_eq!(*bytes, tail_entry(lsn.0), "bit {bit}");
        }
        let content = numbers(&content);
        let gone: Vec<u64> = (1..=last).filter(|lsn| !content.contains(lsn)).collect();
        assert_eq!((gone.len(), content.len() as u64), (1, last - 1), "bit {bit}");
        // No later frame proves that the last entry existed, but its bytes are reported.
        let lost = if gone == [last] {
            vec![]
        } else {
            vec![Lsn(gone[0])..=Lsn(gone[0])]
        };
        assert_eq!(salvaged.lost, lost, "bit {bit}");
        let bad = &report(&salvaged, &path).bad;
        assert_eq!(bad.len(), 1, "bit {bit}: {bad:?}");
        assert!(bad[0].contains(&(bit as u64 / 8)), "bit {bit}: {bad:?}");
    }
}

#[test]
fn an_interrupted_write_at_the_end_is_no_damage() {
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    for _ in 1..=3 {
        append(&log, Level::Synced).expect("appended");
    }
    drop(log);
    let path = segment_paths(&disk).pop().expect("a segment");
    let whole = disk.bytes(&path).expect("it exists");
    let used = whole.iter().rposition(|byte| *byte != 0).expect("not empty") + 1;
    let last_bytes = entry(3).len();
    for cut in (used - last_bytes..used).filter(|at| at % 512 == 0) {
        // A write ends at no other place, so there zeros are damage.
        for (cut, is_whole) in [(cut, true), (cut - 100, false)] {
            let disk = disk.after_kill();
            let mut bytes = whole.clone();
            bytes[cut..used].fill(0);
            disk.set_bytes(&path, bytes);
            let (salvaged, content) = check_salvage(&disk);
            assert_eq!(salvaged.is_whole(), is_whole, "cut at {cut}: {salvaged:?}");
            assert_eq!(numbers(&content), [1, 2]);
        }
    }
}

#[test]
fn a_flipped_bit_in_a_header_loses_nothing() {
    let disk = written(40);
    let path = segment_paths(&disk).remove(1);
    for bit in 0..64 * 8 {
        let disk = disk.after_kill();
        flip(&disk, &path, bit / 8, 1 << (bit % 8));
        let (salvaged, content) = check_salvage(&disk);
        check_entries(&content, 1);
        assert_eq!((last_of(&content), salvaged.lost.len()), (40, 0), "bit {bit}");
        assert_eq!(report(&salvaged, &path).problems.len(), 1, "bit {bit}");
        assert!(!salvaged.is_whole());
    }
}

#[test]
fn a_missing_segment_and_a_missing_header_are_reported() {
    let disk = written(40);
    let paths = segment_paths(&disk);
    assert!(paths.len() >= 4);
    let gone = first_of(&disk, &paths[1])..first_of(&disk, &paths[2]);
    let missing = disk.after_kill();
    missing.remove(&paths[1]).expect("removed");
    let zeroed = disk.after_kill();
    let mut bytes = disk.bytes(&paths[1]).expect("it exists");
    bytes[..HEADER_BYTES].fill(0);
    zeroed.set_bytes(&paths[1], bytes);
    let empty = disk.after_kill();
    empty.set_bytes(&paths[1], Vec::new());
    for (disk, is_there) in [(missing, false), (zeroed, true), (empty, true)] {
        let (salvaged, content) = check_salvage(&disk);
        check_contents(&content);
        let left: Vec<u64> = (1..=40).filter(|lsn| !gone.contains(lsn)).collect();
        assert_eq!(numbers(&content), left);
        assert_eq!(salvaged.lost, [Lsn(gone.start)..=Lsn(gone.end - 1)]);
        if is_there {
            assert_eq!(report(&salvaged, &paths[1]).problems.len(), 1);
            assert!(salvaged.missing_segments.is_empty());
        } else {
            assert_eq!(salvaged.missing_segments, [2..=2]);
        }
    }
}

#[test]
fn entries_before_the_first_segment_are_lost_without_a_snapshot() {
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    for _ in 0..60 {
        append(&log, Level::Written).expect("appended");
    }
    let chunks = [b"the state ".to_vec(), b"after fifty".to_vec()];
    log.put_snapshot(Lsn(50), &mut parts(chunks))
        .expect("the snapshot is written");
    log.truncate_before(Lsn(51)).expect("truncated");
    drop(log);
    let first = first_of(&disk, &segment_paths(&disk)[0]);
    let path = disk
        .paths()
        .into_iter()
        .find(|path| path.extension().is_some_and(|it| it == "snapshot"))
        .expect("the snapshot is written");
    let len = disk.bytes(&path).expect("it exists").len();
    for at in HEADER_BYTES..len {
        let disk = disk.after_kill();
        flip(&disk, &path, at, 0x10);
        let (salvaged, content) = check_salvage(&disk);
        assert_eq!((salvaged.snapshot, &content.snapshot), (None, &None), "byte {at}");
        assert_eq!(report(&salvaged, &path).problems.len(), 1);
        assert_eq!(report(&salvaged, &path).bad.len(), 1);
        check_contents(&content);
        assert_eq!(numbers(&content), (first..=60).collect::<Vec<u64>>());
        assert_eq!(salvaged.lost, [Lsn(1)..=Lsn(first - 1)]);
    }
    // An older complete snapshot is used instead.
    flip(&disk, &path, HEADER_BYTES + 9, 1);
    let older = FaultDisk::new();
    let (log, ..) = open(&older);
    append(&log, Level::Synced).expect("appended");
    append(&log, Level::Synced).expect("appended");
    log.put_snapshot(Lsn(2), &mut parts([b"two".to_vec()]))
        .expect("the snapshot is written");
    let name = Path::new(DIR).join("00000000000000000002.snapshot");
    disk.create(&name).expect("created");
    disk.set_bytes(&name, older.bytes(&name).expect("it exists"));
    let (salvaged, content) = check_salvage(&disk);
    assert_eq!(content.snapshot, Some((Lsn(2), b"two".to_vec())));
    assert_eq!(numbers(&content), (first..=60).collect::<Vec<u64>>());
    assert_eq!(salvaged.lost, [Lsn(3)..=Lsn(first - 1)]);
    // Without segments, the snapshot names still show which entries existed.
    for segment in segment_paths(&disk) {
        disk.remove(&segment).expect("removed");
    }
    assert_eq!(check_salvage(&disk).0.lost, [Lsn(3)..=Lsn(50)]);
}

#[test]
fn a_tail_cut_at_every_byte_gives_its_first_entries() {
    let (disk, _, last) = with_a_tail();
    let path = segment_paths(&disk).pop().expect("a segment");
    let whole = disk.bytes(&path).expect("it exists");
    let used = whole.iter().rposition(|byte| *byte != 0).expect("not empty") + 1;
    let mut before = 0;
    // The last frame ends with zeros.
    for len in 0..=used + 16 {
        let disk = disk.after_kill();
        disk.set_bytes(&path, whole[..len].to_vec());
        let (salvaged, content) = check_salvage(&disk);
        for (index, (lsn, bytes)) in content.entries.iter().enumerate() {
            assert_eq!(lsn.0, index as u64 + 1, "cut at {len}");
            assert_eq!(*bytes, tail_entry(lsn.0), "cut at {len}");
        }
        assert!(salvaged.lost.is_empty(), "cut at {len}: {salvaged:?}");
        assert!(last_of(&content) >= before, "cut at {len}");
        before = last_of(&content);
    }
    assert_eq!(before, last);
}

/// A log whose first owner left entry 6 after a torn entry 5, and whose second owner wrote other entries with these
/// numbers.
fn with_replaced_entries() -> FaultDisk {
    let (disk, ..) = with_a_tail();
    let path = segment_paths(&disk).pop().expect("a segment");
    let whole = disk.bytes(&path).expect("it exists");
    let five = whole
        .windows(12)
        .position(|bytes| bytes == b"\x08\0\0\0\x05\0\0\0\0\0\0\0")
        .expect("entry 5");
    flip(&disk, &path, five + 4, 1);
    let torn = disk.bytes(&path).expect("it exists");
    for _ in 0..2 {
        let (log, ..) = open(&disk);
        for _ in 0..2 {
            append(&log, Level::Synced).expect("appended");
        }
    }
    // The second owner truncated the file, but a disk may bring the bytes back.
    let file = disk.open(&path).expect("it exists");
    file.write_all_at(&torn, 0).expect("written");
    disk
}

#[test]
fn entries_replaced_by_a_later_owner_are_not_salvaged() {
    let disk = with_replaced_entries();
    let paths = segment_paths(&disk);
    let (salvaged, content) = check_salvage(&disk);
    assert!(salvaged.lost.is_empty(), "{salvaged:?}");
    assert_eq!(numbers(&content), (1..=8).collect::<Vec<u64>>());
    assert_eq!(content, open(&disk.after_kill()).1);
    assert!(report(&salvaged, &paths[0]).problems[0].contains("replaced"));
    // Without the segment that replaced them, their content is unknown.
    disk.remove(&paths[1]).expect("removed");
    let (salvaged, content) = check_salvage(&disk);
    assert_eq!(numbers(&content), [1, 2, 3, 4, 7, 8]);
    assert_eq!(salvaged.lost, [Lsn(5)..=Lsn(6)]);
    assert!(report(&salvaged, &paths[0]).problems[0].contains("may have been replaced"));
}

#[test]
fn foreign_files_are_reported_and_not_read() {
    let disk = written(40);
    let paths = segment_paths(&disk);
    let other = FaultDisk::new();
    let options = FileLogOptions {
        id: ShardId { shard: 4, ..ID },
        ..options(77)
    };
    let opened = FileLog::open(
        Arc::new(other.clone()),
        Path::new(DIR),
        options,
        &mut ReplayedLog::default(),
    )
    .expect("opens");
    append(&opened.log, Level::Synced).expect("appended");
    drop(opened);
    // The other file takes the first position, where relying on the first readable header would mislead.
    disk.set_bytes(&paths[0], other.bytes(&segment_paths(&other)[0]).expect("it exists"));
    let (salvaged, content) = check_salvage(&disk);
    let first = first_of(&disk, &paths[1]);
    check_contents(&content);
    assert_eq!(numbers(&content), (first..=40).collect::<Vec<u64>>());
    assert_eq!(salvaged.id, Some(ID));
    assert_eq!(salvaged.lost, [Lsn(1)..=Lsn(first - 1)]);
    assert!(report(&salvaged, &paths[0]).problems[0].contains("another store"));
    // The caller can choose the shard.
    let mut content = ReplayedLog::default();
    salvage(&disk, Path::new(DIR), Some(options.id), &mut content).expect("listed");
    assert_eq!(numbers(&content), [1]);
}

#[test]
fn copies_and_older_segments_are_reported_and_not_read() {
    let disk = written(40);
    let (log, ..) = open(&disk);
    append(&log, Level::Synced).expect("appended");
    drop(log);
    let paths = segment_paths(&disk);
    let copy = disk.after_kill();
    copy.set_bytes(&paths[1], disk.bytes(&paths[2]).expect("it exists"));
    let (salvaged, content) = check_salvage(&copy);
    check_contents(&content);
    assert_eq!(last_of(&content), 41);
    assert_eq!(salvaged.lost.len(), 1);
    assert_eq!(report(&salvaged, &paths[1]).problems.len(), 2);
    // A segment that is not a copy has a wrong name.
    let moved = disk.after_kill();
    moved
        .rename(&paths[1], &Path::new(DIR).join("0000000099.journal"))
        .expect("renamed");
    let (salvaged, content) = check_salvage(&moved);
    check_entries(&content, 1);
    assert_eq!((last_of(&content), salvaged.lost.len()), (41, 0));
    assert!(salvaged.missing_segments.is_empty());
    assert!(!salvaged.is_whole());
}

#[test]
fn after_each_crash_a_salvage_begins_with_what_opens() {
    let calls = {
        let disk = FaultDisk::new();
        script(&disk);
        disk.calls()
    };
    for call in 0..calls {
        let disk = FaultDisk::new();
        disk.fail_at(call, SimulatedFault::PowerCut);
        script(&disk);
        for disk in [
            disk.after_kill(),
            disk.after_power_cut(call),
            disk.after_power_cut(!call),
        ] {
            let (_, salvaged) = check_salvage(&disk);
            let (_, opened, _) = open(&disk);
            check_contents(&salvaged);
            assert_eq!(salvaged.snapshot, opened.snapshot, "call {call}");
            assert!(salvaged.entries.starts_with(&opened.entries), "call {call}");
        }
    }
}

#[test]
fn real_files_are_read_and_cannot_be_written() {
    let dir = std::env::temp_dir().join(format!("oxbus-salvage-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let opened = FileLog::open(
        Arc::new(crate::disk::LocalDisk),
        &dir,
        options(5),
        &mut ReplayedLog::default(),
    )
    .expect("opens");
    for _ in 0..15 {
        append(&opened.log, Level::Synced).expect("appended");
    }
    drop(opened);
    // A directory with the name of a segment does not block the salvage.
    std::fs::create_dir(dir.join("0000000007.journal")).expect("created");
    let mut content = ReplayedLog::default();
    let salvaged = salvage(&ReadOnlyDisk, &dir, None, &mut content).expect("listed");
    check_entries(&content, 1);
    assert_eq!(last_of(&content), 15);
    assert!(report(&salvaged, Path::new("0000000007.journal")).problems[0].contains("could not be read"));
    let file = ReadOnlyDisk.open(&dir.join("0000000001.journal")).expect("opened");
    assert!(file.write_at(b"x", 0).is_err());
    assert!(ReadOnlyDisk.remove(&dir.join("0000000001.journal")).is_err());
    drop(file);
    std::fs::remove_dir_all(&dir).expect("removed");
}
