// SPDX-License-Identifier: Apache-2.0
//! Connection strings of servers: the address of the server, and the tokens of a client.

use oxbus_model::{Result, Timestamp};

use crate::connection_parts::{ConnectionParts, Credential, Endpoint, invalid};
use crate::signature::shared_access_signature;

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

impl ConnectionString {
    /// Parses the connection string of a server. Errors do not quote it, since it contains a secret.
    pub fn parse(text: &str) -> Result<Self> {
        let parts = ConnectionParts::parse(text)?;
        match (parts.endpoint, parts.credential) {
            (Endpoint::Server(server), Some(credential)) => Ok(Self {
                tls: server.tls,
                host: server.host,
                port: server.port,
                credential,
                entity: parts.entity,
            }),
            _ => Err(invalid(
                "the connection string is for a namespace of one process, and this client needs a server",
            )),
        }
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

#[cfg(test)]
mod tests {
    use oxbus_model::Timestamp;

    use super::ConnectionString;

    const KEY: &str = "SharedAccessKeyName=spark;SharedAccessKey=0123456789abcdef=";

    fn parsed(text: &str) -> ConnectionString {
        ConnectionString::parse(text).expect(text)
    }

    #[test]
    fn the_endpoint_has_the_port_and_no_key() {
        assert_eq!(
            parsed(&format!("Endpoint=sb://[::1]:8443/;{KEY}")).endpoint(),
            "sb://[::1]:8443"
        );
        assert_eq!(parsed(&format!("sb://h;{KEY}")).endpoint(), "sb://h:5671");
    }

    #[test]
    fn a_namespace_of_a_process_is_no_server() {
        for text in ["memory://name", "Endpoint=file:///dir"] {
            let error = ConnectionString::parse(text).expect_err(text);
            assert!(error.detail().contains("write Endpoint=sb://host:port"), "{error}");
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
}
