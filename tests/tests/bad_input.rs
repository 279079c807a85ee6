//! P2: whatever bytes a record has, it has an outcome, and its partition goes on.

use inbox_tests::handlers::{Events, FromPayload};
use inbox_tests::job::{Act, Job, KeyFrom, Runs};
use inbox_tests::kafka::{FreshTopic, ID_HEADER, Outgoing, Producer};
use inbox_tests::load::{notes, send};
use inbox_tests::oracle::{Dead, Ledger};
use inbox_tests::service::{Running, Service};
use inbox_tests::wire::{RawRecord, produce};

/// A service, and records between good ones.
struct Scene {
    ledger: Ledger,
    topic: FreshTopic,
    service: Service,
    running: Running,
}

impl Scene {
    async fn new() -> Self {
        Self::with(|service| service).await
    }

    async fn with(change: impl FnOnce(Service) -> Service) -> Self {
        let ledger = Ledger::new().await;
        // Timestamps of the far future are for the inbox to judge.
        let any_time = ("message.timestamp.after.max.ms", "9223372036854775807");
        let topic = FreshTopic::create_with(1, &[any_time, ("max.message.bytes", "16000000")]).await;
        let service = change(Service::new(&ledger, &topic));
        let running = service.start().await;
        Self { ledger, topic, service, running }
    }

    /// Sends these between good ones, and waits until nothing is left.
    async fn takes(&self, records: &[Outgoing]) -> Vec<i64> {
        let before = self.ledger.count().await;
        let _ = send(&self.topic, &notes(&format!("before-{before}"), 3, 3, 1));
        let offsets = Producer::new(&self.topic).send(records);
        let _ = send(&self.topic, &notes(&format!("after-{before}"), 3, 3, 1));
        self.goes_on(before + 6).await;
        offsets
    }

    async fn goes_on(&self, effects: usize) {
        self.ledger.reaches(effects).await;
        self.ledger.is_finished(&self.topic).await;
        assert!(self.running.is_running(), "the service goes on");
    }

    async fn dead(&self) -> Vec<Dead> {
        self.ledger.dead().await
    }

    /// Ends it: nothing is left in Kafka either.
    async fn ends(self) {
        self.running.stop().await;
        assert_eq!(self.service.group().lag(&self.topic), 0);
    }
}

fn classes(dead: &[Dead]) -> Vec<&str> {
    dead.iter().map(|letter| &*letter.class).collect()
}

