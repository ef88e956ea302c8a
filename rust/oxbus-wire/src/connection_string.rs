// SPDX-License-Identifier: Apache-2.0
//! The connection string of a server, the same one that SDKs take.
//!
//! `Endpoint=sb://host:port;SharedAccessKeyName=…;SharedAccessKey=…`, with `UseDevelopmentEmulator=true` behind it
//! where no TLS is wanted. `EntityPath` and `SharedAccessSignature` are known, too.

use std::fmt;

use oxbus_model::{Error, ErrorKind, Result, Timestamp};

use crate::signature::shared_access_signature;

/// The ports that clients of the service take when the endpoint names none: with TLS and without.
const DEFAULT_PORTS: (u16, u16) = (5671, 5672);

const FORM: &str = "write Endpoint=sb://host:port;SharedAccessKeyName=...;SharedAccessKey=..., with \
                    ;UseDevelopmentEmulator=true behind it for a server without TLS, as `oxbus serve` prints it";

/// The credential of the caller. Its `Debug` text shows no secret.
#[derive(Clone)]
pub enum Credential {
    /// A key, from which a token is made for each call.
    Key {
        /// Its name.
        name: String,
        /// Itself.
        key: String,
    },
    /// A token that was created before.
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

/// Where a server is, and who calls it.
#[derive(Debug, Clone)]
pub struct ConnectionString {
    /// True unless the development emulator is meant.
    pub tls: bool,
    /// A name or an address, an IPv6 one without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The credential of the caller.
    pub credential: Credential,
    /// The only entity that the key is for, if it is for one.
    pub entity: Option<String>,
}

fn refused(detail: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("{detail}; {FORM}"))
}

/// The parts as they stand in the text.
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
    fn of(text: &'a str) -> Result<Self> {
        let mut parts = Self::default();
        for part in text.trim().split(';').filter(|part| !part.trim().is_empty()) {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| refused("the connection string is malformed: each part is name=value"))?;
            let place = match name.trim().to_ascii_lowercase().as_str() {
                "endpoint" => &mut parts.endpoint,
                "sharedaccesskeyname" => &mut parts.key_name,
                "sharedaccesskey" => &mut parts.key,
                "sharedaccesssignature" => &mut parts.signature,
                "entitypath" => &mut parts.entity,
                "usedevelopmentemulator" => &mut parts.emulator,
                _ => {
                    return Err(refused(
                        "the connection string has a part that a bulk client does not know",
                    ));
                }
            };
            if place.replace(value.trim()).is_some() {
                return Err(refused("the connection string has a part twice"));
            }
        }
        Ok(parts)
    }

    fn credential(&self) -> Result<Credential> {
        let some = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        match (some(self.key_name), some(self.key), some(self.signature)) {
            (Some(name), Some(key), None) => Ok(Credential::Key { name, key }),
            (None, None, Some(signature)) => Ok(Credential::Signature(signature)),
            (None, None, None) => Err(refused("the connection string has no key")),
            (_, _, Some(_)) => Err(refused(
                "the connection string has a SharedAccessSignature and a key; keep one of them",
            )),
            _ => Err(refused(
                "the connection string must have both SharedAccessKeyName and SharedAccessKey",
            )),
        }
    }

    fn is_emulator(&self) -> Result<bool> {
        match self.emulator {
            None => Ok(false),
            Some(value) if value.eq_ignore_ascii_case("true") => Ok(true),
            Some(value) if value.eq_ignore_ascii_case("false") => Ok(false),
            Some(_) => Err(refused("UseDevelopmentEmulator must be true or false")),
        }
    }
}

impl ConnectionString {
    /// Reads a connection string. Errors show nothing of its text, which holds a secret.
    pub fn parse(text: &str) -> Result<Self> {
        let parts = Parts::of(text)?;
        let endpoint = parts
            .endpoint
            .ok_or_else(|| refused("the connection string has no Endpoint"))?;
        let (scheme, rest) = endpoint
            .split_once("://")
            .ok_or_else(|| refused("the Endpoint is no address of a server"))?;
        match scheme.to_ascii_lowercase().as_str() {
            "sb" => {}
            "http" | "https" => {
                let detail = "bulk clients no longer have an Endpoint of their own: they use that of the server, which \
                              begins with sb://";
                return Err(refused(detail));
            }
            _ => return Err(refused("the Endpoint is no address of a server")),
        }
        let tls = !parts.is_emulator()?;
        let (host, port) = host_and_port(rest).ok_or_else(|| refused("the Endpoint is no address of a server"))?;
        Ok(Self {
            tls,
            host,
            port: port.unwrap_or(if tls { DEFAULT_PORTS.0 } else { DEFAULT_PORTS.1 }),
            credential: parts.credential()?,
            entity: parts.entity.filter(|path| !path.is_empty()).map(str::to_owned),
        })
    }

    /// Host and port as a link bears them.
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

    /// A token for an entity, or for whatever the key is for where the call names none.
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

/// Parses the host and port after the scheme.
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
    fn parts_are_found_in_any_case() {
        let found = parsed(&format!("endpoint=sb://[::1]:8443/;{KEY};ENTITYPATH=orders;"));
        assert_eq!((found.tls, found.host.as_str(), found.port), (true, "::1", 8443));
        assert_eq!(found.endpoint(), "sb://[::1]:8443");
        assert_eq!(found.entity.as_deref(), Some("orders"));
        assert!(matches!(&found.credential, Credential::Key { name, key } if name == "spark" && key.ends_with("f=")));
    }

    #[test]
    fn tls_is_left_out_for_the_emulator_only_and_ports_are_those_of_the_service() {
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
    fn a_token_is_for_the_entity_of_the_call_and_otherwise_for_what_the_key_is_for() {
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
    fn errors_name_the_form_and_show_no_secret() {
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
