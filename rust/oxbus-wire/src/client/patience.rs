// SPDX-License-Identifier: Apache-2.0
//! Waiting for the network in slices, so that a caller can leave in between.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::runtime::Runtime;

use super::Failure;

/// How long to wait for the network.
pub struct Patience<'a> {
    /// For each piece that is written or read.
    pub timeout: Duration,
    /// After this the caller is asked whether it wants to leave.
    pub slice: Duration,
    /// True when it does.
    pub wants_to_leave: &'a dyn Fn() -> bool,
}

impl Patience<'_> {
    /// Runs `work` on the threads of the caller until it is done. The caller's own code runs outside of the runtime, since it
    /// may make calls itself.
    pub(super) fn wait<T>(&self, runtime: &Runtime, work: impl Future<Output = T>) -> Result<T, Failure> {
        let mut work = pin!(work);
        let mut waited = Duration::ZERO;
        let slice = self.slice.min(self.timeout).max(Duration::from_millis(1));
        loop {
            let done = runtime.block_on(async { tokio::time::timeout(slice, work.as_mut()).await });
            if let Ok(done) = done {
                return Ok(done);
            }
            waited += slice;
            if (self.wants_to_leave)() {
                return Err(Failure::Left);
            }
            if waited >= self.timeout {
                let detail = format!(
                    "the server did not answer within {:.1} s; try again, or raise timeout",
                    self.timeout.as_secs_f64()
                );
                return Err(Failure::Timeout(detail, None));
            }
        }
    }
}
