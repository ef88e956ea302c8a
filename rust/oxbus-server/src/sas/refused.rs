// SPDX-License-Identifier: Apache-2.0
//! Why a token, or an operation under a token, is refused; for each edge in its own words.

use oxbus_model::Timestamp;
use oxbus_model::authorization::AccessRight;

use super::scope::Scope;

/// Why access is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// There is no token.
    Missing,
    /// It is no shared access signature.
    Malformed(&'static str),
    /// It is a token of an issuer of identities, which this server does not ask.
    Issuer,
    /// No rule of that name is there.
    UnknownPolicy(String),
    /// None of the keys of the rule signed it.
    WrongKey(String),
    /// Its time is over.
    Expired(Timestamp),
    /// It is for another entity.
    WrongAudience(Scope),
    /// It is good, and does not give that right.
    MissingRight(AccessRight),
}

impl Refused {
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
        match self {
            Self::MissingRight(_) => 40100,
            Self::Missing | Self::Malformed(_) | Self::Issuer => 40102,
            Self::UnknownPolicy(_) | Self::WrongKey(_) | Self::WrongAudience(_) | Self::Expired(_) => 40103,
        }
    }

    /// What happened and what to do. Shows no key and no signature.
    pub fn detail(&self) -> String {
        match self {
            Self::Missing => {
                "MissingToken: the request has no token; send the header Authorization with a shared access \
                              signature"
                    .to_owned()
            }
            Self::Malformed(why) => format!(
                "MalformedToken: the token cannot be read: {why}; use SharedAccessSignature sr=…&sig=…&se=…&skn=…"
            ),
            Self::Issuer => {
                "InvalidIssuer: this server takes no tokens of an issuer; use a shared access signature, which \
                             a client makes from SharedAccessKeyName and SharedAccessKey"
                    .to_owned()
            }
            Self::UnknownPolicy(name) => format!(
                "InvalidSignature: The token has an invalid signature: no rule has that key name; check \
                 SharedAccessKeyName: `{name}`"
            ),
            Self::WrongKey(name) => format!(
                "InvalidSignature: The token has an invalid signature; check SharedAccessKey of the rule: `{name}`"
            ),
            Self::Expired(at) => format!(
                "ExpiredToken: The token is expired; make a new one, and compare the clocks of both machines: expired at \
                 {} s since 1970",
                at.0 / 1000
            ),
            Self::WrongAudience(scope) => format!(
                "InvalidAudience: the token is for another entity; make one for the entity or for the namespace: sr path \
                 `/{}`",
                scope.path()
            ),
            Self::MissingRight(right) => format!(
                "Unauthorized access. '{0}' claim(s) are required to perform this operation; use a rule with the right {0}",
                right.name()
            ),
        }
    }
}
