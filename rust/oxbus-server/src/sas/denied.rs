// SPDX-License-Identifier: Apache-2.0
//! Why a token, or an operation under a token, is refused; for each edge in its own words.

use oxbus_log::event;
use oxbus_model::Timestamp;
use oxbus_model::authorization::AccessRight;

use super::scope::{self, Scope};

/// A refusal: why, for which entity, under which name of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessDenied {
    /// Why.
    pub reason: DenialReason,
    /// The path of what was asked for, as the client wrote it; empty for the whole namespace.
    pub entity: String,
    /// The name of the rule that the client shows; nothing before that was read.
    pub key_name: Option<String>,
}

/// Why access is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DenialReason {
    /// There is no token.
    Missing,
    /// It is no shared access signature.
    Malformed(&'static str),
    /// It is a token of an issuer of identities, which this server does not ask.
    Issuer,
    /// No rule of that name is there.
    UnknownPolicy,
    /// None of the keys of the rule signed it.
    WrongKey,
    /// Its time is over.
    Expired(Timestamp),
    /// It is for another entity.
    WrongAudience(Scope),
    /// It is good, and does not give that right.
    MissingRight(AccessRight),
}

impl AccessDenied {
    /// A refusal of an address such as `sb://host/entity`, or of a path.
    pub fn new(reason: DenialReason, address: &str, key_name: Option<&str>) -> Self {
        Self {
            reason,
            entity: scope::entity_of(address),
            key_name: key_name.map(str::to_owned),
        }
    }

    /// Says in the log that a client was refused. Once for each answer: a refusal may be made and not be the answer.
    pub fn log(&self) {
        event!(
            CLIENT_REFUSED,
            key_name = self.key_name.as_deref(),
            entity = self.entity,
            reason = self.reason.name()
        );
    }

    /// The status over HTTP, and of the answer of `$cbs`.
    pub fn status(&self) -> u16 {
        401
    }

    /// The condition of a link or an operation that it ends (B-434).
    pub fn condition(&self) -> &'static str {
        "amqp:unauthorized-access"
    }

    /// The sub code over HTTP (B-464).
    pub fn sub_code(&self) -> u32 {
        match self.reason {
            DenialReason::MissingRight(_) => 40100,
            DenialReason::Missing | DenialReason::Malformed(_) | DenialReason::Issuer => 40102,
            DenialReason::UnknownPolicy
            | DenialReason::WrongKey
            | DenialReason::WrongAudience(_)
            | DenialReason::Expired(_) => 40103,
        }
    }

    /// What happened, what to do, and of which entity and key name. Shows no key and no signature.
    pub fn detail(&self) -> String {
        let entity = &self.entity;
        match &self.key_name {
            Some(name) => format!("{}: entity=`{entity}`, key name=`{name}`", self.reason.text()),
            None => format!("{}: entity=`{entity}`", self.reason.text()),
        }
    }
}

/// Says in the log that a client named an entity that is not there.
pub fn log_missing_entity(entity: &str, key_name: Option<&str>) {
    event!(CLIENT_REFUSED, key_name, entity, reason = "EntityNotFound");
}

impl DenialReason {
    /// Its name in the log.
    fn name(&self) -> &'static str {
        match self {
            Self::Missing => "MissingToken",
            Self::Malformed(_) => "MalformedToken",
            Self::Issuer => "InvalidIssuer",
            Self::UnknownPolicy => "UnknownKeyName",
            Self::WrongKey => "WrongKey",
            Self::Expired(_) => "ExpiredToken",
            Self::WrongAudience(_) => "InvalidAudience",
            Self::MissingRight(_) => "MissingRight",
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Missing => {
                "MissingToken: there is no token; send a shared access signature, over HTTP in the header \
                              Authorization, over AMQP to $cbs"
                    .to_owned()
            }
            Self::Malformed(reason) => format!(
                "MalformedToken: the token cannot be read, {reason}; use SharedAccessSignature sr=…&sig=…&se=…&skn=…"
            ),
            Self::Issuer => {
                "InvalidIssuer: this server takes no tokens of an issuer; use a shared access signature, which \
                             a client makes from SharedAccessKeyName and SharedAccessKey"
                    .to_owned()
            }
            Self::UnknownPolicy => {
                "InvalidSignature: The token has an invalid signature, since no rule has that key name; \
                                    check SharedAccessKeyName"
                    .to_owned()
            }
            Self::WrongKey => {
                "InvalidSignature: The token has an invalid signature; check SharedAccessKey, it is no key of \
                               that rule"
                    .to_owned()
            }
            Self::Expired(at) => format!(
                "ExpiredToken: The token is expired since {} s after 1970; make a new one, and compare the clocks of both \
                 machines",
                at.0 / 1000
            ),
            Self::WrongAudience(scope) => format!(
                "InvalidAudience: the token is for `/{}`; make one for this entity or for the namespace",
                scope.path()
            ),
            Self::MissingRight(right) => format!(
                "Unauthorized access. '{0}' claim(s) are required to perform this operation; use a rule with the right {0}",
                right.name()
            ),
        }
    }
}
