//! P1 to P3 hold by every way in: TLS, client certificates, passwords, tokens that expire.

use std::time::Duration;

use inbox_kafka::{ClientCertificate, KafkaConfig, Sasl};
use inbox_tests::kafka::FreshTopic;
use inbox_tests::load::{Load, LoadPlan, notes, send};
use inbox_tests::oracle::Ledger;
use inbox_tests::secure::{Listener, Mood, PASSWORD, Provider, USER, file};
use inbox_tests::service::Service;
use inbox_tests::tls::Authority;
use inbox_tests::wait;
use tempfile::TempDir;

async fn scene() -> (Ledger, FreshTopic, Service) {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(2).await);
    let service = Service::new(&ledger, &topic);
    (ledger, topic, service)
}

/// Consumes what was there, and what comes while it runs; then again, as another process would.
async fn consumes(config: impl Fn(&Service) -> KafkaConfig) {
    let (ledger, topic, service) = scene().await;
    consumes_in(&ledger, &topic, &service, config).await;
}

async fn consumes_in(
    ledger: &Ledger,
    topic: &FreshTopic,
    service: &Service,
    config: impl Fn(&Service) -> KafkaConfig,
) {
    let mut sent = Vec::new();
    for round in ["first", "second"] {
        sent.extend(send(topic, &notes(round, 50, 7, 2)));
        let running = service.start_on(config(service)).await;
        ledger.is_finished(topic).await;
        // Each a second time.
        sent.extend(send(topic, &notes(round, 60, 7, 2)));
        ledger.is_finished(topic).await;
        running.stop().await;
    }
    ledger.assert_once_in_order("jobs", &sent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn by_tls() {
    consumes(|service| Listener::Tls.tls(service)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn by_a_client_certificate() {
    let certificate = || ClientCertificate::new(file("client.crt"), file("client.key"));
    consumes(|service| Listener::MutualTls.tls(service).client_certificate(certificate())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn by_a_client_certificate_whose_key_has_a_password() {
    let locked =
        || ClientCertificate::new(file("client.crt"), file("client-locked.key")).key_password(PASSWORD);
    consumes(|service| Listener::MutualTls.tls(service).client_certificate(locked())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn by_scram() {
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
        consumes(|service| Listener::Sasl.tls(service).sasl(Sasl::new(mechanism, USER, PASSWORD))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn by_tokens() {
    let provider = Provider::new(Mood::Gives(Duration::from_mins(1)));
    consumes(|service| provider.feeds(Listener::Sasl.tls(service))).await;
}

/// Each connection ends with its token, unless it was shown a younger one before.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_expire_under_load() {
    const LIFETIME: Duration = Duration::from_secs(5);
    let (ledger, topic, service) = scene().await;
    let provider = Provider::new(Mood::Gives(LIFETIME));
    let load = Load::start(&topic, LoadPlan { per_second: 100, ..LoadPlan::default() });
    let running = service.start_on(provider.feeds(Listener::Sasl.tls(&service))).await;
    wait::until("several tokens", async || provider.calls() >= 5).await;
    let sent = load.stop();
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
}

/// A token expires while there is no other, or one that the broker refuses: nothing is consumed any more,
/// and nothing lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_out_of_order_for_a_while() {
    let (ledger, topic, service) = scene().await;
    let provider = Provider::new(Mood::Gives(Duration::from_secs(4)));
    let load = Load::start(&topic, LoadPlan { per_second: 50, ..LoadPlan::default() });
    let running = service.start_on(provider.feeds(Listener::Sasl.tls(&service))).await;
    ledger.reaches(1).await;
    for mood in [Mood::Fails, Mood::Hangs, Mood::GivesExpired(Duration::from_secs(4))] {
        provider.set(mood);
        let behind = || topic.ends().iter().sum::<i64>();
        wait::until("it stands still", async || {
            let before = ledger.count().await;
            tokio::time::sleep(Duration::from_secs(2)).await;
            ledger.count().await == before && behind() > i64::try_from(before).expect("few")
        })
        .await;
        assert!(running.is_running());
        provider.set(Mood::Gives(Duration::from_secs(4)));
        let now = ledger.count().await;
        ledger.reaches(now + 50).await;
    }
    let sent = load.stop();
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_tls_to_the_database_too() {
    let (ledger, topic, mut service) = scene().await;
    let (authority, folder) = (Authority::new(), TempDir::new().expect("a folder"));
    let root = folder.path().join("ca.pem");
    authority.write(&root);
    let url = authority.serve_database("localhost", &ledger.url()).await;
    service.database = format!("{url}?sslmode=verify-full&sslrootcert={}", root.display());
    consumes_in(&ledger, &topic, &service, |service| Listener::Tls.tls(service)).await;
}
