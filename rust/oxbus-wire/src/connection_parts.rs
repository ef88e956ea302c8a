// SPDX-License-Identifier: Apache-2.0
//! The parser of all connection strings: those of servers, as the SDKs have them, and those of namespaces of this
//! process.
//!
//! `Endpoint=` may be missing: `memory://name`, `file:///dir` and `sb://host;SharedAccessKeyName=…` are connection
//! strings too. Errors quote nothing, because a malformed string may have its key anywhere.

use std::fmt;

use oxbus_model::store_url::is_store_url;
use oxbus_model::{Error, ErrorKind, Result};
use oxbus_system::path_of_address;
use percent_encoding::percent_decode_str;

/// The default ports with and without TLS, which are those of the service.
const DEFAULT_PORTS: (u16, u16) = (5671, 5672);

const FORMAT: &str = "write Endpoint=sb://host:port;SharedAccessKeyName=...;SharedAccessKey=..., with \
                    ;UseDevelopmentEmulator=true at the end for a server without TLS, as `oxbus serve` prints it; for \
                    a namespace of this process write Endpoint=memory://name, Endpoint=file:///absolute/dir or \
                    Endpoint=s3://bucket/prefix";

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

/// What a connection string leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// `memory://name`: this process's in-memory namespace of that name, in lower case.
    Memory(String),
    /// `file:///dir`: the namespace in that directory, an absolute path.
    Directory(String),
    /// `s3://bucket/prefix` and others: the namespace in that store.
    Store(String),
    /// `sb://host:port`: a server.
    Server(ServerEndpoint),
}

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerEndpoint {
    /// Host and port as written.
    pub address: String,
    /// A name or an address. An IPv6 address has no brackets.
    pub host: String,
    /// The port; without one, the default.
    pub port: u16,
    /// True unless the text contains `UseDevelopmentEmulator=true`.
    pub tls: bool,
}

/// The parts of a connection string.
#[derive(Debug, Clone)]
pub struct ConnectionParts {
    /// What it leads to.
    pub endpoint: Endpoint,
    /// Identifies the client. A server needs one.
    pub credential: Option<Credential>,
    /// The `EntityPath`: the only entity that the string is for.
    pub entity: Option<String>,
}

pub(crate) fn invalid(detail: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("{detail}; {FORMAT}"))
}

/// The parts of the text.
#[derive(Default)]
struct TextParts<'a> {
    endpoint: Option<&'a str>,
    key_name: Option<&'a str>,
    key: Option<&'a str>,
    signature: Option<&'a str>,
    entity: Option<&'a str>,
    emulator: Option<&'a str>,
}

impl<'a> TextParts<'a> {
    fn parse(text: &'a str) -> Result<Self> {
        let mut parts = Self::default();
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = if is_url(part) {
                ("endpoint", part)
            } else {
                part.split_once('=')
                    .ok_or_else(|| invalid("the connection string is malformed: each part is name=value"))?
            };
            let part = match name.trim().to_ascii_lowercase().as_str() {
                "endpoint" => &mut parts.endpoint,
                "sharedaccesskeyname" => &mut parts.key_name,
                "sharedaccesskey" => &mut parts.key,
                "sharedaccesssignature" => &mut parts.signature,
                "entitypath" => &mut parts.entity,
                "usedevelopmentemulator" => &mut parts.emulator,
                _ => {
                    let detail = "the connection string has an unknown part; it may have Endpoint, EntityPath, \
                                  SharedAccessKeyName, SharedAccessKey, SharedAccessSignature and \
                                  UseDevelopmentEmulator";
                    return Err(invalid(detail));
                }
            };
            if part.replace(value.trim()).is_some() {
                return Err(invalid("the connection string repeats a part"));
            }
        }
        Ok(parts)
    }

    fn credential(&self) -> Result<Option<Credential>> {
        let some = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        match (some(self.key_name), some(self.key), some(self.signature)) {
            (Some(name), Some(key), None) => Ok(Some(Credential::Key { name, key })),
            (None, None, Some(signature)) => Ok(Some(Credential::Signature(signature))),
            (None, None, None) => Ok(None),
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
            Some(_) => Err(invalid(
                "UseDevelopmentEmulator of the connection string must be true or false",
            )),
        }
    }

    fn endpoint(&self) -> Result<Endpoint> {
        let tls = !self.is_emulator()?;
        let endpoint = self.endpoint.filter(|endpoint| !endpoint.is_empty());
        let endpoint = endpoint.ok_or_else(|| invalid("the connection string has no Endpoint"))?;
        let (scheme, rest) = endpoint
            .split_once("://")
            .ok_or_else(|| invalid("the Endpoint of the connection string has no scheme"))?;
        match scheme.to_ascii_lowercase().as_str() {
            "memory" => memory_name(rest).map(Endpoint::Memory),
            "file" => directory(rest).map(Endpoint::Directory),
            "sb" => server(rest, tls).map(Endpoint::Server),
            _ if is_store_url(endpoint) => Ok(Endpoint::Store(endpoint.to_owned())),
            "http" | "https" => Err(invalid(
                "the connection string begins with http: bulk clients no longer have an Endpoint of their own: they \
                 use that of the server, which begins with sb://",
            )),
            _ => Err(invalid("the Endpoint of the connection string has an unknown scheme")),
        }
    }
}

