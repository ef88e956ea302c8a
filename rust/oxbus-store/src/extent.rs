// SPDX-License-Identifier: Apache-2.0
//! Files that message bytes are read from, and locations in them.
//!
//! An extent is a file with a 24-bit number, so that the location of a message fits one word. Extents are reference
//! counted: the log that writes the file holds a reference, and so does every message located in it. The last
//! reference closes the file. The file's name may be removed earlier, because the operating system keeps an open file.
//! A log can therefore drop a segment while messages are read from it.
//!
//! A message is written as its bytes followed by their CRC-32C. Every read verifies the checksum.
//!
//! Invariants
//! - a number is in use while its reference count is above zero, and it names the same file throughout;
//! - the file of a number is set before the number is visible to other threads.
//!
//! A forked child drops its copies of locations. It must not wait for a mutex that a thread of the parent held, so it
//! leaves the file open instead.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use oxbus_model::sync::{ignore_poison, try_ignore_poison};

use crate::disk::DiskFile;

/// Bits of a packed location that hold the position in the file: 1 TiB.
const POSITION_BITS: u32 = 40;
/// Largest position in a file of messages.
pub const FILE_BYTES_MAX: u64 = (1 << POSITION_BITS) - 1;
/// The number of extents that are allocated together.
const BLOCK: usize = 1 << 10;
const BLOCKS: usize = 1 << 14;
/// Bytes of the checksum after a message.
pub const CHECKSUM_BYTES: usize = 4;

#[derive(Debug, Default)]
struct OpenFile {
    references: AtomicU32,
    /// Set in one step, so it stays consistent after a panic.
    file: Mutex<Option<Arc<dyn DiskFile>>>,
}

/// Allocator of extent numbers.
#[derive(Debug)]
struct ExtentNumbers {
    next: u32,
    free: Vec<u32>,
}

static OPEN_FILES: [OnceLock<Box<[OpenFile]>>; BLOCKS] = [const { OnceLock::new() }; BLOCKS];
/// Consistent after a panic: a number is taken or returned in one step.
static NUMBERS: Mutex<ExtentNumbers> = Mutex::new(ExtentNumbers {
    next: 0,
    free: Vec::new(),
});

fn open_file(number: u32) -> &'static OpenFile {
    let block = &OPEN_FILES[number as usize / BLOCK];
    let block = block.get_or_init(|| (0..BLOCK).map(|_| OpenFile::default()).collect());
    &block[number as usize % BLOCK]
}

/// A counted reference to a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Extent(u32);

impl Extent {
    /// Assigns a number to a file. Fails if all numbers are in use.
    pub fn new(file: Arc<dyn DiskFile>) -> io::Result<Self> {
        let mut numbers = ignore_poison(NUMBERS.lock());
        let number = match numbers.free.pop() {
            Some(number) => number,
            None if (numbers.next as usize) < BLOCK * BLOCKS => {
                numbers.next += 1;
                numbers.next - 1
            }
            None => {
                return Err(io::Error::other(
                    "messages use too many files; receive or delete messages",
                ));
            }
        };
        drop(numbers);
        let open_file = open_file(number);
        *ignore_poison(open_file.file.lock()) = Some(file);
        open_file.references.store(1, Ordering::Release);
        Ok(Self(number))
    }

    /// True if no message is located in the file, and only this extent and one handle of its owner hold the file.
    pub fn is_unshared(&self) -> bool {
        let open_file = open_file(self.0);
        // A reader clones the file under this mutex and checks the location again before it reads.
        let file = ignore_poison(open_file.file.lock());
        // Acquire: reads by others happen before they drop their reference.
        open_file.references.load(Ordering::Acquire) == 1
            && file.as_ref().is_some_and(|file| Arc::strong_count(file) == 2)
    }

    /// A location in the extent.
    pub fn at(&self, position: u64) -> ExtentLocation {
        ExtentLocation {
            extent: self.clone(),
            position,
        }
    }
}

