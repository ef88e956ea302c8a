// SPDX-License-Identifier: Apache-2.0
//! Connection strings of servers, in the format of the SDKs.
//!
//! `Endpoint=sb://host:port;SharedAccessKeyName=…;SharedAccessKey=…`, with `;UseDevelopmentEmulator=true` for no TLS.
//! `EntityPath` and `SharedAccessSignature` are also supported.

use std::fmt;

use oxbus_model::{Error, ErrorKind, Result, Timestamp};

use crate::signature::shared_access_signature;

/// The default ports with and without TLS, which are those of the service.
const DEFAULT_PORTS: (u16, u16) = (5671, 5672);

const FORMAT: &str = "write Endpoint=sb://host:port;SharedAccessKeyName=...;SharedAccessKey=..., with \
                    ;UseDevelopmentEmulator=true at the end for a server without TLS, as `oxbus serve` prints it";

/// The credential that identifies the client. `Debug` shows no secret.
#[derive(Clone)]
pub enum Credential {
    /// A key, which signs tokens.
    Key {
        /// The name of the key.
        name: String,
        /// The key.
        key: String,
    },
    /// A ready-made token.
    Signature(String),
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key { name, .. } => write!(f, "Key(name={name:?})"),
            Self::Signature(_) => write!(f, "Signature"),
        }
    }
}

/// The address of a server and the credential of a client.
#[derive(Debug, Clone)]
pub struct ConnectionString {
    /// True unless the text contains `UseDevelopmentEmulator=true`.
    pub tls: bool,
    /// A name or an address. An IPv6 address has no brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Identifies the client.
    pub credential: Credential,
    /// The `EntityPath`: the entity to which the key is limited.
    pub entity: Option<String>,
}

fn invalid(detail: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("{detail}; {FORMAT}"))
}

/// The parts of the text.
#[derive(Default)]
struct Parts<'a> {
    endpoint: Option<&'a str>,
    key_name: Option<&'a str>,
    key: Option<&'a str>,
    signature: Option<&'a str>,
    entity: Option<&'a str>,
    emulator: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn parse(text: &'a str) -> Result<Self> {
        let mut parts = Self::default();
        for part in text.trim().split(';').filter(|part| !part.trim().is_empty()) {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| invalid("the connection string is malformed: each part is name=value"))?;
            let part = match name.trim().to_ascii_lowercase().as_str() {
                "endpoint" => &mut parts.endpoint,
                "sharedaccesskeyname" => &mut parts.key_name,
                "sharedaccesskey" => &mut parts.key,
                "sharedaccesssignature" => &mut parts.signature,
                "entitypath" => &mut parts.entity,
                "usedevelopmentemulator" => &mut parts.emulator,
                _ => {
                    return Err(invalid("the connection string has an unknown part"));
                }
            };
            if part.replace(value.trim()).is_some() {
                return Err(invalid("the connection string repeats a part"));
            }
        }
        Ok(parts)
    }

    fn credential(&self) -> Result<Credential> {
        let some = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        match (some(self.key_name), some(self.key), some(self.signature)) {
            (Some(name), Some(key), None) => Ok(Credential::Key { name, key }),
            (None, None, Some(signature)) => Ok(Credential::Signature(signature)),
            (None, None, None) => Err(invalid("the connection string has no key")),
            (_, _, Some(_)) => Err(invalid(
                "the connection string has a SharedAccessSignature and a key; keep one of them",
            )),
            _ => Err(invalid(
                "the connection string must have both SharedAccessKeyName and SharedAccessKey",
            )),
        }
    }

    fn is_emulator(&self) -> Result<bool> {
        match self.emulator {
            None => Ok(false),
            Some(value) if value.eq_ignore_ascii_case("true") => Ok(true),
            Some(value) if value.eq_ignore_ascii_case("false") => Ok(false),
            Some(_) => Err(invalid("UseDevelopmentEmulator must be true or false")),
        }
    }
}

impl ConnectionString {
    /// Parses a connection string. Errors do not quote it, since it contains a secret.
    pub fn parse(text: &str) -> Result<Self> {
        let parts = Parts::parse(text)?;
        let endpoint = parts
            .endpoint
            .ok_or_else(|| invalid("the connection string has no Endpoint"))?;
        let (scheme, rest) = endpoint
            .split_once("://")
            .ok_or_else(|| invalid("the Endpoint is not the address of a server"))?;
        match scheme.to_ascii_lowercase().as_str() {
            "sb" => {}
            "http" | "https" => {
                let detail = "bulk clients no longer have an Endpoint of their own: they use that of the server, which \
                              begins with sb://";
                return Err(invalid(detail));
            }
            _ => return Err(invalid("the Endpoint is not the address of a server")),
        }
        let tls = !parts.is_emulator()?;
        let (host, port) = host_and_port(rest).ok_or_else(|| invalid("the Endpoint is not the address of a server"))?;
        Ok(Self {
            tls,
            host,
            port: port.unwrap_or(if tls { DEFAULT_PORTS.0 } else { DEFAULT_PORTS.1 }),
            credential: parts.credential()?,
            entity: parts.entity.filter(|path| !path.is_empty()).map(str::to_owned),
        })
    }

    /// Host and port, as in a URL.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The address of the server, without the key.
    pub fn endpoint(&self) -> String {
        format!("sb://{}", self.authority())
    }

