//! A real Postgres and a real broker, ended as in a crash and started again under load.

use inbox_tests::kafka::FreshTopic;
use inbox_tests::load::{Load, LoadPlan};
use inbox_tests::oracle::{Ledger, Sent, distinct};
use inbox_tests::own_services::OwnServices;
use inbox_tests::postgres::FreshDatabase;
use inbox_tests::service::Service;

async fn no_message_noticed(ledger: &Ledger, topic: &FreshTopic, sent: &[Sent]) {
    ledger.reaches(distinct(sent)).await;
    ledger.is_finished(topic).await;
    ledger.assert_once_in_order("jobs", sent).await;
    assert_eq!(ledger.receipts().await, distinct(sent));
    assert_eq!(ledger.dead().await, []);
    assert!(ledger.effects().await.iter().all(|effect| effect.attempt == 1), "no attempt is counted");
}

/// What was committed is there afterwards, what was not is run again, and the service goes on by
/// itself.
#[tokio::test(flavor = "multi_thread")]
async fn postgres_crashes_under_load() {
    let services = OwnServices::postgres();
    let mut ledger = Ledger::of(FreshDatabase::create_at(&services.database).await).await;
    let topic = FreshTopic::create(4).await;
    let service = Service::new(&ledger, &topic);
    let running = service.start().await;
    let load = Load::start(&topic, LoadPlan::default());
    for _ in 0..3 {
        let before = ledger.count().await;
        ledger.reaches(before + 200).await;
        services.tell("postgres-stop");
        assert!(running.is_running());
        services.tell("postgres-start");
        ledger = ledger.reconnected().await;
    }
    let before = ledger.count().await;
    ledger.reaches(before + 200).await;
    no_message_noticed(&ledger, &topic, &load.stop()).await;
    running.stop().await;
    assert_eq!(service.group().lag(&topic), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_broker_crashes_under_load() {
    let services = OwnServices::kafka();
    let ledger = Ledger::new().await;
    let topic = FreshTopic::create_at(&services.brokers, 4, &[]).await;
    let mut service = Service::new(&ledger, &topic);
    service.brokers.clone_from(&services.brokers);
    let running = service.start().await;
    let load = Load::start(&topic, LoadPlan::default());
    for _ in 0..2 {
        let before = ledger.count().await;
        ledger.reaches(before + 200).await;
        services.tell("kafka-kill");
        assert!(running.is_running());
        services.tell("kafka-start");
    }
    let before = ledger.count().await;
    ledger.reaches(before + 200).await;
    no_message_noticed(&ledger, &topic, &load.stop()).await;
    running.stop().await;
    assert_eq!(service.group().lag(&topic), 0);
}
