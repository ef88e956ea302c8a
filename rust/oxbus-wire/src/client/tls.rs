// SPDX-License-Identifier: Apache-2.0
//! The certificates that a client trusts.

use std::sync::Arc;

use oxbus_model::{Error, ErrorKind, Result};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

/// A configuration that trusts the certificates of a PEM file, or those of the system.
pub fn config(ca_file: Option<&str>) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let (added, _) = match ca_file {
        Some(path) => {
            let unreadable = |error: rustls_pki_types::pem::Error| {
                let detail =
                    format!("the trusted certificates cannot be read; give the path of a PEM file: `{path}`: {error}");
                Error::new(ErrorKind::InvalidArgument, detail).with_source(error)
            };
            let certificates: Vec<CertificateDer<'_>> = CertificateDer::pem_file_iter(path)
                .and_then(Iterator::collect)
                .map_err(unreadable)?;
            roots.add_parsable_certificates(certificates)
        }
        None => roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs),
    };
    if added == 0 {
        let detail = match ca_file {
            Some(path) => {
                format!("no certificate is in this file; give the PEM file of the server's issuer: `{path}`")
            }
            None => "this system has no trusted certificates; give the PEM file of the server's issuer".to_owned(),
        };
        return Err(Error::new(ErrorKind::InvalidArgument, detail));
    }
    Ok(with_roots(roots))
}

/// A configuration that trusts no certificate, for servers without TLS.
pub(super) fn without_roots() -> Arc<ClientConfig> {
    with_roots(RootCertStore::empty())
}

fn with_roots(roots: RootCertStore) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has cipher suites for these versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}
