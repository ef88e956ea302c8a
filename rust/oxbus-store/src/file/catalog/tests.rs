// SPDX-License-Identifier: Apache-2.0
//! Catalogs after crashes, failed calls, cuts and damage.

use super::layout::MAGIC;
use super::*;
use crate::fault::{FaultDisk, SimulatedFault};
use crate::file::header::{HeaderError, VERSION};

const STORE: [u8; 16] = *b"0123456789abcdef";
const FAULTS: [SimulatedFault; 5] = [
    SimulatedFault::Kill,
    SimulatedFault::PowerCut,
    SimulatedFault::ShortWrite,
    SimulatedFault::Errno(5),
    SimulatedFault::Errno(28),
];

fn dir() -> &'static Path {
    Path::new("/namespace")
}

/// The catalog of an owner whose content is the list of its changes, one byte each.
struct ByteOwner {
    disk: FaultDisk,
    catalog: Catalog,
    content: Vec<u8>,
}

impl ByteOwner {
    fn create(disk: &FaultDisk) -> io::Result<Self> {
        let mut catalog = Catalog::new(STORE);
        catalog.rewrite(disk, dir(), &[])?;
        let (disk, content) = (disk.clone(), Vec::new());
        Ok(Self { disk, catalog, content })
    }

    /// The next owner. `None` if there is no catalog.
    fn open(disk: &FaultDisk) -> Option<Self> {
        let (catalog, bytes) = Catalog::read(disk, dir()).expect("never torn")?;
        let (disk, content) = (disk.clone(), content_of(&bytes));
        Some(Self { disk, catalog, content })
    }

    /// Makes a change of `bytes` bytes.
    fn change(&mut self, change: u8, bytes: usize) -> Result<(), CatalogFailure> {
        if self.catalog.needs_rewrite() {
            let rewritten = self.catalog.rewrite(&self.disk, dir(), &self.content);
            rewritten.map_err(|error| CatalogFailure {
                error,
                is_in_doubt: false,
            })?;
        }
        self.catalog.append(&self.disk, dir(), &vec![change; bytes])?;
        self.content.push(change);
        Ok(())
    }

    fn compact(&mut self) -> io::Result<()> {
        self.catalog.rewrite(&self.disk, dir(), &self.content)
    }
}

/// All changes that a file holds, by their first byte.
fn content_of(bytes: &CatalogBytes) -> Vec<u8> {
    let changes = bytes.changes.iter().map(|change| change[0]);
    bytes.content.iter().copied().chain(changes).collect()
}

/// Bytes of each change of the scripts: shorter and longer than a sector and a page.
const LENGTHS: [usize; 7] = [1, 20, 700, 512, 5_000, 3, 100];

/// Makes the changes 1, 2, … with a new file in between, and stops when the process dies. Returns the changes that were
/// acknowledged, and those that may be found after a crash.
fn script(disk: &FaultDisk) -> (Vec<u8>, Vec<Vec<u8>>) {
    let Ok(mut owner) = ByteOwner::create(disk) else {
        return (Vec::new(), vec![Vec::new()]);
    };
    for (change, bytes) in (1..).zip(LENGTHS) {
        if change == 5 {
            let _ = owner.compact();
        }
        let before = owner.content.clone();
        match owner.change(change, bytes) {
            Ok(()) => {}
            Err(failure) if disk.has_crashed() || failure.is_in_doubt => {
                let after = [&before[..], &[change]].concat();
                return (before.clone(), vec![before, after]);
            }
            Err(_) => assert_eq!(owner.content, before, "a failed change has no effect"),
        }
    }
    (owner.content.clone(), vec![owner.content])
}

#[test]
fn changes_come_back_in_order() {
    let disk = FaultDisk::new();
    assert_eq!(Catalog::read(&disk, dir()).expect("read"), None);
    assert_eq!(script(&disk).0, [1, 2, 3, 4, 5, 6, 7]);
    let (found, bytes) = Catalog::read(&disk, dir()).expect("read").expect("it exists");
    assert_eq!((found.store(), &bytes.content[..]), (STORE, &[1, 2, 3, 4][..]));
    assert_eq!(bytes.changes, [vec![5; 5_000], vec![6; 3], vec![7; 100]]);
    // Creation, seven changes and a new file.
    assert_eq!((found.change(), bytes.torn_bytes), (9, 0));
    assert!(!found.needs_rewrite() && found.has_records() && found.is_long());
}

#[test]
fn a_crash_or_an_error_at_every_call_leaves_acknowledged_changes() {
    let calls = {
        let disk = FaultDisk::new();
        script(&disk);
        disk.calls()
    };
    for (call, fault) in (0..calls).flat_map(|call| FAULTS.map(|fault| (call, fault))) {
        let disk = FaultDisk::new();
        disk.fail_at(call, fault);
        let (acknowledged, possible) = script(&disk);
        let after = (0..6).map(|seed| disk.after_power_cut(seed)).chain([disk.after_kill()]);
        for disk in after {
            let Some(mut owner) = ByteOwner::open(&disk) else {
                assert!(acknowledged.is_empty(), "{fault:?} at {call}: the catalog is gone");
                continue;
            };
            assert!(
                possible.contains(&owner.content),
                "{fault:?} at {call}: {:?}",
                owner.content
            );
            // The next owner continues, and what it acknowledges stays, too.
            let next = [&owner.content[..], &[99]].concat();
            owner.change(99, 40).expect("no fault is left");
            for seed in 0..2 {
                let again = ByteOwner::open(&disk.after_power_cut(seed)).expect("it exists");
                assert_eq!(again.content, next, "{fault:?} at {call}");
            }
        }
    }
}

