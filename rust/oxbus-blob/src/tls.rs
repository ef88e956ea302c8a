// SPDX-License-Identifier: Apache-2.0
//! The certificates that a store trusts.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::open::OpenError;

/// The certificates of a PEM file, or those of the system.
pub(crate) fn roots(ca_file: Option<&str>) -> Result<RootCertStore, OpenError> {
    let mut roots = RootCertStore::empty();
    let Some(path) = ca_file else {
        // Without one, each connection with TLS fails and says so; a store without TLS needs none.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    let certificates: Vec<CertificateDer<'_>> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| OpenError::new(format!("the trusted certificates cannot be read: `{path}`: {error}")))?;
    match roots.add_parsable_certificates(certificates) {
        (0, _) => Err(OpenError::new(format!("no certificate is in this file: `{path}`"))),
        _ => Ok(roots),
    }
}

/// A configuration that checks the certificates and the names of servers.
pub(crate) fn checked(roots: RootCertStore) -> ClientConfig {
    builder().with_root_certificates(roots).with_no_client_auth()
}

/// The beginning of each configuration.
pub(crate) fn builder() -> rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has cipher suites for these versions")
}