impl Clone for Extent {
    fn clone(&self) -> Self {
        // Relaxed: the caller already holds a reference.
        let before = open_file(self.0).references.fetch_add(1, Ordering::Relaxed);
        assert!(before < u32::MAX / 2, "references to an extent leak");
        Self(self.0)
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        let open_file = open_file(self.0);
        if open_file.references.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        // Another thread may hold the mutex. In a forked child it then stays locked forever.
        let Some(mut file) = try_ignore_poison(open_file.file.try_lock()) else {
            return;
        };
        let closed = file.take();
        drop(file);
        drop(closed);
        if let Some(mut numbers) = try_ignore_poison(NUMBERS.try_lock()) {
            numbers.free.push(self.0);
        }
    }
}

/// A position in an extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtentLocation {
    extent: Extent,
    position: u64,
}

impl ExtentLocation {
    /// The location at a position of the same file.
    #[must_use]
    pub fn in_same_file(&self, position: u64) -> Self {
        self.extent.at(position)
    }

    /// The location `bytes` further on.
    #[must_use]
    pub fn plus(&self, bytes: usize) -> Self {
        self.extent.at(self.position + bytes as u64)
    }
}

/// A location packed into one word that can be replaced while others read it. It holds one reference to its extent.
#[derive(Debug)]
pub(crate) struct AtomicExtentLocation(AtomicU64);

impl From<ExtentLocation> for AtomicExtentLocation {
    fn from(location: ExtentLocation) -> Self {
        Self(AtomicU64::new(pack(location)))
    }
}

fn pack(location: ExtentLocation) -> u64 {
    assert!(
        location.position <= FILE_BYTES_MAX,
        "a file of messages has at most 1 TiB"
    );
    let packed = u64::from(location.extent.0) << POSITION_BITS | location.position;
    // The reference moves into the word.
    std::mem::forget(location.extent);
    packed
}

/// Unpacks a word and takes over its reference.
fn unpack(packed: u64) -> ExtentLocation {
    ExtentLocation {
        extent: Extent((packed >> POSITION_BITS) as u32),
        position: packed & FILE_BYTES_MAX,
    }
}

impl AtomicExtentLocation {
    /// Replaces the location.
    pub(crate) fn replace(&self, location: ExtentLocation) {
        drop(unpack(self.0.swap(pack(location), Ordering::AcqRel)));
    }

    /// Reads a message into `bytes`, which has the message's length, and verifies its checksum.
    pub(crate) fn read(&self, bytes: &mut [u8]) -> io::Result<()> {
        let (file, position) = self.file();
        let mut check = [0; CHECKSUM_BYTES];
        let whole = file.read_full_at(bytes, position)? == bytes.len()
            && file.read_full_at(&mut check, position + bytes.len() as u64)? == CHECKSUM_BYTES;
        if whole && check == checksum_of(bytes) {
            return Ok(());
        }
        Err(corrupt_message())
    }

    /// The file and the position in it. A concurrent `replace` may drop the last reference, and the extent number may
    /// be reused for another file. The word then differs, and the load is repeated.
    pub(crate) fn file(&self) -> (Arc<dyn DiskFile>, u64) {
        loop {
            let packed = self.0.load(Ordering::Acquire);
            let number = (packed >> POSITION_BITS) as u32;
            let file = &open_file(number).file;
            let file = ignore_poison(file.lock()).clone();
            if let Some(file) = file
                && self.0.load(Ordering::Acquire) == packed
            {
                return (file, packed & FILE_BYTES_MAX);
            }
        }
    }
}

impl Drop for AtomicExtentLocation {
    fn drop(&mut self) {
        drop(unpack(*self.0.get_mut()));
    }
}

/// The message of `len` bytes at the start of `bytes`, if the checksum after it is right.
pub(crate) fn checked(bytes: &[u8], len: usize) -> io::Result<&[u8]> {
    let (message, rest) = bytes.split_at_checked(len).ok_or_else(corrupt_message)?;
    if rest.first_chunk() == Some(&checksum_of(message)) {
        return Ok(message);
    }
    Err(corrupt_message())
}

#[cold]
fn corrupt_message() -> io::Error {
    let detail = "a message on disk fails its checksum";
    io::Error::new(io::ErrorKind::InvalidData, detail)
}

/// The checksum that is stored after a message.
pub fn checksum_of(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    crc32c::crc32c(bytes).to_le_bytes()
}
