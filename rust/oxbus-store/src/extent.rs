// SPDX-License-Identifier: Apache-2.0
//! Files that messages are read back from, and places in them.
//!
//! An extent is a file under a number of 24 bits, so that the place of a message fits a word. It is counted: by the log
//! that writes the file, and by every message whose place is in it. The last one closes the file. Its name may be gone
//! before: the operating system keeps what somebody has open, so a log lets go of a segment without asking who reads it.
//!
//! A message is written as its bytes and their CRC-32C. What is read back is checked against it.
//!
//! Holds always
//! - a number is in use while its count is above zero, and names one file all that time;
//! - the file of a number in use is set before anybody else knows the number.
//!
//! A forked child drops its copies of places: it never waits for a mutex that a thread of its parent held, and leaves the
//! file open instead.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use oxbus_model::sync::{ignore_poison, try_ignore_poison};

use crate::disk::DiskFile;

/// Bits of a place that say where in the file: 1 TiB.
const POSITION_BITS: u32 = 40;
const POSITION_MAX: u64 = (1 << POSITION_BITS) - 1;
/// Extents that are allocated together.
const BLOCK: usize = 1 << 10;
const BLOCKS: usize = 1 << 14;
/// Bytes of the check behind a message.
pub const CHECKSUM_BYTES: usize = 4;

#[derive(Debug, Default)]
struct OpenFile {
    references: AtomicU32,
    /// Set in one step, so it is whole after a panic.
    file: Mutex<Option<Arc<dyn DiskFile>>>,
}

/// Numbers to give out.
#[derive(Debug)]
struct ExtentNumbers {
    next: u32,
    free: Vec<u32>,
}

static OPEN_FILES: [OnceLock<Box<[OpenFile]>>; BLOCKS] = [const { OnceLock::new() }; BLOCKS];
/// Whole after a panic: a number is taken or given back in one step.
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
    /// Gives a file a number. An error when more files are in use than numbers.
    pub fn new(file: Arc<dyn DiskFile>) -> io::Result<Self> {
        let mut numbers = ignore_poison(NUMBERS.lock());
        let number = match numbers.free.pop() {
            Some(number) => number,
            None if (numbers.next as usize) < BLOCK * BLOCKS => {
                numbers.next += 1;
                numbers.next - 1
            }
            None => return Err(io::Error::other("too many files are in use by messages")),
        };
        drop(numbers);
        let open_file = open_file(number);
        *ignore_poison(open_file.file.lock()) = Some(file);
        open_file.references.store(1, Ordering::Release);
        Ok(Self(number))
    }

    /// True when nobody else reads the file: no message has its place in it, and nobody holds it but this and its owner,
    /// who holds it once.
    pub fn is_sole(&self) -> bool {
        let open_file = open_file(self.0);
        // Who reads a message takes the file under this mutex, and looks at the place again before it reads.
        let file = ignore_poison(open_file.file.lock());
        // Acquire: what others read from the file they read before they let go of it.
        open_file.references.load(Ordering::Acquire) == 1
            && file.as_ref().is_some_and(|file| Arc::strong_count(file) == 2)
    }

    /// A place in it.
    pub fn at(&self, position: u64) -> ExtentLocation {
        ExtentLocation {
            extent: self.clone(),
            position,
        }
    }
}

impl Clone for Extent {
    fn clone(&self) -> Self {
        // Relaxed: who clones has a reference.
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
        // Another thread may have it, in a forked child for ever.
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

/// Where something stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtentLocation {
    extent: Extent,
    position: u64,
}

impl ExtentLocation {
    /// `bytes` further.
    #[must_use]
    pub fn plus(&self, bytes: usize) -> Self {
        self.extent.at(self.position + bytes as u64)
    }
}

/// A place in one word, which can be replaced while others read it. It is one reference to its extent.
#[derive(Debug)]
pub(crate) struct AtomicExtentLocation(AtomicU64);

impl From<ExtentLocation> for AtomicExtentLocation {
    fn from(location: ExtentLocation) -> Self {
        Self(AtomicU64::new(pack(location)))
    }
}

fn pack(location: ExtentLocation) -> u64 {
    assert!(
        location.position <= POSITION_MAX,
        "a file of messages has at most 1 TiB"
    );
    let packed = u64::from(location.extent.0) << POSITION_BITS | location.position;
    // Its reference moves into the word.
    std::mem::forget(location.extent);
    packed
}

/// Takes a word apart, and its reference out of it.
fn unpack(packed: u64) -> ExtentLocation {
    ExtentLocation {
        extent: Extent((packed >> POSITION_BITS) as u32),
        position: packed & POSITION_MAX,
    }
}

impl AtomicExtentLocation {
    /// Puts another place in.
    pub(crate) fn replace(&self, location: ExtentLocation) {
        drop(unpack(self.0.swap(pack(location), Ordering::AcqRel)));
    }

    /// Reads a message into `bytes`, which are as long as it, and checks it.
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

    /// The file, and where in it. The place may be replaced meanwhile, and its extent go on to name another file: then the
    /// word has changed.
    pub(crate) fn file(&self) -> (Arc<dyn DiskFile>, u64) {
        loop {
            let packed = self.0.load(Ordering::Acquire);
            let number = (packed >> POSITION_BITS) as u32;
            let file = &open_file(number).file;
            let file = ignore_poison(file.lock()).clone();
            if let Some(file) = file
                && self.0.load(Ordering::Acquire) == packed
            {
                return (file, packed & POSITION_MAX);
            }
        }
    }
}

impl Drop for AtomicExtentLocation {
    fn drop(&mut self) {
        drop(unpack(*self.0.get_mut()));
    }
}

/// The message of `len` bytes that `bytes` begin with, when its check stands behind it.
pub(crate) fn checked(bytes: &[u8], len: usize) -> io::Result<&[u8]> {
    let (message, rest) = bytes.split_at_checked(len).ok_or_else(corrupt_message)?;
    if rest.first_chunk() == Some(&checksum_of(message)) {
        return Ok(message);
    }
    Err(corrupt_message())
}

#[cold]
fn corrupt_message() -> io::Error {
    let detail = "a message on disk is not what was written there";
    io::Error::new(io::ErrorKind::InvalidData, detail)
}

/// The check that stands behind a message.
pub fn checksum_of(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    crc32c::crc32c(bytes).to_le_bytes()
}
