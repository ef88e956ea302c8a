// SPDX-License-Identifier: Apache-2.0
//! The server's TLS certificate.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use oxbus_model::{Error, ErrorKind, Result};
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// The PEM files that a server needs for TLS.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The server's certificate, followed by those of its issuers.
    pub certificate: PathBuf,
    /// The server's private key.
    pub private_key: PathBuf,
}

/// The acceptor for TLS handshakes.
pub(super) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable("certificate", &files.certificate, error))?;
    let key = PrivateKeyDer::from_pem_file(&files.private_key)
        .map_err(|error| unreadable("private_key", &files.private_key, error))?;
    acceptor_of(chain, key).map_err(|error| unreadable("certificate or private_key", &files.certificate, error))
}

fn unreadable(what: &str, path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    let detail = format!(
        "{what} cannot be read; give the path of a PEM file: `{}`: {error}",
        path.display()
    );
    Error::new(ErrorKind::InvalidArgument, detail).with_source(error)
}

/// The acceptor for a certificate chain and its private key.
pub(super) fn acceptor_of(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> std::result::Result<TlsAcceptor, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has cipher suites for these versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
