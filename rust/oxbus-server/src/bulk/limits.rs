// SPDX-License-Identifier: Apache-2.0
//! The limits for bulk clients. Each may be lowered, for a machine with little memory or for a test. None may be
//! raised. Limits for all HTTP connections are in `front` and `http`.

use std::time::Duration;

use oxbus_model::caps::{
    BULK_BACKUP_IDLE_MS_MAX, BULK_BODY_IDLE_MS_MAX, BULK_REQUESTS_MAX, BULK_SEND_BYTES_MAX, BULK_SENDS_BYTES_MAX,
};
use oxbus_model::{Error, ErrorKind, Result};

/// The limits of bulk routes. The defaults are those of `caps.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BulkLimits {
    /// The maximum number of concurrent requests. Further ones get `ServerBusy`.
    pub requests: u64,
    /// The maximum number of bytes in the rows of one send.
    pub send_bytes: u64,
    /// The maximum number of bytes in the rows of all sends that are not stored yet.
    pub unstored_bytes: u64,
    /// The maximum pause within a request body, in milliseconds.
    pub body_pause_ms: u64,
    /// The maximum time for which a client takes nothing of a backup, in milliseconds.
    pub backup_pause_ms: u64,
}

impl Default for BulkLimits {
    fn default() -> Self {
        Self {
            requests: BULK_REQUESTS_MAX as u64,
            send_bytes: BULK_SEND_BYTES_MAX as u64,
            unstored_bytes: BULK_SENDS_BYTES_MAX as u64,
            body_pause_ms: BULK_BODY_IDLE_MS_MAX,
            backup_pause_ms: BULK_BACKUP_IDLE_MS_MAX,
        }
    }
}

impl BulkLimits {
    /// Lowers a limit. Rejects an unknown name, and a value that is 0 or above the current limit.
    pub fn lower(&mut self, name: &str, value: u64) -> Result<()> {
        let limit = match name {
            "requests" => &mut self.requests,
            "send_bytes" => &mut self.send_bytes,
            "unstored_bytes" => &mut self.unstored_bytes,
            "body_pause_ms" => &mut self.body_pause_ms,
            "backup_pause_ms" => &mut self.backup_pause_ms,
            _ => {
                let detail = format!(
                    "unknown limit; use `requests`, `send_bytes`, `unstored_bytes`, `body_pause_ms` or `backup_pause_ms`: \
                     `{name}`"
                );
                return Err(Error::new(ErrorKind::InvalidArgument, detail));
            }
        };
        if !(1..=*limit).contains(&value) {
            let detail = format!("limits can only be lowered; use 1 to {limit}: {name}={value}");
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
        *limit = value;
        Ok(())
    }

    /// The maximum pause within a request body.
    pub(crate) fn body_pause(&self) -> Duration {
        Duration::from_millis(self.body_pause_ms)
    }

    /// The maximum time for which a client takes nothing of a backup.
    pub(crate) fn backup_pause(&self) -> Duration {
        Duration::from_millis(self.backup_pause_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::BulkLimits;

    #[test]
    fn limits_can_be_lowered_and_not_raised() {
        let mut limits = BulkLimits::default();
        limits.lower("requests", 2).expect("lower");
        assert_eq!(limits.requests, 2);
        limits.lower("requests", 3).expect_err("higher than it is");
        limits.lower("send_bytes", 0).expect_err("nothing could be sent");
        limits.lower("body_pause_ms", u64::MAX).expect_err("above the default");
        limits.lower("colour", 1).expect_err("unknown");
        assert_eq!(limits.send_bytes, BulkLimits::default().send_bytes);
    }
}
