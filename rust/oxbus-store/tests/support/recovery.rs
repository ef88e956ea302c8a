// SPDX-License-Identifier: Apache-2.0
//! Properties that must hold for any bytes on a disk. The fuzz targets in `fuzz/` run these functions on generated
//! inputs, `tests/recovery.rs` on seeded ones.
//!
//! An input is a sequence of choices. The first selects the kind
//! - raw: the bytes are a file, with or without a valid header. Nothing may panic;
//! - damaged: a written log is damaged as disks damage files. If it opens, it is a prefix of the written log and can be
//!   continued;
//! - forged: bytes of a written log are changed and all checksums are made right again. Nothing may panic, and no entry
//!   number may be missing.
//!
//! For all kinds, the entries of a salvage begin with those of an open.

use oxbus_store::Wait;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use oxbus_store::disk::Disk;
use oxbus_store::extent::ExtentLocation;
use oxbus_store::fault::FaultDisk;
use oxbus_store::file::{Catalog, CatalogBytes, FileLog, FileLogOptions, OpenError, Replay, ShardId, salvage};
use oxbus_store::shard_log::{Level, Lsn, ShardLog, SpaceClass};

const DIR: &str = "/shard";
const ID: ShardId = ShardId {
    store: *b"0123456789abcdef",
    shard: 3,
};
const HEADER_BYTES: usize = 4096;
const FRAME_HEADER_BYTES: usize = 32;
const SECTOR_BYTES: usize = 512;
/// The checksum detects any three flipped bits in a frame, but more only very likely.
const FLIPS_MAX: u32 = 3;
const ENTRIES: u64 = 36;
/// The last entry that the snapshot of the written log covers.
const COVERED: Lsn = Lsn(14);

/// A sequence of choices; zeros when it is exhausted.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn number<const BYTES: usize>(&mut self) -> u64 {
        let mut number = [0; 8];
        let taken = BYTES.min(self.0.len());
        number[..taken].copy_from_slice(&self.0[..taken]);
        self.0 = &self.0[taken..];
        u64::from_le_bytes(number)
    }

    /// A number below `end`, or 0.
    fn below(&mut self, end: usize) -> usize {
        (self.number::<4>() % (end as u64).max(1)) as usize
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct ReplayedLog {
    snapshot: Option<(Lsn, Vec<u8>)>,
    entries: Vec<(Lsn, Vec<u8>)>,
}

impl Replay for ReplayedLog {
    fn snapshot(&mut self, covered: Lsn, part: &[u8], _: Option<&ExtentLocation>) {
        assert!(self.entries.is_empty(), "before the entries");
        let (of, bytes) = self.snapshot.get_or_insert_default();
        *of = covered;
        bytes.extend_from_slice(part);
    }

    fn entry(&mut self, lsn: Lsn, entry: &[u8], _: Option<&ExtentLocation>) {
        self.entries.push((lsn, entry.to_vec()));
    }
}

impl ReplayedLog {
    fn covered(&self) -> Lsn {
        self.snapshot.as_ref().map_or(Lsn::NONE, |(covered, _)| *covered)
    }
}

fn entry(lsn: Lsn) -> Vec<u8> {
    let len = [0, 13, 26, 700, 52, 2_500][lsn.0 as usize % 6];
    (0..len).map(|at| (lsn.0.wrapping_mul(31) ^ (at * 7)) as u8).collect()
}

fn snapshot() -> Vec<u8> {
    b"the state after fourteen entries".repeat(20)
}

fn open(disk: &FaultDisk, salt: u32) -> Result<(FileLog, ReplayedLog), OpenError> {
    let options = FileLogOptions {
        segment_bytes_min: 8 << 10,
        segment_bytes_max: 16 << 10,
        ..FileLogOptions::new(ID, salt)
    };
    let mut content = ReplayedLog::default();
    let opened = FileLog::open(Arc::new(disk.clone()), Path::new(DIR), options, &mut content)?;
    Ok((opened.log, content))
}

/// A log of three owners with some frames of several entries, and a copy of the disk after each owner.
fn written() -> &'static [FaultDisk] {
    static WRITTEN: OnceLock<Vec<FaultDisk>> = OnceLock::new();
    WRITTEN.get_or_init(|| {
        let disk = FaultDisk::new();
        let mut states = Vec::new();
        for owner in 0..3u32 {
            let (log, _) = open(&disk, 1 + owner * 77_777).expect("a new disk");
            for number in 1..=ENTRIES / 3 {
                let lsn = log.next_lsn();
                log.append(lsn, &entry(lsn), SpaceClass::Adds, Level::Written, None, &Wait::FOREVER)
                    .expect("appended");
                match number % 4 {
                    0 => log.commit(lsn, Level::Synced, &Wait::FOREVER).expect("synced"),
                    1 | 3 => log.commit(lsn, Level::Written, &Wait::FOREVER).expect("written"),
                    _ => {}
                }
            }
            if owner == 1 {
                log.put_snapshot(
                    COVERED,
                    &mut snapshot().chunks(100).map(|part| Ok(part.to_vec().into())),
                )
                .expect("the snapshot is written");
            }
            if owner == 2 {
                log.truncate_before(Lsn(9)).expect("truncated");
            }
            log.close().expect("closed");
            drop(log);
            states.push(disk.after_kill());
        }
        states
    })
}

