// SPDX-License-Identifier: Apache-2.0
//! Golden files: this build reads the files of older builds and writes the same bytes (docs/format.md, "Golden files").
//!
//! Each folder `golden/v<version>` contains a small namespace in that format:
//!
//! ```text
//! catalog    the second content of a catalog; since version 2, two changes after it
//! shard-00   entries 1 … 6 of two owners, the second of which began with entry 5
//! shard-01   the same, but a snapshot covers entries 1 … 4, and segments before entry 4 are gone
//! stages     one stage with two runs
//! ```

use oxbus_store::Wait;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use oxbus_store::disk::{Disk, LocalDisk};
use oxbus_store::extent::ExtentLocation;
use oxbus_store::file::{
    Catalog, FileLog, FileLogOptions, ReadOnlyDisk, Replay, ShardId, StageError, StageFile, StageHeader, StageRun,
    StageWriter, salvage,
};
use oxbus_store::shard_log::{Level, Lsn, ShardLog, SpaceClass};

const STORE: [u8; 16] = *b"the golden store";
const CONTENT: &[u8] = b"what a catalog says is its owner's business";
/// The changes recorded after the content, since version 2.
const CHANGES: [&[u8]; 2] = [b"a change", b"and another"];
/// The chunks of shard 1's snapshot, and the last entry it covers.
const CHUNKS: [&[u8]; 2] = [b"the state ", b"after four entries"];
const COVERED: Lsn = Lsn(4);
/// The entries: a byte and its repetitions. Entries 2 and 3 share a frame; entry 4 begins a segment.
const ENTRIES: [(u8, usize); 6] = [
    (0x00, 0),
    (0x22, 3),
    (0x33, 1_500),
    (0x44, 3_000),
    (0x55, 8),
    (0x00, 40),
];
/// The number, id and runs of the stage; a run is partition, rows, bytes.
const STAGE_NUMBER: u64 = 0x0123_4567_89ab_cdef;
const STAGE_ID: &str = "query/0/attempt";
const RUNS: [(u16, u32, &[u8]); 2] = [(3, 2, b"two rows"), (0, 1, b"one")];
/// The first entry of the second owner.
const SECOND_OWNER: u64 = 5;

fn entry(lsn: Lsn) -> Vec<u8> {
    let (byte, count) = ENTRIES[lsn.0 as usize - 1];
    vec![byte; count]
}

#[derive(Debug, Default, PartialEq, Eq)]
struct ReplayedLog {
    snapshot: Option<(Lsn, Vec<u8>)>,
    entries: Vec<(Lsn, Vec<u8>)>,
}

impl Replay for ReplayedLog {
    fn snapshot(&mut self, covered: Lsn, part: &[u8], _: Option<&ExtentLocation>) {
        let (of, bytes) = self.snapshot.get_or_insert_default();
        *of = covered;
        bytes.extend_from_slice(part);
    }

    fn entry(&mut self, lsn: Lsn, entry: &[u8], _: Option<&ExtentLocation>) {
        self.entries.push((lsn, entry.to_vec()));
    }
}

/// The expected content of a shard.
fn expected(shard: u16) -> ReplayedLog {
    let snapshot = (shard == 1).then(|| (COVERED, CHUNKS.concat()));
    let first = snapshot.as_ref().map_or(Lsn(1), |(covered, _)| covered.next());
    let entries = (first.0..=ENTRIES.len() as u64).map(Lsn);
    ReplayedLog {
        snapshot,
        entries: entries.map(|lsn| (lsn, entry(lsn))).collect(),
    }
}

fn shard_dir(namespace: &Path, shard: u16) -> PathBuf {
    namespace.join(format!("shard-{shard:02}"))
}

fn open(namespace: &Path, shard: u16, salt: u32) -> (FileLog, ReplayedLog) {
    let options = FileLogOptions {
        segment_bytes_min: 8 << 10,
        segment_bytes_max: 8 << 10,
        ..FileLogOptions::new(ShardId { store: STORE, shard }, salt)
    };
    let mut content = ReplayedLog::default();
    let opened =
        FileLog::open(Arc::new(LocalDisk), &shard_dir(namespace, shard), options, &mut content).expect("opens");
    (opened.log, content)
}

