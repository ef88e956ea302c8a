// SPDX-License-Identifier: Apache-2.0
//! A directory with every kind of content, as the broker writes it (docs/format.md, "Golden files").
//!
//! `golden/v1/closed` is the directory after a close, `golden/v1/killed` the one that a kill leaves; `directory` says how
//! their files are kept. `closed.txt` and `killed.txt` are what a namespace shows that opens them. A change of these files is
//! a change of the format, or of what is shown. `OXBUS_WRITE_GOLDEN=1 cargo test -p oxbus-broker --test golden_directory`
//! writes them again.
//!
//! Read in this order: `script` (what is done), `entities`, `orders`, `others`, `rows` (to what), `bus` (and how so that the
//! bytes are the same each time), `found` and `continues` (what the next owner has). A directory in memory has no files `owner`:
//! those hold the number of a process.

mod bus;
mod continues;
mod directory;
mod entities;
mod found;
mod kinds;
mod orders;
mod others;
mod rows;
mod script;

use std::fs;
use std::path::{Path, PathBuf};

use directory::Files;
use oxbus_broker::Namespace;
use oxbus_store::fault::FaultDisk;

const SEED_OF_THE_NEXT_OWNER: u64 = 5;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1")
}

/// True when the golden files are written now: they cannot be read at the same time.
fn rewrites_golden_files() -> bool {
    std::env::var_os("OXBUS_WRITE_GOLDEN").is_some()
}

/// Opens a directory as the next owner does, after the script's end.
fn open(disk: &FaultDisk) -> Namespace {
    bus::open(disk, &script::at_end(), SEED_OF_THE_NEXT_OWNER, None)
}

/// What the next owner of a directory finds.
fn shown(files: &Files) -> String {
    let namespace = open(&directory::disk_of(files));
    let recovery = namespace.recovery().expect("it is in a directory");
    assert!(recovery.corrupt_partitions.is_empty(), "{recovery:?}");
    assert!(recovery.waiting_loads.is_empty(), "{recovery:?}");
    assert_eq!(recovery.truncated_bytes, 0, "all that was synced is there");
    found::describe(&namespace)
}

#[test]
fn the_broker_writes_the_same_bytes() {
    let written = script::write();
    for (which, disk) in [("killed", &written.killed), ("closed", &written.closed)] {
        let files = directory::files_of(disk);
        let (kept, text) = (folder().join(which), folder().join(format!("{which}.txt")));
        if rewrites_golden_files() {
            directory::write_to(&files, &kept);
            fs::write(text, shown(&files)).expect("the file can be written");
        } else {
            directory::compare(&files, &directory::read_from(&kept), which);
        }
    }
}

/// Compares line by line what the next owner finds with what was there.
fn check_shown(which: &str) {
    if rewrites_golden_files() {
        return;
    }
    let files = directory::read_from(&folder().join(which));
    let golden = fs::read_to_string(folder().join(format!("{which}.txt"))).expect("it was written");
    let shown = shown(&files);
    for (shown, golden) in shown.lines().zip(golden.lines()) {
        assert_eq!(shown, golden, "{which}");
    }
    assert_eq!(shown.lines().count(), golden.lines().count(), "{which}");
}

#[test]
fn the_content_of_a_closed_directory_is_found() {
    check_shown("closed");
}

#[test]
fn the_content_of_a_killed_directory_is_found() {
    check_shown("killed");
}

#[test]
fn the_next_owner_continues() {
    if rewrites_golden_files() {
        return;
    }
    for which in ["closed", "killed"] {
        let disk = directory::disk_of(&directory::read_from(&folder().join(which)));
        continues::check(&disk, which);
    }
}

#[test]
fn every_kind_of_event_is_in_the_files() {
    if rewrites_golden_files() {
        return;
    }
    let events = ["closed", "killed"].map(|which| {
        let disk = directory::disk_of(&directory::read_from(&folder().join(which)));
        kinds::of(&disk)
    });
    // Keep stands in snapshots only; Packed (17) is written when a full disk has its segments folded, in no other case.
    assert_eq!(
        events.concat().into_iter().collect::<std::collections::BTreeSet<_>>(),
        (1..=16).collect()
    );
}
