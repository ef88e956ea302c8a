// SPDX-License-Identifier: Apache-2.0
//! Denied access: the reasons, and their form in each protocol.

use oxbus_log::event;
use oxbus_model::Timestamp;
use oxbus_model::authorization::AccessRight;

use super::scope::{self, Scope};

/// A denied access: the reason, the entity, and the key name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessDenied {
    /// The reason.
    pub reason: DenialReason,
    /// The requested path, as the client wrote it. Empty for the whole namespace.
    pub entity: String,
    /// The key name of the token, and `None` if it could not be read.
    pub key_name: Option<String>,
}

/// The reason for denying access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DenialReason {
    /// The request has no token.
    Missing,
    /// The token is not a shared access signature.
    Malformed(&'static str),
    /// The token comes from an identity provider, which is not supported.
    Issuer,
    /// There is no rule with the key name.
    UnknownPolicy,
    /// The token was signed with another key.
    WrongKey,
    /// The token has expired.
    Expired(Timestamp),
    /// The token is for another entity.
    WrongAudience(Scope),
    /// The token is valid but does not give the right.
    MissingRight(AccessRight),
}

impl AccessDenied {
    /// An error for an address such as `sb://host/entity`, or for a path.
    pub fn new(reason: DenialReason, address: &str, key_name: Option<&str>) -> Self {
        Self {
            reason,
            entity: scope::entity_of(address),
            key_name: key_name.map(str::to_owned),
        }
    }

    /// Logs the denied access. Called once per response, because a created error may not become the response.
    pub fn log(&self) {
        event!(
            CLIENT_REFUSED,
            key_name = self.key_name.as_deref(),
            entity = self.entity,
            reason = self.reason.name()
        );
    }

    /// The status over HTTP and in `$cbs` replies.
    pub fn status(&self) -> u16 {
        401
    }

    /// The AMQP condition (B-434).
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

    /// The cause, the remedy, the entity and the key name. Never contains a key or a signature.
    pub fn detail(&self) -> String {
        let entity = &self.entity;
        match &self.key_name {
            Some(name) => format!("{}: entity=`{entity}`, key name=`{name}`", self.reason.text()),
            None => format!("{}: entity=`{entity}`", self.reason.text()),
        }
    }
}

/// Logs that a client named an entity that does not exist.
pub fn log_missing_entity(entity: &str, key_name: Option<&str>) {
    event!(CLIENT_REFUSED, key_name, entity, reason = "EntityNotFound");
}

impl DenialReason {
    /// The name in the log.
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
                "MissingToken: the request has no token; send a shared access signature, over HTTP in the header \
                              Authorization, over AMQP to $cbs"
                    .to_owned()
            }
            Self::Malformed(reason) => format!(
                "MalformedToken: the token cannot be read, {reason}; use SharedAccessSignature sr=…&sig=…&se=…&skn=…"
            ),
            Self::Issuer => {
                "InvalidIssuer: this server accepts no tokens of an identity provider; use a shared access signature, which \
                             a client makes from SharedAccessKeyName and SharedAccessKey"
                    .to_owned()
            }
            Self::UnknownPolicy => {
                "InvalidSignature: The token has an invalid signature, because no rule has that key name; \
                                    check SharedAccessKeyName"
                    .to_owned()
            }
            Self::WrongKey => {
                "InvalidSignature: The token has an invalid signature; check SharedAccessKey, it does not match the rule"
                    .to_owned()
            }
            Self::Expired(at) => format!(
                "ExpiredToken: The token expired {} s after 1970; create a new one, and compare the clocks of both \
                 machines",
                at.0 / 1000
            ),
            Self::WrongAudience(scope) => format!(
                "InvalidAudience: the token is for `/{}`; create one for this entity or for the namespace",
                scope.path()
            ),
            Self::MissingRight(right) => format!(
                "Unauthorized access. '{0}' claim(s) are required to perform this operation; use a rule with the right {0}",
                right.name()
            ),
        }
    }
}