fn record(id: &[u8], value: Option<&[u8]>) -> Outgoing {
    Outgoing {
        key: Some(b"key-0".to_vec()),
        value: value.map(<[u8]>::to_vec),
        headers: vec![(ID_HEADER.into(), Some(id.to_vec()))],
        ..Outgoing::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_are_no_payload() {
    let scene = Scene::new().await;
    let deep = [b"[".repeat(200_000), b"]".repeat(200_000)].concat();
    let deep_field = [br#"{"account":"#.to_vec(), deep.clone(), b"}".to_vec()].concat();
    let values: [Option<&[u8]>; 8] = [
        None,
        Some(b""),
        Some(b"{"),
        Some(b"null"),
        Some(b"{\"account\":\"\xff\",\"acts\":[]}"),
        Some(b"\0"),
        Some(&deep),
        Some(&deep_field),
    ];
    let records: Vec<_> =
        (0..).zip(values).map(|(n, value)| record(format!("m-{n}").as_bytes(), value)).collect();
    let offsets = scene.takes(&records).await;
    let dead = scene.dead().await;
    assert_eq!(classes(&dead), ["undecodable"; 8]);
    for ((letter, sent), offset) in dead.iter().zip(&records).zip(offsets) {
        assert_eq!((letter.offset, &letter.payload), (offset, &sent.value), "every byte is kept");
        assert_eq!(Some(&letter.id), sent.headers[0].1.as_ref());
        assert!(!letter.reason.is_empty());
    }
    // Sent again they are duplicates.
    scene.takes(&records).await;
    assert_eq!(scene.dead().await, dead);
    scene.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_that_name_nothing() {
    let scene = Scene::new().await;
    let value = Job::note("key-0").value();
    let of = |headers: Vec<(&str, Option<&[u8]>)>| Outgoing {
        key: Some(b"key-0".to_vec()),
        value: Some(value.clone()),
        headers: headers.into_iter().map(|(name, value)| (name.into(), value.map(<[u8]>::to_vec))).collect(),
        ..Outgoing::default()
    };
    let records = [
        of(vec![]),
        of(vec![(ID_HEADER, None)]),
        of(vec![(ID_HEADER, Some(b""))]),
        of(vec![(ID_HEADER, Some(b"\xff\xfe"))]),
        of(vec![("EVENT-ID", Some(b"other name"))]),
        // Of several the last counts.
        of(vec![(ID_HEADER, Some(b"first")), (ID_HEADER, None)]),
    ];
    let offsets = scene.takes(&records).await;
    let dead = scene.dead().await;
    assert_eq!(classes(&dead), ["no_id"; 6]);
    for (letter, offset) in dead.iter().zip(offsets) {
        let id = String::from_utf8_lossy(&letter.id);
        assert!(
            id.starts_with("offset:") && id.ends_with(&format!("/{}/1/0/{offset}", scene.topic.name())),
            "{id}"
        );
        assert_eq!((letter.offset, letter.payload.as_deref()), (offset, Some(&*value)));
    }
    scene.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_keys_and_headers_of_any_bytes() {
    let scene = Scene::new().await;
    let long = "x".repeat(1 << 20);
    let ids = ["nul\0in it", &long, "\u{feff} \n'\"\\;--", "NUL\0", "{}", "%s", "\u{1f980}"];
    let mut records: Vec<_> =
        ids.iter().map(|id| record(id.as_bytes(), Some(&Job::note("a").value()))).collect();
    records[0].key = Some(b"\xff\xfe\0".to_vec());
    records[1].key = Some(b"k".repeat(1 << 20));
    records[2].key = Some(vec![]);
    records[3].key = None;
    records[4].headers.insert(0, ("null".into(), None));
    records[4].headers.insert(0, ("bytes".into(), Some(vec![0xff, 0, 0xfe])));
    records[4].headers.insert(0, (String::new(), Some(vec![])));
    records[5].headers.splice(0..0, (0..2000).map(|n| (format!("h-{n}"), Some(b"v".repeat(100)))));
    scene.takes(&records).await;
    // The same again, and the long one with one byte less: another message.
    records.push(record(&long.as_bytes()[1..], Some(&Job::note("a").value())));
    scene.takes(&records).await;

    let effects = scene.ledger.effects().await;
    for (sent, id) in records.iter().zip(ids) {
        let of_it: Vec<_> = effects.iter().filter(|effect| effect.id == id).collect();
        assert_eq!(of_it.len(), 1, "{}", &id[..id.len().min(20)]);
        assert_eq!(of_it[0].key, sent.key);
    }
    assert_eq!(effects.len(), 2 * 6 + ids.len() + 1);
    assert_eq!(scene.dead().await, []);
    scene.ends().await;
}

/// The same bytes, where they have to be stored to the last.
#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_of_any_bytes() {
    let scene = Scene::new().await;
    let long = "x".repeat(1 << 20);
    let fail = |words: &str| Job::of("a", [Act::Fail(words.into())]).value();
    let mut records = vec![
        record(b"nul\0in it", Some(&fail("nul\0 in the words"))),
        record(long.as_bytes(), Some(&fail(&"long \u{1f980}".repeat(100_000)))),
        record("\u{feff}'\"\\".as_bytes(), Some(&fail("'\"\\\u{7f}\u{feff}"))),
        record(b"none", Some(&fail(""))),
    ];
    records[0].key = Some(b"\xff\xfe\0".to_vec());
    records[1].key = Some(b"k".repeat(1 << 20));
    records[2].key = Some(vec![]);
    records[3].key = None;
    scene.takes(&records).await;
    let dead = scene.dead().await;
    assert_eq!(classes(&dead), ["permanent"; 4]);
    for (letter, sent) in dead.iter().zip(&records) {
        assert_eq!(Some(&letter.id), sent.headers[0].1.as_ref());
        assert_eq!((&letter.record_key, &letter.key, &letter.payload), (&sent.key, &sent.key, &sent.value));
    }
    assert_eq!(dead[0].reason, "nul\u{fffd} in the words");
    assert!(dead[1].reason.starts_with("long \u{1f980}long") && dead[1].reason.len() <= 8 << 10);
    scene.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_megabytes() {
    let scene = Scene::new().await;
    let big = record(b"big", Some(&b"x".repeat(10_000_000)));
    let offsets = scene.takes(std::slice::from_ref(&big)).await;
    let dead = scene.dead().await;
    let [letter] = &dead[..] else { panic!("one dead letter, not {:?}", classes(&dead)) };
    assert_eq!((&*letter.class, letter.offset, &letter.payload), ("oversized", offsets[0], &big.value));
    assert!(letter.reason.contains("max_record_bytes"), "{}", letter.reason);
    scene.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_megabytes_where_they_are_allowed() {
    let scene = Scene::with(|service| service.limits(|limits| limits.max_record_bytes = 12 << 20)).await;
    let value = Job { account: "x".repeat(10_000_000), acts: vec![Act::Note] }.value();
    let records: Vec<_> = (0..6).map(|n| record(format!("big-{n}").as_bytes(), Some(&value))).collect();
    scene.takes(&records).await;
    let effects = scene.ledger.effects().await;
    assert_eq!(effects.iter().filter(|effect| effect.id.starts_with("big")).count(), 6);
    assert_eq!(scene.dead().await, []);
    scene.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn timestamps_of_the_future_and_the_past() {
    let scene = Scene::new().await;
    let at = |id: &str, timestamp| {
        let headers = vec![(ID_HEADER.into(), Some(id.into()))];
        let value = Some(Job::note("key-0").value());
        let _ =
            produce(&scene.topic, 0, &RawRecord { timestamp, key: Some(b"key-0".to_vec()), value, headers });
    };
    for (id, timestamp) in
        [("none", -1), ("1969", -1000), ("1970", 0), ("past", 1), ("dawn", i64::MIN / 2), ("least", i64::MIN)]
    {
        at(id, timestamp);
    }
    let now = i64::try_from(std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_millis())
        .expect("not that late");
    at("soon", now + 3_600_000);
    for (id, timestamp) in [("week", now + 7 * 86_400_000), ("far", i64::MAX / 2), ("farthest", i64::MAX)] {
        at(id, timestamp);
    }
    let _ = send(&scene.topic, &notes("after", 3, 3, 1));
    scene.goes_on(10).await;
    let effects = scene.ledger.effects().await;
    let ids: Vec<_> = effects.iter().filter(|e| e.key.as_deref() == Some(b"key-0")).map(|e| &*e.id).collect();
    assert_eq!(ids, ["none", "1969", "1970", "past", "dawn", "least", "soon", "after-0"]);
    let dead = scene.dead().await;
    assert_eq!(classes(&dead), ["future_dated"; 3]);
    assert_eq!(dead[2].time, Some(i64::MAX));
    scene.ends().await;
}

/// A header whose very name is not UTF-8: the client library panics at it.
#[tokio::test(flavor = "multi_thread")]
async fn header_names_that_are_no_text() {
    let scene = Scene::new().await;
    let record = |id: &str, bad_first: bool, value: Vec<u8>| {
        let mut headers = vec![(ID_HEADER.into(), Some(id.into()))];
        headers.insert(usize::from(!bad_first), (b"\xff\xfe".to_vec(), Some(b"x".to_vec())));
        RawRecord { timestamp: 1, key: Some(b"key-0".to_vec()), value: Some(value), headers }
    };
    let good = Job::note("key-0").value();
    let _ = produce(&scene.topic, 0, &record("before it", true, good.clone()));
    let _ = produce(&scene.topic, 0, &record("behind it", false, good));
    let _ = produce(&scene.topic, 0, &record("dead", true, b"{".to_vec()));
    let _ = send(&scene.topic, &notes("after", 3, 3, 1));
    scene.goes_on(5).await;
    let effects = scene.ledger.effects().await;
    let ids: Vec<_> = effects.iter().filter(|e| e.key.as_deref() == Some(b"key-0")).map(|e| &*e.id).collect();
    assert_eq!(ids, ["before it", "behind it", "after-0"]);
    assert_eq!(classes(&scene.dead().await), ["undecodable"]);
    scene.ends().await;
}

/// Every kind of bad record at once, in one batch, with good ones of the same keys between them.
#[tokio::test(flavor = "multi_thread")]
async fn all_at_once() {
    let ledger = Ledger::new().await;
    let topic = FreshTopic::create(1).await;
    let mut records = Vec::new();
    for n in 0..200 {
        let good = Job::note(&format!("key-{}", n % 10));
        records.push(match n % 8 {
            1 => record(format!("m-{n}").as_bytes(), None),
            3 => record(b"", Some(&good.value())),
            5 => record(format!("m-{n}").as_bytes(), Some(b"{")),
            7 => Job::of(&good.account, [Act::Note, Act::Fail("no".into())]).outgoing(0, &format!("m-{n}")),
            _ => good.outgoing(0, &format!("m-{n}")),
        });
    }
    let _ = Producer::new(&topic).send(&records);
    let service = Service::new(&ledger, &topic).subscription(|s| s.key = KeyFrom::Account);
    let running = service.start().await;
    ledger.is_finished(&topic).await;
    assert_eq!(ledger.count().await, 100);
    let dead = ledger.dead().await;
    for (class, count) in [("undecodable", 50), ("no_id", 25), ("permanent", 25)] {
        assert_eq!(dead.iter().filter(|letter| letter.class == class).count(), count, "{class}");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn payloads_without_id_or_key() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(1).await);
    let service = Service::new(&ledger, &topic);
    let handler = FromPayload { name: "loose", topic: topic.name().into() };
    let running = service.start_with(service.inbox().await.handle(handler), Runs::default());
    let values = [
        r#"{"account":"a"}"#,
        r#"{"id":null,"account":"a"}"#,
        r#"{"id":"","account":"a"}"#,
        r#"{"id":"keyless"}"#,
        r#"{"id":"nul \u0000","account":"\u0000"}"#,
        r#"{"id":"empty key","account":""}"#,
        "[]",
    ];
    let records: Vec<_> = values.iter().map(|value| record(b"", Some(value.as_bytes()))).collect();
    let _ = Producer::new(&topic).send(&records);
    ledger.is_finished(&topic).await;
    let dead = ledger.dead().await;
    assert_eq!(classes(&dead), ["no_id", "no_id", "no_id", "no_key", "undecodable"]);
    assert_eq!(dead[3].id, b"keyless", "what was found is kept");
    let effects = ledger.effects().await;
    let keys: Vec<_> = effects.iter().map(|effect| (&*effect.id, effect.key.as_deref())).collect();
    assert_eq!(keys.len(), 2);
    assert!(keys.contains(&("nul \0", Some(b"\0"))) && keys.contains(&("empty key", Some(b""))), "{keys:?}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cloud_events_and_a_codec_that_panics() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(1).await);
    let service = Service::new(&ledger, &topic);
    let handler = Events { name: "events", topic: topic.name().into() };
    let running = service.start_with(service.inbox().await.handle(handler), Runs::default());
    let event = |headers: &[(&str, &str)], value: &str| Outgoing {
        value: Some(value.into()),
        headers: headers.iter().map(|(name, value)| ((*name).into(), Some((*value).into()))).collect(),
        ..Outgoing::default()
    };
    let from = |source: &str, id: &str| event(&[("ce_id", id), ("ce_source", source)], "x");
    let _ = Producer::new(&topic).send(&[
        from("/a", "1"),
        from("/b", "1"),
        from("/a", "1"),
        from("", "1"),
        from("/a", ""),
        from("/a b", "1"),
        event(&[("ce_id", "1")], "x"),
        event(&[("ce_id", "2"), ("ce_source", "/a")], "panic"),
        from("/a", "3"),
    ]);
    ledger.is_finished(&topic).await;
    let effects = ledger.effects().await;
    let mut ids: Vec<_> = effects.iter().map(|effect| &*effect.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["/a 1", "/a 3", "/b 1"]);
    let dead = ledger.dead().await;
    assert_eq!(classes(&dead), ["no_id", "no_id", "no_id", "no_id", "undecodable"]);
    assert!(dead[4].reason.contains("the value says so"), "{}", dead[4].reason);
    running.stop().await;
}
