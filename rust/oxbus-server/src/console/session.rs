// SPDX-License-Identifier: Apache-2.0
//! Who a browser has signed in as.
//!
//! The browser has a random token in a cookie; the server stores only its digest. A sign-in ends after a time without
//! use, after a day's work, and as soon as its key is no longer a key of its rule.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::HeaderMap;
use hyper::header::{COOKIE, HOST};
use oxbus_broker::clock::random_bytes;
use oxbus_model::authorization::{AccessRight, AuthorizationRule};
use oxbus_model::sync::ignore_poison;
use oxbus_model::{Result, Timestamp};
use ring::digest::{SHA256, digest};

use crate::sas::Authority;

/// A sign-in ends after this time without a request.
const IDLE_MS: u64 = 30 * 60_000;
/// A sign-in ends after this time.
const LIFE_MS: u64 = 12 * 3_600_000;
/// Beyond this number, the one that was used least recently ends.
const SIGN_INS_MAX: usize = 1_000;

type Digest = [u8; 32];

/// Who sends a request.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    pub(super) key_name: String,
    pub(super) rights: Vec<AccessRight>,
    /// Proves that a change comes from a page of this console.
    pub(super) csrf: String,
    pub(super) peer: Option<SocketAddr>,
}

impl Caller {
    pub(super) fn may(&self, right: AccessRight) -> bool {
        self.rights.contains(&right) || self.rights.contains(&AccessRight::Manage)
    }

    /// True if this is the token against forgery. Digests are compared, so that the time tells nothing of the token.
    pub(super) fn is_csrf(&self, given: &[u8]) -> bool {
        digest(&SHA256, given).as_ref() == digest(&SHA256, self.csrf.as_bytes()).as_ref()
    }
}

struct SignIn {
    key_name: String,
    key: Digest,
    csrf: String,
    used_at: Timestamp,
    ends_at: Timestamp,
}

/// All sign-ins, by the digest of their token.
#[derive(Default)]
pub(super) struct SignIns(Mutex<BTreeMap<Digest, SignIn>>);

fn digest_of(text: &str) -> Digest {
    let mut bytes = Digest::default();
    bytes.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    bytes
}

fn random_text() -> Result<String> {
    Ok(URL_SAFE_NO_PAD.encode(random_bytes::<32>()?))
}

/// The rule of the name, if the digest is that of one of its keys and it lets people look.
fn rule_of(authority: &Authority, key_name: &str, key: &Digest) -> Option<AuthorizationRule> {
    let rules = authority.rules();
    let rule = rules.iter().find(|rule| rule.key_name == key_name)?;
    let is_key = rule.keys().any(|its| digest_of(its) == *key);
    let may_look = rule.allows(AccessRight::Listen) || rule.allows(AccessRight::Manage);
    (is_key && may_look).then(|| rule.clone())
}

impl SignIns {
    fn known(&self) -> MutexGuard<'_, BTreeMap<Digest, SignIn>> {
        // A panic leaves it consistent: an entry is either there or not.
        ignore_poison(self.0.lock())
    }

    /// Adds a sign-in. Returns its token. The caller has checked the key.
    pub(super) fn add(&self, key_name: &str, key: &str, now: Timestamp) -> Result<String> {
        let token = random_text()?;
        let sign_in = SignIn {
            key_name: key_name.to_owned(),
            key: digest_of(key),
            csrf: random_text()?,
            used_at: now,
            ends_at: now.plus_ms(LIFE_MS),
        };
        let mut known = self.known();
        known.retain(|_, it| it.is_valid(now));
        if known.len() >= SIGN_INS_MAX {
            let oldest = known.iter().min_by_key(|(_, it)| it.used_at).map(|(digest, _)| *digest);
            oldest.map(|digest| known.remove(&digest));
        }
        known.insert(digest_of(&token), sign_in);
        Ok(token)
    }

    /// Who signed in with this token. With `is_use`, the time without use begins again.
    pub(super) fn find(&self, token: &str, authority: &Authority, now: Timestamp, is_use: bool) -> Option<Caller> {
        let digest = digest_of(token);
        let mut known = self.known();
        let sign_in = known.get_mut(&digest)?;
        let rule = rule_of(authority, &sign_in.key_name, &sign_in.key).filter(|_| sign_in.is_valid(now));
        let Some(rule) = rule else {
            known.remove(&digest);
            return None;
        };
        if is_use {
            sign_in.used_at = now;
        }
        Some(Caller {
            key_name: rule.key_name,
            rights: rule.rights,
            csrf: sign_in.csrf.clone(),
            peer: None,
        })
    }

    /// Ends a sign-in.
    pub(super) fn remove(&self, token: &str) {
        self.known().remove(&digest_of(token));
    }
}