/// True for an endpoint without its name.
fn is_url(part: &str) -> bool {
    let scheme = part.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    is_store_url(part) || matches!(scheme.as_deref(), Some("memory" | "file" | "sb" | "http" | "https"))
}

fn memory_name(rest: &str) -> Result<String> {
    let name = rest.strip_suffix('/').unwrap_or(rest);
    if name.is_empty() || name.contains(['/', '?', '#']) {
        return Err(invalid(
            "memory:// of the connection string needs a name without slashes, as in memory://name",
        ));
    }
    // Namespace names are case-insensitive (B-018).
    Ok(name.to_lowercase())
}

fn directory(rest: &str) -> Result<String> {
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') {
        return Err(invalid(
            "file:// of the connection string needs an absolute path, as in file:///absolute/dir",
        ));
    }
    let path = percent_decode_str(path).decode_utf8();
    let path = path.map_err(|_| invalid("the path of the connection string is not UTF-8"))?;
    Ok(path_of_address(&path).to_owned())
}

fn server(rest: &str, tls: bool) -> Result<ServerEndpoint> {
    let address = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = host_and_port(address)
        .ok_or_else(|| invalid("the Endpoint of the connection string is not the address of a server"))?;
    let default = if tls { DEFAULT_PORTS.0 } else { DEFAULT_PORTS.1 };
    Ok(ServerEndpoint {
        address: address.to_owned(),
        host,
        port: port.unwrap_or(default),
        tls,
    })
}

