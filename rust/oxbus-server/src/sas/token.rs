// SPDX-License-Identifier: Apache-2.0
//! Parses shared access signatures.
//!
//! The format is `SharedAccessSignature sr=<address>&sig=<signature>&se=<expiry>&skn=<key name>`, with the parts in
//! any order. The signature is the base64 of the HMAC-SHA256 of the address exactly as written, a line feed, and the
//! expiry. The key of the HMAC is the text of the access key.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use oxbus_model::Timestamp;
use oxbus_model::caps::SAS_TOKEN_BYTES_MAX;
use percent_encoding::percent_decode_str;
use ring::hmac;

use super::denied::DenialReason;
use super::scope::Scope;

/// The scheme at the beginning of a token.
const SCHEME: &str = "SharedAccessSignature";

/// The names of the parts.
const NAMES: [&str; 4] = ["sr", "sig", "se", "skn"];

/// A parsed token whose signature has not been checked.
#[derive(Debug)]
pub(super) struct SasToken<'a> {
    /// The address and the expiry as written.
    signed: (&'a str, &'a str),
    signature: Vec<u8>,
    pub(super) key_name: String,
    pub(super) expires_at: Timestamp,
    pub(super) scope: Scope,
}

impl<'a> SasToken<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, DenialReason> {
        if text.len() > SAS_TOKEN_BYTES_MAX {
            return Err(DenialReason::Malformed("it is too long"));
        }
        let text = text.trim();
        if text.trim_start_matches("Bearer ").starts_with("oxbus1.") {
            return Err(DenialReason::Malformed(
                "tokens that begin with oxbus1. are no longer accepted",
            ));
        }
        let scheme = text.get(..SCHEME.len()).unwrap_or_default();
        if !scheme.eq_ignore_ascii_case(SCHEME) {
            let bearer = text.get(..7).is_some_and(|it| it.eq_ignore_ascii_case("bearer "));
            return Err(if bearer || text.starts_with("ey") {
                DenialReason::Issuer
            } else {
                DenialReason::Malformed("it has an unknown scheme")
            });
        }
        let mut parts = [None; 4];
        for part in text[SCHEME.len()..].trim_start().split('&') {
            let (name, value) = part
                .split_once('=')
                .ok_or(DenialReason::Malformed("a part of it has no value"))?;
            if let Some(at) = NAMES.iter().position(|it| it.eq_ignore_ascii_case(name.trim()))
                && parts[at].replace(value.trim()).is_some()
            {
                return Err(DenialReason::Malformed("a part of it occurs twice"));
            }
        }
        let [Some(address), Some(signature), Some(expiry), Some(key_name)] = parts else {
            return Err(DenialReason::Malformed("it lacks sr, sig, se or skn"));
        };
        let decoded = |value: &str| {
            percent_decode_str(value)
                .decode_utf8()
                .ok()
                .map(std::borrow::Cow::into_owned)
        };
        let signature = decoded(signature)
            // A client that escapes nothing leaves `+` in the base64, which form decoders turn into a space.
            .map(|it| it.replace(' ', "+"))
            .and_then(|it| STANDARD.decode(it).ok())
            .ok_or(DenialReason::Malformed("its signature is not base64"))?;
        // Some clients add a fraction of a second.
        let seconds = expiry.split(['.', ',']).next().unwrap_or_default();
        let seconds: u64 = seconds
            .parse()
            .map_err(|_| DenialReason::Malformed("its expiry is not a number of seconds"))?;
        Ok(Self {
            signed: (address, expiry),
            signature,
            key_name: decoded(key_name).ok_or(DenialReason::Malformed("its key name is not valid UTF-8"))?,
            expires_at: Timestamp(0).plus_ms(seconds.saturating_mul(1000)),
            scope: Scope::of_escaped(address).ok_or(DenialReason::Malformed("its address is not valid UTF-8"))?,
        })
    }

    /// True if the key signed the token. Runs in constant time.
    pub(super) fn is_signed_by(&self, key: &str) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
        let (address, expiry) = self.signed;
        hmac::verify(&key, format!("{address}\n{expiry}").as_bytes(), &self.signature).is_ok()
    }
}