fn append(log: &FileLog, lsn: u64) {
    log.append(
        Lsn(lsn),
        &entry(Lsn(lsn)),
        SpaceClass::Adds,
        Level::Synced,
        None,
        &Wait::FOREVER,
    )
    .expect("appended");
}

fn write_stage(dir: &Path) {
    fs::create_dir_all(dir).expect("created");
    let head = StageHeader {
        store: STORE,
        entity: 7,
        created_at_ms: 1_000,
        number: STAGE_NUMBER,
        id: STAGE_ID.to_owned(),
    };
    let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
    let mut writer = StageWriter::create(&disk, dir, head).expect("created");
    for (partition, rows, payload) in RUNS {
        writer.push_run(partition, rows, payload).expect("written");
    }
    writer.finish(true).expect("finished");
}

fn check_stage(dir: &Path) {
    let stage = StageFile::open(&LocalDisk, dir, STAGE_NUMBER, STORE).expect("whole");
    assert_eq!(
        (&*stage.header().id, stage.header().entity, stage.header().created_at_ms),
        (STAGE_ID, 7, 1_000)
    );
    let mut found = Vec::new();
    let mut show = |run: &StageRun, payload: &[u8]| {
        found.push((run.partition, run.rows, payload.to_vec()));
        Ok(())
    };
    stage
        .read::<StageError>(&LocalDisk, stage.runs(), &mut show)
        .expect("whole");
    assert_eq!(
        found,
        RUNS.map(|(partition, rows, payload)| (partition, rows, payload.to_vec()))
    );
}

fn check_catalog(namespace: &Path, version: u16) {
    let read = || Catalog::read(&LocalDisk, namespace).expect("whole").expect("it exists");
    let (mut catalog, found) = read();
    let changes: &[&[u8]] = if version == 1 { &[] } else { &CHANGES };
    assert_eq!(
        (catalog.store(), catalog.change(), &found.content[..]),
        (STORE, 2 + changes.len() as u64, CONTENT)
    );
    assert_eq!(
        (found.changes, found.torn_bytes),
        (changes.iter().map(|it| it.to_vec()).collect(), 0)
    );
    // A file of version 1 cannot have records, so it is replaced first.
    assert_eq!(catalog.needs_rewrite(), version == 1);
    if catalog.needs_rewrite() {
        catalog.rewrite(&LocalDisk, namespace, CONTENT).expect("written");
    }
    catalog.append(&LocalDisk, namespace, b"new").expect("recorded");
    assert_eq!(read().1.changes.last().map(Vec::as_slice), Some(&b"new"[..]));
}

/// Writes the namespace of a golden folder.
fn write(namespace: &Path) {
    fs::create_dir_all(namespace).expect("created");
    let mut catalog = Catalog::new(STORE);
    for content in [b"first", CONTENT] {
        catalog.rewrite(&LocalDisk, namespace, content).expect("written");
    }
    for change in CHANGES {
        catalog.append(&LocalDisk, namespace, change).expect("recorded");
    }
    write_stage(&namespace.join("stages"));
    for shard in 0..2 {
        let (log, _) = open(namespace, shard, 0x0102_0304);
        append(&log, 1);
        log.commit(Lsn(1), Level::Synced, &Wait::FOREVER).expect("synced");
        append(&log, 2);
        append(&log, 3);
        log.commit(Lsn(3), Level::Written, &Wait::FOREVER).expect("written");
        append(&log, 4);
        log.close().expect("closed");
        let (log, _) = open(namespace, shard, 0xF1F2_F3F4);
        for lsn in SECOND_OWNER..=ENTRIES.len() as u64 {
            append(&log, lsn);
            log.commit(Lsn(lsn), Level::Synced, &Wait::FOREVER).expect("synced");
        }
        if shard == 1 {
            log.put_snapshot(COVERED, &mut CHUNKS.iter().map(|chunk| Ok(chunk.to_vec().into())))
                .expect("the snapshot is written");
            log.truncate_before(COVERED).expect("truncated");
        }
        // Its files have no content.
        log.release_reserve().expect("removed");
        log.close().expect("closed");
    }
}

