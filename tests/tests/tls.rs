//! TLS to Postgres: what each `sslmode` accepts and refuses.

use std::path::PathBuf;

use inbox_core::{PostgresStore, StoreError};
use inbox_tests::postgres::FreshDatabase;
use inbox_tests::tls::{Authority, without_tls};
use tempfile::TempDir;

struct Scene {
    database: FreshDatabase,
    authority: Authority,
    folder: TempDir,
}

impl Scene {
    async fn new() -> Self {
        let database = FreshDatabase::create().await;
        let folder = TempDir::new().expect("a folder");
        Self { database, authority: Authority::new(), folder }
    }

    fn file(&self, authority: &Authority, name: &str) -> PathBuf {
        let file = self.folder.path().join(name);
        authority.write(&file);
        file
    }

    /// Connects through a proxy that has a certificate for `localhost`.
    async fn connect(&self, host: &str, settings: &str) -> Result<(), StoreError> {
        let url = self.authority.serve_database("localhost", &self.database.url()).await;
        connect(&url.replace("localhost", host), settings).await
    }
}

async fn connect(url: &str, settings: &str) -> Result<(), StoreError> {
    PostgresStore::connect(&format!("{url}?{settings}")).await.map(drop)
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
    assert!(error.contains("not valid for name") && error.contains("verify-ca"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verify_ca_wants_the_authority_but_not_the_host() {
    let scene = Scene::new().await;
    let root = scene.file(&scene.authority, "ca.pem").display().to_string();
    let settings = format!("sslmode=verify-ca&sslrootcert={root}");
    scene.connect("127.0.0.1", &settings).await.expect("the right authority");
    let stranger = scene.file(&Authority::new(), "other.pem").display().to_string();
    for mode in ["verify-ca", "verify-full"] {
        let settings = format!("sslmode={mode}&sslrootcert={stranger}");
        let error = refused(scene.connect("localhost", &settings).await);
        assert!(error.contains("no authority of sslrootcert"), "{error}");
    }
    // The authorities of the system don't know it either.
    let error = scene.connect("localhost", "sslmode=verify-full").await.expect_err("nobody knows it");
    assert!(error.to_string().contains("sslrootcert"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_has_expired() {
    let scene = Scene::new().await;
    let root = scene.file(&scene.authority, "ca.pem").display().to_string();
    let url = scene.authority.serve_expired("localhost", &scene.database.url()).await;
    let error = refused(connect(&url, &format!("sslmode=verify-full&sslrootcert={root}")).await);
    assert!(error.contains("certificate expired"), "{error}");
    connect(&url, "sslmode=require").await.expect("nobody looks at it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_tls() {
    let scene = Scene::new().await;
    let root = scene.file(&scene.authority, "ca.pem").display().to_string();
    let url = without_tls(&scene.database.url()).await;
    for settings in ["sslmode=require".into(), format!("sslmode=verify-full&sslrootcert={root}")] {
        let error = refused(connect(&url, &settings).await);
        assert!(error.contains("server does not support TLS"), "{error}");
    }
    for mode in ["prefer", "disable"] {
        connect(&url, &format!("sslmode={mode}")).await.expect("it serves without");
    }
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
