// SPDX-License-Identifier: Apache-2.0
//! The format of golden directories: each file without its trailing zeros, and a file `lengths` with the original
//! lengths. So files are restored exactly, and preallocated space is not stored.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use oxbus_store::disk::Disk;
use oxbus_store::fault::FaultDisk;

use super::bus::DIRECTORY;

/// Name of the list of lengths.
const LENGTHS: &str = "lengths";

/// Files by their path in the directory.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// All files of the directory on an in-memory disk.
pub(crate) fn files_of(disk: &FaultDisk) -> Files {
    let file = |path: PathBuf| {
        let name = path.strip_prefix(DIRECTORY).expect("there is nothing else").to_owned();
        let bytes = disk.bytes(&path).expect("it was listed");
        let name = name.to_str().expect("names are ASCII");
        (name.replace(std::path::MAIN_SEPARATOR, "/"), bytes)
    };
    disk.paths().into_iter().map(file).collect()
}

/// An in-memory disk with these files.
pub(crate) fn disk_of(files: &Files) -> FaultDisk {
    let disk = FaultDisk::new();
    for (name, bytes) in files {
        let path = Path::new(DIRECTORY).join(name);
        disk.create(&path).expect("the name is new");
        disk.set_bytes(&path, bytes.clone());
    }
    disk
}

/// Bytes up to the last one that is not zero.
fn without_zeros(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &bytes[..end]
}

/// Writes the files to a folder, replacing its content.
pub(crate) fn write_to(files: &Files, folder: &Path) {
    if folder.exists() {
        fs::remove_dir_all(folder).expect("the folder can be removed");
    }
    let mut lengths = String::new();
    for (name, bytes) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("it is in the folder")).expect("the folder can be made");
        fs::write(path, without_zeros(bytes)).expect("the file can be written");
        let _ = writeln!(lengths, "{} {name}", bytes.len());
    }
    fs::write(folder.join(LENGTHS), lengths).expect("the file can be written");
}

/// Reads the files of a folder.
pub(crate) fn read_from(folder: &Path) -> Files {
    let lengths = fs::read_to_string(folder.join(LENGTHS)).expect("the folder has a list");
    let file = |line: &str| {
        let (len, name) = line.split_once(' ').expect("a length and a name");
        let mut bytes = fs::read(folder.join(name)).expect("the file of each line exists");
        let len = len.parse().expect("a length");
        assert!(
            bytes.len() <= len && without_zeros(&bytes) == bytes,
            "{name}: the folder has it without trailing zeros"
        );
        bytes.resize(len, 0);
        (name.to_owned(), bytes)
    };
    lengths.lines().map(file).collect()
}

/// Compares each byte of each file.
pub(crate) fn compare(written: &Files, golden: &Files, which: &str) {
    let names = |files: &Files| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(written), names(golden), "{which}: the files");
    for (name, bytes) in written {
        let golden = &golden[name];
        let differs = bytes.iter().zip(golden).position(|(byte, golden)| byte != golden);
        assert_eq!(
            (differs, bytes.len()),
            (None, golden.len()),
            "{which}/{name}: the first byte that differs, and the length; the format may not change (docs/format.md)"
        );
    }
}
