// SPDX-License-Identifier: Apache-2.0
//! Whether a shard works, what stops it, and the faults that tests put into it.
//!
//! ```text
//! Healthy ─► Faulted(why) ─► Healing ─► Healthy    Offline: damaged, another process's, or a call panicked; until the next open
//! ```
//!
//! A healthy shard costs one load of one byte per operation.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use oxbus_log::event;
use oxbus_model::caps::OPERATIONS_IN_FLIGHT_MAX;
use oxbus_model::sync::whole;
use oxbus_model::{Effect, Error, ErrorKind, PartitionId, Result, Source};
use oxbus_store::Wait;

use super::fault::PartitionFault;

const HEALTHY: u8 = 0;
const WAITING: u8 = 0x80;

/// Health of one shard.
#[derive(Debug)]
pub struct ShardHealth {
    /// Whose it is.
    partition: PartitionId,
    /// 0, or 1 + fault, with the top bit while operations are still let through.
    state: AtomicU8,
    /// Operations to let through before the fault begins.
    after: AtomicU64,
    /// More about the fault. It is replaced as a whole, and with it the fault, so it is whole after a panic.
    reason: Mutex<FaultReason>,
    /// The next open finds what the shard holds.
    is_durable: bool,
    /// Notified when a fault ends, for those who wait for a store that hangs.
    ended: Condvar,
    /// Sends that may wait for the store.
    in_flight: AtomicU32,
}

/// More about a fault.
#[derive(Debug, Default)]
pub struct FaultReason {
    /// Empty when the fault's name says all.
    text: String,
    /// What made it.
    source: Option<Source>,
}

impl FaultReason {
    /// A reason that another error made, if one did.
    pub fn of(text: String, source: Option<Source>) -> Self {
        Self { text, source }
    }
}

impl From<String> for FaultReason {
    fn from(text: String) -> Self {
        Self::of(text, None)
    }
}

/// A send that may wait for the store, until it is dropped.
#[derive(Debug)]
pub struct InFlightSend<'a> {
    health: &'a ShardHealth,
    /// The thread panicked before it came here: what is sent while it unwinds is sent to the end.
    was_panicking: bool,
}

impl Drop for InFlightSend<'_> {
    fn drop(&mut self) {
        self.health.in_flight.fetch_sub(1, Ordering::Release);
        if std::thread::panicking() && !self.was_panicking {
            // Its numbers are neither messages nor given up, and the journal may have it.
            self.health.fail_panicked();
        }
    }
}

/// Between two questions whether to leave.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

impl ShardHealth {
    /// Of a shard that ends with the process.
    pub fn in_memory(partition: PartitionId) -> Self {
        Self {
            partition,
            state: AtomicU8::new(HEALTHY),
            after: AtomicU64::new(0),
            reason: Mutex::default(),
            is_durable: false,
            ended: Condvar::new(),
            in_flight: AtomicU32::new(0),
        }
    }

    /// Of a shard that the next open finds again.
    pub fn durable(partition: PartitionId) -> Self {
        Self {
            is_durable: true,
            ..Self::in_memory(partition)
        }
    }

    /// Out of service from the start.
    pub fn stopped(partition: PartitionId, fault: PartitionFault, reason: FaultReason) -> Self {
        let health = Self::durable(partition);
        health.set(1 + fault as u8, reason);
        // That another process owns it is as its opener wanted it.
        if fault != PartitionFault::NotOwned {
            health.tell(None, Some(fault));
        }
        health
    }

    /// Makes the shard fail after that many operations that reach it.
    pub fn inject(&self, fault: PartitionFault, after: u64) {
        let waiting = if after > 0 { WAITING } else { 0 };
        self.after.store(after, Ordering::SeqCst);
        self.change((1 + fault as u8) | waiting, FaultReason::default());
    }

    /// Takes the shard out of service. A shard that is offline stays so.
    pub fn fail(&self, fault: PartitionFault, reason: impl Into<FaultReason>) {
        self.change(1 + fault as u8, reason.into());
    }

