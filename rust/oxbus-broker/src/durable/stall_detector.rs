// SPDX-License-Identifier: Apache-2.0
//! Whether disks answer.
//!
//! ```text
//! a call has not come back for   1 s: callers keep away from the disk, and can leave (`oxbus_store::file`, standby)
//!                                5 s: the shard is out of service for new calls
//!                               60 s: the log ends, so that those who wait inside it learn it
//! it came back: all as before, unless the log has ended; then the shard is healed
//! ```
//!
//! Nothing here touches a disk, so that one which hangs does not hide another.

use std::sync::Arc;
use std::time::Duration;

use oxbus_log::event;
use oxbus_model::caps::{CALL_MS_DEFAULT, STORE_ANSWER_MS_MAX, STORE_SUSPECT_MS};

use super::upkeep::{CHECK_INTERVAL, UpkeepTarget};
use crate::shard::{Fault, Reason, Shard};

/// For how long the disk of a shard has not answered.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StallDetector {
    /// Turns that had ended at the last check.
    ended: u64,
    /// Looks at which none had ended since.
    looks: u32,
}

impl StallDetector {
    /// Looks at a shard.
    pub(super) fn check(&mut self, shard: &Arc<Shard>, target: &dyn UpkeepTarget) {
        let Some(log) = target.log(shard) else { return };
        let (begun, ended) = log.turns();
        if begun == ended || ended != self.ended {
            if self.stalled_for(STORE_SUSPECT_MS) {
                let silent_ms = self.stalled_ms();
                event!(DISK_ANSWERS, partition = shard.id().0, silent_ms);
            }
            *self = Self { ended, looks: 0 };
            log.distrust(false);
            if begun == ended && !log.has_ended() && shard.health().fault() == Some(Fault::Silent) {
                // Nothing was lost: what waited has been written meanwhile.
                target.try_heal(shard);
            }
            return;
        }
        self.looks += 1;
        let has_just_reached =
            |ms| CHECK_INTERVAL * (self.looks - 1) < Duration::from_millis(ms) && self.stalled_for(ms);
        if has_just_reached(STORE_SUSPECT_MS) {
            log.distrust(true);
            event!(DISK_STALLED, partition = shard.id().0, silent_ms = self.stalled_ms());
        }
        if self.stalled_for(STORE_ANSWER_MS_MAX) && shard.health().fault().is_none() {
            shard.health().fail(Fault::Silent, Reason::default());
        }
        if has_just_reached(CALL_MS_DEFAULT) {
            log.end_silent();
        }
    }

    fn stalled_for(&self, ms: u64) -> bool {
        self.stalled_ms() >= ms
    }

    fn stalled_ms(&self) -> u64 {
        u64::from(self.looks) * CHECK_INTERVAL.as_millis() as u64
    }
}
