//! Park: (none) → open, with every byte there was (P2).

use std::time::Duration;

use inbox_core::store::{Admit, Admitted, Conflict, Failed, Fence, Head, Park, RowState, Written};
use inbox_core::{BusinessKey, Headers, KeyId, MessageId, Record, Timestamp};

use crate::conformance::bury::letter;
use crate::conformance::start::{asked, asked_of, start, started};
use crate::dialect::Dialect;
use crate::scene::{LIMITS, Scene, foreign, just_begun};
use crate::script::record;

/// A message of the scene's partition that was never attempted.
#[must_use]
pub fn waiting<D: Dialect>(scene: &Scene<D>, id: &str, offset: i64, key: Option<&str>) -> Park {
    Park {
        subscription: scene.subscription,
        fence: scene.fence,
        id: MessageId::new(id),
        key: key.map(|key| BusinessKey::new(key.as_bytes())),
        record: record(offset, Some(id.as_bytes())),
        failed: None,
    }
}

/// A failed attempt that began a minute ago.
#[must_use]
pub fn failed(attempts: u32, due_in: Duration) -> Failed {
    Failed {
        class: "transient",
        reason: "the bank does not answer".into(),
        attempts,
        since_first: Duration::from_mins(1),
        due_in,
    }
}

/// Parks these.
pub async fn park<D: Dialect>(scene: &Scene<D>, messages: &[Park]) -> Written {
    let mut conn = scene.conn().await;
    D::park(&mut conn, &LIMITS, messages).await.expect("an answer")
}

/// A column of the row with this id.
pub async fn column<D: Dialect>(scene: &Scene<D>, column: &str, id: &str) -> Option<String> {
    let stored = MessageId::new(id).stored().as_uuid().simple().to_string();
    let messages = D::table("messages");
    let id = D::id_hex("message_id");
    let sql = format!("SELECT {column} AS value FROM {messages} WHERE {id} = '{stored}'");
    let mut values = scene.values(&sql).await;
    assert_eq!(values.len(), 1, "one row");
    values.remove(0)
}

/// NUL, broken UTF-8, a megabyte, nothing, null: in value, record key, id, business key and headers; and any
/// timestamp. A start reads them as they were.
pub async fn an_open_row_keeps_every_byte<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let megabyte: Vec<u8> = (0..1 << 20).map(|n: u32| n.to_le_bytes()[0] ^ n.to_le_bytes()[1]).collect();
    let values: [Option<&[u8]>; 6] = [
        Some(b"{\"cents\": 1}"),
        Some(b"\0a\0"),
        Some(&[0xff, 0xfe, 0x80, 0xc3]),
        Some(&megabyte),
        Some(b""),
        None,
    ];
    let times = [None, Some(i64::MIN), Some(i64::MAX), Some(-1), Some(0), Some(1)];
    let messages: Vec<_> = values
        .iter()
        .zip(times)
        .zip([0, 1, -1, i64::MAX, 5, 6])
        .map(|((value, time), offset)| {
            let Record { place, .. } = record(offset, None);
            let bytes = || value.map(|value| value.to_vec().into());
            let all = [("na\0me", bytes()), ("", None), ("na\0me", Some(vec![0xff].into()))];
            let headers = if value.is_some() { Headers::new(all) } else { Headers::default() };
            Park {
                id: MessageId::new(format!("id\0{offset}")),
                key: value.map(BusinessKey::new),
                record: Record::new(place, time.map(Timestamp), bytes(), bytes(), headers),
                ..waiting(&scene, "", offset, None)
            }
        })
        .collect();
    assert_eq!(park(&scene, &messages).await, Written::Done { duplicates: 0 });
    for message in &messages {
        let head = start(&scene, &asked_of(&scene, message.key_id())).await;
        let Head::Started(row) = head else { panic!("{head:?}") };
        let (record, offset) = (&message.record, message.record.offset());
        assert_eq!((&row.id, row.stored_id, row.offset), (&message.id, message.id.stored(), offset));
        assert!(row.key == message.key, "key at {offset}");
        assert!(row.value.as_deref() == record.value.as_deref(), "value at {offset}");
        assert!(row.record_key.as_deref() == record.key.as_deref(), "record key at {offset}");
        assert!(row.headers.iter().eq(record.headers.iter()), "headers at {offset}");
        assert_eq!((row.timestamp, row.fingerprint), (record.timestamp, record.fingerprint()));
        assert_eq!((row.attempts, row.since_first), (0, None));
    }
}

/// A reason with NUL bytes or of any length, any count of attempts, and times without sense.
pub async fn a_failure_of_any_content_is_stored<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let reasons =
        ["a\0b".to_owned(), String::new(), "ä".repeat(1 << 20), "'; DROP TABLE effects; --".to_owned()];
    let durations = [Duration::MAX, Duration::ZERO, Duration::from_secs(u64::MAX), Duration::from_nanos(1)];
    let messages: Vec<_> = (0..)
        .zip(&reasons)
        .zip(durations)
        .map(|((offset, reason), duration)| Park {
            failed: Some(Failed {
                reason: reason.clone(),
                since_first: duration,
                ..failed(u32::MAX, duration)
            }),
            ..waiting(&scene, &offset.to_string(), offset, None)
        })
        .collect();
    assert_eq!(park(&scene, &messages).await, Written::Done { duplicates: 0 });
    assert_eq!(column(&scene, "reason", "0").await.as_deref(), Some("a\u{fffd}b"));
    assert_eq!(column(&scene, "reason", "1").await.as_deref(), Some(""));
    assert_eq!(column(&scene, "class", "1").await.as_deref(), Some("transient"));
    let century = Duration::from_hours(100 * 365 * 24);
    for (message, duration) in messages.iter().zip(durations) {
        let head = start(&scene, &asked_of(&scene, message.key_id())).await;
        match head {
            Head::NotDue(due_in) => {
                assert!(duration > century && just_begun(due_in, century), "{due_in:?}");
            }
            Head::Started(row) => {
                assert!(duration < Duration::from_secs(1), "{duration:?}");
                assert_eq!(row.attempts, i32::MAX.unsigned_abs());
                assert!(row.since_first.expect("it was attempted") < Duration::from_mins(1));
            }
            _ => panic!("{head:?}"),
        }
    }
    assert_eq!(scene.count("effects").await, 0);
}