    /// A token for `entity`, else for the `EntityPath`, else for the namespace.
    pub(crate) fn token(&self, entity: Option<&str>, expires_at: Timestamp) -> String {
        match &self.credential {
            Credential::Signature(signature) => signature.clone(),
            Credential::Key { name, key } => {
                let entity = entity.or(self.entity.as_deref()).unwrap_or_default();
                let address = format!("{}/{entity}", self.endpoint());
                shared_access_signature(&address, expires_at, name, key)
            }
        }
    }
}

/// Host and port of an address without its scheme.
fn host_and_port(rest: &str) -> Option<(String, Option<u16>)> {
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = if let Some(rest) = rest.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        match port {
            "" => (host, None),
            port => (host, Some(port.strip_prefix(':')?)),
        }
    } else {
        match rest.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        }
    };
    let allowed = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '-' | '_' | ':' | '%');
    if host.is_empty() || !host.chars().all(allowed) {
        return None;
    }
    let port = match port {
        None => None,
        Some(port) => Some(port.parse().ok()?),
    };
    Some((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use oxbus_model::Timestamp;

    use super::{ConnectionString, Credential};

    const KEY: &str = "SharedAccessKeyName=spark;SharedAccessKey=0123456789abcdef=";

    fn parsed(text: &str) -> ConnectionString {
        ConnectionString::parse(text).expect(text)
    }

    #[test]
    fn names_of_parts_ignore_case() {
        let found = parsed(&format!("endpoint=sb://[::1]:8443/;{KEY};ENTITYPATH=orders;"));
        assert_eq!((found.tls, found.host.as_str(), found.port), (true, "::1", 8443));
        assert_eq!(found.endpoint(), "sb://[::1]:8443");
        assert_eq!(found.entity.as_deref(), Some("orders"));
        assert!(matches!(&found.credential, Credential::Key { name, key } if name == "spark" && key.ends_with("f=")));
    }

    #[test]
    fn only_the_emulator_has_no_tls_and_default_ports_are_those_of_the_service() {
        for (emulator, tls, port) in [
            ("", true, 5671),
            (";UseDevelopmentEmulator=false", true, 5671),
            (";UseDevelopmentEmulator=true", false, 5672),
        ] {
            let found = parsed(&format!("Endpoint=sb://h/;{KEY}{emulator}"));
            assert_eq!((found.tls, found.port), (tls, port), "{emulator}");
        }
    }

    #[test]
    fn a_token_is_for_the_entity_of_the_call_or_else_for_the_entity_path() {
        let scope = |text: &str, entity: Option<&str>| {
            let token = parsed(text).token(entity, Timestamp(60_000));
            let address = token.split("sr=").nth(1).and_then(|it| it.split('&').next());
            address.expect("an address").to_owned()
        };
        let namespace = format!("Endpoint=sb://h:1;{KEY}");
        let orders = format!("{namespace};EntityPath=orders");
        assert_eq!(scope(&namespace, Some("a")), "sb%3A%2F%2Fh%3A1%2Fa");
        assert_eq!(scope(&namespace, None), "sb%3A%2F%2Fh%3A1%2F");
        assert_eq!(scope(&orders, None), "sb%3A%2F%2Fh%3A1%2Forders");
        let signed = parsed("Endpoint=sb://h;SharedAccessSignature=SharedAccessSignature sr=a&sig=b");
        assert_eq!(
            signed.token(Some("a"), Timestamp(0)),
            "SharedAccessSignature sr=a&sig=b"
        );
    }

    #[test]
    fn errors_show_the_format_and_no_secret() {
        for text in [
            "Endpoint=sb://h:1;SharedAccessKey=topsecret0123456",
            "Endpoint=sb://h:1;topsecret0123456",
            "Endpoint=sb://h:1;Secret=topsecret0123456",
            "Endpoint=sb://h:1;SharedAccessKeyName=a;SharedAccessKey=topsecret0123456;SharedAccessSignature=topsecret",
            "Endpoint=ftp://h:1;SharedAccessKeyName=a;SharedAccessKey=topsecret0123456",
            "Endpoint=http://h:1;SharedAccessKeyName=a;SharedAccessKey=topsecret0123456",
            "Endpoint=https://h:1;SharedAccessKeyName=a;SharedAccessKey=topsecret0123456",
            "Endpoint=sb://h:1;SharedAccessKeyName=a;SharedAccessKey=topsecret0123456;UseDevelopmentEmulator=topsecret",
            "Endpoint=sb://h:99999;SharedAccessKeyName=a;SharedAccessKey=b",
            "Endpoint=sb://;SharedAccessKeyName=a;SharedAccessKey=b",
            "Endpoint=sb://h/path;SharedAccessKeyName=a;SharedAccessKey=b",
            "Endpoint=sb://h:1",
            "",
        ] {
            let error = ConnectionString::parse(text).expect_err(text);
            assert!(!error.detail().contains("topsecret"), "{error}");
            assert!(error.detail().contains("Endpoint=sb://host:port"), "{error}");
            assert!(!format!("{error:?}").contains("topsecret"), "{error}");
        }
        let key = parsed(&format!("Endpoint=sb://h;{KEY}"));
        assert!(!format!("{key:?}").contains("0123456789abcdef"));
    }
}
