// SPDX-License-Identifier: Apache-2.0
//! macOS. Compiled in CI, and never run by the project so far.

use std::fs::File;
use std::io;

use rustix::time::ClockId;

pub use crate::unix::{
    ClosedInChild, DISK_FAILED, DISK_FULL, ERRORS_OF_WINDOWS, PairedSocket, end_listening, free_bytes, on_fork,
    path_of_address, read_at, socket_number, socket_pair, sync, sync_names, wall_ms, write_at,
};

/// Never allocates: the caller writes zeros, which APFS stores as written space.
pub fn allocate(_file: &File, _bytes: u64) -> io::Result<bool> {
    Ok(false)
}

/// Milliseconds since 1970. There is no cheaper clock of the last tick.
#[inline]
pub fn tick_wall_ms() -> u64 {
    wall_ms()
}

/// Milliseconds of a clock that never goes back.
#[inline]
pub fn tick_ms() -> u64 {
    crate::unix::whole_ms(ClockId::Monotonic)
}

/// Milliseconds of a clock that never goes back and goes on while the machine sleeps.
pub fn awake_ms() -> u64 {
    tick_ms()
}

/// By how much these clocks may be in the past.
pub fn clock_lag_ms() -> u64 {
    1
}