/// What is there, in any state, stays; so does the lowest offset of two equal ids in one parking.
pub async fn an_id_that_is_there_is_counted<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    scene.write(&scene.admission([scene.admit("done", 1)])).await.expect("an answer");
    let mut conn = scene.conn().await;
    D::bury(&mut conn, &LIMITS, &[letter(&scene, "dead", 2, None)]).await.expect("it is buried");
    let open = waiting(&scene, "open", 3, None);
    assert_eq!(park(&scene, std::slice::from_ref(&open)).await, Written::Done { duplicates: 0 });
    let failed = Some(failed(4, Duration::ZERO));
    let messages = [
        Park { failed, ..waiting(&scene, "open", 13, None) },
        waiting(&scene, "done", 11, None),
        waiting(&scene, "dead", 12, None),
        waiting(&scene, "twice", 6, None),
        waiting(&scene, "twice", 5, None),
        waiting(&scene, "fresh", 7, None),
    ];
    assert_eq!(park(&scene, &messages).await, Written::Done { duplicates: 4 });
    assert_eq!(park(&scene, &messages).await, Written::Done { duplicates: 6 });
    for (id, place) in [("done", "2 1"), ("dead", "1 2"), ("open", "0 3"), ("twice", "0 5"), ("fresh", "0 7")]
    {
        let found = column(&scene, "CAST(state AS text) || ' ' || CAST(record_offset AS text)", id).await;
        assert_eq!(found.as_deref(), Some(place), "{id}");
    }
    assert_eq!(column(&scene, "CAST(attempts AS text)", "open").await.as_deref(), Some("0"));
    assert_eq!(column(&scene, "class", "open").await, None);
}

/// Two at once, with the same ids in another order: each has one row, and neither fails.
pub async fn twice_at_once_is_once<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut messages: Vec<_> =
        (0..50).map(|offset| waiting(&scene, &format!("id-{offset}"), offset, Some("k"))).collect();
    let mut others = messages.clone();
    others.reverse();
    let (one, other) = tokio::join!(park(&scene, &messages), park(&scene, &others));
    let duplicates = [one, other].map(|parked| match parked {
        Written::Done { duplicates } => duplicates,
        Written::Fenced(_) => panic!("it is ours"),
    });
    assert_eq!(duplicates.iter().sum::<usize>(), 50);
    assert_eq!(scene.messages().await, 50);
    messages.truncate(1);
    assert_eq!(park(&scene, &messages).await, Written::Done { duplicates: 1 });
    assert_eq!(park(&scene, &[]).await, Written::Done { duplicates: 0 });
}

/// Redelivered, it is neither fresh nor finished, parked or started, alone or among others.
pub async fn an_open_row_is_a_conflict_for_admission<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let message = waiting(&scene, "a", 1, Some("k"));
    park(&scene, std::slice::from_ref(&message)).await;
    let again = Admit { fingerprint: message.record.fingerprint(), ..scene.admit("a", 1) };
    for _ in 0..2 {
        let open = Conflict { index: 0, state: RowState::Open, other_payload: false };
        let admitted = scene.write(&scene.admission([again])).await.expect("an answer");
        assert_eq!(admitted, Admitted::Open(vec![open]));
        let two = scene.admission([again, scene.admit("done", 9)]);
        let index = two.messages.iter().position(|other| other.id == again.id).expect("it is there");
        let Admitted::Open(conflicts) = scene.write(&two).await.expect("an answer") else {
            panic!("it is ours")
        };
        assert!(conflicts.contains(&Conflict { index, ..open }), "{conflicts:?}");
        started(&scene, "k").await;
    }
    assert_eq!(scene.messages().await, 2);
}

/// One lost partition stops the parking, and only it is named.
pub async fn another_epoch_parks_nothing<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let other = scene.take_over(4).await;
    let at = |fence: Fence, id: &str| Park { fence, ..waiting(&scene, id, 1, None) };
    let lost = foreign(other.partition);
    let messages = [at(scene.fence, "a"), at(lost, "b"), at(scene.fence, "c"), at(lost, "d")];
    assert_eq!(park(&scene, &messages).await, Written::Fenced(vec![other.partition]));
    assert_eq!(scene.messages().await, 0);
    let messages = [at(scene.fence, "a"), at(other, "b")];
    assert_eq!(park(&scene, &messages).await, Written::Done { duplicates: 0 });
    // Each is the head of its key in its own partition.
    let key = KeyId::of(None, MessageId::new("b").stored());
    assert!(matches!(start(&scene, &asked_of(&scene, key)).await, Head::None));
    let elsewhere = inbox_core::store::Start { fence: other, ..asked_of(&scene, key) };
    assert!(matches!(start(&scene, &elsewhere).await, Head::Started(_)));
    assert!(matches!(start(&scene, &asked(&scene, "a")).await, Head::None), "it has no key");
}