/// The files of a log: segments and snapshots.
fn files(disk: &FaultDisk) -> Vec<PathBuf> {
    let mut paths = disk.paths();
    paths.retain(|path| path.extension().is_some_and(|it| it == "journal" || it == "snapshot"));
    paths
}

fn put(disk: &FaultDisk, path: &Path, bytes: Vec<u8>) {
    if disk.bytes(path).is_none() {
        disk.create(path).expect("no fault was asked for");
    }
    disk.set_bytes(path, bytes);
}

/// Salvages and opens a log, and checks both; returns both results.
fn open_and_salvage(disk: &FaultDisk) -> (ReplayedLog, Result<(FileLog, ReplayedLog), OpenError>) {
    let mut salvaged = ReplayedLog::default();
    let report = salvage(disk, Path::new(DIR), Some(ID), &mut salvaged).expect("listed");
    let rising = salvaged.entries.windows(2).all(|pair| pair[0].0 < pair[1].0);
    assert!(rising, "a salvage visits entries in the order of their numbers");
    assert!(
        salvaged
            .entries
            .first()
            .is_none_or(|(lsn, _)| *lsn > salvaged.covered())
    );
    for (lsn, _) in &salvaged.entries {
        assert!(
            !report.lost.iter().any(|lost| lost.contains(lsn)),
            "{lsn:?} is reported as lost but was visited"
        );
    }
    let opened = open(disk, 0xABCD);
    if let Ok((log, content)) = &opened {
        let first = content.covered().next().0;
        for (number, (lsn, _)) in (first..).zip(&content.entries) {
            assert_eq!(lsn.0, number, "no number is missing");
        }
        assert_eq!(log.next_lsn().0, first + content.entries.len() as u64);
        assert_eq!(salvaged.snapshot, content.snapshot);
        assert!(salvaged.entries.starts_with(&content.entries));
    }
    (salvaged, opened)
}

/// One input of the target `recover`.
pub fn recover(input: &[u8]) {
    let mut input = Input(input);
    match input.number::<1>() % 3 {
        0 => raw(input),
        1 => damaged(input),
        _ => forged(input),
    }
}

fn raw(mut input: Input<'_>) {
    let disk = FaultDisk::new();
    let choice = input.number::<1>();
    let name = if choice & 1 == 0 {
        "0000000001.journal"
    } else {
        "00000000000000000014.snapshot"
    };
    let mut bytes = Vec::new();
    if choice & 2 == 0 {
        let last = written().last().expect("three");
        let like = |path: &PathBuf| path.extension() == Path::new(name).extension();
        let path = files(last).into_iter().find(like).expect("both kinds exist");
        bytes.extend_from_slice(&last.bytes(&path).expect("listed")[..HEADER_BYTES]);
    }
    bytes.extend_from_slice(input.0);
    put(&disk, &Path::new(DIR).join(name), bytes);
    drop(open_and_salvage(&disk));
}