    /// Takes the shard out of service because a call panicked while it changed it.
    #[cold]
    pub(super) fn fail_panicked(&self) {
        let text = PartitionFault::Panicked.text();
        let advice = if self.is_durable {
            "open the namespace again"
        } else {
            "it is in memory only and stays out of service"
        };
        self.fail(
            PartitionFault::Panicked,
            format!("{text}, and nobody knows whether it is whole; {advice}"),
        );
        // Who waits for a store that hangs need not.
        self.ended.notify_all();
    }

    /// Ends the fault, unless only another open can.
    pub fn heal(&self) {
        self.change(HEALTHY, FaultReason::default());
        self.ended.notify_all();
    }

    /// Sets the state and says so.
    fn change(&self, state: u8, reason: FaultReason) {
        let before = self.set(state, reason);
        let after = if state & WAITING == 0 { fault_of(state) } else { None };
        if !before.is_some_and(PartitionFault::is_final) {
            self.tell(before, after);
        }
    }

    /// Sets the state, unless only another open can end the fault; which one was on before.
    fn set(&self, state: u8, reason: FaultReason) -> Option<PartitionFault> {
        let mut held = self.held_reason();
        let before = self.fault();
        if !before.is_some_and(PartitionFault::is_final) {
            *held = reason;
            self.state.store(state, Ordering::SeqCst);
        }
        before
    }

    /// Says that the shard went out of service, or came back.
    #[cold]
    fn tell(&self, before: Option<PartitionFault>, after: Option<PartitionFault>) {
        let partition = self.partition.0;
        match (before, after) {
            (Some(_), None) => event!(PARTITION_HEALED, partition),
            // A try to heal says itself what became of it.
            (None, None)
            | (_, Some(PartitionFault::Healing))
            | (Some(PartitionFault::Healing), Some(PartitionFault::Failed)) => {}
            (before, Some(fault)) => {
                if before != Some(fault) {
                    let cause = self.reason_of(fault);
                    event!(PARTITION_FAULT, partition, fault = fault.name(), cause);
                }
            }
        }
    }

    /// Notes that somebody waited for the store as long as anybody does. `is_watched` says that it is found out when it answers.
    pub(super) fn mark_unresponsive(&self, is_watched: bool) {
        let fault = self.fault();
        if fault == Some(PartitionFault::Stalled) || (fault.is_none() && is_watched) {
            self.fail(PartitionFault::Silent, FaultReason::default());
            self.ended.notify_all();
        }
    }

