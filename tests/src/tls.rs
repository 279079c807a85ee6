//! A server certificate, and a proxy that speaks TLS with it in front of the tests' Postgres: so that
//! every server serves, also one that has no TLS itself.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// A certificate authority of the test.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    /// A new one that nobody knows.
    #[must_use]
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    /// Writes its certificate as a PEM file.
    pub fn write(&self, file: &Path) {
        std::fs::write(file, self.0.pem()).expect("the file is written");
    }

    /// Starts a proxy before the server at this address, with a certificate for this name.
    ///
    /// The returned address is served until the runtime ends.
    pub async fn serve(&self, name: &str, server: SocketAddr) -> SocketAddr {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new([name.to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        let private = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .expect("a certificate with its key");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(relay(client, acceptor.clone(), server));
            }
        });
        address
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

/// One connection: agrees to TLS as Postgres does, then hands the plain bytes on.
async fn relay(mut client: TcpStream, acceptor: TlsAcceptor, server: SocketAddr) -> std::io::Result<()> {
    let mut request = [0; 8];
    client.read_exact(&mut request).await?;
    client.write_all(b"S").await?;
    let mut client = acceptor.accept(client).await?;
    let mut server = TcpStream::connect(server).await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
