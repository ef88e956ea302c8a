// SPDX-License-Identifier: Apache-2.0
//! What bulk clients may cost a server. Each limit may be lowered, for a machine with little memory or for a test, and none
//! raised. What all HTTP connections may cost is in `front` and `http`.

use std::time::Duration;

use oxbus_model::caps::{BULK_BODY_IDLE_MS_MAX, BULK_REQUESTS_MAX, BULK_SEND_BYTES_MAX, BULK_SENDS_BYTES_MAX};
use oxbus_model::{Error, ErrorKind, Result};

/// The limits of bulk routes; by default those of `caps.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BulkLimits {
    /// Requests at once; further ones are asked to pause.
    pub requests: u64,
    /// Bytes of the rows of one send.
    pub send_bytes: u64,
    /// Bytes of the rows of all sends that are not stored yet.
    pub unstored_bytes: u64,
    /// Milliseconds between two pieces of a request's body.
    pub body_pause_ms: u64,
}

impl Default for BulkLimits {
    fn default() -> Self {
        Self {
            requests: BULK_REQUESTS_MAX as u64,
            send_bytes: BULK_SEND_BYTES_MAX as u64,
            unstored_bytes: BULK_SENDS_BYTES_MAX as u64,
            body_pause_ms: BULK_BODY_IDLE_MS_MAX,
        }
    }
}

impl BulkLimits {
    /// Lowers the limit of that name; refuses a name that there is not, and a value that is 0 or above the default.
    pub fn lower(&mut self, name: &str, value: u64) -> Result<()> {
        let limit = match name {
            "requests" => &mut self.requests,
            "send_bytes" => &mut self.send_bytes,
            "unstored_bytes" => &mut self.unstored_bytes,
            "body_pause_ms" => &mut self.body_pause_ms,
            _ => {
                let detail = format!(
                    "unknown limit; use `requests`, `send_bytes`, `unstored_bytes` or `body_pause_ms`: `{name}`"
                );
                return Err(Error::new(ErrorKind::InvalidArgument, detail));
            }
        };
        if !(1..=*limit).contains(&value) {
            let detail = format!("a limit can be lowered only; use 1 to {limit}: {name}={value}");
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
        *limit = value;
        Ok(())
    }

    /// How long a body may pause.
    pub(crate) fn body_pause(&self) -> Duration {
        Duration::from_millis(self.body_pause_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::BulkLimits;

    #[test]
    fn a_limit_is_lowered_and_never_raised() {
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
