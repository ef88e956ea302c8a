// SPDX-License-Identifier: Apache-2.0
//! Detects unresponsive disks.
//!
//! ```text
//! a disk call has not returned for   1 s: callers avoid the disk and can cancel (`oxbus_store::file`, standby)
//!                                    5 s: the shard is out of service for new calls
//!                                   60 s: the log ends, and calls that wait inside it fail
//! the call returned: as before, unless the log has ended; then upkeep heals the shard
//! ```
//!
//! This code never touches a disk, so one stalled disk does not hide another.

use std::sync::Arc;
use std::time::Duration;

use oxbus_log::event;
use oxbus_model::caps::{CALL_MS_DEFAULT, STORE_ANSWER_MS_MAX, STORE_STALLED_MS};

use super::upkeep::{CHECK_INTERVAL, UpkeepTarget};
use crate::shard::{FaultReason, PartitionFault, Shard};

/// The time for which the disk of a shard has been unresponsive.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StallDetector {
    /// Turns that had ended at the last check.
    ended: u64,
    /// Number of consecutive checks at which no further commit had ended.
    checks: u32,
}

impl StallDetector {
    /// Checks a shard.
    pub(super) fn check(&mut self, shard: &Arc<Shard>, target: &dyn UpkeepTarget) {
        let Some(log) = target.log(shard) else { return };
        let (begun, ended) = log.disk_operations();
        if begun == ended || ended != self.ended {
            if self.stalled_for(STORE_STALLED_MS) {
                let silent_ms = self.stalled_ms();
                event!(DISK_ANSWERS, partition = shard.id().0, silent_ms);
            }
            *self = Self { ended, checks: 0 };
            log.set_stalled(false);
            shard.health().set_stalled(false);
            if begun == ended && !log.has_ended() && shard.health().fault() == Some(PartitionFault::Silent) {
                // Nothing was lost, because the waiting entries are written by now.
                target.try_heal(shard);
            }
            return;
        }
        self.checks += 1;
        let has_just_reached =
            |ms| CHECK_INTERVAL * (self.checks - 1) < Duration::from_millis(ms) && self.stalled_for(ms);
        if has_just_reached(STORE_STALLED_MS) {
            log.set_stalled(true);
            shard.health().set_stalled(true);
            event!(DISK_STALLED, partition = shard.id().0, silent_ms = self.stalled_ms());
        }
        if self.stalled_for(STORE_ANSWER_MS_MAX) && shard.health().fault().is_none() {
            shard.health().fail(PartitionFault::Silent, FaultReason::default());
        }
        if has_just_reached(CALL_MS_DEFAULT) {
            log.end_unresponsive();
        }
    }

    fn stalled_for(&self, ms: u64) -> bool {
        self.stalled_ms() >= ms
    }

    fn stalled_ms(&self) -> u64 {
        u64::from(self.checks) * CHECK_INTERVAL.as_millis() as u64
    }
}
