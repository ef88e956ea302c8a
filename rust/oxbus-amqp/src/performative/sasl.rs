// SPDX-License-Identifier: Apache-2.0
//! SASL frames (AMQP 1.0, part 5, 5.3.3).

use bytes::{Bytes, BytesMut};
use bytestring::ByteString;

use crate::codec::{DecodeError, Field, Reader, Symbol, composite};

/// Names of mechanisms.
#[expect(missing_docs, reason = "each name is that of a mechanism")]
pub mod mechanism {
    pub const ANONYMOUS: &str = "ANONYMOUS";
    pub const PLAIN: &str = "PLAIN";
    pub const EXTERNAL: &str = "EXTERNAL";
    /// Used by .NET clients that later send a token to `$cbs`.
    pub const MSSBCBS: &str = "MSSBCBS";
}

composite! {
    /// The mechanisms that a server offers. Always an array, because a common client searches it.
    SaslMechanisms = 0x40 "sasl-mechanisms" {
        /// The mechanisms, preferred first.
        mechanisms: Vec<Symbol>,
    }
}

composite! {
    /// A client's choice of mechanism.
    SaslInit = 0x41 "sasl-init" {
        /// The mechanism.
        mechanism: Symbol,
        /// The initial response of the mechanism.
        initial_response: Option<Bytes>,
        /// The requested host.
        hostname: Option<ByteString>,
    }
}

composite! {
    /// The outcome of SASL.
    SaslOutcome = 0x44 "sasl-outcome" {
        /// The result.
        code: SaslCode,
        /// Additional data of the mechanism.
        additional_data: Option<Bytes>,
    }
}

/// The result of SASL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaslCode {
    /// Authenticated.
    Ok,
    /// Wrong credentials.
    Auth,
    /// A system error.
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
    /// Parses `[authorization id] NUL name NUL password` (RFC 4616).
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
