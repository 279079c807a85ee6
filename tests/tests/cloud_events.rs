//! P1, P2: `CloudEvents` in binary and structured mode: the same event is one message, and what is no event
//! is a dead letter with every byte.

use diesel::sql_query;
use diesel::sql_types::{Binary, Nullable, Text};
use inbox_core::{
    CloudEvent, Codec, DecodeError, Definition, Handler, IdRule, KeyRule, Message, Outcome, Postgres,
    Subscription, Tombstones, Tx,
};
use inbox_tests::job::{Runs, note};
use inbox_tests::kafka::{FreshTopic, Outgoing, Producer};
use inbox_tests::oracle::{Dead, Ledger};
use inbox_tests::service::{Running, Service};

const JSON: &str = "application/cloudevents+json";

/// Keeps the bytes that it was given.
struct Bare;

impl Codec<Vec<u8>> for Bare {
    fn decode(&self, value: &[u8]) -> Result<Vec<u8>, DecodeError> {
        Ok(value.to_vec())
    }
}

/// Notes each event, and what it saw of it.
struct Events {
    topic: String,
    /// Only events of this type.
    event_type: Option<&'static str>,
}

impl Subscription for Events {
    type Payload = Option<Vec<u8>>;

    fn definition(&self) -> Definition<Option<Vec<u8>>> {
        let definition = Definition::new("events", Tombstones(Bare))
            .topic(self.topic.as_str())
            .id(IdRule::cloud_event())
            .key(KeyRule::record());
        let Some(wanted) = self.event_type else { return definition };
        definition.filter(move |record| {
            CloudEvent::of(record).map_or(true, |event| event.event_type() == Some(wanted))
        })
    }
}

impl Handler<Postgres> for Events {
    async fn handle(&self, event: &Message<Option<Vec<u8>>>, tx: &mut Tx<'_, Postgres>) -> Outcome {
        note("events", event, tx).await?;
        let seen = sql_query("INSERT INTO seen (id, event_type, payload) VALUES ($1, $2, $3)")
            .bind::<Text, _>(event.id().as_str())
            .bind::<Nullable<Text>, _>(
                event.cloud_event().and_then(|event| event.event_type().map(String::from)),
            )
            .bind::<Nullable<Binary>, _>(event.payload().as_deref());
        diesel_async::RunQueryDsl::execute(seen, tx).await?;
        Ok(())
    }
}

struct Scene {
    ledger: Ledger,
    topic: FreshTopic,
    running: Running,
}

type Seen = (String, Option<String>, Option<Vec<u8>>);

impl Scene {
    async fn new(event_type: Option<&'static str>) -> Self {
        let (ledger, topic) = (Ledger::new().await, FreshTopic::create(1).await);
        ledger.execute("CREATE TABLE seen (id text NOT NULL, event_type text, payload bytea)").await;
        let service = Service::new(&ledger, &topic);
        let handler = Events { topic: topic.name().into(), event_type };
        let running = service.start_with(service.inbox().await.handle(handler), Runs::default());
        Self { ledger, topic, running }
    }

    async fn takes(&self, records: &[Outgoing]) {
        let _ = Producer::new(&self.topic).send(records);
        self.ledger.is_finished(&self.topic).await;
        assert!(self.running.is_running(), "the service goes on");
    }

    async fn seen(&self) -> Vec<Seen> {
        let rows = self.ledger.query("SELECT id, event_type, payload FROM seen ORDER BY id", &[]).await;
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
    }

    async fn dead(&self) -> Vec<Dead> {
        self.ledger.dead().await
    }
}

fn record(headers: &[(&str, &str)], value: Option<&str>) -> Outgoing {
    Outgoing {
        key: Some(b"key".to_vec()),
        value: value.map(Into::into),
        headers: headers.iter().map(|(name, value)| ((*name).into(), Some((*value).into()))).collect(),
        ..Outgoing::default()
    }
}

fn structured(value: &str) -> Outgoing {
    record(&[("Content-Type", "application/cloudevents+json; charset=UTF-8")], Some(value))
}