fn damaged(mut input: Input<'_>) {
    let states = written();
    let disk = states[2].after_kill();
    let mut flips = 0;
    while !input.is_empty() {
        let paths = files(&disk);
        if paths.is_empty() {
            break;
        }
        let path = &paths[input.below(paths.len())];
        let mut bytes = disk.bytes(path).expect("listed");
        match input.number::<1>() % 7 {
            0 if flips < FLIPS_MAX && !bytes.is_empty() => {
                let bit = input.below(bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
                flips += 1;
            }
            1 => bytes.truncate(input.below(bytes.len() + 1)),
            2 => {
                let at = input.below(bytes.len() / SECTOR_BYTES) * SECTOR_BYTES;
                bytes.iter_mut().skip(at).take(SECTOR_BYTES).for_each(|byte| *byte = 0);
            }
            3 => {
                disk.remove(path).expect("no fault was asked for");
                continue;
            }
            4 => bytes = disk.bytes(&paths[input.below(paths.len())]).expect("listed"),
            5 => bytes.resize(bytes.len() + (1 + input.below(4)) * SECTOR_BYTES, 0),
            6 => {
                let older = states[input.below(states.len())].bytes(path);
                bytes = older.unwrap_or(bytes);
            }
            _ => {}
        }
        disk.set_bytes(path, bytes);
    }
    let (salvaged, opened) = open_and_salvage(&disk);
    let as_written = |content: &ReplayedLog| {
        if let Some(content) = &content.snapshot {
            assert_eq!(*content, (COVERED, snapshot()));
        }
        for (lsn, bytes) in &content.entries {
            assert!(
                lsn.0 <= ENTRIES && *bytes == entry(*lsn),
                "{lsn:?} differs from the written entry"
            );
        }
    };
    as_written(&salvaged);
    let Ok((log, content)) = opened else { return };
    as_written(&content);
    // The log can be continued, and the next owner reads the added entry.
    log.append(
        log.next_lsn(),
        b"added",
        SpaceClass::Adds,
        Level::Synced,
        None,
        &Wait::FOREVER,
    )
    .expect("appended");
    log.close().expect("closed");
    let added = (Lsn(log.next_lsn().0 - 1), b"added".to_vec());
    drop(log);
    let (_, again) = open(&disk, 0xDCBA).expect("what opened once opens again");
    let mut expected = content;
    expected.entries.push(added);
    assert_eq!(again, expected);
}

fn forged(mut input: Input<'_>) {
    let disk = written()[2].after_kill();
    let is_linked = input.number::<1>() & 1 == 0;
    while !input.is_empty() {
        let paths = files(&disk);
        let path = &paths[input.below(paths.len())];
        let mut bytes = disk.bytes(path).expect("listed");
        // The header, the first frames, or any position.
        let page = [0..64, HEADER_BYTES..HEADER_BYTES + 128, 0..bytes.len()][input.below(3)].clone();
        let at = page.start + input.below(page.len());
        let width = 1 << input.below(4);
        let with = input.number::<8>().to_le_bytes();
        for (byte, with) in bytes.iter_mut().skip(at).take(width).zip(with) {
            *byte = with;
        }
        disk.set_bytes(path, bytes);
    }
    let mut crc_before = None;
    for path in files(&disk) {
        let mut bytes = disk.bytes(&path).expect("listed");
        reseal(&mut bytes, is_linked, &mut crc_before);
        disk.set_bytes(&path, bytes);
    }
    drop(open_and_salvage(&disk));
}

/// Makes all checksums of a file right; with `is_linked` also those that link a frame to the previous one.
fn reseal(bytes: &mut [u8], is_linked: bool, crc_before: &mut Option<u32>) {
    if bytes.len() < HEADER_BYTES {
        return;
    }
    let u32_at = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let is_segment = bytes.starts_with(b"oxbusjnl");
    let salt = u32_at(bytes, 12);
    if let (true, true, Some(crc)) = (is_linked, is_segment, *crc_before) {
        bytes[56..60].copy_from_slice(&crc.to_le_bytes());
    }
    let mut before = u32_at(bytes, 56);
    let crc = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    let mut rest = &mut bytes[HEADER_BYTES..];
    if is_segment {
        while rest.len() >= FRAME_HEADER_BYTES {
            let len = FRAME_HEADER_BYTES + u32_at(rest, 0) as usize;
            if len == FRAME_HEADER_BYTES || len > rest.len() {
                break;
            }
            let (frame, after) = rest.split_at_mut(len);
            if is_linked {
                frame[24..28].copy_from_slice(&before.to_le_bytes());
            }
            before = crc32c::crc32c_append(crc32c::crc32c_append(salt, &frame[..28]), &frame[FRAME_HEADER_BYTES..]);
            frame[28..32].copy_from_slice(&before.to_le_bytes());
            rest = after;
        }
        *crc_before = Some(before);
    } else {
        while rest.len() >= 8 {
            let len = u32_at(rest, 0) as usize;
            if len == 0 || 8 + len > rest.len() {
                break;
            }
            let (chunk, after) = rest.split_at_mut(8 + len);
            let crc = crc32c::crc32c_append(salt, &chunk[8..]);
            chunk[4..8].copy_from_slice(&crc.to_le_bytes());
            rest = after;
        }
    }
}

/// Bytes of the head of a catalog and of a record.
const CATALOG_HEADER_BYTES: usize = 48;
const RECORD_HEADER_BYTES: usize = 16;

/// One input of the target `catalog`: any bytes, a damaged catalog, or a forged head, content or record with right
/// checksums.
pub fn catalog(input: &[u8]) {
    let mut input = Input(input);
    let disk = FaultDisk::new();
    let dir = Path::new(DIR);
    let path = Catalog::path(dir);
    let mut catalog = Catalog::new(*b"0123456789abcdef");
    catalog
        .rewrite(&disk, dir, b"three queues")
        .expect("no fault was asked for");
    for change in [&b"one more"[..], b"one less", b"another name"] {
        catalog.append(&disk, dir, change).expect("no fault was asked for");
    }
    let (_, written) = Catalog::read(&disk, dir).expect("whole").expect("it exists");
    let mut bytes = disk.bytes(&path).expect("written");
    let kind = input.number::<1>() % 4;
    match kind {
        0 => bytes = input.0.to_vec(),
        1 => {
            for _ in 0..FLIPS_MAX {
                let bit = input.below(bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            bytes.truncate(input.below(bytes.len() * 2));
        }
        2 => {
            let header = input.0.len().min(CATALOG_HEADER_BYTES - 8);
            bytes[8..8 + header].copy_from_slice(&input.0[..header]);
            bytes.truncate(CATALOG_HEADER_BYTES);
            bytes.extend_from_slice(&input.0[header..]);
            let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..44]), &bytes[CATALOG_HEADER_BYTES..]);
            bytes[44..48].copy_from_slice(&crc.to_le_bytes());
        }
        _ => forge_record(&mut bytes, &mut input),
    }
    disk.set_bytes(&path, bytes.clone());
    let Ok(Some((mut found, read))) = Catalog::read(&disk, dir) else {
        return;
    };
    assert!(bytes[CATALOG_HEADER_BYTES..].starts_with(&read.content));
    if kind == 1 {
        assert_eq!((found.store(), &read.content), (catalog.store(), &written.content));
        assert!(written.changes.starts_with(&read.changes), "damage is never content");
    }
    continue_catalog(&disk, dir, &mut found, &read);
}

