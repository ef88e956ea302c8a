// SPDX-License-Identifier: Apache-2.0
//! The development certificate, which the server generates at its start with a one-time issuer whose key is not
//! stored.

use std::net::IpAddr;
use std::path::Path;

use oxbus_broker::SystemClock;
use oxbus_model::{Clock, Error, ErrorKind, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use time::{Duration, OffsetDateTime};
use tokio_rustls::TlsAcceptor;

use super::tls;

/// One year, because some systems reject certificates that are valid for longer.
const VALIDITY: Duration = Duration::days(365);
/// Tolerates client clocks that are behind.
const CLOCK_SKEW: Duration = Duration::days(1);
/// The names under which local clients connect.
const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// A certificate chain with its private key.
pub(super) struct DevelopmentCertificate {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    /// The issuer's certificate, in PEM.
    pub(super) issuer: String,
}

/// Generates a certificate for the local names and `host`.
pub(super) fn generate(host: &str) -> Result<DevelopmentCertificate> {
    let cannot_generate = |error: rcgen::Error| {
        let detail =
            format!("the development certificate cannot be generated; pass a certificate and a private key: {error}");
        Error::new(ErrorKind::InvalidArgument, detail).with_source(error)
    };
    let now = OffsetDateTime::UNIX_EPOCH + Duration::milliseconds(SystemClock::new().now().0 as i64);
    let dated = |mut params: CertificateParams, name: &str| {
        params.not_before = now - CLOCK_SKEW;
        params.not_after = now + VALIDITY;
        params.distinguished_name.push(DnType::CommonName, name);
        params.use_authority_key_identifier_extension = true;
        params
    };
    let mut params = dated(CertificateParams::default(), "oxbus development issuer");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let issuer_key = KeyPair::generate().map_err(cannot_generate)?;
    let issuer = params.self_signed(&issuer_key).map_err(cannot_generate)?;
    let mut names: Vec<String> = LOCAL_NAMES.map(str::to_owned).to_vec();
    let is_unspecified = host.parse().is_ok_and(|address: IpAddr| address.is_unspecified());
    if !is_unspecified && !names.iter().any(|name| name == host) {
        names.push(host.to_owned());
    }
    let mut leaf = dated(CertificateParams::new(names).map_err(cannot_generate)?, "oxbus");
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate().map_err(cannot_generate)?;
    let leaf = leaf
        .signed_by(&key, &Issuer::new(params, issuer_key))
        .map_err(cannot_generate)?;
    Ok(DevelopmentCertificate {
        chain: vec![leaf.der().clone(), issuer.der().clone()],
        key: PrivateKeyDer::try_from(key.serialize_der()).map_err(|error| {
            let detail = format!("the development certificate cannot be used; pass a certificate: {error}");
            Error::new(ErrorKind::InvalidArgument, detail)
        })?,
        issuer: issuer.pem(),
    })
}

impl DevelopmentCertificate {
    /// The acceptor for TLS handshakes.
    pub(super) fn acceptor(&self) -> Result<TlsAcceptor> {
        tls::acceptor_of(self.chain.clone(), self.key.clone_key()).map_err(|error| {
            let detail =
                format!("the development certificate is not usable; pass a certificate and a private key: {error}");
            Error::new(ErrorKind::InvalidArgument, detail).with_source(error)
        })
    }

    /// Writes the issuer's certificate, which clients have to trust.
    pub(super) fn write_issuer(&self, path: &Path) -> Result<()> {
        std::fs::write(path, &self.issuer).map_err(|error| {
            let detail = format!(
                "the certificate cannot be written; name a file in an existing directory: `{}`: {error}",
                path.display()
            );
            Error::new(ErrorKind::Storage, detail).with_source(error)
        })
    }
}
