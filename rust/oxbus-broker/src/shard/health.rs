// SPDX-License-Identifier: Apache-2.0
//! Whether a shard works, and the faults that tests put into it.
//!
//! A healthy shard costs one load of one byte per operation.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use oxbus_model::{Error, ErrorKind, PartitionId, Result};

/// What is wrong with a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Its store does not answer.
    Unavailable,
    /// Its store takes no more operations for now.
    Busy,
    /// Its store is full: it refuses sends and does the rest.
    Full,
}

impl Fault {
    /// The fault of that name.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "unavailable" => Ok(Self::Unavailable),
            "busy" => Ok(Self::Busy),
            "enospc" => Ok(Self::Full),
            "eio-write" | "eio-fsync" | "bit-flip" | "stall" => Err(needs_a_store(name)),
            _ if name.starts_with("latency:") => Err(needs_a_store(name)),
            _ => {
                let detail = format!("unknown fault; use `unavailable`, `busy` or `enospc`: `{name}`");
                Err(Error::new(ErrorKind::InvalidArgument, detail))
            }
        }
    }

    /// The text of [`Health::reason`].
    pub fn reason(self) -> &'static str {
        match self {
            Self::Unavailable => "the store does not answer",
            Self::Busy => "the store takes no more operations for now",
            Self::Full => "the store is full",
        }
    }
}

fn needs_a_store(name: &str) -> Error {
    let detail = format!(
        "this fault needs a durable store, which this version does not have; use `unavailable`, `busy` or `enospc`: `{name}`"
    );
    Error::new(ErrorKind::NotSupported, detail)
}

const HEALTHY: u8 = 0;
const WAITING: u8 = 0x80;

/// Health of one shard.
#[derive(Debug, Default)]
pub struct Health {
    /// 0, or 1 + fault, with the top bit while operations are still let through.
    state: AtomicU8,
    /// Operations to let through before the fault begins.
    after: AtomicU64,
}

impl Health {
    /// Makes the shard fail after that many operations that reach it.
    pub fn inject(&self, fault: Fault, after: u64) {
        self.after.store(after, Ordering::SeqCst);
        let waiting = if after > 0 { WAITING } else { 0 };
        self.state.store((1 + fault as u8) | waiting, Ordering::SeqCst);
    }

    /// Ends the fault.
    pub fn heal(&self) {
        self.state.store(HEALTHY, Ordering::SeqCst);
    }

    /// The fault that is on; does not count as an operation.
    pub fn fault(&self) -> Option<Fault> {
        let state = self.state.load(Ordering::Acquire);
        if state & WAITING != 0 { None } else { fault_of(state) }
    }

    /// True when receives and settlements work.
    #[inline]
    pub fn serves(&self) -> bool {
        self.fault() != Some(Fault::Unavailable)
    }

    /// Counts an operation and returns the fault it meets.
    fn meet(&self) -> Option<Fault> {
        let state = self.state.load(Ordering::Acquire);
        if state == HEALTHY {
            return None;
        }
        if state & WAITING != 0 {
            let left = self
                .after
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            if left.is_ok() {
                return None;
            }
            self.state.store(state & !WAITING, Ordering::SeqCst);
        }
        fault_of(state & !WAITING)
    }

    /// Refuses a send that the fault forbids.
    #[inline]
    pub fn check_send(&self, partition: PartitionId) -> Result<()> {
        let Some(fault) = self.meet() else { return Ok(()) };
        let (kind, advice) = match fault {
            Fault::Unavailable => (
                ErrorKind::PartitionUnavailable,
                "wait until it is healed, or send without a key",
            ),
            Fault::Busy => (
                ErrorKind::ServerBusy,
                "wait 10 seconds and send again, or send without a key",
            ),
            Fault::Full => (
                ErrorKind::QuotaExceeded,
                "receive and complete messages of that partition, or send without a key",
            ),
        };
        Err(Error::new(
            kind,
            format!("{}; {advice}: partition={partition}", fault.reason()),
        ))
    }

    /// Refuses a settlement, or a fetch by number, that the fault forbids.
    #[inline]
    pub fn check_serves(&self, partition: PartitionId) -> Result<()> {
        match self.meet() {
            Some(Fault::Unavailable) => {
                let detail = format!(
                    "{}; make the call again once it is healed: partition={partition}",
                    Fault::Unavailable.reason()
                );
                Err(Error::new(ErrorKind::PartitionUnavailable, detail))
            }
            _ => Ok(()),
        }
    }
}

fn fault_of(state: u8) -> Option<Fault> {
    match state {
        1 => Some(Fault::Unavailable),
        2 => Some(Fault::Busy),
        3 => Some(Fault::Full),
        _ => None,
    }
}
