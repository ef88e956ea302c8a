// SPDX-License-Identifier: Apache-2.0
//! A stage is read back as it was written, or not at all.

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::fault::{FaultDisk, SimulatedFault};

const STORE: [u8; 16] = *b"0123456789abcdef";
const NUMBER: u64 = 0xfeed;

fn dir() -> &'static Path {
    Path::new("/namespace/stages")
}

fn head() -> StageHeader {
    StageHeader {
        store: STORE,
        entity: 7,
        created_at_ms: 1_000,
        number: NUMBER,
        id: "query/0/3/attempt".to_owned(),
    }
}

const RUNS: [(u16, u32, &[u8]); 4] = [(0, 2, b"one two"), (5, 1, b"three"), (0, 1, b""), (63, 9, &[7; 3_000])];

fn write(disk: &FaultDisk) -> io::Result<StageFile> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut writer = StageWriter::create(&disk, dir(), head())?;
    for (partition, rows, payload) in RUNS {
        writer.push_run(partition, rows, payload)?;
    }
    writer.finish(true)
}

fn read(disk: &FaultDisk) -> Result<Vec<(u16, u32, Vec<u8>)>, StageError> {
    let stage = StageFile::open(disk, dir(), NUMBER, STORE)?;
    assert_eq!(stage.header(), &head());
    let mut found = Vec::new();
    let mut show = |run: &StageRun, payload: &[u8]| {
        found.push((run.partition, run.rows, payload.to_vec()));
        Ok(())
    };
    stage.read::<StageError>(disk, stage.runs(), &mut show)?;
    Ok(found)
}

fn is_whole(found: &[(u16, u32, Vec<u8>)]) -> bool {
    found
        .iter()
        .map(|(partition, rows, payload)| (*partition, *rows, &payload[..]))
        .eq(RUNS)
}

#[test]
fn all_runs_or_some_runs_can_be_read() {
    let disk = FaultDisk::new();
    let written = write(&disk).expect("written");
    assert!(is_whole(&read(&disk).expect("read")));
    let mut found = Vec::new();
    let mut show = |_: &StageRun, payload: &[u8]| {
        found.push(payload.to_vec());
        Ok(())
    };
    let runs: Vec<StageRun> = written
        .runs()
        .iter()
        .filter(|run| run.partition == 0)
        .copied()
        .collect();
    written.read::<StageError>(&disk, &runs, &mut show).expect("read");
    assert_eq!(found, [b"one two".to_vec(), Vec::new()]);
    assert_eq!(StageNames::list(&disk, dir()).expect("listed").finished, [NUMBER]);
}

#[test]
fn added_rows_become_runs() {
    let disk = FaultDisk::new();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut writer = StageWriter::create(&shared, dir(), head()).expect("created");
    // Six rows fill a run, and a row of another partition ends one.
    let bytes = |number: u8| std::iter::repeat_n(number, 50_000);
    let row = |number: u8| move |run: &mut Vec<u8>| run.extend(bytes(number));
    for number in 0..40 {
        writer.push(3, row(number)).expect("written");
    }
    writer.push(4, row(40)).expect("written");
    writer.push_run(4, 2, b"two rows").expect("written");
    writer.push(4, |_| ()).expect("written");
    assert_eq!(writer.rows(), 44);
    writer.finish(true).expect("finished");
    let found = read(&disk).expect("read");
    let content: Vec<(u16, u32)> = found.iter().map(|(partition, rows, _)| (*partition, *rows)).collect();
    assert_eq!(
        content,
        [
            (3, 6),
            (3, 6),
            (3, 6),
            (3, 6),
            (3, 6),
            (3, 6),
            (3, 4),
            (4, 1),
            (4, 2),
            (4, 1)
        ]
    );
    let mut expected: Vec<u8> = (0..41).flat_map(bytes).collect();
    expected.extend(b"two rows");
    let payload: Vec<u8> = found.into_iter().flat_map(|(_, _, payload)| payload).collect();
    assert!(payload == expected);
}

#[test]
fn dropping_a_stage_removes_its_file() {
    let disk = FaultDisk::new();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut writer = StageWriter::create(&shared, dir(), head()).expect("created");
    writer.push_run(1, 1, &vec![1; 2 << 20]).expect("written");
    assert_eq!(StageNames::list(&disk, dir()).expect("listed").unfinished.len(), 1);
    drop(writer);
    assert!(disk.paths().is_empty());
}

#[test]
fn a_fault_at_every_call_leaves_a_whole_stage_or_none() {
    let calls = {
        let disk = FaultDisk::new();
        write(&disk).expect("written");
        disk.calls()
    };
    assert!(calls >= 5, "{calls}");
    for call in 0..calls {
        for fault in [
            SimulatedFault::Kill,
            SimulatedFault::PowerCut,
            SimulatedFault::ShortWrite,
            SimulatedFault::Errno(5),
            SimulatedFault::Errno(28),
        ] {
            let disk = FaultDisk::new();
            disk.fail_at(call, fault);
            let written = write(&disk).is_ok();
            let left = (0..4).map(|seed| disk.after_power_cut(seed));
            for disk in left.chain([disk.after_kill()]) {
                let names = StageNames::list(&disk, dir()).expect("listed");
                if names.finished.is_empty() {
                    assert!(!written, "{fault:?} at {call}");
                } else {
                    assert!(is_whole(&read(&disk).expect("whole")), "{fault:?} at {call}");
                }
            }
        }
    }
}

#[test]
fn damaged_rows_are_never_read() {
    let disk = FaultDisk::new();
    let path = write(&disk).expect("written").path().to_owned();
    let whole = disk.bytes(&path).expect("it exists");
    for bit in 0..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        disk.set_bytes(&path, damaged);
        assert!(read(&disk).is_err(), "bit {bit}");
    }
    for len in 0..whole.len() {
        disk.set_bytes(&path, whole[..len].to_vec());
        assert!(read(&disk).is_err(), "{len} bytes");
    }
    disk.set_bytes(&path, whole);
    assert!(is_whole(&read(&disk).expect("whole")));
}

#[test]
fn a_stage_of_another_namespace_or_version_is_rejected() {
    let disk = FaultDisk::new();
    let path = write(&disk).expect("written").path().to_owned();
    let other = StageFile::open(&disk, dir(), NUMBER, *b"another store id");
    assert!(matches!(other, Err(StageError::Misplaced)), "{other:?}");
    let mut newer = disk.bytes(&path).expect("it exists");
    newer[8] = VERSION as u8 + 1;
    disk.set_bytes(&path, newer);
    let newer = StageFile::read_header(&disk, dir(), NUMBER, STORE);
    let StageError::Newer { version } = newer.expect_err("newer") else {
        panic!("it is newer");
    };
    assert_eq!(version, VERSION + 1);
}
