//! TLS to Postgres by rustls: how much of the server's certificate each `sslmode` checks.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::store::StoreError;

use super::address::SslMode;

pub(super) type Connector = MakeRustlsConnect;

pub(super) fn connector(mode: SslMode, root: Option<&Path>) -> Result<Connector, StoreError> {
    let provider = Arc::new(ring::default_provider());
    let trust = match mode {
        SslMode::VerifyCa | SslMode::VerifyFull => {
            let roots = Arc::new(authorities(root)?);
            let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
                .build()
                .map_err(|error| StoreError::Address(format!("TLS certificate authorities: {error}")))?;
            if mode == SslMode::VerifyFull { Trust::Full(verifier) } else { Trust::Authority(verifier) }
        }
        SslMode::Disable | SslMode::Prefer | SslMode::Require => Trust::Anyone,
    };
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreError::Address(format!("TLS: {error}")))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { trust, provider }))
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn authorities(file: Option<&Path>) -> Result<RootCertStore, StoreError> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(file) => {
            let bad = |what: String| StoreError::Address(format!("sslrootcert {}: {what}", file.display()));
            for certificate in CertificateDer::pem_file_iter(file).map_err(|error| bad(error.to_string()))? {
                let certificate = certificate.map_err(|error| bad(error.to_string()))?;
                roots.add(certificate).map_err(|error| bad(error.to_string()))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        return Err(StoreError::Address(
            "sslmode verifies the server's certificate, but no certificate authority was found: give sslrootcert=<PEM file>".into(),
        ));
    }
    Ok(roots)
}

/// What to do about a certificate that was refused, if that is why a connection failed.
pub(super) fn advice(error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    let refused = causes.find_map(|cause| {
        // An I/O error's source is what its content names as such: the content itself has to be asked for.
        let inner = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        inner.and_then(|inner| inner.downcast_ref()).or_else(|| cause.downcast_ref::<Error>())
    })?;
    let Error::InvalidCertificate(problem) = refused else { return None };
    Some(match problem {
        // An authority of the same name, but another one.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "no authority of sslrootcert (without it: of the system) has signed the server's certificate: name the \
             PEM file of the one that did"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "connect by a name that the server's certificate is for; sslmode=verify-ca does not look at the name"
        }
        _ => "mend the server's certificate",
    })
}

#[derive(Debug)]
enum Trust {
    /// `prefer`, `require`: against listeners only.
    Anyone,
    /// `verify-ca`: whoever a known authority signed for.
    Authority(Arc<WebPkiServerVerifier>),
    /// `verify-full`: the very host.
    Full(Arc<WebPkiServerVerifier>),
}

#[derive(Debug)]
struct Verifier {
    trust: Trust,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.trust {
            Trust::Anyone => Ok(ServerCertVerified::assertion()),
            Trust::Full(verifier) => {
                verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
            Trust::Authority(verifier) => {
                match verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
                {
                    // The name is checked last: everything else held.
                    Err(Error::InvalidCertificate(
                        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                    )) => Ok(ServerCertVerified::assertion()),
                    other => other,
                }
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
