// SPDX-License-Identifier: Apache-2.0
//! Health of a shard: its current fault, and the checks that calls make.
//!
//! ```text
//! Healthy ─► Faulted(why) ─► Healing ─► Healthy   Offline until the next open: damaged, not owned, or a call panicked
//! ```
//!
//! On a healthy shard a check costs one load of one byte.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use oxbus_log::event;
use oxbus_model::caps::OPERATIONS_IN_FLIGHT_MAX;
use oxbus_model::sync::ignore_poison;
use oxbus_model::{Effect, Error, ErrorKind, PartitionId, Result, SharedError};
use oxbus_store::Wait;

use super::fault::PartitionFault;

const HEALTHY: u8 = 0;
const WAITING: u8 = 0x80;

/// Health of one shard.
#[derive(Debug)]
pub struct ShardHealth {
    /// Its partition.
    partition: PartitionId,
    /// 0, or 1 + fault; the top bit is set until `after` operations have passed.
    state: AtomicU8,
    /// Operations left before an injected fault begins.
    after: AtomicU64,
    /// Details of the fault. It is replaced together with the fault, so it is consistent after a panic.
    reason: Mutex<FaultReason>,
    /// True if the next open finds the messages again.
    is_durable: bool,
    /// Notified when a fault ends.
    ended: Condvar,
    /// Number of sends that may wait for the store.
    in_flight: AtomicU32,
    /// True while the disk does not answer.
    stalled: AtomicBool,
}

/// Details of a fault.
#[derive(Debug, Default)]
pub struct FaultReason {
    /// Empty if the fault's default text is enough.
    text: String,
    /// The error that caused it.
    source: Option<SharedError>,
}

impl FaultReason {
    /// A reason with the error that caused it, if any.
    pub fn of(text: String, source: Option<SharedError>) -> Self {
        Self { text, source }
    }
}

impl From<String> for FaultReason {
    fn from(text: String) -> Self {
        Self::of(text, None)
    }
}

/// A send that may wait for the store. It ends when this guard is dropped.
#[derive(Debug)]
pub struct InFlightSend<'a> {
    health: &'a ShardHealth,
    /// True if the thread was already panicking: a send during an unwind completes normally.
    was_panicking: bool,
}

impl Drop for InFlightSend<'_> {
    fn drop(&mut self) {
        self.health.in_flight.fetch_sub(1, Ordering::Release);
        if std::thread::panicking() && !self.was_panicking {
            // Its numbers are neither published nor given up, and the journal may have its entry.
            self.health.fail_panicked();
        }
    }
}

/// Interval between checks whether the caller still waits.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

impl ShardHealth {
    /// Health of a shard in memory.
    pub fn in_memory(partition: PartitionId) -> Self {
        Self {
            partition,
            state: AtomicU8::new(HEALTHY),
            after: AtomicU64::new(0),
            reason: Mutex::default(),
            is_durable: false,
            ended: Condvar::new(),
            in_flight: AtomicU32::new(0),
            stalled: AtomicBool::new(false),
        }
    }

    /// Health of a shard with a journal.
    pub fn durable(partition: PartitionId) -> Self {
        Self {
            is_durable: true,
            ..Self::in_memory(partition)
        }
    }

    /// Health of a shard that is out of service from the start.
    pub fn stopped(partition: PartitionId, fault: PartitionFault, reason: FaultReason) -> Self {
        let health = Self::durable(partition);
        health.set(1 + fault as u8, reason);
        // The opener chose the owned partitions, so there is no fault to log.
        if fault != PartitionFault::NotOwned {
            health.log_change(None, Some(fault));
        }
        health
    }

    /// Notes whether the disk answers.
    pub fn set_stalled(&self, stalled: bool) {
        self.stalled.store(stalled, Ordering::Relaxed);
    }

