//! Where a subscription begins that the database does not know yet, and that it is said (P10).

use inbox_core::StartError;
use inbox_core::store::RegisterError;
use inbox_kafka::Error;
use inbox_tests::job::{Begin, Job, JobSubscription};
use inbox_tests::kafka::{FreshTopic, Outgoing, Producer};
use inbox_tests::load::{notes, send};
use inbox_tests::oracle::{Ledger, Sent};
use inbox_tests::service::Service;
use inbox_tests::wait;

async fn scene(partitions: i32) -> (Ledger, FreshTopic, Service) {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(partitions).await);
    let service = Service::new(&ledger, &topic);
    (ledger, topic, service)
}

fn beginning(service: &Service, begin: Begin) -> Service {
    service.clone().subscription(|subscription| subscription.begin = Some(begin))
}

/// Waits until each partition has a watermark, that is until the service has begun everywhere.
async fn has_begun(ledger: &Ledger, topic: &FreshTopic) {
    let partitions = usize::try_from(topic.partitions()).expect("a few");
    wait::until("a watermark of each partition", async || ledger.watermarks(topic).await.len() == partitions)
        .await;
}

/// Another program has handled what lies below offset 5, and told Kafka.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_moves_here_says_where_it_begins() {
    let (ledger, topic, service) = scene(3).await;
    let sent = send(&topic, &notes("m", 60, 10, 3));
    service.group().reset(&topic, 5);

    let error = service.start().await.fails().await;
    let text = error.to_string();
    assert!(
        matches!(error, Error::Start(StartError::Register(RegisterError::StartUnsaid { .. }))),
        "{error:?}"
    );
    assert!(text.contains("start = committed") && text.contains("jobs"), "{text}");
    assert!(ledger.effects().await.is_empty());

    beginning(&service, Begin::Committed).finishes(&ledger, &topic).await;
    let wanted: Vec<Sent> = sent.into_iter().filter(|sent| sent.offset >= 5).collect();
    ledger.assert_once_in_order("jobs", &wanted).await;

    // It is said once: what the database knows decides from then on.
    let more = send(&topic, &notes("n", 30, 10, 3));
    service.finishes(&ledger, &topic).await;
    ledger.assert_once_in_order("jobs", &[wanted, more].concat()).await;
}

/// Partitions for which the group has no offset begin at their first record.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_without_offsets_that_begins_where_it_is() {
    let (ledger, topic, service) = scene(2).await;
    let sent = send(&topic, &notes("m", 20, 5, 2));
    beginning(&service, Begin::Committed).finishes(&ledger, &topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
}

/// Everything again, by explicit wish.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_moves_here_and_begins_at_the_first_record() {
    let (ledger, topic, service) = scene(2).await;
    let sent = send(&topic, &notes("m", 20, 5, 2));
    service.group().reset(&topic, 7);
    beginning(&service, Begin::Earliest).finishes(&ledger, &topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
}

/// The end of the log is that of the moment when the subscription was recorded, for every partition,
/// whenever it is consumed for the first time; and never for partitions that appear later.
#[tokio::test(flavor = "multi_thread")]
async fn behind_the_last_record() {
    let (ledger, mut topic, service) = scene(2).await;
    let _before = send(&topic, &notes("before", 20, 5, 2));
    let service = beginning(&service, Begin::Latest);
    let running = service.start().await;
    has_begun(&ledger, &topic).await;
    running.stop().await;
    let mut wanted = send(&topic, &notes("stopped", 20, 5, 2));
    topic.grow(3).await;
    wanted.extend(send(&topic, &notes("grown", 30, 5, 3)));
    service.finishes(&ledger, &topic).await;
    ledger.assert_once_in_order("jobs", &wanted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_a_time() {
    let (ledger, topic, service) = scene(2).await;
    let note = |id: &str, partition, time| Outgoing {
        timestamp: Some(time),
        ..Job::note("a").outgoing(partition, id)
    };
    // In partition 1 nothing is that young.
    let records =
        [note("old", 0, 1_000), note("young", 0, 2_000), note("younger", 0, 3_000), note("b", 1, 1_500)];
    let offsets = Producer::new(&topic).send(&records);
    let service = beginning(&service, Begin::Time(2_000));
    let running = service.start().await;
    has_begun(&ledger, &topic).await;
    ledger.reaches(2).await;
    running.stop().await;
    let wanted = ["young", "younger"].map(String::from).into_iter().zip(&offsets[1..]);
    let wanted: Vec<Sent> = wanted.map(|(id, offset)| Sent { id, partition: 0, offset: *offset }).collect();
    ledger.assert_once_in_order("jobs", &wanted).await;
}

/// In a rolling deploy nothing has to be said: a new subscription of a known group misses nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_subscription_of_a_known_group() {
    let (ledger, topic, service) = scene(2).await;
    let sent = send(&topic, &notes("m", 20, 5, 2));
    service.finishes(&ledger, &topic).await;
    let mut deployed = service.clone();
    deployed.subscriptions.push(JobSubscription::new("totals", topic.name()));
    let running = deployed.start().await;
    ledger.reaches(40).await;
    running.stop().await;
    for subscription in ["jobs", "totals"] {
        ledger.assert_once_in_order(subscription, &sent).await;
    }
}

/// Two processes of the moved service at once: one of them records it.
#[tokio::test(flavor = "multi_thread")]
async fn two_that_move_at_once() {
    let (ledger, topic, service) = scene(4).await;
    let sent = send(&topic, &notes("m", 80, 10, 4));
    service.group().reset(&topic, 10);
    let service = beginning(&service, Begin::Committed);
    let (first, second) = tokio::join!(service.start(), async { service.named("second").start().await });
    ledger.is_finished(&topic).await;
    first.stop().await;
    second.stop().await;
    let wanted: Vec<Sent> = sent.into_iter().filter(|sent| sent.offset >= 10).collect();
    ledger.assert_once_in_order("jobs", &wanted).await;
}
