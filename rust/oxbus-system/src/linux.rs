// SPDX-License-Identifier: Apache-2.0
//! Linux.

use std::fs::File;
use std::io;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::time::{ClockId, Timespec, clock_getres};

pub use crate::unix::{
    ClosedInChild, DISK_FAILED, DISK_FULL, ERRORS_OF_WINDOWS, PairedSocket, end_listening, free_bytes, on_fork,
    path_of_address, read_at, socket_number, socket_pair, sync, sync_names, wall_ms, write_at,
};

/// Extends a file to at least `bytes` bytes of allocated space. False if the file system cannot.
pub fn allocate(file: &File, bytes: u64) -> io::Result<bool> {
    loop {
        match fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(false),
            result => return Ok(result.map(|()| true)?),
        }
    }
}

/// Milliseconds since 1970 at the kernel's last tick: a fraction of the cost of the exact time.
#[inline]
pub fn tick_wall_ms() -> u64 {
    crate::unix::whole_ms(ClockId::RealtimeCoarse)
}

/// Milliseconds of a clock that never goes back, at the kernel's last tick.
#[inline]
pub fn tick_ms() -> u64 {
    crate::unix::whole_ms(ClockId::MonotonicCoarse)
}

/// Milliseconds of a clock that never goes back and goes on while the machine sleeps.
pub fn awake_ms() -> u64 {
    crate::unix::whole_ms(ClockId::Boottime)
}

/// By how much the last tick may be in the past: 4 ms, or 10 on a kernel with 100 ticks per second.
pub fn clock_lag_ms() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_getres(ClockId::RealtimeCoarse);
    (tv_sec.unsigned_abs() * 1_000_000_000 + tv_nsec.unsigned_abs()).div_ceil(1_000_000)
}
