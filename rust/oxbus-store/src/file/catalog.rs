// SPDX-License-Identifier: Apache-2.0
//! The catalog: a small file, replaced as a whole, with the data that a namespace needs before it opens its shards.
//!
//! ```text
//!  0  `oxbuscat`        8  u16 format version    10  zeros     16  16 bytes store id
//! 32  u64 change: 1 for the first content, one more with each    40  u32 bytes of the content
//! 44  u32 CRC-32C of bytes 0 … 44 and the content                48  the content
//! ```
//!
//! New content is written under a temporary name, synced and renamed, and the directory is synced. A reader finds
//! either the old or the new content, and it is complete. The caller defines the meaning of the content.

use std::io;
use std::path::{Path, PathBuf};

use super::header::{HeaderError, NUMBER_MAX, VERSION};
use super::recovery::OpenError;
use crate::disk::Disk;

const NAME: &str = "catalog";
const TEMPORARY: &str = "catalog.tmp";
const MAGIC: [u8; 8] = *b"oxbuscat";
const HEADER_BYTES: usize = 48;
const CRC_AT: usize = 44;

/// The catalog of a namespace as last read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalog {
    /// The id of the namespace, which its shards also carry.
    pub store: [u8; 16],
    /// The number of writes so far.
    pub change: u64,
    /// The content, defined by the caller.
    pub content: Vec<u8>,
}

impl Catalog {
    /// Creates a catalog that has never been written.
    pub fn new(store: [u8; 16]) -> Self {
        Self {
            store,
            change: 0,
            content: Vec::new(),
        }
    }

    /// The path of the catalog in `dir`.
    pub fn path(dir: &Path) -> PathBuf {
        dir.join(NAME)
    }

    /// Reads the catalog in `dir`, if there is one.
    pub fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>, OpenError> {
        let path = Self::path(dir);
        let file = match disk.open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut bytes = vec![0; file.len()? as usize];
        let read = file.read_full_at(&mut bytes, 0)?;
        bytes.truncate(read);
        Self::decode(&bytes)
            .map(Some)
            .map_err(|error| OpenError::Header { path, error })
    }

    /// Replaces the content in `dir`. An error of kind `InvalidData` means that the change number cannot rise further,
    /// which only a forged file causes.
    pub fn write(&mut self, disk: &dyn Disk, dir: &Path, content: Vec<u8>) -> io::Result<()> {
        if self.change >= NUMBER_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the change number of the catalog is exhausted",
            ));
        }
        let next = Self {
            store: self.store,
            change: self.change + 1,
            content,
        };
        let temporary = dir.join(TEMPORARY);
        match disk.remove(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = disk.create(&temporary)?;
        file.write_all_at(&next.encode()?, 0)?;
        file.sync()?;
        disk.rename(&temporary, &Self::path(dir))?;
        // From here on a reader may find the new content, so later changes must build on it, even if it is not synced.
        *self = next;
        disk.sync_dir(dir)
    }

    fn encode(&self) -> io::Result<Vec<u8>> {
        let len = u32::try_from(self.content.len()).map_err(io::Error::other)?;
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.store);
        bytes[32..40].copy_from_slice(&self.change.to_le_bytes());
        bytes[40..CRC_AT].copy_from_slice(&len.to_le_bytes());
        let crc = crc_of(&bytes, &self.content);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(&self.content);
        Ok(bytes)
    }

    fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        if bytes.len() >= MAGIC.len() && bytes[..MAGIC.len()] != MAGIC {
            return Err(HeaderError::Foreign);
        }
        let Some((header, content)) = bytes.split_at_checked(HEADER_BYTES) else {
            return Err(HeaderError::Damaged);
        };
        let version = u16::from_le_bytes([header[8], header[9]]);
        if version > VERSION {
            return Err(if is_one_version_bit_wrong(header, content, version) {
                HeaderError::Damaged
            } else {
                HeaderError::Newer { version }
            });
        }
        let u32_at = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        if version == 0 || u32_at(40) as usize != content.len() || crc_of(header, content) != u32_at(CRC_AT) {
            return Err(HeaderError::Damaged);
        }
        let change = u64::from_le_bytes(header[32..40].try_into().expect("eight bytes"));
        if change > NUMBER_MAX {
            return Err(HeaderError::Damaged);
        }
        Ok(Self {
            store: header[16..32].try_into().expect("sixteen bytes"),
            change,
            content: content.to_vec(),
        })
    }
}

/// True if a single wrong bit in the version is the only damage: the checksum is right once the version of this build
/// is put in. A file of a newer version does not have that checksum.
fn is_one_version_bit_wrong(header: &[u8], content: &[u8], version: u16) -> bool {
    let mut expected = header.to_vec();
    expected[8..10].copy_from_slice(&VERSION.to_le_bytes());
    let crc = u32::from_le_bytes(header[CRC_AT..HEADER_BYTES].try_into().expect("four bytes"));
    (version ^ VERSION).is_power_of_two() && crc_of(&expected, content) == crc
}

fn crc_of(header: &[u8], content: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[..CRC_AT]), content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{FaultDisk, SimulatedFault};

    const STORE: [u8; 16] = *b"0123456789abcdef";

    fn dir() -> &'static Path {
        Path::new("/namespace")
    }

    fn content(change: u64) -> Vec<u8> {
        vec![change as u8; 700 * change as usize]
    }

    /// Writes three contents. Returns the last acknowledged change and the last attempted one.
    fn script(disk: &FaultDisk) -> (u64, u64) {
        let mut catalog = Catalog::new(STORE);
        for change in 1..=3 {
            if catalog.write(disk, dir(), content(change)).is_err() {
                return (change - 1, change);
            }
        }
        (3, 3)
    }

    #[test]
    fn the_last_content_comes_back() {
        let disk = FaultDisk::new();
        assert_eq!(Catalog::read(&disk, dir()).expect("read"), None);
        assert_eq!(script(&disk), (3, 3));
        let found = Catalog::read(&disk, dir()).expect("read").expect("it exists");
        assert_eq!((found.store, found.change, found.content), (STORE, 3, content(3)));
    }

    #[test]
    fn a_crash_at_every_call_leaves_the_old_or_the_new() {
        let calls = {
            let disk = FaultDisk::new();
            script(&disk);
            disk.calls()
        };
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
                let (acknowledged, tried) = script(&disk);
                let left = (0..4).map(|seed| disk.after_power_cut(seed));
                for disk in left.chain([disk.after_kill()]) {
                    let found = Catalog::read(&disk, dir()).expect("never torn");
                    let change = found.as_ref().map_or(0, |catalog| catalog.change);
                    assert!(
                        (acknowledged..=tried).contains(&change),
                        "{fault:?} at {call}: {change}"
                    );
                    if let Some(catalog) = found {
                        assert_eq!(catalog.content, content(change));
                    }
                }
            }
        }
    }

    #[test]
    fn damaged_content_is_never_read() {
        let disk = FaultDisk::new();
        let mut catalog = Catalog::new(STORE);
        catalog.write(&disk, dir(), b"queues".to_vec()).expect("written");
        let whole = disk.bytes(&Catalog::path(dir())).expect("it exists");
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let expected = if bit < MAGIC.len() * 8 {
                HeaderError::Foreign
            } else {
                HeaderError::Damaged
            };
            assert_eq!(Catalog::decode(&damaged), Err(expected), "bit {bit}");
        }
        for len in 0..whole.len() {
            assert!(Catalog::decode(&whole[..len]).is_err(), "{len} bytes");
        }
    }
}
