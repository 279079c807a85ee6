//! TLS to Postgres: what each `sslmode` accepts and refuses.

use std::net::SocketAddr;
use std::path::PathBuf;

use inbox_core::{PostgresStore, StoreError};
use inbox_tests::postgres::FreshDatabase;
use inbox_tests::tls::Authority;
use tempfile::TempDir;

struct Scene {
    database: FreshDatabase,
    server: SocketAddr,
    authority: Authority,
    folder: TempDir,
}

impl Scene {
    async fn new() -> Self {
        let database = FreshDatabase::create().await;
        let config: tokio_postgres::Config = database.url().parse().expect("the address of the tests");
        let host = match &config.get_hosts()[0] {
            tokio_postgres::config::Host::Tcp(host) => host.clone(),
            other @ tokio_postgres::config::Host::Unix(_) => panic!("reached by TCP, not {other:?}"),
        };
        let server = tokio::net::lookup_host((host, config.get_ports()[0])).await.expect("a host").next();
        let folder = TempDir::new().expect("a folder");
        Self { database, server: server.expect("an address"), authority: Authority::new(), folder }
    }

    fn file(&self, authority: &Authority, name: &str) -> PathBuf {
        let file = self.folder.path().join(name);
        authority.write(&file);
        file
    }

    /// Connects through a proxy that has a certificate for `localhost`.
    async fn connect(&self, host: &str, settings: &str) -> Result<(), StoreError> {
        let port = self.authority.serve("localhost", self.server).await.port();
        let original = self.database.url();
        let (scheme, rest) = original.split_once("://").expect("an address");
        let (user, place) = rest.split_once('@').unwrap_or(("postgres", rest));
        let database = place.rsplit_once('/').expect("a database").1;
        let url = format!("{scheme}://{user}@{host}:{port}/{database}?{settings}");
        PostgresStore::connect(&url).await.map(drop)
    }
}

fn refused(result: Result<(), StoreError>) -> String {
    match result {
        Ok(()) => panic!("it was accepted"),
        Err(error @ StoreError::Connect(_)) => error.to_string(),
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verify_full_wants_the_very_host() {
    let scene = Scene::new().await;
    let root = scene.file(&scene.authority, "ca.pem").display().to_string();
    let settings = format!("sslmode=verify-full&sslrootcert={root}");
    scene.connect("localhost", &settings).await.expect("the right host and authority");
    let error = refused(scene.connect("127.0.0.1", &settings).await);
    assert!(error.contains("certificate"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verify_ca_wants_the_authority_but_not_the_host() {
    let scene = Scene::new().await;
    let root = scene.file(&scene.authority, "ca.pem").display().to_string();
    let settings = format!("sslmode=verify-ca&sslrootcert={root}");
    scene.connect("127.0.0.1", &settings).await.expect("the right authority");
    let stranger = scene.file(&Authority::new(), "other.pem").display().to_string();
    refused(scene.connect("localhost", &format!("sslmode=verify-ca&sslrootcert={stranger}")).await);
    refused(scene.connect("localhost", &format!("sslmode=verify-full&sslrootcert={stranger}")).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn require_and_prefer_encrypt_without_asking_who() {
    let scene = Scene::new().await;
    scene.connect("127.0.0.1", "sslmode=require").await.expect("any certificate");
    scene.connect("127.0.0.1", "sslmode=prefer").await.expect("any certificate");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authority_that_cannot_be_read_is_named() {
    let scene = Scene::new().await;
    let error = scene.connect("localhost", "sslmode=verify-full&sslrootcert=/nowhere/ca.pem").await;
    assert!(
        matches!(&error, Err(StoreError::Address(text)) if text.contains("/nowhere/ca.pem")),
        "{error:?}"
    );
}
