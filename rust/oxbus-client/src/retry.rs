// SPDX-License-Identifier: Apache-2.0
//! Retries of calls that failed without an effect.

use std::future::Future;
use std::time::Duration;

use oxbus_model::Effect;
use tokio::time::Instant;

use crate::deadline::Deadline;
use crate::error::{ClientError, Result};
use crate::kind::ClientErrorKind;

/// How the pause between two tries grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryMode {
    /// It doubles.
    Exponential,
    /// It stays.
    Fixed,
}

/// When a call that failed without an effect is tried again. The defaults are those of the SDK.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryOptions {
    /// Tries after the first one.
    pub total: u32,
    /// The first pause.
    pub backoff: Duration,
    /// The longest pause.
    pub backoff_max: Duration,
    /// How the pause grows.
    pub mode: RetryMode,
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self {
            total: 3,
            backoff: Duration::from_millis(800),
            backoff_max: Duration::from_secs(120),
            mode: RetryMode::Exponential,
        }
    }
}

impl RetryOptions {
    /// The pause before a retry, which is numbered from zero.
    fn pause(&self, retry: u32) -> Duration {
        let grown = match self.mode {
            RetryMode::Fixed => self.backoff,
            RetryMode::Exponential => self
                .backoff
                .saturating_mul(1_u32.checked_shl(retry).unwrap_or(u32::MAX)),
        };
        grown.min(self.backoff_max)
    }

    /// Repeats a call while its error allows it. The error is that of the last try.
    pub(crate) async fn run<T, F: Future<Output = Result<T>>>(
        &self,
        deadline: Deadline,
        mut call: impl FnMut() -> F,
    ) -> Result<T> {
        let mut retries = Retries::new(*self, deadline);
        loop {
            match call().await {
                Err(error) if retries.wait(&error).await => {}
                result => return result,
            }
        }
    }
}

/// The retries of one call.
pub(crate) struct Retries {
    options: RetryOptions,
    deadline: Deadline,
    done: u32,
    has_new_token: bool,
}

impl Retries {
    pub(crate) fn new(options: RetryOptions, deadline: Deadline) -> Self {
        Self {
            options,
            deadline,
            done: 0,
            has_new_token: false,
        }
    }

    /// True once, for an error that another token may solve: the server takes back the rights of one that has ended.
    pub(crate) fn takes_new_token(&mut self, error: &ClientError) -> bool {
        let may_help = error.kind() == ClientErrorKind::Unauthorized && error.effect() != Some(Effect::Unknown);
        may_help && !std::mem::replace(&mut self.has_new_token, true)
    }

    /// Waits before the next try. Returns false if the error, the number of tries or the deadline allow none.
    pub(crate) async fn wait(&mut self, error: &ClientError) -> bool {
        let pause = self.options.pause(self.done);
        if self.done >= self.options.total || !error.is_retried() || !self.deadline.leaves(pause) {
            return false;
        }
        self.done += 1;
        tokio::time::sleep_until(Instant::now() + pause).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use oxbus_model::{Effect, ErrorKind};

    use super::{RetryMode, RetryOptions};
    use crate::deadline::Deadline;
    use crate::error::{ClientError, Result};

    const SECOND: Duration = Duration::from_secs(1);

    fn options(mode: RetryMode) -> RetryOptions {
        RetryOptions {
            total: 4,
            backoff: SECOND,
            backoff_max: 5 * SECOND,
            mode,
        }
    }

    #[test]
    fn pauses_grow_up_to_the_limit() {
        let pauses = |mode| {
            (0..5)
                .map(|retry| options(mode).pause(retry).as_secs())
                .collect::<Vec<_>>()
        };
        assert_eq!(pauses(RetryMode::Exponential), [1, 2, 4, 5, 5]);
        assert_eq!(pauses(RetryMode::Fixed), [1, 1, 1, 1, 1]);
        assert_eq!(RetryOptions::default().pause(200), Duration::from_secs(120));
    }

    fn tries(options: RetryOptions, deadline: Deadline, error: &ClientError) -> u32 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let count = Cell::new(0);
        let failed: Result<()> = runtime.block_on(options.run(deadline, || {
            count.set(count.get() + 1);
            std::future::ready(Err(error.clone()))
        }));
        assert!(failed.is_err());
        count.get()
    }

    #[test]
    fn only_errors_without_an_effect_are_tried_again() {
        let lost = ClientError::connection("gone");
        let forever = Deadline::NEVER;
        assert_eq!(tries(options(RetryMode::Fixed), forever, &lost), 5);
        let unknown = lost.clone().with_effect(Effect::Unknown);
        assert_eq!(tries(options(RetryMode::Fixed), forever, &unknown), 1);
        let missing = ClientError::broker(ErrorKind::EntityNotFound, "no queue");
        assert_eq!(tries(options(RetryMode::Fixed), forever, &missing), 1);
        let none = RetryOptions {
            total: 0,
            ..options(RetryMode::Fixed)
        };
        assert_eq!(tries(none, forever, &lost), 1);
    }
}
