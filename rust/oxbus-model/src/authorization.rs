// SPDX-License-Identifier: Apache-2.0
//! Authorization rules: a named pair of keys with rights, on a namespace or on one entity (B-046, B-416).
//!
//! Servers enforce them for each client. In process they have no effect: a program with the namespace may do
//! everything.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::caps::{ACCESS_KEY_BYTES_MAX, ACCESS_KEY_BYTES_MIN, ACCESS_KEY_NAME_CHARS_MAX, AUTHORIZATION_RULES_MAX};
use crate::{Error, ErrorKind, Result};

/// A right that a key gives its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessRight {
    /// Send.
    Send,
    /// Receive, settle, browse.
    Listen,
    /// Everything, including management.
    Manage,
}

impl AccessRight {
    /// Every right.
    pub const ALL: [Self; 3] = [Self::Manage, Self::Send, Self::Listen];

    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Send => "Send",
            Self::Listen => "Listen",
            Self::Manage => "Manage",
        }
    }

    /// The right with this name. Case does not matter.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|right| right.name().eq_ignore_ascii_case(name))
    }
}

/// A rule: a client that proves that it knows one of the keys has the rights. `Debug` shows no key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthorizationRule {
    /// The name of the rule and its keys, unique in the namespace or entity.
    pub key_name: String,
    /// The first key.
    pub primary_key: String,
    /// A second key, so that clients keep working while the first is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secondary_key: Option<String>,
    /// The rights of its clients.
    pub rights: Vec<AccessRight>,
    /// When it was created, in milliseconds since 1970 in UTC.
    pub created_at_ms: u64,
    /// When it was last changed, in milliseconds since 1970 in UTC.
    pub modified_at_ms: u64,
}

impl AuthorizationRule {
    /// The only type of rule, as the management API shows it.
    pub const TYPE: &str = "SharedAccessAuthorizationRule";
    /// Claim type of each rule in the management API.
    pub const CLAIM_TYPE: &str = "SharedAccessKey";
    /// Claim value of each rule in the management API.
    pub const CLAIM_VALUE: &str = "None";

    /// Its keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.primary_key.as_str()).chain(self.secondary_key.as_deref())
    }

    /// True if the rule gives this right. `Manage` includes all rights.
    pub fn allows(&self, right: AccessRight) -> bool {
        self.rights.contains(&right) || self.rights.contains(&AccessRight::Manage)
    }

    /// Rejects a rule without rights, with an invalid name, or with keys that are too short or too long.
    pub fn check(&self) -> Result<()> {
        let wrong = |why: String| {
            let detail = format!("the authorization rule {why}: key_name=`{}`", self.key_name);
            Err(Error::new(ErrorKind::InvalidArgument, detail))
        };
        let chars = self.key_name.chars().count();
        if !(1..=ACCESS_KEY_NAME_CHARS_MAX).contains(&chars) || self.key_name.contains([';', '&', '=']) {
            return wrong(format!(
                "needs a key name of 1 to {ACCESS_KEY_NAME_CHARS_MAX} characters, none of them ; & or ="
            ));
        }
        for key in self.keys() {
            if !(ACCESS_KEY_BYTES_MIN..=ACCESS_KEY_BYTES_MAX).contains(&key.len()) {
                return wrong(format!(
                    "needs keys of {ACCESS_KEY_BYTES_MIN} to {ACCESS_KEY_BYTES_MAX} characters, for example of \
                     secrets.token_urlsafe(32)"
                ));
            }
        }
        if self.rights.is_empty() {
            return wrong("gives no right; use Send, Listen or Manage".to_owned());
        }
        Ok(())
    }

    /// Rejects the rules of one namespace or entity if they are too many, share a name, or one of them is invalid.
    pub fn check_all(rules: &[Self]) -> Result<()> {
        if rules.len() > AUTHORIZATION_RULES_MAX {
            let detail = format!(
                "too many authorization rules; keep {AUTHORIZATION_RULES_MAX} at most: {}",
                rules.len()
            );
            return Err(Error::new(ErrorKind::QuotaExceeded, detail));
        }
        for (at, rule) in rules.iter().enumerate() {
            rule.check()?;
            if rules[..at].iter().any(|other| other.key_name == rule.key_name) {
                let detail = format!(
                    "two authorization rules have the same key name; rename one: key_name=`{}`",
                    rule.key_name
                );
                return Err(Error::new(ErrorKind::InvalidArgument, detail));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for AuthorizationRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "AuthorizationRule(key_name={:?}, rights={:?})",
            self.key_name, self.rights
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{AccessRight, AuthorizationRule};
    use crate::ErrorKind;
    use crate::caps::AUTHORIZATION_RULES_MAX;

    fn rule(name: &str, key: &str) -> AuthorizationRule {
        AuthorizationRule {
            key_name: name.to_owned(),
            primary_key: key.to_owned(),
            secondary_key: None,
            rights: vec![AccessRight::Listen],
            created_at_ms: 0,
            modified_at_ms: 0,
        }
    }

    #[test]
    fn manage_includes_all_rights() {
        let mut it = rule("root", "0123456789abcdef");
        assert!(it.allows(AccessRight::Listen) && !it.allows(AccessRight::Send));
        it.rights = vec![AccessRight::Manage];
        assert!(AccessRight::ALL.into_iter().all(|right| it.allows(right)));
    }

    #[test]
    fn a_rule_with_a_short_key_or_no_rights_is_rejected() {
        assert!(rule("root", "0123456789abcdef").check().is_ok());
        assert!(rule("root", "short").check().is_err());
        assert!(rule("", "0123456789abcdef").check().is_err());
        assert!(rule("a;b", "0123456789abcdef").check().is_err());
        let mut nothing = rule("root", "0123456789abcdef");
        nothing.rights.clear();
        assert!(nothing.check().is_err());
    }

    #[test]
    fn a_namespace_has_at_most_twelve_rules_of_different_names() {
        // B-046.
        let mut rules: Vec<_> = (0..AUTHORIZATION_RULES_MAX)
            .map(|at| rule(&format!("r{at}"), "0123456789abcdef"))
            .collect();
        assert!(AuthorizationRule::check_all(&rules).is_ok());
        rules.push(rule("more", "0123456789abcdef"));
        let error = AuthorizationRule::check_all(&rules).expect_err("thirteen");
        assert_eq!(error.kind(), ErrorKind::QuotaExceeded);
        rules.truncate(1);
        rules.push(rules[0].clone());
        assert!(AuthorizationRule::check_all(&rules).is_err());
    }

    #[test]
    fn a_rule_shows_no_key() {
        assert!(!format!("{:?}", rule("root", "0123456789abcdef")).contains("0123"));
    }
}
