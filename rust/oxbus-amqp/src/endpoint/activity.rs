// SPDX-License-Identifier: Apache-2.0
//! Times of the last activities, from which idle timeouts follow (AMQP 1.0, part 2, 2.4.5).

/// Times of the last activities, in the caller's milliseconds.
#[derive(Debug)]
pub(crate) struct ActivityTimes {
    pub(crate) started: u64,
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) closing: u64,
}

impl ActivityTimes {
    pub(crate) fn new(now: u64) -> Self {
        Self {
            started: now,
            input: now,
            output: now,
            closing: now,
        }
    }

    /// When the peer counts as silent: after twice the idle timeout that was announced to it. Zero announces none.
    pub(crate) fn idle_deadline(&self, announced_ms: u32) -> Option<u64> {
        let idle = u64::from(announced_ms);
        (idle > 0).then(|| self.input + 2 * idle)
    }

    /// When an empty frame is due: after half of the peer's idle timeout.
    pub(crate) fn heartbeat_due(&self, peer_idle_ms: Option<u32>) -> Option<u64> {
        peer_idle_ms.map(|idle| self.output + u64::from(idle / 2))
    }
}
