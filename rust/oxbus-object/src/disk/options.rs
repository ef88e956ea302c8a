// SPDX-License-Identifier: Apache-2.0
//! What an owner wants of its disk.

use std::time::Duration;

use super::requests::RETRY_PAUSE;

/// Options of a disk.
#[derive(Debug, Clone)]
pub struct LaneDiskOptions {
    /// Bytes of the cache of what was read.
    pub cache_bytes: usize,
    /// Objects that are created per second, at most; `None` for no bound.
    pub creates_per_second_max: Option<f64>,
    /// What to do if another process owns the namespace.
    pub takeover: Takeover,
    /// How long to wait before a request is sent again; each further wait is twice as long, up to 2 seconds.
    pub retry_pause: Duration,
    /// How often the owner shows that it lives. Others take over after 6 seconds.
    pub beat_interval: Duration,
    /// How often the owner looks what can be deleted or moved.
    pub tidy_interval: Duration,
    /// A checkpoint is made after this many objects.
    pub checkpoint_objects: u64,
}

/// What to do if another process owns a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Takeover {
    /// Take it over if the owner is gone, which takes the time of a lease to see; else fail.
    #[default]
    IfGone,
    /// Wait until the owner is gone, for as long as it takes.
    WhenGone,
    /// Take it over at once. An owner that lives finds out at its next change, and loses nothing that it acknowledged.
    AtOnce,
}

impl Default for LaneDiskOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 64 << 20,
            creates_per_second_max: None,
            takeover: Takeover::IfGone,
            retry_pause: RETRY_PAUSE,
            beat_interval: Duration::from_secs(2),
            tidy_interval: Duration::from_secs(1),
            checkpoint_objects: 256,
        }
    }
}
