// SPDX-License-Identifier: Apache-2.0
//! The authorization rules of a namespace and its entities, and checking tokens against them.

use std::sync::{Arc, RwLock};

use oxbus_model::authorization::{AccessRight, AuthorizationRule};
use oxbus_model::sync::ignore_poison;
use oxbus_model::{Result, Timestamp};

use super::denied::{AccessDenied, DenialReason};
use super::scope::Scope;
use super::token::SasToken;

/// The source of the rules of entities.
pub trait EntityRules: Send + Sync {
    /// The rules of the entity at a path in lower case. Empty if there is no such entity.
    fn of(&self, path: &str) -> Vec<AuthorizationRule>;
}

/// The rule name and key of the official emulator, with all rights.
pub fn development_rule() -> AuthorizationRule {
    AuthorizationRule {
        key_name: "RootManageSharedAccessKey".to_owned(),
        primary_key: "SAS_KEY_VALUE".to_owned(),
        secondary_key: None,
        rights: AccessRight::ALL.to_vec(),
        created_at_ms: 0,
        modified_at_ms: 0,
    }
}

/// The rights that a token gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    rights: Vec<AccessRight>,
    /// The expiry of the token.
    pub expires_at: Timestamp,
    /// The part of the namespace that the token covers.
    pub scope: Scope,
    /// The name of the rule that signed the token.
    pub key_name: String,
}

impl Claims {
    /// Checks that the token covers the address, gives the right, and has not expired.
    pub fn check(&self, right: AccessRight, address: &str, now: Timestamp) -> std::result::Result<(), AccessDenied> {
        self.check_path(address, now)?;
        if self.grants(right) {
            return Ok(());
        }
        Err(self.denied(DenialReason::MissingRight(right), address))
    }

    /// Checks that the token covers the address and has not expired, whatever its rights.
    pub fn check_path(&self, address: &str, now: Timestamp) -> std::result::Result<(), AccessDenied> {
        let reason = if self.expires_at <= now {
            DenialReason::Expired(self.expires_at)
        } else if !self.scope.covers(&Scope::of_address(address)) {
            DenialReason::WrongAudience(self.scope.clone())
        } else {
            return Ok(());
        };
        Err(self.denied(reason, address))
    }

    /// True if the token gives the right. The right to manage includes the others.
    pub fn grants(&self, right: AccessRight) -> bool {
        self.rights.contains(&right) || self.rights.contains(&AccessRight::Manage)
    }

    /// The error for this token.
    pub fn denied(&self, reason: DenialReason, address: &str) -> AccessDenied {
        AccessDenied::new(reason, address, Some(&self.key_name))
    }
}

/// The current rules of a namespace and the source of its entities' rules.
pub struct Authority {
    /// A panic leaves it consistent: it is replaced in one step.
    rules: RwLock<Arc<[AuthorizationRule]>>,
    entities: Box<dyn EntityRules>,
}

impl Authority {
    /// Checks the rules of the namespace.
    pub fn new(rules: Vec<AuthorizationRule>, entities: impl EntityRules + 'static) -> Result<Self> {
        AuthorizationRule::check_all(&rules)?;
        Ok(Self {
            rules: RwLock::new(rules.into()),
            entities: Box::new(entities),
        })
    }

    /// Replaces the rules of the namespace, so that keys can rotate while clients continue.
    pub fn replace_rules(&self, rules: Vec<AuthorizationRule>) -> Result<()> {
        AuthorizationRule::check_all(&rules)?;
        *ignore_poison(self.rules.write()) = rules.into();
        Ok(())
    }

    /// The rules of the namespace.
    pub fn rules(&self) -> Arc<[AuthorizationRule]> {
        ignore_poison(self.rules.read()).clone()
    }

    /// Checks a token and returns its claims if they cover the audience: an address such as `sb://host/entity`, or a
    /// path.
    ///
    /// The rule is looked up at the entity of the token, at its parents, then at the namespace. A rule of the entity
    /// hides one of the namespace with the same name.
    pub fn authorize(&self, token: &str, audience: &str, now: Timestamp) -> std::result::Result<Claims, AccessDenied> {
        let token = SasToken::parse(token).map_err(|reason| AccessDenied::new(reason, audience, None))?;
        let claims = self
            .claims_of(&token, now)
            .map_err(|reason| AccessDenied::new(reason, audience, Some(&token.key_name)))?;
        claims.check_path(audience, now)?;
        Ok(claims)
    }

    /// Like [`Self::authorize`], for a request whose audience is not known yet.
    pub fn identify(&self, token: &str, now: Timestamp) -> std::result::Result<Claims, AccessDenied> {
        let token = SasToken::parse(token).map_err(|reason| AccessDenied::new(reason, "", None))?;
        self.claims_of(&token, now)
            .map_err(|reason| AccessDenied::new(reason, token.scope.path(), Some(&token.key_name)))
    }

    fn claims_of(&self, token: &SasToken<'_>, now: Timestamp) -> std::result::Result<Claims, DenialReason> {
        let of_entity = token.scope.with_parents().find_map(|path| {
            self.entities
                .of(path)
                .into_iter()
                .find(|rule| rule.key_name == token.key_name)
        });
        let found = of_entity.or_else(|| {
            self.rules()
                .iter()
                .find(|rule| rule.key_name == token.key_name)
                .cloned()
        });
        let rule = found.ok_or(DenialReason::UnknownPolicy)?;
        // Both keys are always tried, so that the time reveals nothing.
        let is_signed = rule
            .keys()
            .fold(false, |is_signed, key| token.is_signed_by(key) | is_signed);
        if !is_signed {
            return Err(DenialReason::WrongKey);
        }
        if token.expires_at <= now {
            return Err(DenialReason::Expired(token.expires_at));
        }
        Ok(Claims {
            rights: rule.rights,
            expires_at: token.expires_at,
            scope: token.scope.clone(),
            key_name: rule.key_name,
        })
    }

    /// Checks the name and key of SASL PLAIN (B-408). The claims cover the whole namespace and never expire.
    pub fn authorize_plain(&self, key_name: &str, key: &str) -> std::result::Result<Claims, AccessDenied> {
        let rules = self.rules();
        let rule = rules.iter().find(|rule| rule.key_name == key_name);
        let refused = |reason| AccessDenied::new(reason, "", Some(key_name));
        let rule = rule.ok_or_else(|| refused(DenialReason::UnknownPolicy))?;
        if !rule.keys().fold(false, |is_key, its| keys_equal(its, key) | is_key) {
            return Err(refused(DenialReason::WrongKey));
        }
        Ok(Claims {
            rights: rule.rights.clone(),
            expires_at: Timestamp::NEVER,
            scope: Scope::namespace(),
            key_name: rule.key_name.clone(),
        })
    }
}

/// Compares two keys in constant time.
fn keys_equal(a: &str, b: &str) -> bool {
    use ring::hmac;
    let key = hmac::Key::new(hmac::HMAC_SHA256, a.as_bytes());
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, b.as_bytes()), b"same");
    hmac::verify(&key, b"same", tag.as_ref()).is_ok()
}