/// Appends a record with right checksums: any number and any payload.
fn forge_record(bytes: &mut Vec<u8>, input: &mut Input<'_>) {
    let mut record = [0; RECORD_HEADER_BYTES];
    // Mostly the expected number.
    let number = match input.number::<1>() % 4 {
        0 => input.number::<8>(),
        _ => 5,
    };
    record[0..4].copy_from_slice(&(input.0.len() as u32).to_le_bytes());
    record[4..12].copy_from_slice(&number.to_le_bytes());
    let seed = u32::from_le_bytes(bytes[44..48].try_into().expect("four bytes"));
    let crc = crc32c::crc32c_append(crc32c::crc32c_append(seed, &record[..12]), input.0);
    record[12..].copy_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(&record);
    bytes.extend_from_slice(input.0);
}

/// Continues in a catalog that was read: what is written is found again.
fn continue_catalog(disk: &FaultDisk, dir: &Path, found: &mut Catalog, read: &CatalogBytes) {
    let is_exhausted = |error: &std::io::Error| error.kind() == std::io::ErrorKind::InvalidData;
    let content = [&read.content[..], b" and one more"].concat();
    let mut expected = read.clone();
    if found.needs_rewrite() {
        match found.rewrite(disk, dir, &content) {
            Ok(()) => {
                expected = CatalogBytes {
                    content,
                    ..CatalogBytes::default()
                };
            }
            Err(error) => {
                assert!(is_exhausted(&error), "no fault was asked for: {error}");
                let (_, kept) = Catalog::read(disk, dir).expect("whole").expect("it exists");
                assert_eq!(&kept, read, "nothing was written");
                return;
            }
        }
    }
    match found.append(disk, dir, b"a change") {
        Ok(()) => expected.changes.push(b"a change".to_vec()),
        Err(failure) => assert!(is_exhausted(&failure.error), "no fault was asked for: {failure:?}"),
    }
    let (again, kept) = Catalog::read(disk, dir).expect("whole").expect("it exists");
    assert_eq!((again.change(), kept), (found.change(), expected));
}
