// SPDX-License-Identifier: Apache-2.0
//! Windows. Compiled in CI, and never run by the project so far.

#![expect(
    clippy::disallowed_methods,
    reason = "this crate is the replacement that clippy.toml names"
)]

use std::fs::File;
use std::io::{self, Error, ErrorKind};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::windows::fs::FileExt;
use std::os::windows::io::AsRawSocket;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Reads up to `buffer.len()` bytes from `position` and returns the number read, which is 0 at the end of the file.
pub fn read_at(file: &File, buffer: &mut [u8], position: u64) -> io::Result<usize> {
    file.seek_read(buffer, position)
}

/// Writes up to `bytes.len()` bytes at `position` and returns the number written.
pub fn write_at(file: &File, bytes: &[u8], position: u64) -> io::Result<usize> {
    file.seek_write(bytes, position)
}

/// Extends a file to at least `bytes` bytes of allocated space. False if the file system cannot.
pub fn allocate(file: &File, bytes: u64) -> io::Result<bool> {
    if file.metadata()?.len() < bytes {
        match fs4::fs_std::FileExt::allocate(file, bytes) {
            Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(false),
            result => result?,
        }
        file.set_len(bytes)?;
    }
    Ok(true)
}

/// Makes the bytes of a file durable (`FlushFileBuffers`).
pub fn sync(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// Does nothing: a program cannot sync a directory. NTFS has a journal of names, so they come back in order, but a
/// power loss right after a creation or a rename may take that name.
pub fn sync_names(_dir: &Path) -> io::Result<()> {
    Ok(())
}

/// Bytes that files in a directory may still use.
pub fn free_bytes(dir: &Path) -> io::Result<u64> {
    fs4::available_space(dir)
}

/// The path of a directory that a `file://` address names: `/C:/dir` is `C:/dir`.
pub fn path_of_address(path: &str) -> &str {
    match path.as_bytes() {
        [b'/', drive, b':', ..] if drive.is_ascii_alphabetic() => &path[1..],
        _ => path,
    }
}

/// The number of the error of a failed disk: `ERROR_IO_DEVICE`.
pub const DISK_FAILED: i32 = 1117;

/// The number of the error of a full disk: `ERROR_DISK_FULL`.
pub const DISK_FULL: i32 = 112;

/// True if the numbers of errors are those of Windows, and not of C.
pub const ERRORS_OF_WINDOWS: bool = true;

/// Milliseconds since 1970.
pub fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// Milliseconds since 1970. There is no cheaper clock of the last tick.
pub fn tick_wall_ms() -> u64 {
    wall_ms()
}

/// Milliseconds of a clock that never goes back.
pub fn tick_ms() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_millis() as u64
}

/// Milliseconds of a clock that never goes back and goes on while the machine sleeps.
pub fn awake_ms() -> u64 {
    tick_ms()
}

/// By how much the clocks may be in the past: the system's time moves every 15.6 ms on old versions.
pub fn clock_lag_ms() -> u64 {
    16
}

/// A file that a forked child would close. There are no forks.
#[derive(Debug)]
pub struct ClosedInChild;

impl ClosedInChild {
    /// Does nothing.
    pub fn register(_file: &File) -> Option<Self> {
        Some(Self)
    }
}

/// Does nothing: there are no forks.
pub fn on_fork(_in_child: extern "C" fn()) -> io::Result<()> {
    Ok(())
}

/// One end of a connection within the process.
pub type PairedSocket = TcpStream;

/// Two ends of a connection within the process, neither of which blocks. They are TCP sockets on loopback.
pub fn socket_pair() -> io::Result<(PairedSocket, PairedSocket)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    let (other, peer) = listener.accept()?;
    // Another program may have connected first.
    if peer != one.local_addr()? {
        return Err(Error::other(
            "another program connected to a socket of this process; try again",
        ));
    }
    for end in [&one, &other] {
        end.set_nonblocking(true)?;
        end.set_nodelay(true)?;
    }
    Ok((one, other))
}

/// The number by which an event loop knows a socket.
pub fn socket_number(socket: &PairedSocket) -> i64 {
    socket.as_raw_socket() as i64
}

/// Does nothing: dropping the socket ends it, because no other process has it.
pub fn end_listening<T>(_listener: &T) {}