    /// Counts a send that may wait for the store; refuses it when too many do.
    pub fn enter(&self, partition: PartitionId) -> Result<InFlightSend<'_>> {
        let in_flight = InFlightSend {
            health: self,
            was_panicking: std::thread::panicking(),
        };
        if self.in_flight.fetch_add(1, Ordering::Acquire) < OPERATIONS_IN_FLIGHT_MAX {
            return Ok(in_flight);
        }
        let detail = format!(
            "too many sends wait for the store; wait 10 seconds and send again, or send without a key: \
             waiting={OPERATIONS_IN_FLIGHT_MAX} partition={partition}"
        );
        Err(Error::new(ErrorKind::ServerBusy, detail))
    }

    fn held_reason(&self) -> MutexGuard<'_, FaultReason> {
        whole(self.reason.lock())
    }

    /// The fault that is on; does not count as an operation.
    pub fn fault(&self) -> Option<PartitionFault> {
        let state = self.state.load(Ordering::Acquire);
        if state & WAITING != 0 { None } else { fault_of(state) }
    }

    /// What is wrong, for people; `None` when nothing is.
    pub fn reason(&self) -> Option<String> {
        self.fault().map(|fault| self.reason_of(fault))
    }

    fn reason_of(&self, fault: PartitionFault) -> String {
        let reason = self.held_reason();
        if reason.text.is_empty() {
            fault.text().to_owned()
        } else {
            reason.text.clone()
        }
    }

    /// What made the fault.
    pub(crate) fn source(&self) -> Option<Source> {
        self.held_reason().source.clone()
    }

    /// True when receives and settlements work.
    #[inline]
    pub fn serves(&self) -> bool {
        self.state.load(Ordering::Acquire) == HEALTHY || !self.fault().is_some_and(PartitionFault::stops)
    }

    /// Counts an operation and returns the fault it meets.
    #[inline]
    fn meet(&self) -> Option<PartitionFault> {
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
            // Unless the fault was ended meanwhile.
            let begun = state & !WAITING;
            let changed = self
                .state
                .compare_exchange(state, begun, Ordering::SeqCst, Ordering::SeqCst);
            if changed.is_ok() {
                self.tell(None, fault_of(begun));
            }
        }
        fault_of(state & !WAITING)
    }

    /// Refuses a send that the fault forbids.
    #[inline]
    pub fn check_send(&self, partition: PartitionId, wait: &Wait<'_>) -> Result<()> {
        match self.meet() {
            None => Ok(()),
            Some(PartitionFault::Stalled) => {
                let _in_flight = self.enter(partition)?;
                self.wait_out(partition, wait)?;
                self.fault()
                    .map_or(Ok(()), |fault| Err(self.refuse_send(fault, partition)))
            }
            Some(fault) => Err(self.refuse_send(fault, partition)),
        }
    }

    /// Waits until a store that hangs answers; an error when the caller leaves, or cannot wait. Nothing has happened then.
    #[cold]
    fn wait_out(&self, partition: PartitionId, wait: &Wait<'_>) -> Result<()> {
        let mut guard = self.held_reason();
        while self.fault() == Some(PartitionFault::Stalled) {
            if !wait.has_end() {
                drop(guard);
                return Err(self.refuse_send(PartitionFault::Silent, partition));
            }
            let waited = self.ended.wait_timeout(guard, POLL_INTERVAL);
            drop(whole(waited));
            // With no guard: who is asked may call Python.
            if wait.is_over() {
                let detail = format!(
                    "the store did not answer in time and nothing has happened; make the call again once it is healed, or send without a \
                     key: partition={partition}"
                );
                return Err(Error::new(ErrorKind::Timeout, detail).with_effect(Effect::None));
            }
            guard = self.held_reason();
        }
        Ok(())
    }

    #[cold]
    fn refuse_send(&self, fault: PartitionFault, partition: PartitionId) -> Error {
        let (kind, advice) = match fault {
            PartitionFault::Busy => (
                ErrorKind::ServerBusy,
                "wait 10 seconds and send again, or send without a key",
            ),
            PartitionFault::Full => (
                ErrorKind::QuotaExceeded,
                "receive and complete messages of that partition, or send without a key",
            ),
            PartitionFault::Damaged => (
                ErrorKind::PartitionUnavailable,
                "salvage or restore the partition, or send without a key",
            ),
            PartitionFault::NotOwned => (
                ErrorKind::PartitionUnavailable,
                "send from the process that owns it, or without a key",
            ),
            PartitionFault::Panicked => (ErrorKind::PartitionUnavailable, "send without a key meanwhile"),
            PartitionFault::Unavailable
            | PartitionFault::Failed
            | PartitionFault::Healing
            | PartitionFault::Stalled
            | PartitionFault::Silent => (
                ErrorKind::PartitionUnavailable,
                "wait until it is healed, or send without a key",
            ),
        };
        let reason = self.reason_of(fault);
        Error::new(kind, format!("{reason}; {advice}: partition={partition}")).with_shared_source(self.source())
    }

    /// Refuses a settlement, or a fetch by number, that the fault forbids.
    #[inline]
    pub fn check_serves(&self, partition: PartitionId, wait: &Wait<'_>) -> Result<()> {
        let mut met = self.meet();
        if met == Some(PartitionFault::Stalled) {
            self.wait_out(partition, wait)?;
            met = self.fault();
        }
        match met {
            Some(fault) if fault.stops() => {
                let reason = self.reason_of(fault);
                let detail = match fault {
                    PartitionFault::Panicked => format!("{reason}: partition={partition}"),
                    _ => format!("{reason}; make the call again once it is healed: partition={partition}"),
                };
                Err(Error::new(ErrorKind::PartitionUnavailable, detail).with_shared_source(self.source()))
            }
            _ => Ok(()),
        }
    }
}

fn fault_of(state: u8) -> Option<PartitionFault> {
    PartitionFault::ALL.get(usize::from(state).checked_sub(1)?).copied()
}
