//! `CloudEvents` as a subscription reads them: the same event is one message in either mode, and whatever
//! bytes come, there is an outcome.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cloud_event::CloudEvent;
use crate::dead_letter::DeadClass;
use crate::identity::{BusinessKey, Offset, Partition, Place, Topic};
use crate::message::Message;
use crate::record::{Headers, Record};

use super::{
    Codec, DecodeError, Definition, IdRule, Json, KeyRule, Read, ReadContext, Rejection, Tombstones,
};

const JSON: &str = "application/cloudevents+json";

/// The bytes as they are.
struct Bare;

impl Codec<Vec<u8>> for Bare {
    fn decode(&self, value: &[u8]) -> Result<Vec<u8>, DecodeError> {
        Ok(value.to_vec())
    }
}

fn record(headers: &[(&str, &str)], value: Option<&[u8]>) -> Record {
    let place = Place { topic: Topic::new("orders"), partition: Partition(3), offset: Offset(7) };
    let headers = headers.iter().map(|(name, value)| (*name, Some(Bytes::copy_from_slice(value.as_bytes()))));
    let key = Some(Bytes::from_static(b"record key"));
    Record::new(place, None, key, value.map(Bytes::copy_from_slice), Headers::new(headers))
}

fn structured(envelope: &str) -> Record {
    record(&[("content-type", JSON)], Some(envelope.as_bytes()))
}

fn binary(source: &str, id: &str, content_type: &str, value: Option<&[u8]>) -> Record {
    record(&[("ce_source", source), ("ce_id", id), ("content-type", content_type)], value)
}

fn read<P: Send + Sync + 'static>(definition: &Definition<P>, record: Record) -> Read<P> {
    let context = ReadContext {
        cluster: "c",
        incarnation: 1,
        max_record_bytes: 1 << 20,
        max_clock_skew: Duration::from_secs(1),
    };
    definition.read(record, &context)
}

fn bare() -> Definition<Option<Vec<u8>>> {
    Definition::new("events", Tombstones(Bare))
        .topic("orders")
        .id(IdRule::cloud_event())
        .key(KeyRule::record())
}

fn message(record: Record) -> Message<Option<Vec<u8>>> {
    match read(&bare(), record) {
        Read::Message(message) => *message,
        Read::Rejected(rejection) => panic!("{rejection:?}"),
        Read::Ignored => panic!("ignored"),
    }
}

fn rejected(record: Record) -> Rejection {
    match read(&bare(), record) {
        Read::Rejected(rejection) => *rejection,
        _ => panic!("it was read"),
    }
}

fn payload(envelope: &str) -> Option<String> {
    let payload = message(structured(envelope)).payload().clone();
    payload.map(|bytes| String::from_utf8(bytes).expect("text"))
}

