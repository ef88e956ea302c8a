// SPDX-License-Identifier: Apache-2.0
//! Connection strings of bulk servers: `Endpoint=http://host:port;SharedAccessKeyName=…;SharedAccessKey=…`.

use oxbus_model::{Error, ErrorKind, Result};

use crate::token::Key;

const FORM: &str = "write Endpoint=http://host:port;SharedAccessKeyName=...;SharedAccessKey=..., or https; the key may be left out on loopback";

/// Where a server is, and the key that it asks for.
#[derive(Debug, Clone)]
pub struct Address {
    /// True for https.
    pub tls: bool,
    /// A name or an address, an IPv6 one without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The key; none where the server asks for none.
    pub key: Option<Key>,
}

fn refused(detail: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("{detail}; {FORM}"))
}

impl Address {
    /// The parts of a connection string. Errors show nothing of its text, which holds a secret.
    pub fn parse(text: &str) -> Result<Self> {
        let (mut endpoint, mut name, mut secret) = (None, None, None);
        for part in text.trim().split(';').filter(|part| !part.trim().is_empty()) {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| refused("the connection string is malformed: each part is name=value"))?;
            let place = match key.trim().to_ascii_lowercase().as_str() {
                "endpoint" => &mut endpoint,
                "sharedaccesskeyname" => &mut name,
                "sharedaccesskey" => &mut secret,
                _ => {
                    return Err(refused(
                        "the connection string has a part that a bulk server does not know",
                    ));
                }
            };
            if place.replace(value.trim()).is_some() {
                return Err(refused("the connection string has a part twice"));
            }
        }
        let key = match (name, secret) {
            (None, None) => None,
            (Some(name), Some(secret)) => Some(Key::new(name, secret)?),
            _ => {
                return Err(refused(
                    "the connection string must have both SharedAccessKeyName and SharedAccessKey, or neither",
                ));
            }
        };
        let endpoint = endpoint.ok_or_else(|| refused("the connection string has no Endpoint"))?;
        let (tls, host, port) =
            split(endpoint).ok_or_else(|| refused("the Endpoint is no address of a bulk server"))?;
        Ok(Self { tls, host, port, key })
    }

    /// The host as an address bears it.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The address as a link, without the key.
    pub fn endpoint(&self) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.authority())
    }
}

fn split(endpoint: &str) -> Option<(bool, String, u16)> {
    let (scheme, rest) = endpoint.split_once("://")?;
    let (tls, default) = match scheme.to_ascii_lowercase().as_str() {
        "http" => (false, 80),
        "https" => (true, 443),
        _ => return None,
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = if let Some(rest) = rest.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        (host, port.strip_prefix(':'))
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
    let port = port.map_or(Some(default), |port| port.parse().ok())?;
    Some((tls, host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn parts_are_found() {
        let address =
            Address::parse("Endpoint=https://[::1]:8443/;SharedAccessKeyName=spark;SharedAccessKey=0123456789abcdef=;")
                .expect("an address");
        assert_eq!((address.tls, address.host.as_str(), address.port), (true, "::1", 8443));
        assert_eq!(address.endpoint(), "https://[::1]:8443");
        assert_eq!(address.key.expect("a key").name(), "spark");
        let address = Address::parse("endpoint=http://127.0.0.2:5").expect("an address");
        assert!(address.key.is_none());
        assert_eq!(address.authority(), "127.0.0.2:5");
    }

    #[test]
    fn errors_show_no_secret() {
        for text in [
            "Endpoint=http://h:1;SharedAccessKey=topsecret0123456",
            "Endpoint=http://h:1;topsecret0123456",
            "Endpoint=http://h:1;Secret=topsecret0123456",
            "Endpoint=ftp://h:1;SharedAccessKeyName=a;SharedAccessKey=topsecret0123456",
            "Endpoint=http://h:99999",
            "Endpoint=http://",
            "Endpoint=http://h/path",
            "",
        ] {
            let error = Address::parse(text).expect_err(text);
            assert!(!error.detail().contains("topsecret"), "{error}");
        }
    }
}
