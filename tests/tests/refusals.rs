//! Who is not let in is told why, and what to do, soon; and nothing was consumed.

use std::future::IntoFuture as _;
use std::time::{Duration, Instant};

use futures_util::future::{join, join3};
use inbox_kafka::{ClientCertificate, Error, KafkaConfig, Sasl, consume};
use inbox_tests::job::Runs;
use inbox_tests::kafka::FreshTopic;
use inbox_tests::load::{notes, send};
use inbox_tests::oracle::Ledger;
use inbox_tests::secure::{Listener, Mood, PASSWORD, Provider, USER, config_at, file};
use inbox_tests::service::{Service, log};
use inbox_tests::tls::Authority;
use tempfile::TempDir;

/// Ten seconds for a token, ten for the brokers, and the machine may be busy.
const SOON: Duration = Duration::from_secs(30);

struct Scene {
    ledger: Ledger,
    _topic: FreshTopic,
    service: Service,
}

impl Scene {
    async fn new() -> Self {
        let (ledger, topic) = (Ledger::new().await, FreshTopic::create(1).await);
        drop(send(&topic, &notes("m", 5, 2, 1)));
        Self { service: Service::new(&ledger, &topic), ledger, _topic: topic }
    }

    /// What consuming fails with: two at once.
    async fn refused(&self, config: KafkaConfig, words: &[&str]) -> Error {
        log();
        let both = join(self.refused_once(config.clone(), words), self.refused_once(config, words));
        both.await.0
    }

    async fn refused_once(&self, config: KafkaConfig, words: &[&str]) -> Error {
        let since = Instant::now();
        let runs = Runs::default();
        let consuming = consume(config, self.service.jobs(&runs).await);
        let ended = tokio::time::timeout(SOON, consuming.into_future()).await;
        let error = ended.expect("it ends soon").expect_err("it is not let in");
        let text = error.to_string();
        println!("after {:?}: {text}", since.elapsed());
        for word in words {
            assert!(text.contains(word), "{text:?} does not say {word:?}");
        }
        assert!(runs.of("m-0").is_empty());
        error
    }
}

fn is_tls(error: &Error) {
    assert!(matches!(error, Error::Tls { .. }), "{error:?}");
}

fn is_authentication(error: &Error) {
    assert!(matches!(error, Error::Authentication { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_nobody_knows() {
    let scene = Scene::new().await;
    let folder = TempDir::new().expect("a folder");
    let stranger = folder.path().join("ca.pem");
    Authority::new().write(&stranger);
    let config = Listener::Tls.config(&scene.service).tls(Some(&stranger));
    is_tls(&scene.refused(config, &["certificate", "an authority that `tls` names"]).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_for_another_host() {
    let scene = Scene::new().await;
    let address = Listener::Tls.address().replace("localhost", "127.0.0.1");
    let config = config_at(&address, &scene.service).tls(Some(&file("ca.pem")));
    is_tls(&scene.refused(config, &["127.0.0.1", "for the host name in the address"]).await);
}

/// TLS 1.2 says it in the handshake, TLS 1.3 afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn no_client_certificate() {
    let scene = Scene::new().await;
    let config = Listener::MutualTls.tls(&scene.service);
    scene.refused(config, &["client certificate", "KafkaConfig::client_certificate"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_client_certificate() {
    let scene = Scene::new().await;
    let expired = ClientCertificate::new(file("client-expired.crt"), file("client.key"));
    scene
        .refused(
            Listener::MutualTls.tls(&scene.service).client_certificate(expired),
            &["is the client certificate still valid"],
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_key_that_cannot_be_read() {
    let scene = Scene::new().await;
    let with = |certificate| Listener::MutualTls.tls(&scene.service).client_certificate(certificate);
    let locked = ClientCertificate::new(file("client.crt"), file("client-locked.key"));
    let error = scene.refused(with(locked.key_password("wrong")), &["ssl.key"]).await;
    assert!(matches!(error, Error::Client(_)), "{error:?}");
    let nowhere = ClientCertificate::new(file("client.crt"), "/nowhere/client.key");
    let error = scene.refused(with(nowhere), &["ssl.key.location", "/nowhere/client.key"]).await;
    assert!(matches!(error, Error::Config(_)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_tls_where_there_is_tls_and_the_other_way_round() {
    let scene = Scene::new().await;
    let plain = Listener::Tls.config(&scene.service);
    let error = scene.refused(plain, &["KafkaConfig::tls"]).await;
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    let tls = config_at(&scene.service.brokers, &scene.service).tls(Some(&file("ca.pem")));
    scene.refused(tls, &[&scene.service.brokers]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_and_a_wrong_name() {
    let scene = Scene::new().await;
    let words = ["SCRAM-SHA-512", "user name and password"];
    for (user, password) in [(USER, "wrong"), ("nobody", PASSWORD)] {
        let config = Listener::Sasl.tls(&scene.service).sasl(Sasl::new("SCRAM-SHA-512", user, password));
        is_authentication(&scene.refused(config, &words).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mechanism_that_nobody_knows_or_the_broker_does_not() {
    let scene = Scene::new().await;
    let by = |mechanism| Listener::Sasl.tls(&scene.service).sasl(Sasl::new(mechanism, USER, PASSWORD));
    is_authentication(&scene.refused(by("PLAIN"), &["mechanism PLAIN", "check the mechanism"]).await);
    let error = scene.refused(by("SCRAM-SHA-1"), &["sasl.mechanism", "SCRAM-SHA-1", "SCRAM-SHA-256"]).await;
    assert!(matches!(error, Error::Config(_)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_the_broker_does_not_take() {
    let scene = Scene::new().await;
    let provider = Provider::new(Mood::GivesExpired(Duration::from_mins(1)));
    let config = provider.feeds(Listener::Sasl.tls(&scene.service));
    is_authentication(&scene.refused(config, &["OAUTHBEARER", "of a token"]).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_token() {
    let scene = Scene::new().await;
    let without = async |mood, word| {
        let provider = Provider::new(mood);
        let config = provider.feeds(Listener::Sasl.tls(&scene.service));
        let error = scene.refused_once(config, &[word, "KafkaConfig::oauth"]).await;
        assert!(matches!(error, Error::Token { .. }), "{error:?}");
        assert_eq!(provider.calls() > 1, mood != Mood::Hangs, "{mood:?}: it is tried again");
    };
    join3(
        Box::pin(without(Mood::Fails, "out of order")),
        Box::pin(without(Mood::Hangs, "did not answer")),
        Box::pin(without(Mood::Panics, "panicked")),
    )
    .await;
}

/// One that only begins slowly is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_begins_late_is_no_refusal() {
    let scene = Scene::new().await;
    let provider = Provider::new(Mood::Fails);
    let running = scene.service.start_on(provider.feeds(Listener::Sasl.tls(&scene.service))).await;
    inbox_tests::wait::until("a second call", async || provider.calls() > 1).await;
    provider.set(Mood::Gives(Duration::from_mins(1)));
    scene.ledger.reaches(5).await;
    running.stop().await;
}