fn golden(version: u16) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/v{version}"))
}

/// A new folder for a test of this process.
fn fresh_dir(test: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("oxbus-golden-{test}-{}", std::process::id()));
    if dir.exists() {
        fs::remove_dir_all(&dir).expect("removed");
    }
    dir
}

/// All files below `dir` with their relative paths, sorted.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())) {
        let path = entry.expect("listed").path();
        let name = PathBuf::from(path.file_name().expect("a name"));
        if path.is_dir() {
            found.extend(files(&path).into_iter().map(|(below, bytes)| (name.join(below), bytes)));
        } else {
            found.push((name, fs::read(&path).expect("read")));
        }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    for (path, bytes) in files(from) {
        let path = to.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("created");
        fs::write(path, bytes).expect("written");
    }
}

/// The format version that this build writes.
fn version_of(namespace: &Path) -> u16 {
    let catalog = fs::read(Catalog::path(namespace)).expect("written");
    u16::from_le_bytes([catalog[8], catalog[9]])
}

#[test]
fn files_of_each_version_are_read_and_continued() {
    let dir = fresh_dir("read");
    write(&dir);
    for version in 1..=version_of(&dir) {
        let namespace = dir.join(format!("copy-{version}"));
        copy(&golden(version), &namespace);
        check_catalog(&namespace, version);
        check_stage(&namespace.join("stages"));
        for shard in 0..2 {
            let mut rescued = ReplayedLog::default();
            let salvaged = salvage(&ReadOnlyDisk, &shard_dir(&namespace, shard), None, &mut rescued).expect("listed");
            assert!(salvaged.is_whole(), "{salvaged:?}");
            assert_eq!(rescued, expected(shard), "version {version}, shard {shard}");
            let (log, content) = open(&namespace, shard, 7);
            assert_eq!(content, expected(shard), "version {version}, shard {shard}");
            assert_eq!((log.epoch(), log.next_lsn()), (3, Lsn(ENTRIES.len() as u64 + 1)));
            log.append(
                log.next_lsn(),
                b"new",
                SpaceClass::Adds,
                Level::Synced,
                None,
                &Wait::FOREVER,
            )
            .expect("appended");
            log.close().expect("closed");
            drop(log);
            let (_, content) = open(&namespace, shard, 8);
            assert_eq!(content.entries.last(), Some(&(Lsn(7), b"new".to_vec())));
        }
    }
    fs::remove_dir_all(&dir).expect("removed");
}

#[test]
fn the_same_content_is_written_as_the_same_bytes() {
    let dir = fresh_dir("write");
    write(&dir);
    let golden = golden(version_of(&dir));
    let (written, kept) = (files(&dir), files(&golden));
    let names = |files: &[(PathBuf, Vec<u8>)]| files.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>();
    assert_eq!(names(&written), names(&kept));
    for ((path, written), (_, kept)) in written.iter().zip(&kept) {
        let differs = written.iter().zip(kept).position(|(written, kept)| written != kept);
        assert_eq!(
            (differs, written.len()),
            (None, kept.len()),
            "{}: the format changed without a new version",
            path.display()
        );
    }
    fs::remove_dir_all(&dir).expect("removed");
}

#[test]
#[ignore = "writes the golden files of a new version; the other tests read them"]
fn write_the_golden_files() {
    let dir = fresh_dir("new");
    write(&dir);
    let golden = golden(version_of(&dir));
    assert!(
        !golden.exists(),
        "golden files are never replaced: {}",
        golden.display()
    );
    copy(&dir, &golden);
    fs::remove_dir_all(&dir).expect("removed");
}
