// SPDX-License-Identifier: Apache-2.0
//! TLS over a socket.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::invalid;
use crate::error::{ClientError, Result};

/// The certificates that a client trusts.
pub(crate) type Config = Arc<ClientConfig>;

/// A configuration that trusts the certificates of a PEM file, or those of the system.
pub(crate) fn config(ca_file: Option<&str>) -> Result<Config> {
    Ok(oxbus_wire::tls_config(ca_file)?)
}

/// Verifies the server and encrypts the socket.
pub(super) async fn handshake(config: &Config, host: &str, socket: TcpStream) -> Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| invalid(format!("the host is not a name or an address: `{host}`: {error}")))?;
    let connector = TlsConnector::from(Arc::clone(config));
    connector.connect(name, socket).await.map_err(|error| {
        let detail = format!(
            "the TLS connection was refused; name the server's issuer as connection_verify, or check that the port \
             speaks TLS: {host}: {error}"
        );
        ClientError::connection(detail).with_source(error)
    })
}
