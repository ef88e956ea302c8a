// SPDX-License-Identifier: Apache-2.0
//! Real time. The only file that reads it.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the replacement that clippy.toml names"
)]

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use oxbus_model::{Clock, Error, ErrorKind, Result, Ticks, Timestamp};

/// The machine's clocks.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

/// Ticks start well above zero, so that a deadline in the past needs no negative number.
const TICKS_AT_START: u64 = 1 << 32;

fn since_start() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Timestamp(since.as_millis() as u64)
    }

    fn ticks(&self) -> Ticks {
        Ticks(TICKS_AT_START + since_start().as_millis() as u64)
    }
}

/// A moment of real time up to which a caller is willing to wait. Waiting is always in real time:
/// a clock moved by hand moves locks and expiry, not the patience of a caller.
#[derive(Debug, Clone, Copy)]
pub enum Alarm {
    /// Wait for ever.
    Never,
    /// Wait until then.
    At(Instant),
}

impl Alarm {
    /// The moment `wait` from now; `None` waits for ever, zero does not wait.
    pub fn after(wait: Option<Duration>) -> Self {
        wait.and_then(|wait| Instant::now().checked_add(wait))
            .map_or(Self::Never, Self::At)
    }

    /// What is left; `None` for ever.
    pub fn remaining(self) -> Option<Duration> {
        match self {
            Self::Never => None,
            Self::At(at) => Some(at.saturating_duration_since(Instant::now())),
        }
    }
}

/// Bytes of the operating system's randomness, for secrets and for prefixes that must differ.
pub fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::new(
            ErrorKind::ServerBusy,
            format!("the system gave no randomness; try again: {error}"),
        )
    })?;
    Ok(bytes)
}
