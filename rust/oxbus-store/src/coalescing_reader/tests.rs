// SPDX-License-Identifier: Apache-2.0
//! Messages are read in order, in few system calls, and each is verified.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::Record;
use crate::extent::{Extent, checksum_of};

/// A file that counts its reads.
#[derive(Debug, Default)]
struct CountedFile {
    bytes: Vec<u8>,
    reads: AtomicUsize,
}

impl DiskFile for CountedFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let rest = &self.bytes[self.bytes.len().min(position as usize)..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(count)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        unreachable!("nothing is written")
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        unreachable!("these tests read")
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        unreachable!("nothing is written")
    }

    fn sync(&self) -> io::Result<()> {
        unreachable!("nothing is written")
    }
}

/// Messages of the given lengths in one file, each preceded by `gap` other bytes.
struct Written {
    file: Arc<CountedFile>,
    messages: Vec<(Vec<u8>, StoredRecord)>,
}

fn written(lengths: &[usize], gap: usize, change: impl FnOnce(&mut Vec<u8>)) -> Written {
    let mut bytes = Vec::new();
    let mut placed = Vec::new();
    for (number, len) in lengths.iter().enumerate() {
        bytes.resize(bytes.len() + gap, 0xFF);
        let message = vec![number as u8; *len];
        placed.push((bytes.len() as u64, message.clone()));
        bytes.extend_from_slice(&message);
        bytes.extend_from_slice(&checksum_of(&message));
    }
    change(&mut bytes);
    let file = Arc::new(CountedFile {
        bytes,
        ..CountedFile::default()
    });
    let extent = Extent::new(file.clone()).expect("a number");
    let stored = |(at, message): (u64, Vec<u8>)| {
        let stored = StoredRecord::on_disk(message.len(), extent.at(at));
        (message, stored)
    };
    let messages = placed.into_iter().map(stored).collect();
    Written { file, messages }
}

/// The visited messages, and the error that ended the read.
fn read<'a>(messages: impl Iterator<Item = &'a StoredRecord>) -> (Vec<Vec<u8>>, Option<io::ErrorKind>) {
    let mut shown = Vec::new();
    let ended = CoalescingReader::default().read(
        messages,
        |error| error.kind(),
        |bytes| {
            shown.push(bytes.to_vec());
            Ok(())
        },
    );
    (shown, ended.err())
}

fn check_in_reads(lengths: &[usize], gap: usize, reads: usize) {
    let Written { file, messages } = written(lengths, gap, |_| ());
    let expected: Vec<Vec<u8>> = messages.iter().map(|(bytes, _)| bytes.clone()).collect();
    assert_eq!(read(messages.iter().map(|(_, stored)| stored)), (expected, None));
    assert_eq!(file.reads.load(Ordering::Relaxed), reads, "{lengths:?} {gap}");
}

#[test]
fn adjacent_messages_are_one_read() {
    check_in_reads(&[100; 50], 30, 1);
    check_in_reads(&[0, 1, 0, 7], 0, 1);
}

#[test]
fn distant_and_large_messages_are_separate_reads() {
    check_in_reads(&[100; 3], GAP_BYTES as usize + 1, 3);
    let span = SPAN_BYTES as usize;
    check_in_reads(&[10, 2 * span, 10, 10], 8, 3);
    check_in_reads(&[span / 4; 6], 8, 2);
}

#[test]
fn messages_in_memory_keep_their_position() {
    let Written { file, messages } = written(&[10, 20, 30], 8, |_| ());
    let kept: StoredRecord = Record::from_slice(b"in memory").into();
    let order = [&messages[0].1, &messages[1].1, &kept, &messages[2].1];
    let expected: Vec<&[u8]> = vec![&messages[0].0, &messages[1].0, b"in memory", &messages[2].0];
    let (shown, ended) = read(order.into_iter());
    assert_eq!(
        (shown, ended),
        (expected.into_iter().map(<[u8]>::to_vec).collect(), None)
    );
    assert_eq!(file.reads.load(Ordering::Relaxed), 2);
}

#[test]
fn messages_in_another_order_and_of_two_files_come_back() {
    let (one, another) = (written(&[10, 20, 30], 8, |_| ()), written(&[10, 20, 30], 8, |_| ()));
    let order = [
        &one.messages[1],
        &another.messages[2],
        &one.messages[2],
        &one.messages[0],
        &one.messages[0],
    ];
    let expected: Vec<Vec<u8>> = order.iter().map(|(bytes, _)| bytes.clone()).collect();
    assert_eq!(read(order.iter().map(|(_, stored)| stored)), (expected, None));
}

#[test]
fn a_damaged_message_ends_the_reading() {
    let damages: [fn(&mut Vec<u8>); 3] = [
        // Flips a bit in the third message, flips one in its checksum, and cuts the file inside it.
        |bytes| bytes[8 + 14 + 8 + 14 + 8] ^= 1,
        |bytes| bytes[8 + 14 + 8 + 14 + 8 + 12] ^= 1,
        |bytes| bytes.truncate(8 + 14 + 8 + 14 + 8 + 5),
    ];
    for damage in damages {
        let Written { messages, .. } = written(&[10; 5], 8, damage);
        let (shown, ended) = read(messages.iter().map(|(_, stored)| stored));
        assert_eq!(ended, Some(io::ErrorKind::InvalidData));
        assert_eq!(shown, [vec![0; 10], vec![1; 10]]);
    }
}

#[test]
fn an_error_of_the_visitor_ends_the_read() {
    let Written { messages, .. } = written(&[10; 5], 8, |_| ());
    let mut reader = CoalescingReader::default();
    let mut count = 0;
    let ended = reader.read(
        messages.iter().map(|(_, stored)| stored),
        |_| "unreadable",
        |_| {
            count += 1;
            if count == 2 { Err("enough") } else { Ok(()) }
        },
    );
    assert_eq!((ended, count), (Err("enough"), 2));
    // The reader can be used again.
    let mut shown = 0;
    let all = reader.read(
        messages.iter().map(|(_, stored)| stored),
        |_| "unreadable",
        |bytes| {
            assert_eq!(bytes, [shown; 10]);
            shown += 1;
            Ok(())
        },
    );
    assert_eq!((all, shown), (Ok(()), 5));
}