    /// True while the disk does not answer.
    #[inline]
    pub fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }

    /// Injects a fault that begins after that many operations.
    pub fn inject(&self, fault: PartitionFault, after: u64) {
        let waiting = if after > 0 { WAITING } else { 0 };
        self.after.store(after, Ordering::SeqCst);
        self.change((1 + fault as u8) | waiting, FaultReason::default());
    }

    /// Takes the shard out of service. A shard that is offline stays offline.
    pub fn fail(&self, fault: PartitionFault, reason: impl Into<FaultReason>) {
        self.change(1 + fault as u8, reason.into());
    }

    /// Takes the shard out of service after a panic in a call that changed it.
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
            format!("{text}, so its state may be inconsistent; {advice}"),
        );
        // Calls that wait for a stalled store fail now.
        self.ended.notify_all();
    }

    /// Ends the fault, unless only the next open can end it.
    pub fn heal(&self) {
        self.change(HEALTHY, FaultReason::default());
        self.ended.notify_all();
    }

    /// Sets the state and logs the change.
    fn change(&self, state: u8, reason: FaultReason) {
        let before = self.set(state, reason);
        let after = if state & WAITING == 0 { fault_of(state) } else { None };
        if !before.is_some_and(PartitionFault::is_final) {
            self.log_change(before, after);
        }
    }

    /// Sets the state, unless the current fault is final. Returns the previous fault.
    fn set(&self, state: u8, reason: FaultReason) -> Option<PartitionFault> {
        let mut held = self.lock_reason();
        let before = self.fault();
        if !before.is_some_and(PartitionFault::is_final) {
            *held = reason;
            self.state.store(state, Ordering::SeqCst);
        }
        before
    }

    /// Logs that the shard went out of service or came back.
    #[cold]
    fn log_change(&self, before: Option<PartitionFault>, after: Option<PartitionFault>) {
        let partition = self.partition.0;
        match (before, after) {
            (Some(_), None) => event!(PARTITION_HEALED, partition),
            // Healing logs its own outcome.
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

    /// Notes that a call waited for the store up to the limit. `is_watched` is true if an answer of the store will be
    /// noticed.
    pub(super) fn mark_unresponsive(&self, is_watched: bool) {
        let fault = self.fault();
        if fault == Some(PartitionFault::Stalled) || (fault.is_none() && is_watched) {
            self.fail(PartitionFault::Silent, FaultReason::default());
            self.ended.notify_all();
        }
    }

    /// Counts a send that may wait for the store. Fails if there are too many.
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

    fn lock_reason(&self) -> MutexGuard<'_, FaultReason> {
        ignore_poison(self.reason.lock())
    }

    /// The current fault. The call does not count as an operation.
    pub fn fault(&self) -> Option<PartitionFault> {
        let state = self.state.load(Ordering::Acquire);
        if state & WAITING != 0 { None } else { fault_of(state) }
    }

    /// The current fault in words.
    pub fn reason(&self) -> Option<String> {
        self.fault().map(|fault| self.reason_of(fault))
    }

    fn reason_of(&self, fault: PartitionFault) -> String {
        let reason = self.lock_reason();
        if reason.text.is_empty() {
            fault.text().to_owned()
        } else {
            reason.text.clone()
        }
    }

    /// The error that caused the fault.
    pub(crate) fn source(&self) -> Option<SharedError> {
        self.lock_reason().source.clone()
    }

    /// True if receives and settlements work.
    #[inline]
    pub fn serves(&self) -> bool {
        self.state.load(Ordering::Acquire) == HEALTHY || !self.fault().is_some_and(PartitionFault::stops_receives)
    }

    /// Counts an operation and returns the fault that it meets.
    #[inline]
    fn count_operation(&self) -> Option<PartitionFault> {
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
            // The fault may have ended since.
            let begun = state & !WAITING;
            let changed = self
                .state
                .compare_exchange(state, begun, Ordering::SeqCst, Ordering::SeqCst);
            if changed.is_ok() {
                self.log_change(None, fault_of(begun));
            }
        }
        fault_of(state & !WAITING)
    }

    /// Fails if the current fault forbids sends.
    #[inline]
    pub fn check_send(&self, partition: PartitionId, wait: &Wait<'_>) -> Result<()> {
        match self.count_operation() {
            None => Ok(()),
            Some(PartitionFault::Stalled) => {
                let _in_flight = self.enter(partition)?;
                self.wait_while_stalled(partition, wait)?;
                self.fault()
                    .map_or(Ok(()), |fault| Err(self.refuse_send(fault, partition)))
            }
            Some(fault) => Err(self.refuse_send(fault, partition)),
        }
    }

    /// Waits until a stalled store responds. Fails without effect once `wait` is over, or at once if `wait` has no
    /// end.
    #[cold]
    fn wait_while_stalled(&self, partition: PartitionId, wait: &Wait<'_>) -> Result<()> {
        let mut guard = self.lock_reason();
        while self.fault() == Some(PartitionFault::Stalled) {
            if !wait.has_end() {
                drop(guard);
                return Err(self.refuse_send(PartitionFault::Silent, partition));
            }
            let waited = self.ended.wait_timeout(guard, POLL_INTERVAL);
            drop(ignore_poison(waited));
            // Without the guard: `is_over` may call Python.
            if wait.is_over() {
                let detail = format!(
                    "the store did not answer in time and nothing changed; make the call again once it is healed, or send without a \
                     key: partition={partition}"
                );
                return Err(Error::new(ErrorKind::Timeout, detail).with_effect(Effect::None));
            }
            guard = self.lock_reason();
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
            PartitionFault::Panicked => (ErrorKind::PartitionUnavailable, "send without a key"),
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

    /// Fails if the current fault forbids settlements and fetches by number.
    #[inline]
    pub fn check_serves(&self, partition: PartitionId, wait: &Wait<'_>) -> Result<()> {
        let mut met = self.count_operation();
        if met == Some(PartitionFault::Stalled) {
            self.wait_while_stalled(partition, wait)?;
            met = self.fault();
        }
        match met {
            Some(fault) if fault.stops_receives() => {
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