/// Host and port of an address without its scheme.
fn host_and_port(rest: &str) -> Option<(String, Option<u16>)> {
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

impl ConnectionParts {
    /// Parses a connection string. Errors do not quote it, since it contains a secret.
    pub fn parse(text: &str) -> Result<Self> {
        let parts = TextParts::parse(text)?;
        let (endpoint, credential) = (parts.endpoint()?, parts.credential()?);
        if matches!(endpoint, Endpoint::Server(_)) && credential.is_none() {
            let detail = "the connection string has no key: a server needs SharedAccessKeyName and SharedAccessKey, or \
                          SharedAccessSignature";
            return Err(invalid(detail));
        }
        Ok(Self {
            endpoint,
            credential,
            entity: parts.entity.filter(|path| !path.is_empty()).map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{ConnectionParts, Credential, Endpoint, ServerEndpoint};

    const KEY: &str = "SharedAccessKeyName=spark;SharedAccessKey=0123456789abcdef=";

    fn parsed(text: &str) -> ConnectionParts {
        ConnectionParts::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn server(text: &str) -> ServerEndpoint {
        match parsed(text).endpoint {
            Endpoint::Server(server) => server,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn every_form_leads_to_its_namespace() {
        for (text, endpoint) in [
            ("Endpoint=memory://Name/", Endpoint::Memory("name".to_owned())),
            ("memory://name", Endpoint::Memory("name".to_owned())),
            ("Endpoint=file:///a/b", Endpoint::Directory("/a/b".to_owned())),
            ("file:///a=b/c%20d%3B?", Endpoint::Directory("/a=b/c d;?".to_owned())),
            (" FILE://localhost/a ; ", Endpoint::Directory("/a".to_owned())),
            ("Endpoint=s3://bucket/a", Endpoint::Store("s3://bucket/a".to_owned())),
            (
                "postgresql://u:p@h/d?namespace=n",
                Endpoint::Store("postgresql://u:p@h/d?namespace=n".to_owned()),
            ),
        ] {
            assert_eq!(parsed(text).endpoint, endpoint, "{text}");
            assert!(parsed(text).credential.is_none() && parsed(text).entity.is_none());
        }
        let bare = server(&format!("sb://h:1;{KEY}"));
        assert_eq!(bare, server(&format!("{KEY};Endpoint=sb://h:1/")));
        assert_eq!(bare.address, "h:1");
    }

    #[test]
    fn names_of_parts_ignore_case() {
        let text = format!("endpoint=sb://[::1]:8443/;{KEY};ENTITYPATH=orders;");
        let found = server(&text);
        assert_eq!((found.tls, found.host.as_str(), found.port), (true, "::1", 8443));
        let parts = parsed(&text);
        assert_eq!(parts.entity.as_deref(), Some("orders"));
        assert!(
            matches!(&parts.credential, Some(Credential::Key { name, key }) if name == "spark" && key.ends_with("f="))
        );
    }

    #[test]
    fn only_the_emulator_has_no_tls_and_default_ports_are_those_of_the_service() {
        for (emulator, tls, port) in [
            ("", true, 5671),
            (";UseDevelopmentEmulator=false", true, 5671),
            (";UseDevelopmentEmulator=true", false, 5672),
        ] {
            let found = server(&format!("Endpoint=sb://h/;{KEY}{emulator}"));
            assert_eq!((found.tls, found.port), (tls, port), "{emulator}");
        }
    }

    #[test]
    fn errors_show_the_format_and_no_secret() {
        for (text, cause) in [
            (
                "Endpoint=sb://h:1;SharedAccessKey=topsecret0123456",
                "both SharedAccessKeyName",
            ),
            ("Endpoint=sb://h:1;topsecret0123456", "name=value"),
            ("Endpoint=sb://h:1;topsecret0123456=", "unknown part"),
            (
                "Endpoint=sb://h:1;SharedAccessKeyName=a;SharedAccessKey=topsecret;SharedAccessSignature=topsecret",
                "keep one",
            ),
            (
                "Endpoint=ftp://h:1;SharedAccessKeyName=a;SharedAccessKey=topsecret0123456",
                "unknown scheme",
            ),
            (
                "Endpoint=topsecret;SharedAccessKeyName=a;SharedAccessKey=b",
                "no scheme",
            ),
            (
                "Endpoint=http://h:1;SharedAccessKeyName=a;SharedAccessKey=topsecret0123456",
                "begins with sb://",
            ),
            (
                "https://h:1;SharedAccessKeyName=a;SharedAccessKey=topsecret0123456",
                "begins with sb://",
            ),
            (
                "sb://h;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=topsecret",
                "true or false",
            ),
            (
                "Endpoint=sb://h:99999;SharedAccessKeyName=a;SharedAccessKey=b",
                "not the address",
            ),
            (
                "Endpoint=sb://;SharedAccessKeyName=a;SharedAccessKey=b",
                "not the address",
            ),
            (
                "Endpoint=sb://h/path;SharedAccessKeyName=a;SharedAccessKey=b",
                "not the address",
            ),
            ("Endpoint=sb://h:1", "has no key"),
            ("Endpoint=memory://a;memory://b", "repeats a part"),
            ("memory://", "needs a name"),
            ("memory://a/b", "needs a name"),
            ("file://topsecret/dir", "absolute path"),
            ("file://", "absolute path"),
            ("file:///%ff", "not UTF-8"),
            ("EntityPath=q", "no Endpoint"),
            ("Endpoint=", "no Endpoint"),
            ("", "no Endpoint"),
        ] {
            let error = ConnectionParts::parse(text).expect_err(text);
            assert!(error.detail().contains(cause), "{text}: {error}");
            assert!(!error.detail().contains("topsecret"), "{error}");
            assert!(error.detail().contains("write Endpoint=sb://host:port"), "{error}");
            assert!(error.detail().contains("onnection string"), "{error}");
        }
        assert!(!format!("{:?}", parsed(&format!("sb://h;{KEY}"))).contains("0123456789abcdef"));
    }
}
