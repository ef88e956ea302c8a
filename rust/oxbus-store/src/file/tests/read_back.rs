// SPDX-License-Identifier: Apache-2.0
//! Messages are read back from the files that contain them.

use super::*;
use crate::Wait;
use crate::extent::{Extent, ExtentLocation, checksum_of};
use crate::fault::SimulatedFault;
use crate::{CoalescingReader, Record, StoredRecord};

/// An entry with one message after `before` other bytes.
fn entry_with(message: &[u8], before: usize) -> Vec<u8> {
    let mut entry = vec![7; before];
    entry.extend_from_slice(message);
    entry.extend_from_slice(&checksum_of(message));
    entry
}

fn append_message(log: &FileLog, number: u64) -> (Vec<u8>, StoredRecord) {
    let message = entry(number);
    let before = number as usize % 50;
    let lsn = log.next_lsn();
    let location = log
        .append(
            lsn,
            &entry_with(&message, before),
            SpaceClass::Adds,
            Level::Written,
            None,
            &Wait::FOREVER,
        )
        .expect("appended")
        .expect("files can be read back");
    (
        message.clone(),
        StoredRecord::on_disk(message.len(), location.plus(before)),
    )
}

/// Checks that each message can be read alone, and that one reader can read all messages.
fn check_all(messages: &[(Vec<u8>, StoredRecord)]) {
    for (bytes, stored) in messages {
        assert_eq!(stored.len(), bytes.len());
        assert_eq!(stored.load().expect("readable")[..], bytes[..]);
    }
    let mut expected = messages.iter().map(|(bytes, _)| &bytes[..]);
    let stored = messages.iter().map(|(_, stored)| stored);
    let read = CoalescingReader::default().read(
        stored,
        |error| error.kind(),
        |bytes| {
            assert_eq!(Some(bytes), expected.next());
            Ok(())
        },
    );
    assert_eq!((read, expected.next()), (Ok(()), None));
}

#[test]
fn messages_are_read_back_from_every_segment() {
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    let mut messages = Vec::new();
    for number in 1..=200 {
        messages.push(append_message(&log, number));
        if number % 3 == 0 {
            log.commit(log.reached(Level::Written).next(), Level::Written, &Wait::FOREVER)
                .expect("written");
        }
    }
    log.commit(Lsn(200), Level::Synced, &Wait::FOREVER).expect("synced");
    check_all(&messages);
    log.truncate_before(Lsn(190)).expect("truncated");
    drop(log);
    check_all(&messages);
}

#[test]
fn a_snapshot_relocates_messages() {
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    let messages: Vec<_> = (1..=60).map(|number| append_message(&log, number)).collect();
    log.commit(Lsn(60), Level::Synced, &Wait::FOREVER).expect("synced");
    let chunk = |(bytes, stored): &(Vec<u8>, StoredRecord)| {
        Ok(Chunk {
            bytes: entry_with(bytes, 5),
            messages: vec![(stored.clone(), 5)],
            ..Chunk::default()
        })
    };
    log.put_snapshot(Lsn(60), &mut messages.iter().map(chunk))
        .expect("the snapshot is written");
    log.truncate_before(Lsn(61)).expect("truncated");
    check_all(&messages);
    // Messages are now read from the snapshot, the only named file with these bytes.
    let names = disk.list(Path::new(DIR)).expect("listed");
    let snapshot = names.iter().find(|name| name.ends_with(".snapshot")).expect("one");
    let file = disk.open(&Path::new(DIR).join(snapshot)).expect("opened");
    let len = file.len().expect("known");
    file.write_all_at(&vec![0; len as usize - 4096], 4096).expect("damaged");
    for (bytes, stored) in messages.iter().filter(|(bytes, _)| !bytes.is_empty()) {
        let error = stored.load().expect_err("damaged");
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData, "{} bytes", bytes.len());
    }
}

#[test]
fn a_snapshot_that_fails_leaves_messages_readable() {
    let before = FaultDisk::new();
    let (log, ..) = open(&before);
    drop(log);
    for call in 0..40 {
        let disk = FaultDisk::new();
        let (log, ..) = open(&disk);
        let messages: Vec<_> = (1..=10).map(|number| append_message(&log, number)).collect();
        log.commit(Lsn(10), Level::Synced, &Wait::FOREVER).expect("synced");
        disk.fail_at(disk.calls() + call, SimulatedFault::Errno(5));
        let chunk = |(bytes, stored): &(Vec<u8>, StoredRecord)| {
            Ok(Chunk {
                bytes: entry_with(bytes, 5),
                messages: vec![(stored.clone(), 5)],
                ..Chunk::default()
            })
        };
        let _ = log.put_snapshot(Lsn(10), &mut messages.iter().map(chunk));
        check_all(&messages);
    }
}

#[test]
fn an_open_reports_the_location_of_each_entry() {
    /// Each entry, the offset of its message, and the location of the entry.
    struct Places(Vec<(Vec<u8>, usize, ExtentLocation)>);

    impl Replay for Places {
        fn snapshot(&mut self, _: Lsn, part: &[u8], location: Option<&ExtentLocation>) {
            self.0.push((part.to_vec(), 0, location.expect("a file").clone()));
        }

        fn entry(&mut self, lsn: Lsn, entry: &[u8], location: Option<&ExtentLocation>) {
            self.0
                .push((entry.to_vec(), lsn.0 as usize % 50, location.expect("a file").clone()));
        }
    }

    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    for number in 1..=20 {
        append_message(&log, number);
    }
    let chunk = || Ok(entry_with(b"a part of the snapshot", 0).into());
    log.put_snapshot(Lsn(10), &mut std::iter::repeat_with(chunk).take(3))
        .expect("the snapshot is written");
    drop(log);
    let mut found = Places(Vec::new());
    FileLog::open(Arc::new(disk), Path::new(DIR), options(9), &mut found).expect("opened");
    assert_eq!(found.0.len(), 3 + 10);
    for (bytes, before, location) in found.0 {
        let message = &bytes[before..bytes.len() - 4];
        let load = |before: usize| StoredRecord::on_disk(message.len(), location.plus(before)).load();
        assert_eq!(load(before).expect("readable")[..], *message);
        if !message.is_empty() {
            load(before + 1).expect_err("not there");
        }
    }
}

#[test]
fn a_record_in_memory_and_on_disk_is_read_from_memory_and_holds_its_file() {
    let disk = FaultDisk::new();
    let extent_of = |name: &str| {
        let file = disk.create(Path::new(name)).expect("created");
        (Extent::new(Arc::clone(&file)).expect("numbered"), file)
    };
    let ((before, _file), (after, _other)) = (extent_of("/before"), extent_of("/after"));
    let record = Record::from_slice(b"the files are empty");
    let stored = StoredRecord::in_both(record.clone(), before.at(7));
    assert_eq!(stored.len(), record.len());
    assert!(stored.in_memory().expect("in memory").is_same(&record));
    assert_eq!(stored.load().expect("in memory"), record);
    assert!(!before.is_unshared());
    let again = stored.clone();
    drop(stored);
    again.move_to(after.at(3));
    assert!(before.is_unshared() && !after.is_unshared());
    assert_eq!(Record::try_from(again).expect("in memory"), record);
    assert!(after.is_unshared());
}
