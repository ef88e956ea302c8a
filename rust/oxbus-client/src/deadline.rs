// SPDX-License-Identifier: Apache-2.0
//! The end of a call's time.

use std::future::Future;
use std::time::Duration;

use oxbus_model::ErrorKind;
use tokio::time::Instant;

use crate::error::{ClientError, Result};

/// The end of a call's time, or never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// The call may take any time.
    pub const NEVER: Self = Self(None);

    /// The call may take this long from now on. `None` means any time.
    pub fn after(time: Option<Duration>) -> Self {
        Self(time.and_then(|time| Instant::now().checked_add(time)))
    }

    /// A later deadline.
    #[must_use]
    pub(crate) fn plus(self, time: Duration) -> Self {
        Self(self.0.and_then(|end| end.checked_add(time)))
    }

    /// The later of two.
    #[must_use]
    pub(crate) fn max(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(one), Some(two)) => Self(Some(one.max(two))),
            _ => Self::NEVER,
        }
    }

    /// The earlier of two.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(one), Some(two)) => Self(Some(one.min(two))),
            (one, two) => Self(one.or(two)),
        }
    }

    /// The time that is left, or `None` if it never ends.
    pub(crate) fn left(self) -> Option<Duration> {
        self.0.map(|end| end.saturating_duration_since(Instant::now()))
    }

    /// True if more than `pause` is left.
    pub(crate) fn leaves(self, pause: Duration) -> bool {
        self.left().is_none_or(|left| left > pause)
    }

    /// Waits for `future` until the deadline. `None` means that the time was over first.
    pub(crate) async fn limit<T>(self, future: impl Future<Output = T>) -> Option<T> {
        match self.0 {
            None => Some(future.await),
            Some(end) => tokio::time::timeout_at(end, future).await.ok(),
        }
    }

    /// Like [`Self::limit`], with an error that says what took too long.
    pub(crate) async fn within<T>(self, what: &str, future: impl Future<Output = Result<T>>) -> Result<T> {
        self.limit(future).await.unwrap_or_else(|| {
            let detail = format!("{what} took longer than the call allows; allow more time, or check the server");
            Err(ClientError::broker(ErrorKind::Timeout, detail))
        })
    }
}
