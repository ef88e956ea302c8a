// SPDX-License-Identifier: Apache-2.0
//! What differs between operating systems: files, clocks, forks, sockets. No other crate asks which system it runs on.
//!
//! `linux`, `macos` and `windows` have the same items; `unix` has what the first two share. Where a system promises
//! less than Linux, its function says so, and docs/platforms.md lists it.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
mod process;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
use linux as this;
#[cfg(target_os = "macos")]
use macos as this;
#[cfg(windows)]
use windows as this;

pub use process::{host_name, is_process_gone, process_mark};
pub use this::{
    ClosedInChild, DISK_FAILED, DISK_FULL, ERRORS_OF_WINDOWS, PairedSocket, allocate, awake_ms, clock_lag_ms,
    end_listening, free_bytes, on_fork, path_of_address, read_at, socket_number, socket_pair, sync, sync_names,
    tick_ms, tick_wall_ms, wall_ms, write_at,
};

/// A moment of the monotonic clock, to measure a duration with.
#[expect(clippy::disallowed_methods, reason = "this crate reads the clocks for the others")]
pub fn instant() -> std::time::Instant {
    std::time::Instant::now()
}

#[cfg(test)]
mod tests;