/// Two failing calls: the second one may be the one that takes a record back.
#[test]
fn a_change_that_is_surely_not_stored_never_appears() {
    let calls = {
        let disk = FaultDisk::new();
        script(&disk);
        disk.calls()
    };
    for call in 0..calls {
        for (first, second) in [(5, 5), (28, 28), (5, 28)] {
            for distance in 1..4 {
                let disk = FaultDisk::new();
                disk.fail_at(call, SimulatedFault::Errno(first));
                disk.fail_at(call + distance, SimulatedFault::Errno(second));
                let (_, possible) = script(&disk);
                for disk in (0..3).map(|seed| disk.after_power_cut(seed)).chain([disk.after_kill()]) {
                    let found = ByteOwner::open(&disk).map_or_else(Vec::new, |owner| owner.content);
                    assert!(
                        possible.contains(&found),
                        "calls {call} and {distance} later: {found:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_file_cut_anywhere_has_the_changes_before_the_cut() {
    let disk = FaultDisk::new();
    script(&disk);
    let path = Catalog::path(dir());
    let whole = disk.bytes(&path).expect("it exists");
    let (_, bytes) = Catalog::read(&disk, dir()).expect("read").expect("it exists");
    let content_end = HEADER_BYTES + bytes.content.len();
    let mut ends = vec![content_end];
    for change in &bytes.changes {
        ends.push(ends[ends.len() - 1] + 16 + change.len());
    }
    assert_eq!(ends.last(), Some(&whole.len()));
    for len in 0..whole.len() {
        disk.set_bytes(&path, whole[..len].to_vec());
        let found = Catalog::read(&disk, dir());
        if len < content_end {
            assert!(found.is_err(), "{len} bytes");
            continue;
        }
        let (catalog, found) = found.expect("a torn record is cut").expect("it exists");
        let kept = ends.iter().filter(|end| **end <= len).count() - 1;
        assert_eq!(found.changes, bytes.changes[..kept], "{len} bytes");
        assert_eq!(found.torn_bytes as usize, len - ends[kept]);
        assert_eq!(catalog.needs_rewrite(), found.torn_bytes > 0);
    }
}

#[test]
fn every_flipped_bit_is_found_or_cuts_only_the_last_record() {
    let disk = FaultDisk::new();
    let mut owner = ByteOwner::create(&disk).expect("created");
    owner.change(1, 9).expect("recorded");
    owner.compact().expect("written");
    owner.change(2, 9).expect("recorded");
    owner.change(3, 9).expect("recorded");
    let path = Catalog::path(dir());
    let whole = disk.bytes(&path).expect("it exists");
    let last = whole.len() - (16 + 9);
    for bit in 0..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let found = layout::decode(&damaged).map(|(_, found)| content_of(&found));
        let expected = match bit / 8 {
            byte if byte < MAGIC.len() => Err(HeaderError::Foreign),
            byte if byte < last => Err(HeaderError::Damaged),
            // This may be a record that was never synced.
            _ => Ok(vec![1, 2]),
        };
        assert_eq!(found, expected, "bit {bit}");
    }
}

#[test]
fn a_file_of_version_1_has_no_records_and_is_replaced() {
    let disk = FaultDisk::new();
    ByteOwner::create(&disk).expect("created").compact().expect("written");
    let path = Catalog::path(dir());
    let mut bytes = disk.bytes(&path).expect("it exists");
    bytes[8..10].copy_from_slice(&1_u16.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..44]);
    bytes[44..48].copy_from_slice(&crc.to_le_bytes());
    for bit in 0..16 {
        let mut damaged = bytes.clone();
        damaged[8 + bit / 8] ^= 1 << (bit % 8);
        assert_eq!(
            layout::decode(&damaged).expect_err("one bit"),
            HeaderError::Damaged,
            "bit {bit}"
        );
    }
    assert_eq!(
        layout::decode(&[&bytes[..], &[0]].concat()).expect_err("longer"),
        HeaderError::Damaged
    );
    disk.set_bytes(&path, bytes);
    let mut owner = ByteOwner::open(&disk).expect("it exists");
    assert!(owner.catalog.needs_rewrite());
    owner.change(1, 5).expect("recorded");
    let bytes = disk.bytes(&path).expect("it exists");
    assert_eq!(u16::from_le_bytes([bytes[8], bytes[9]]), VERSION);
    assert_eq!(ByteOwner::open(&disk).expect("it exists").content, [1]);
}

#[test]
fn a_reader_sees_each_change() {
    let disk = FaultDisk::new();
    let mut owner = ByteOwner::create(&disk).expect("created");
    let reads = |disk: &FaultDisk| Catalog::read(disk, dir()).expect("whole").expect("it exists").0;
    let mut reader = reads(&disk);
    for change in 1..=6 {
        assert!(!reader.has_changed(&disk, dir()).expect("read"), "before {change}");
        if change % 3 == 0 {
            owner.compact().expect("written");
        } else {
            owner.change(change, 30).expect("recorded");
        }
        assert!(reader.has_changed(&disk, dir()).expect("read"), "after {change}");
        reader = reads(&disk);
    }
}
