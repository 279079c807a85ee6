//! Topics that come later, grow, and have gaps in their logs.

use inbox_kafka::Error;
use inbox_tests::job::{Job, JobSubscription};
use inbox_tests::kafka::{FreshTopic, Producer, brokers};
use inbox_tests::load::{Load, LoadPlan, notes, send};
use inbox_tests::oracle::{Ledger, Sent, distinct};
use inbox_tests::service::Service;

async fn scene(partitions: i32) -> (Ledger, FreshTopic) {
    (Ledger::new().await, FreshTopic::create(partitions).await)
}

/// Topics are looked for often.
fn attentive(service: Service) -> Service {
    service.property("topic.metadata.refresh.interval.ms", "300")
}

/// Partitions added under load begin at their first record, also with ids that live elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn partitions_that_appear_later() {
    let (ledger, mut topic) = scene(1).await;
    let service = attentive(Service::new(&ledger, &topic));
    let running = service.start().await;
    let first = notes("m", 40, 5, 1);
    let mut sent = send(&topic, &first);
    ledger.is_finished(&topic).await;
    let load = Load::start(&topic, LoadPlan::default());
    topic.grow(3).await;
    // Sent again at once: into partitions that nobody has yet.
    let resent: Vec<_> =
        first.into_iter().map(|(_, id, job)| (1 + i32::from(id.len() % 2 == 0), id, job)).collect();
    sent.extend(send(&topic, &resent));
    sent.extend(send(&topic, &notes("n", 60, 6, 3)));
    sent.extend(load.stop());
    ledger.reaches(distinct(&sent)).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
    assert_eq!(service.group().lag(&topic), 0);
}

/// Records of aborted transactions are not seen; markers, which no consumer sees, are passed, so that
/// no lag stays.
#[tokio::test(flavor = "multi_thread")]
async fn transactions_and_their_markers() {
    let (ledger, topic) = scene(1).await;
    let service = Service::new(&ledger, &topic);
    let running = service.start().await;
    let producer = Producer::with(&topic, &[("transactional.id", topic.name())]);
    let mut sent = Vec::new();
    for round in 0..6 {
        let drafts = notes(&format!("round-{round}"), 10, 5, 1);
        let records: Vec<_> =
            drafts.iter().map(|(partition, id, job)| job.outgoing(*partition, id)).collect();
        let offsets = producer.send_in_transaction(&records, round % 2 == 0);
        if round % 2 == 0 {
            sent.extend(drafts.into_iter().zip(offsets).map(|((partition, id, _), offset)| Sent {
                id,
                partition,
                offset,
            }));
        }
    }
    ledger.reaches(30).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    ledger.is_finished(&topic).await;
    running.stop().await;
    assert_eq!(service.group().lag(&topic), 0);

    // A service to which nothing else is ever delivered.
    let aborted = producer.send_in_transaction(&[Job::note("a").outgoing(0, "aborted")], false);
    assert_eq!(aborted.len(), 1);
    let running = service.start().await;
    ledger.is_finished(&topic).await;
    running.stop().await;
    assert_eq!((service.group().lag(&topic), ledger.count().await), (0, 30));
}

/// Compaction takes records away: in the middle, and the very one at which the log is recognised.
#[tokio::test(flavor = "multi_thread")]
async fn compacted_records() {
    let settings = [
        ("cleanup.policy", "compact"),
        ("min.cleanable.dirty.ratio", "0.01"),
        ("segment.ms", "200"),
        ("max.compaction.lag.ms", "200"),
    ];
    let ledger = Ledger::new().await;
    let topic = FreshTopic::create_with(1, &settings).await;
    let service = Service::new(&ledger, &topic);
    let mut sent = send(&topic, &notes("m", 20, 4, 1));
    service.finishes(&ledger, &topic).await;
    // The same keys again, in segments of their own, until the last record that was handled is gone.
    let mut rounds = 0;
    inbox_tests::wait::until("compaction", async || {
        rounds += 1;
        sent.extend(send(&topic, &notes(&format!("n-{rounds}"), 4, 4, 1)));
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        topic.first_from(0, 0) > 19
    })
    .await;
    let running = service.start().await;
    ledger.is_finished(&topic).await;
    running.stop().await;
    assert_eq!(service.group().lag(&topic), 0);
    // What was compacted away before it was handled is nobody's loss: the key's latest is there.
    let effects = ledger.effects().await;
    let had = |sent: &&Sent| effects.iter().any(|effect| effect.id == sent.id);
    assert!(sent[..20].iter().all(|sent| had(&sent)), "handled before the compaction");
    assert!(sent[sent.len() - 4..].iter().all(|sent| had(&sent)), "the latest of each key");
    let remaining: Vec<Sent> = sent.iter().filter(had).cloned().collect();
    ledger.assert_once_in_order("jobs", &remaining).await;
}

