// SPDX-License-Identifier: Apache-2.0
//! What Linux and macOS share.

#![expect(unsafe_code, reason = "pthread_atfork and close have no safe form")]
#![expect(
    clippy::disallowed_methods,
    reason = "this crate is the replacement that clippy.toml names"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Reads up to `buffer.len()` bytes from `position` and returns the number read, which is 0 at the end of the file.
#[inline]
pub fn read_at(file: &File, buffer: &mut [u8], position: u64) -> io::Result<usize> {
    file.read_at(buffer, position)
}

/// Writes up to `bytes.len()` bytes at `position` and returns the number written.
#[inline]
pub fn write_at(file: &File, bytes: &[u8], position: u64) -> io::Result<usize> {
    file.write_at(bytes, position)
}

/// Makes the bytes of a file durable. On macOS the standard library uses `F_FULLFSYNC`, which empties the cache of the
/// drive, too.
#[inline]
pub fn sync(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// Makes the names in a directory durable.
pub fn sync_names(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Bytes that files in a directory may still use.
pub fn free_bytes(dir: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(dir)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// The path of a directory that a `file://` address names.
pub fn path_of_address(path: &str) -> &str {
    path
}

/// The number of the error of a failed disk.
pub const DISK_FAILED: i32 = libc::EIO;

/// The number of the error of a full disk.
pub const DISK_FULL: i32 = libc::ENOSPC;

/// True if the numbers of errors are those of Windows, and not of C.
pub const ERRORS_OF_WINDOWS: bool = false;

/// Whole milliseconds of a clock; 0 before its epoch. Reads the clock directly: the arithmetic of `Instant` and
/// `SystemTime` takes as long as the reading itself.
#[inline]
pub(crate) fn whole_ms(clock: ClockId) -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    u64::try_from(tv_sec).map_or(0, |seconds| seconds * 1_000 + tv_nsec as u64 / 1_000_000)
}

/// Milliseconds since 1970.
#[inline]
pub fn wall_ms() -> u64 {
    whole_ms(ClockId::Realtime)
}

/// The number of files that can be registered at the same time.
const FILES_MAX: usize = 4096;

/// The registered files; -1 marks a free slot. They are atomics because a fork handler must not lock a mutex.
static FILES: [AtomicI32; FILES_MAX] = [const { AtomicI32::new(-1) }; FILES_MAX];

/// A file that a forked child closes, so that its lock ends with the parent. Drop it before the file.
#[derive(Debug)]
pub struct ClosedInChild(i32);

impl ClosedInChild {
    /// Registers a file. `None` if 4096 files are registered.
    pub fn register(file: &File) -> Option<Self> {
        let number = file.as_raw_fd();
        let is_registered = FILES.iter().any(|slot| {
            slot.compare_exchange(-1, number, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        });
        is_registered.then_some(Self(number))
    }
}

impl Drop for ClosedInChild {
    fn drop(&mut self) {
        for slot in &FILES {
            if slot
                .compare_exchange(self.0, -1, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
            {
                return;
            }
        }
    }
}

extern "C" fn close_files() {
    for slot in &FILES {
        let number = slot.load(Ordering::Relaxed);
        if number >= 0 {
            // SAFETY: the files belong to handles of the parent, which this child neither uses nor drops. `close` is
            // async-signal-safe.
            unsafe { libc::close(number) };
        }
    }
}

/// Makes each forked child run `in_child`, after it has closed the registered files. Works once per process.
pub fn on_fork(in_child: extern "C" fn()) -> io::Result<()> {
    static REGISTERED: Once = Once::new();
    let mut result = 0;
    REGISTERED.call_once(|| {
        for handler in [close_files, in_child] {
            // SAFETY: the handlers are plain functions of a library that is never unloaded, and async-signal-safe:
            // `close_files` is, and the caller promises it for `in_child`.
            result = unsafe { libc::pthread_atfork(None, None, Some(handler)) };
            if result != 0 {
                return;
            }
        }
    });
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(result))
    }
}

/// One end of a connection within the process.
pub type PairedSocket = UnixStream;

/// Two ends of a connection within the process, neither of which blocks.
pub fn socket_pair() -> io::Result<(PairedSocket, PairedSocket)> {
    let (one, other) = UnixStream::pair()?;
    one.set_nonblocking(true)?;
    other.set_nonblocking(true)?;
    Ok((one, other))
}

/// The number by which an event loop knows a socket.
pub fn socket_number(socket: &PairedSocket) -> i64 {
    socket.as_raw_fd().into()
}

/// Ends listening for all processes that hold the socket: a forked child may still have it.
pub fn end_listening(listener: &impl AsFd) {
    let _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
}