#[test]
fn the_same_event_is_one_message_in_either_mode() {
    let body = r#"{"cents": 1.10, "b": 12345678901234567890123, "a": [ ]}"#;
    let envelope =
        format!(r#" {{"specversion":"1.0","id":"7","source":"/shop","type":"t","data": {body} }} "#);
    let (one, other) = (
        message(structured(&envelope)),
        message(binary("/shop", "7", "application/json", Some(body.as_bytes()))),
    );
    assert_eq!(one.id(), other.id());
    assert_eq!(one.payload(), other.payload(), "not a byte is another");
    assert_eq!(one.key(), Some(&BusinessKey::new(b"record key")));
    assert_eq!(one.record().fingerprint(), other.record().fingerprint());
    assert_eq!(one.record().value.as_deref(), Some(envelope.as_bytes()), "the record is as it came");
}

#[test]
fn data_is_what_its_content_type_says() {
    let event = |rest: &str| format!(r#"{{"specversion":"1.0","id":"7","source":"/shop"{rest}}}"#);
    for (rest, wanted) in [
        (r#","data":"text""#, "\"text\""),
        (r#","datacontenttype":"application/vnd.x+json","data":"text""#, "\"text\""),
        (r#","datacontenttype":"text/plain","data":"a \"b\"\né""#, "a \"b\"\n\u{e9}"),
        (r#","datacontenttype":"text/plain","data":"a \"b\"\u00e9""#, "a \"b\"\u{e9}"),
        (r#","data_base64":"aGk=""#, "hi"),
        (r#","datacontenttype":null,"data":1e2"#, "1e2"),
        (r#","data":false"#, "false"),
    ] {
        assert_eq!(payload(&event(rest)).as_deref(), Some(wanted), "{rest}");
    }
    for rest in ["", r#","data":null"#, r#","data_base64":null"#] {
        assert_eq!(payload(&event(rest)), None, "no data is a null value");
    }
    let (none, null) = (structured(&event("")), binary("/shop", "7", "", None));
    assert_eq!(none.fingerprint(), null.fingerprint());
    assert_eq!(message(null).payload(), &None);
}

#[test]
fn what_is_wrong_with_an_event_is_said() {
    let named = r#""specversion":"1.0","id":"7","source":"/shop""#;
    for (envelope, class, reason, has_id) in [
        (String::new(), DeadClass::Undecodable, "no JSON object", false),
        ("[]".into(), DeadClass::Undecodable, "no JSON object", false),
        (format!("{{{named}}} x"), DeadClass::Undecodable, "no JSON object", false),
        (format!(r#"{{{named},"id":"8"}}"#), DeadClass::Undecodable, "`id` twice", false),
        (format!(r#"{{{named},"data":1,"data":2}}"#), DeadClass::Undecodable, "`data` twice", false),
        (r#"{"specversion":"1.0","source":"/shop"}"#.into(), DeadClass::NoId, "`id` or `source`", false),
        (r#"{"specversion":"1.0","id":"7"}"#.into(), DeadClass::NoId, "`id` or `source`", false),
        (r#"{"specversion":"1.0","id":"","source":"/"}"#.into(), DeadClass::NoId, "empty", false),
        (r#"{"specversion":"1.0","id":7,"source":"/"}"#.into(), DeadClass::NoId, "not a text", false),
        (r#"{"specversion":"1.0","id":"\ud800","source":"/"}"#.into(), DeadClass::NoId, "not a text", false),
        (r#"{"specversion":"1.0","id":"7","source":"a b"}"#.into(), DeadClass::NoId, "white space", false),
        (r#"{"id":"7","source":"/shop"}"#.into(), DeadClass::Undecodable, "specversion is missing", true),
        (
            r#"{"specversion":"0.3","id":"7","source":"/shop"}"#.into(),
            DeadClass::Undecodable,
            "specversion is 0.3",
            true,
        ),
        (format!(r#"{{{named},"data":1,"data_base64":""}}"#), DeadClass::Undecodable, "both", true),
        (format!(r#"{{{named},"data_base64":"?"}}"#), DeadClass::Undecodable, "not base64", true),
        (format!(r#"{{{named},"data_base64":1}}"#), DeadClass::Undecodable, "not base64", true),
        (
            format!(r#"{{{named},"datacontenttype":"text/xml","data":{{}}}}"#),
            DeadClass::Undecodable,
            "\"text/xml\"",
            true,
        ),
    ] {
        let rejection = rejected(structured(&envelope));
        assert_eq!(rejection.class, class, "{envelope}");
        assert!(rejection.reason.contains(reason), "{envelope}: {}", rejection.reason);
        let id = rejection.id.as_str();
        assert_eq!(id == "/shop 7", has_id, "{envelope}: {id}");
        assert!(has_id || id.starts_with("offset:"), "{id}");
        assert_eq!(rejection.record.value.as_deref(), Some(envelope.as_bytes()), "every byte is kept");
    }
    for (content_type, reason) in [
        ("application/cloudevents-batch+json", "a record of each event"),
        ("application/cloudevents+avro; v=1", "application/cloudevents+avro; v=1"),
        ("application/cloudevents", "binary mode"),
    ] {
        let rejection = rejected(record(&[("Content-Type", content_type)], Some(b"[]")));
        assert_eq!(rejection.class, DeadClass::Undecodable);
        assert!(rejection.reason.contains(reason), "{}", rejection.reason);
    }
    let many = r#","x":1"#.repeat(1001);
    let rejection = rejected(structured(&format!("{{{named}{many}}}")));
    assert!(rejection.reason.contains("1000 members"), "{}", rejection.reason);
}

#[test]
fn a_null_value_is_an_event_in_binary_mode() {
    let tombstone = record(&[("ce_id", "7"), ("ce_source", "/shop"), ("content-type", JSON)], None);
    let gone = message(tombstone);
    assert_eq!((gone.id().as_str(), gone.payload()), ("/shop 7", &None));
    assert_eq!(rejected(record(&[("content-type", JSON)], None)).class, DeadClass::NoId);
}

#[test]
fn rules_on_the_payload_see_the_data() {
    #[derive(serde::Deserialize)]
    struct Order {
        account: String,
    }
    let definition: Definition<Option<Order>> = Definition::new("orders", Tombstones(Json))
        .topic("orders")
        .id(IdRule::cloud_event())
        .key(KeyRule::payload_or("account", |order: &Order| &order.account, KeyRule::record()));
    for (data, key) in [(r#","data":{"account":"a"}"#, "a"), ("", "record key")] {
        let envelope = format!(r#"{{"specversion":"1.0","id":"7","source":"/","account":"b"{data}}}"#);
        let Read::Message(message) = read(&definition, structured(&envelope)) else { panic!("{envelope}") };
        assert_eq!(message.key(), Some(&BusinessKey::new(key.as_bytes())));
    }
}

/// Who takes ids from elsewhere gets the value as it is, envelope and all.
#[test]
fn only_those_who_take_ids_from_events_get_them_opened() {
    let envelope = r#"{"specversion":"1.0","id":"7","source":"/shop","data":1}"#;
    let definition: Definition<Value> = Definition::new("orders", Json)
        .topic("orders")
        .id(IdRule::offset())
        .key(KeyRule::record())
        .filter(|record| CloudEvent::of(record).is_ok_and(|event| event.id() == "7"));
    let Read::Message(message) = read(&definition, structured(envelope)) else { panic!("it is read") };
    assert_eq!(message["source"], "/shop");
    assert_eq!(message.cloud_event().map(|event| event.source().to_owned()).as_deref(), Some("/shop"));
    assert!(matches!(read(&definition, structured("{}")), Read::Ignored));
}

#[test]
fn attributes_are_the_same_in_both_modes() {
    let envelope = json!({
        "specversion": "1.0", "id": "7", "source": "/shop", "type": "order.placed", "subject": "order/1",
        "time": "2026-01-01T00:00:00Z", "dataschema": "urn:x", "datacontenttype": "application/json",
        "trace": "a\u{e9}", "count": 5, "test": true, "none": null, "data": {},
    });
    let headers = [
        ("ce_specversion", "1.0"),
        ("ce_id", "7"),
        ("ce_source", "/shop"),
        ("ce_type", "order.placed"),
        ("ce_subject", "order/1"),
        ("ce_time", "2026-01-01T00:00:00Z"),
        ("ce_dataschema", "urn:x"),
        ("CONTENT-TYPE", "application/json"),
        ("ce_trace", "a\u{e9}"),
        ("ce_count", "5"),
        ("ce_test", "true"),
        ("other", "x"),
    ];
    for record in [structured(&envelope.to_string()), record(&headers, Some(b"{}"))] {
        let event = CloudEvent::of(&record).expect("it is one");
        assert_eq!((event.id(), event.source(), event.spec_version()), ("7", "/shop", Some("1.0")));
        assert_eq!((event.event_type(), event.subject()), (Some("order.placed"), Some("order/1")));
        assert_eq!((event.time(), event.data_schema()), (Some("2026-01-01T00:00:00Z"), Some("urn:x")));
        assert_eq!(event.data_content_type(), Some("application/json"));
        assert_eq!((event.extension("count"), event.extension("test")), (Some("5"), Some("true")));
        assert_eq!(
            (event.extension("none"), event.extension("id"), event.extension("data")),
            (None, None, None)
        );
        let mut extensions: Vec<_> = event.extensions().collect();
        extensions.sort_unstable();
        assert_eq!(extensions, [("count", "5"), ("test", "true"), ("trace", "a\u{e9}")]);
        assert_eq!(
            message(record).cloud_event().and_then(|event| event.event_type().map(String::from)).as_deref(),
            Some("order.placed")
        );
    }
}

fn json_values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..4).prop_map(Value::from_iter),
        ]
    })
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("id"),
        Just("source"),
        Just("specversion"),
        Just("type"),
        Just("data"),
        Just("data_base64"),
        Just("datacontenttype"),
        Just("x"),
    ]
    .prop_map(String::from)
}

/// Neither ignored nor a panic: a message, or a rejection that says more than nothing.
fn has_an_outcome(record: Record) -> Result<(), TestCaseError> {
    let value = record.value.clone();
    match read(&bare(), record) {
        Read::Message(message) => prop_assert!(!message.id().as_str().is_empty()),
        Read::Ignored => prop_assert!(false, "nothing was to be ignored"),
        Read::Rejected(rejection) => {
            prop_assert!(
                !rejection.reason.is_empty() && !rejection.reason.contains("panicked"),
                "{rejection:?}"
            );
            prop_assert_eq!(rejection.record.value, value);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_bytes_have_an_outcome(
        value in prop::option::of(prop::collection::vec(any::<u8>(), 0..200)),
        suffix in "(\\+json|-batch|\\+avro|;.{0,10}|.{0,5})",
    ) {
        let content_type = format!("application/cloudevents{suffix}");
        has_an_outcome(record(&[("content-type", &content_type)], value.as_deref()))?;
    }

    #[test]
    fn any_object_has_an_outcome(members in prop::collection::vec((names(), json_values()), 0..8)) {
        let members: Vec<_> =
            members.iter().map(|(name, value)| format!("{}:{value}", Value::from(&**name))).collect();
        has_an_outcome(structured(&format!("{{{}}}", members.join(","))))?;
    }

    #[test]
    fn any_event_is_one_message_in_either_mode(
        id in "[^\\pC]{1,20}", source in "[^\\pC\\s]{1,20}", data in json_values(), bytes: Vec<u8>,
    ) {
        let body = data.to_string();
        prop_assume!(!data.is_null());
        let envelope = json!({"specversion": "1.0", "id": id, "source": source, "data": data}).to_string();
        let (one, other) = (structured(&envelope), binary(&source, &id, "application/json", Some(body.as_bytes())));
        prop_assert_eq!(one.fingerprint(), other.fingerprint());
        let (one, other) = (message(one), message(other));
        prop_assert_eq!((one.id(), one.payload()), (other.id(), other.payload()));

        let encoded = STANDARD.encode(&bytes);
        let envelope =
            json!({"specversion": "1.0", "id": id, "source": source, "data_base64": encoded}).to_string();
        let (one, other) = (structured(&envelope), binary(&source, &id, "image/png", Some(&bytes)));
        prop_assert_eq!(one.fingerprint(), other.fingerprint());
        let one = message(one);
        prop_assert_eq!(one.payload().as_deref(), Some(&*bytes));
    }
}