/// Every topic that matches, also those that are made while it runs; Kafka tells others from them.
#[tokio::test(flavor = "multi_thread")]
async fn topics_by_a_pattern() {
    by_a_pattern(|service| service).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_by_a_pattern_under_the_consumer_protocol() {
    by_a_pattern(Service::consumer_protocol).await;
}

async fn by_a_pattern(protocol: impl FnOnce(Service) -> Service) {
    let ledger = Ledger::new().await;
    let name = FreshTopic::a_name();
    let make =
        async |suffix: &str| FreshTopic::create_named(&brokers(), &format!("{name}{suffix}"), 2, &[]).await;
    let (first, other) = (make(".eu.orders").await, make(".eu.payments").await);
    let service = attentive(protocol(Service::new(&ledger, &first))).subscription(|subscription| {
        subscription.topics.clear();
        subscription.patterns = vec![format!(r"{name}\.(eu|us)\.orders")];
    });
    let mut sent = send(&first, &notes("eu", 30, 6, 2));
    let _ = send(&other, &notes("other", 10, 6, 2));
    let running = service.start().await;
    ledger.reaches(30).await;
    let (second, late) = (make(".us.orders").await, make(".us.ordersx").await);
    let _ = send(&late, &notes("late", 10, 6, 2));
    sent.extend(send(&second, &notes("us", 30, 6, 2)));
    ledger.reaches(60).await;
    sent.extend(send(&first, &notes("again", 10, 6, 2)));
    ledger.is_finished(&first).await;
    ledger.is_finished(&second).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
    // Both are known at the next start.
    let running = service.start().await;
    sent.extend(send(&second, &notes("at last", 10, 6, 2)));
    ledger.is_finished(&second).await;
    running.stop().await;
    ledger.assert_once_in_order("jobs", &sent).await;
}

/// With a word of the user's, a topic may come later. Without it, its name is taken for a mistake.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_does_not_exist_yet() {
    let (ledger, there) = scene(1).await;
    let name = FreshTopic::a_name();
    let mut service = attentive(Service::new(&ledger, &there));
    service.subscriptions.push(JobSubscription::new("later", &name));
    let error = service.start().await.fails().await;
    assert!(matches!(&error, Error::UnknownTopic { topic } if topic.as_str() == name), "{error:?}");

    service.waits_for_topics = true;
    let running = service.start().await;
    let sent = send(&there, &notes("m", 10, 2, 1));
    ledger.is_finished(&there).await;
    let later = FreshTopic::create_named(&brokers(), &name, 2, &[]).await;
    let sent_later = send(&later, &notes("n", 20, 4, 2));
    ledger.is_finished(&later).await;
    running.stop().await;
    ledger.assert_once_in_order("jobs", &sent).await;
    ledger.assert_once_in_order("later", &sent_later).await;
    assert_eq!(service.group().lag(&later), 0);
}

/// Nothing to consume at all, for a while.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_a_topic_that_does_not_exist_yet() {
    let ledger = Ledger::new().await;
    let name = FreshTopic::a_name();
    let unmade = FreshTopic::create(1).await;
    let mut service = attentive(Service::new(&ledger, &unmade))
        .subscription(|subscription| subscription.topics = vec![name.clone()]);
    service.waits_for_topics = true;
    let running = service.start().await;
    let topic = FreshTopic::create_named(&brokers(), &name, 1, &[]).await;
    let sent = send(&topic, &notes("m", 10, 2, 1));
    ledger.is_finished(&topic).await;
    running.stop().await;
    ledger.assert_once_in_order("jobs", &sent).await;
    // And a service that never finds one ends as any other.
    service.subscriptions[0].topics = vec![FreshTopic::a_name()];
    service.start().await.stop().await;
}