fn envelope(id: &str, rest: &str) -> Outgoing {
    structured(&format!(r#"{{"specversion":"1.0","type":"placed","source":"/shop","id":"{id}"{rest}}}"#))
}

fn binary(id: &str, value: Option<&str>) -> Outgoing {
    let headers = [("ce_specversion", "1.0"), ("ce_type", "placed"), ("ce_source", "/shop"), ("ce_id", id)];
    record(&headers, value)
}

fn wanted(id: &str, payload: Option<&str>) -> Seen {
    (format!("/shop {id}"), Some("placed".into()), payload.map(|payload| payload.as_bytes().to_vec()))
}

/// In one batch and in sequence, in either order, with data that JSON libraries like to change.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_event_in_either_mode_is_one_message() {
    let scene = Scene::new(None).await;
    let body = r#"{ "z": 1.10, "a": 12345678901234567890123, "e": 1e2 }"#;
    let with_data = |id| envelope(id, &format!(r#","data": {body}"#));
    let text = |id| envelope(id, r#","datacontenttype":"text/plain","data":"a \"text\"""#);
    let bytes = |id| envelope(id, r#","datacontenttype":"image/png","data_base64":"aGk=""#);
    let pairs = [
        [with_data("1"), binary("1", Some(body))],
        [binary("2", Some(body)), with_data("2")],
        [text("3"), binary("3", Some("a \"text\""))],
        [bytes("4"), binary("4", Some("hi"))],
        [envelope("5", ""), binary("5", None)],
        [binary("6", None), envelope("6", r#","data":null"#)],
    ];
    let records: Vec<_> = pairs.into_iter().flatten().collect();
    for _ in 0..2 {
        scene.takes(&records).await;
        let seen = [
            wanted("1", Some(body)),
            wanted("2", Some(body)),
            wanted("3", Some("a \"text\"")),
            wanted("4", Some("hi")),
            wanted("5", None),
            wanted("6", None),
        ];
        assert_eq!(scene.seen().await, seen);
        assert_eq!((scene.ledger.count().await, scene.ledger.receipts().await), (6, 6));
    }
    // Each alone, in the other order.
    for record in records.iter().rev() {
        scene.takes(std::slice::from_ref(record)).await;
    }
    assert_eq!(scene.ledger.count().await, 6);
    assert_eq!(scene.dead().await, []);
    scene.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_event_is_a_dead_letter() {
    let scene = Scene::new(None).await;
    let batch = "application/cloudevents-batch+json";
    let bad = [
        (structured("{"), "undecodable", "no JSON object"),
        (structured("[]"), "undecodable", "no JSON object"),
        (structured("\0"), "undecodable", "no JSON object"),
        (structured(r#"{"specversion":"1.0","source":"/shop","data":1}"#), "no_id", "`id` or `source`"),
        (structured(r#"{"specversion":"1.0","source":"/ shop","id":"x"}"#), "no_id", "white space"),
        (envelope("again", r#","id":"other""#), "undecodable", "`id` twice"),
        (envelope("base64", r#","data_base64":"?""#), "undecodable", "not base64"),
        (envelope("xml", r#","datacontenttype":"text/xml","data":{}"#), "undecodable", "text/xml"),
        (structured(r#"{"specversion":"0.3","source":"/shop","id":"old"}"#), "undecodable", "0.3"),
        (record(&[("content-type", batch)], Some("[]")), "undecodable", "a record of each event"),
        (record(&[("content-type", "application/cloudevents+avro")], Some("x")), "undecodable", "+avro"),
        (record(&[("content-type", JSON)], None), "no_id", "ce_id"),
    ];
    let mut records: Vec<Outgoing> = bad.iter().map(|(record, _, _)| record.clone()).collect();
    records.insert(6, envelope("good", ""));
    records.push(binary("better", Some("1")));
    scene.takes(&records).await;
    let dead = scene.dead().await;
    assert_eq!(dead.len(), bad.len());
    for (letter, (record, class, reason)) in dead.iter().zip(&bad) {
        assert_eq!((&*letter.class, &letter.payload), (*class, &record.value), "every byte is kept");
        assert!(letter.reason.contains(reason), "{}", letter.reason);
    }
    let named: Vec<_> = dead.iter().filter(|letter| letter.id.starts_with(b"/shop ")).collect();
    assert_eq!(named.len(), 3, "an event that has a name keeps it");
    assert_eq!(scene.seen().await, [wanted("better", Some("1")), wanted("good", None)]);

    // What has a name is a duplicate when it comes again, also mended; what has none is another record.
    scene.takes(&[envelope("base64", r#","data_base64":"aGk=""#), binary("xml", Some("<x/>"))]).await;
    assert_eq!((scene.dead().await.len(), scene.ledger.count().await), (bad.len(), 2));
    scene.running.stop().await;
}

/// A filter sees the attributes in both modes; what is no event passes it, or nobody would hear of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_filter_by_type() {
    let scene = Scene::new(Some("placed")).await;
    let other = structured(r#"{"specversion":"1.0","type":"paid","source":"/shop","id":"3"}"#);
    let mut other_binary = binary("4", Some("1"));
    other_binary.headers[1].1 = Some(b"paid".to_vec());
    scene.takes(&[envelope("1", ""), other, binary("2", None), other_binary, structured("{")]).await;
    assert_eq!(scene.seen().await, [wanted("1", None), wanted("2", None)]);
    assert_eq!(scene.dead().await.len(), 1);
    assert_eq!(scene.ledger.receipts().await, 2, "no row of what was not wanted");
    scene.running.stop().await;
}
