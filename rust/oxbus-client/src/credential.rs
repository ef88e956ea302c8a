// SPDX-License-Identifier: Apache-2.0
//! The credential of a client: a key that signs tokens, a ready-made token, or a function that gets tokens.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use oxbus_model::Timestamp;
use oxbus_wire::shared_access_signature;

use crate::error::{ClientError, Result};
use crate::kind::ClientErrorKind;
use crate::runtime;

/// The scope that a function is asked for.
pub const TOKEN_SCOPE: &str = "https://servicebus.azure.net//.default";
/// Lifetime of tokens that the client signs.
const SIGNED_TOKEN: Duration = Duration::from_secs(3_600);

/// A token and its end.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken {
    /// The token.
    pub token: String,
    /// When it ends.
    pub expires_at: Timestamp,
}

/// A function that gets a token for a scope. It may block: it runs on a thread of its own.
pub type TokenFunction = Arc<dyn Fn(&str) -> std::result::Result<AccessToken, String> + Send + Sync>;

/// The credential of a client. `Debug` shows no secret.
#[derive(Clone)]
pub enum Credential {
    /// A key, with which the client signs tokens.
    SharedKey {
        /// Its name.
        name: String,
        /// The key.
        key: String,
    },
    /// A ready-made shared access signature.
    Token(String),
    /// A function that gets tokens.
    Function(TokenFunction),
}

impl AccessToken {
    /// Its `type` at `$cbs`. Functions may give shared access signatures, too.
    pub(crate) fn type_name(&self) -> &'static str {
        if self.token.starts_with("SharedAccessSignature ") {
            "servicebus.windows.net:sastoken"
        } else {
            "jwt"
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SharedKey { name, .. } => write!(out, "SharedKey({name:?})"),
            Self::Token(_) => out.write_str("Token"),
            Self::Function(_) => out.write_str("Function"),
        }
    }
}

impl Credential {
    /// A token for an audience.
    pub(crate) async fn token(&self, audience: &str, now: Timestamp) -> Result<AccessToken> {
        match self {
            Self::SharedKey { name, key } => {
                let expires_at = now.plus_ms(SIGNED_TOKEN.as_millis() as u64);
                Ok(AccessToken {
                    token: shared_access_signature(audience, expires_at, name, key),
                    expires_at,
                })
            }
            Self::Token(token) => Ok(AccessToken {
                expires_at: end_of_signature(token).unwrap_or(Timestamp::NEVER),
                token: token.clone(),
            }),
            Self::Function(function) => {
                let function = Arc::clone(function);
                let got = runtime::handle()?.spawn_blocking(move || function(TOKEN_SCOPE)).await;
                let got = got.unwrap_or_else(|error| Err(error.to_string()));
                got.map_err(|error| {
                    let detail = format!("the credential gave no token; check its configuration: {error}");
                    ClientError::new(ClientErrorKind::Unauthenticated, detail)
                })
            }
        }
    }
}

/// The end of a shared access signature: its `se`, in seconds.
fn end_of_signature(token: &str) -> Option<Timestamp> {
    let mut parts = token.strip_prefix("SharedAccessSignature ")?.split('&');
    let seconds: u64 = parts.find_map(|part| part.strip_prefix("se="))?.parse().ok()?;
    Some(Timestamp(seconds.checked_mul(1_000)?))
}

#[cfg(test)]
mod tests {
    use oxbus_model::Timestamp;

    use super::{Credential, end_of_signature};

    #[test]
    fn the_end_of_a_signature_is_read() {
        let token = "SharedAccessSignature sr=sb%3A%2F%2Fh&sig=abc&se=1800000060&skn=root";
        assert_eq!(end_of_signature(token), Some(Timestamp(1_800_000_060_000)));
        for token in ["", "SharedAccessSignature sr=a", "se=5", "SharedAccessSignature se=x"] {
            assert_eq!(end_of_signature(token), None, "{token}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let key = Credential::SharedKey {
            name: "root".to_owned(),
            key: "topsecret".to_owned(),
        };
        for shown in [
            format!("{key:?}"),
            format!("{:?}", Credential::Token("topsecret".to_owned())),
        ] {
            assert!(!shown.contains("topsecret"), "{shown}");
        }
    }
}