impl SignIn {
    fn is_valid(&self, now: Timestamp) -> bool {
        now < self.ends_at && now < self.used_at.plus_ms(IDLE_MS)
    }
}

/// The name of the cookie. It contains the port, because browsers share cookies between the ports of a host.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers
        .get(HOST)
        .and_then(|host| host.to_str().ok())
        .unwrap_or_default();
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    let digits: String = port.chars().filter(char::is_ascii_digit).collect();
    format!("oxbus-console-{digits}")
}

/// The token in the request's cookie.
pub(super) fn token_in(headers: &HeaderMap) -> Option<String> {
    let name = cookie_name(headers);
    let cookies = headers.get_all(COOKIE).into_iter().filter_map(|it| it.to_str().ok());
    let pairs = cookies
        .flat_map(|it| it.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    let mut tokens = pairs.filter(|(key, _)| *key == name).map(|(_, token)| token.to_owned());
    tokens.next()
}

/// The cookie that stores a token; an empty token removes it.
pub(super) fn cookie(headers: &HeaderMap, token: &str, is_encrypted: bool) -> String {
    let secure = if is_encrypted { "; Secure" } else { "" };
    let age = if token.is_empty() { 0 } else { LIFE_MS / 1_000 };
    format!(
        "{}={token}; Path=/$console; HttpOnly; SameSite=Strict; Max-Age={age}{secure}",
        cookie_name(headers)
    )
}

#[cfg(test)]
mod tests {
    use oxbus_model::Timestamp;
    use oxbus_model::authorization::AccessRight;

    use super::{IDLE_MS, SIGN_INS_MAX, SignIns};
    use crate::sas::{Authority, EntityRules, development_rule};

    struct NoRules;

    impl EntityRules for NoRules {
        fn of(&self, _: &str) -> Vec<oxbus_model::authorization::AuthorizationRule> {
            Vec::new()
        }
    }

    #[test]
    fn a_sign_in_ends_without_use_and_with_its_key() {
        let authority = Authority::new(vec![development_rule()], NoRules).expect("a valid rule");
        let rule = development_rule();
        let sign_ins = SignIns::default();
        let token = sign_ins
            .add(&rule.key_name, &rule.primary_key, Timestamp(0))
            .expect("random");
        let find = |token: &str, now: u64| sign_ins.find(token, &authority, Timestamp(now), true);
        assert!(find(&token, IDLE_MS - 1).is_some_and(|caller| caller.may(AccessRight::Manage)));
        assert!(find(&token, 2 * IDLE_MS - 2).is_some(), "its last use counts");
        assert!(find(&token, 4 * IDLE_MS).is_none());
        let token = sign_ins
            .add(&rule.key_name, &rule.primary_key, Timestamp(0))
            .expect("random");
        let mut changed = rule.clone();
        "another-key-of-more-than-thirty-two-characters".clone_into(&mut changed.primary_key);
        authority.replace_rules(vec![changed]).expect("a valid rule");
        assert!(find(&token, 1).is_none());
        assert!(find("made up", 1).is_none());
    }

    #[test]
    fn sign_ins_are_limited() {
        let sign_ins = SignIns::default();
        for now in 0..SIGN_INS_MAX as u64 + 5 {
            sign_ins.add("a", "b", Timestamp(now)).expect("random");
        }
        assert_eq!(sign_ins.known().len(), SIGN_INS_MAX);
    }
}
