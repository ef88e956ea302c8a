// SPDX-License-Identifier: Apache-2.0
//! The file of a blob: a header with its version, then the content.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Version;

/// Begins every file.
const MAGIC: &[u8; 8] = b"oxblob1\n";

/// Bytes of the magic and of the version.
pub(super) const HEADER: usize = 8 + VERSION;

/// Bytes of a version: milliseconds since 1970, the process, a counter of the process.
const VERSION: usize = 8 + 4 + 8;

/// Versions and temporary names of this process so far.
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// A file without its own name yet. It is removed when this is dropped, unless it was renamed.
pub(super) struct Temporary(pub(super) PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // After a rename there is nothing to remove; another error leaves a file that no listing shows.
        let _ = fs::remove_file(&self.0);
    }
}

/// Writes a file without its own name into a folder, and makes it durable. Returns it and its version.
pub(super) fn write(folder: &Path, bytes: &[u8]) -> io::Result<(Temporary, Version)> {
    let now = oxbus_system::wall_ms();
    let process = std::process::id();
    let (mut file, temporary, count) = loop {
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("new-{now:x}-{process:x}-{count:x}"));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            // Another process with this number and clock, in a container.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            file => break (file?, Temporary(path), count),
        }
    };
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8..16].copy_from_slice(&now.to_be_bytes());
    header[16..20].copy_from_slice(&process.to_be_bytes());
    header[20..].copy_from_slice(&count.to_be_bytes());
    file.write_all(&header)?;
    file.write_all(bytes)?;
    oxbus_system::sync(&file)?;
    Ok((temporary, version_of(&header)))
}

/// Reads the version at the beginning of a file.
pub(super) fn read_header(file: &mut File) -> io::Result<Version> {
    let mut header = [0; HEADER];
    match file.read_exact(&mut header) {
        Ok(()) if header.starts_with(MAGIC) => Ok(version_of(&header)),
        Err(error) if error.kind() != ErrorKind::UnexpectedEof => Err(error),
        _ => Err(io::Error::other("the file is no object of oxbus")),
    }
}

fn version_of(header: &[u8; HEADER]) -> Version {
    let digits = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
    };
    Version(digits(&header[8..]))
}
