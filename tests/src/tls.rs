//! A server certificate, and a proxy that speaks TLS with it in front of the tests' Postgres: so that
//! every server serves, also one that has no TLS itself.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio_postgres::config::Host;
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

    /// Starts a proxy before the database at this address, with a certificate for this name, and returns
    /// its address by that name. It serves until the runtime ends.
    pub async fn serve_database(&self, name: &str, url: &str) -> String {
        let params = CertificateParams::new([name.to_owned()]).expect("a name");
        serve(name, url, Some(self.acceptor(&params))).await
    }

    /// The same, with a certificate that was valid once.
    pub async fn serve_expired(&self, name: &str, url: &str) -> String {
        let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
        serve(name, url, Some(self.acceptor(&params))).await
    }

    fn acceptor(&self, params: &CertificateParams) -> TlsAcceptor {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        let private = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .expect("a certificate with its key");
        TlsAcceptor::from(Arc::new(config))
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

/// A proxy before the database at this address that says that it has no TLS; returns its address. It
/// serves until the runtime ends.
pub async fn without_tls(url: &str) -> String {
    serve("127.0.0.1", url, None).await
}

async fn serve(name: &str, url: &str, acceptor: Option<TlsAcceptor>) -> String {
    let config: tokio_postgres::Config = url.parse().expect("the address of the tests");
    let host = match &config.get_hosts()[0] {
        Host::Tcp(host) => host.clone(),
        other @ Host::Unix(_) => panic!("reached by TCP, not {other:?}"),
    };
    let server =
        lookup_host((host, config.get_ports()[0])).await.expect("a host").next().expect("an address");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(relay(client, acceptor.clone(), server));
        }
    });
    let (user, database) = (config.get_user().unwrap_or("postgres"), config.get_dbname().unwrap_or_default());
    format!("postgres://{user}@{name}:{port}/{database}")
}

/// One connection: agrees to TLS as Postgres does, or refuses it, then hands the plain bytes on.
async fn relay(
    mut client: TcpStream,
    acceptor: Option<TlsAcceptor>,
    address: SocketAddr,
) -> std::io::Result<()> {
    /// What asks for TLS: its length, and a number that is no version.
    const REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
    let mut first = [0; 8];
    client.read_exact(&mut first).await?;
    let mut server = TcpStream::connect(address).await?;
    let Some(acceptor) = acceptor else {
        if first == REQUEST {
            client.write_all(b"N").await?;
        } else {
            server.write_all(&first).await?;
        }
        copy_bidirectional(&mut client, &mut server).await?;
        return Ok(());
    };
    client.write_all(b"S").await?;
    let mut client = acceptor.accept(client).await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
