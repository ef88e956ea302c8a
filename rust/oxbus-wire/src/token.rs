// SPDX-License-Identifier: Apache-2.0
//! Tokens: who knows the key, until when.
//!
//! `oxbus1.<key name in hex>.<expiry in milliseconds since 1970>.<HMAC-SHA256 of what stands before, in hex>`.
//! A token says nothing about what its bearer may do: a key opens the whole namespace.

use std::fmt;

use oxbus_model::caps::{BULK_CLOCK_SKEW_MS, BULK_KEY_BYTES_MIN, BULK_TOKEN_MS_MAX};
use oxbus_model::{Error, ErrorKind, Result, Timestamp};
use ring::hmac;

use crate::hex::{from_hex, to_hex};

const VERSION: &str = "oxbus1";

/// A key that is shared by a server and its clients. Shows its name only.
#[derive(Clone)]
pub struct Key {
    name: String,
    key: hmac::Key,
}

impl Key {
    /// A key; refuses one that could be guessed.
    pub fn new(name: &str, secret: &str) -> Result<Self> {
        if secret.len() < BULK_KEY_BYTES_MIN {
            let detail = format!(
                "the key is too short; use at least {BULK_KEY_BYTES_MIN} characters, for example of secrets.token_urlsafe(32): \
                 {} characters",
                secret.len()
            );
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
        Ok(Self {
            name: name.to_owned(),
            key: hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A token that is valid until `expiry`.
    pub fn token(&self, expiry: Timestamp) -> String {
        let head = format!("{VERSION}.{}.{}", to_hex(self.name.as_bytes()), expiry.0);
        let tag = hmac::sign(&self.key, head.as_bytes());
        format!("{head}.{}", to_hex(tag.as_ref()))
    }

    /// Refuses a token that this key did not make, or whose time is over. Compares in constant time.
    pub fn check(&self, token: &str, now: Timestamp) -> std::result::Result<(), &'static str> {
        let malformed = "the token is malformed; make it from the key of the connection string";
        let (head, tag) = token.rsplit_once('.').ok_or(malformed)?;
        let mut parts = head.split('.');
        let (Some(VERSION), Some(name), Some(expiry), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(malformed);
        };
        let tag = from_hex(tag).ok_or(malformed)?;
        let expiry: u64 = expiry.parse().map_err(|_| malformed)?;
        let is_ours = from_hex(name).as_deref() == Some(self.name.as_bytes());
        let is_signed = hmac::verify(&self.key, head.as_bytes(), &tag).is_ok();
        if !is_ours || !is_signed {
            return Err("the token was made with another key; check SharedAccessKeyName and SharedAccessKey");
        }
        if expiry.saturating_add(BULK_CLOCK_SKEW_MS) <= now.0 {
            return Err("the token has expired; make a new one, and compare the clocks of both machines");
        }
        if expiry > now.0.saturating_add(BULK_TOKEN_MS_MAX + BULK_CLOCK_SKEW_MS) {
            return Err("the token is valid for longer than an hour; make one for a shorter time");
        }
        Ok(())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key(name={:?})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use oxbus_model::Timestamp;

    use super::Key;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn key(name: &str, secret: &str) -> Key {
        Key::new(name, secret).expect("long enough")
    }

    #[test]
    fn a_token_opens_until_its_time_is_over() {
        let key = key("spark", "0123456789abcdef");
        let token = key.token(NOW.plus_ms(1000));
        assert_eq!(key.check(&token, NOW), Ok(()));
        assert_eq!(
            key.check(&token, NOW.plus_ms(60_999)),
            Ok(()),
            "clocks may differ by a minute"
        );
        assert!(key.check(&token, NOW.plus_ms(61_000)).is_err());
    }

    #[test]
    fn a_token_for_long_is_refused() {
        let key = key("spark", "0123456789abcdef");
        assert!(key.check(&key.token(NOW.plus_ms(86_400_000)), NOW).is_err());
    }

    #[test]
    fn a_changed_token_is_refused() {
        let key = key("spark", "0123456789abcdef");
        let token = key.token(NOW.plus_ms(1000));
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(changed).expect("ASCII");
            assert!(key.check(&changed, NOW).is_err(), "{changed}");
        }
    }

    #[test]
    fn another_key_or_name_is_refused() {
        let token = key("spark", "0123456789abcdef").token(NOW.plus_ms(1000));
        assert!(key("spark", "0123456789abcdeg").check(&token, NOW).is_err());
        assert!(key("flink", "0123456789abcdef").check(&token, NOW).is_err());
        for malformed in ["", ".", "oxbus1", "oxbus1...", "a.b.c.d.e"] {
            assert!(key("spark", "0123456789abcdef").check(malformed, NOW).is_err());
        }
    }

    #[test]
    fn a_key_shows_no_secret() {
        assert_eq!(format!("{:?}", key("spark", "0123456789abcdef")), "Key(name=\"spark\")");
        assert!(Key::new("spark", "short").is_err());
    }
}
