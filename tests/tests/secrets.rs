//! No secret in a `Debug` output, an error or a log line, however much is logged and whatever goes wrong.
//! One test, since it owns the process's log.

use std::fmt::Debug;
use std::future::IntoFuture as _;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use inbox_core::PostgresStore;
use inbox_kafka::{ClientCertificate, KafkaConfig, OauthToken, Sasl, consume};
use inbox_tests::job::Runs;
use inbox_tests::kafka::FreshTopic;
use inbox_tests::load::{notes, send};
use inbox_tests::oracle::Ledger;
use inbox_tests::secure::{Listener, Mood, PASSWORD, Provider, USER, file};
use inbox_tests::service::Service;
use tracing_subscriber::fmt::MakeWriter;

/// Wrong, so that there are errors.
const WRONG: &str = "hunter2-of-sasl";
const WRONG_KEY: &str = "hunter2-of-the-key";
/// Of the database, as it is and as an address needs it. Whatever it is, it is right.
const DATABASE: &str = "hunter2/of%the@database";
const ENCODED: &str = "hunter2%2Fof%25the%40database";

/// Everything that was said.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<u8>>>);

impl Said {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    fn shown(&self, what: &dyn Debug) {
        writeln!(self.clone(), "{what:?} {what:#?}").expect("memory");
    }

    fn failed(&self, error: impl std::error::Error) {
        self.shown(&error);
        writeln!(self.clone(), "{error}").expect("memory");
    }
}

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Said {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// What crates say that don't use `tracing`: rdkafka, tokio-postgres, rustls.
impl log::Log for Said {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        writeln!(self.clone(), "{} {}", record.target(), record.args()).expect("memory");
    }

    fn flush(&self) {}
}

async fn fails(said: &Said, service: &Service, config: KafkaConfig) {
    said.shown(&config);
    let inbox = service.jobs(&Runs::default()).await;
    said.failed(consume(config, inbox).into_future().await.expect_err("it is wrong"));
}

async fn fails_in_the_database(said: &Said, service: &Service) {
    for (right, wrong) in [
        ("postgres://", "postgres:/"),
        ("127.0.0.1:", "127.0.0.1:9"),
        ("127.0.0.1:", "127.0.0.1:port"),
        ("127.0.0.1", "no.such.host.invalid"),
        ("inbox_test_", "no_such_database_"),
        (ENCODED, DATABASE),
        (ENCODED, "hunter2?of-the=database@"),
        (ENCODED, "hunter2#of-the-database@"),
        (ENCODED, "hunter2 of-the-database@"),
        ("?", "?sslmode=on&"),
        ("?", "?no_such_setting=1&"),
        ("?", "?sslmode=require&sslrootcert=%zz&"),
    ] {
        assert!(service.database.contains(right), "{right}");
        said.failed(
            PostgresStore::connect(&service.database.replacen(right, wrong, 1)).await.expect_err(wrong),
        );
    }
    for keys in [
        format!("host=127.0.0.1 port=1 user=postgres password={ENCODED}"),
        format!("host=127.0.0.1 password='{ENCODED} user=postgres"),
        format!("host=127.0.0.1 port={ENCODED}x password={ENCODED} no_such=1"),
    ] {
        said.failed(PostgresStore::connect(&keys).await.expect_err("it is wrong"));
    }
    said.shown(&service.store().await.expect("it answers"));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_shown() {
    let said = Said::default();
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(said.clone())
        .init();
    log::set_boxed_logger(Box::new(said.clone())).expect("the first");
    log::set_max_level(log::LevelFilter::Trace);

    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(1).await);
    let mut service = Service::new(&ledger, &topic).property("debug", "all");
    let (before, place) =
        ledger.url().split_once('@').map(|(_, place)| ("", place.to_owned())).expect("a user");
    service.database = format!("postgres://{before}postgres:{ENCODED}@{place}?connect_timeout=2");
    let sent = send(&topic, &notes("m", 20, 3, 1));

    let scram = |password| Listener::Sasl.tls(&service).sasl(Sasl::new("SCRAM-SHA-256", USER, password));
    said.shown(&Sasl::new("SCRAM-SHA-256", USER, WRONG));
    fails(&said, &service, scram(WRONG)).await;
    fails(&said, &service, scram(WRONG).property("no.such.property", "1")).await;
    fails(&said, &service, scram(WRONG).property("ssl.key.pem", WRONG_KEY)).await;
    let locked =
        ClientCertificate::new(file("client.crt"), file("client-locked.key")).key_password(WRONG_KEY);
    said.shown(&locked);
    fails(&said, &service, Listener::MutualTls.tls(&service).client_certificate(locked)).await;
    let provider = Provider::new(Mood::GivesExpired(Duration::from_mins(1)));
    fails(&said, &service, provider.feeds(Listener::Sasl.tls(&service))).await;
    // librdkafka would quote it in its error.
    let odd = async || Ok::<_, std::io::Error>(OauthToken::new("hunter2 token\u{e9}", "p", Duration::MAX));
    fails(&said, &service, Listener::Sasl.tls(&service).oauth(odd)).await;
    said.shown(&OauthToken::new("hunter2", "p", Duration::MAX));
    fails_in_the_database(&said, &service).await;

    // And where all goes well.
    let running = service.start_on(scram(PASSWORD)).await;
    ledger.is_finished(&topic).await;
    running.stop().await;
    provider.set(Mood::Gives(Duration::from_mins(1)));
    let running = service.start_on(provider.feeds(Listener::Sasl.tls(&service))).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;

    let said = said.text();
    // It was listened to: librdkafka's debugging, the driver's, an error's text.
    for told in ["SASL SCRAM", "sasl.password", "librdkafka", "tokio_postgres", "does not let us in"] {
        assert!(said.contains(told), "nothing is said of {told}");
    }
    let secrets = ["hunter2", PASSWORD, DATABASE, ENCODED, "of%the", "of%25the"].map(str::to_owned);
    for secret in secrets.into_iter().chain(provider.given()) {
        let lines: Vec<&str> = said.lines().filter(|line| line.contains(&secret)).take(5).collect();
        assert!(lines.is_empty(), "{secret:?} is shown:\n{}", lines.join("\n"));
    }
}
