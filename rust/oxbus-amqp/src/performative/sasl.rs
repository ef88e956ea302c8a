// SPDX-License-Identifier: Apache-2.0
//! SASL frames, which authenticate the client (AMQP 1.0, part 5, 5.3.3).

use bytes::{Bytes, BytesMut};
use bytestring::ByteString;

use crate::codec::{DecodeError, Field, Reader, Symbol, composite};

/// Names of mechanisms.
#[expect(missing_docs, reason = "each name is that of a mechanism")]
pub mod mechanism {
    pub const ANONYMOUS: &str = "ANONYMOUS";
    pub const PLAIN: &str = "PLAIN";
    pub const EXTERNAL: &str = "EXTERNAL";
    /// The mechanism that .NET clients choose when a token follows over `$cbs`.
    pub const MSSBCBS: &str = "MSSBCBS";
}

composite! {
    /// The mechanisms that a server offers. Always an array, because a client in use searches it for a name.
    SaslMechanisms = 0x40 "sasl-mechanisms" {
        /// The mechanisms, best first.
        mechanisms: Vec<Symbol>,
    }
}

composite! {
    /// The mechanism that a client chose.
    SaslInit = 0x41 "sasl-init" {
        /// The mechanism.
        mechanism: Symbol,
        /// The first bytes of the mechanism's exchange.
        initial_response: Option<Bytes>,
        /// Whom the client means to reach.
        hostname: Option<ByteString>,
    }
}

composite! {
    /// How it ended.
    SaslOutcome = 0x44 "sasl-outcome" {
        /// The result of the authentication.
        code: SaslCode,
        /// More, as the mechanism has it.
        additional_data: Option<Bytes>,
    }
}

/// The result of an authentication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaslCode {
    /// It may.
    Ok,
    /// It did not show who it is.
    Auth,
    /// Something else failed.
    System,
}

impl Field for SaslCode {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match u8::decode(reader)? {
            0 => Self::Ok,
            1 => Self::Auth,
            _ => Self::System,
        })
    }

    fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Ok => 0u8,
            Self::Auth => 1,
            Self::System => 2,
        }
        .encode(out);
    }
}

/// Name and password of the mechanism PLAIN.
#[derive(Clone, PartialEq, Eq)]
pub struct PlainCredentials {
    /// The name.
    pub user: ByteString,
    /// The password.
    pub password: ByteString,
}

impl PlainCredentials {
    /// Reads `[authorization id] NUL name NUL password` (RFC 4616).
    pub fn read(response: &Bytes) -> Option<Self> {
        let mut parts = response.split(|byte| *byte == 0);
        let (_, user, password) = (parts.next()?, parts.next()?, parts.next()?);
        let text = |part: &[u8]| ByteString::try_from(response.slice_ref(part)).ok();
        (parts.next().is_none() && !user.is_empty())
            .then(|| {
                Some(Self {
                    user: text(user)?,
                    password: text(password)?,
                })
            })
            .flatten()
    }
}

impl std::fmt::Debug for PlainCredentials {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("PlainCredentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}
