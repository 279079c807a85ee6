//! Bury: (none) → dead, with every byte there was (P2).

use std::time::Duration;

use inbox_core::store::{Admitted, Fence, RowState, Written};
use inbox_core::{BusinessKey, DeadClass, DeadLetter, Headers, KeyId, MessageId, Offset, Timestamp};

use crate::dialect::Dialect;
use crate::scene::{LIMITS, Scene, foreign};
use crate::script::record;

/// A letter of the scene's partition.
#[must_use]
pub fn letter<D: Dialect>(scene: &Scene<D>, id: &str, offset: i64, value: Option<&[u8]>) -> DeadLetter {
    DeadLetter {
        subscription: scene.subscription,
        fence: scene.fence,
        id: MessageId::new(id),
        key: None,
        class: DeadClass::Permanent,
        reason: "the order is over the limit".into(),
        attempts: 1,
        record: record(offset, value),
        since_first: None,
        blocks: false,
        with_bytes: true,
    }
}

async fn bury<D: Dialect>(scene: &Scene<D>, letters: &[DeadLetter]) -> Written {
    let mut conn = scene.conn().await;
    D::bury(&mut conn, &LIMITS, letters).await.expect("an answer")
}

/// A column of the letter at an offset.
async fn column<D: Dialect>(scene: &Scene<D>, column: &str, offset: i64) -> Option<String> {
    let messages = D::table("messages");
    let sql =
        format!("SELECT {column} AS value FROM {messages} WHERE record_offset = {offset} AND state = 1");
    let mut values = scene.values(&sql).await;
    assert_eq!(values.len(), 1, "one row at {offset}");
    values.remove(0)
}

/// Bytes as a column's hex shows them.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

/// NUL, broken UTF-8, a megabyte, nothing, null: in value, key, id, business key and headers.
pub async fn a_letter_keeps_every_byte<D: Dialect>() {
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
    let letters: Vec<_> = values
        .iter()
        .zip(0..)
        .map(|(value, offset)| {
            let mut letter = letter(&scene, &format!("id\0{offset}"), offset, *value);
            let mut record = record(offset, *value);
            record.key = value.map(|value| value.to_vec().into());
            record.headers = Headers::new([("na\0me", value.map(|value| value.to_vec().into()))]);
            letter.record = record;
            letter.key = value.map(BusinessKey::new);
            letter
        })
        .collect();
    assert_eq!(bury(&scene, &letters).await, Written::Done { duplicates: 0 });
    for (letter, offset) in letters.iter().zip(0..) {
        let expected = letter.record.value.as_deref().map(hex);
        for name in ["payload", "record_key", "business_key"] {
            let stored = column(&scene, &D::hex(name), offset).await;
            assert!(stored == expected, "{name} at {offset}");
        }
        let id = column(&scene, &D::hex("raw_id"), offset).await;
        assert_eq!(id, Some(hex(letter.id.as_str().as_bytes())));
        let headers = column(&scene, &D::hex("headers"), offset).await;
        assert!(headers == Some(hex(&letter.stored_headers())), "headers at {offset}");
    }
}

/// The last resort for a record that cannot be stored: where it was.
pub async fn a_letter_without_bytes_names_its_place<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut without = letter(&scene, "a", 12, Some(b"what cannot be stored"));
    without.with_bytes = false;
    without.class = DeadClass::Unstorable;
    assert_eq!(bury(&scene, &[without]).await, Written::Done { duplicates: 0 });
    assert_eq!(column(&scene, &D::hex("payload"), 12).await, None);
    assert_eq!(column(&scene, &D::hex("headers"), 12).await, None);
    assert_eq!(column(&scene, "class", 12).await.as_deref(), Some("unstorable"));
    assert_eq!(column(&scene, &D::hex("raw_id"), 12).await, Some(hex(b"a")));
}

/// A reason with NUL bytes or of any length, any timestamp, any count of attempts.
pub async fn texts_of_any_content_are_stored<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let reasons =
        ["a\0b".to_owned(), String::new(), "ä".repeat(1 << 20), "'; DROP TABLE effects; --".to_owned()];
    let times = [None, Some(-1), Some(i64::MAX), Some(i64::MIN)];
    let letters: Vec<_> = reasons
        .iter()
        .zip(times)
        .zip(DeadClass::ALL)
        .zip(0..)
        .map(|(((reason, time), class), offset)| {
            let mut letter = letter(&scene, &format!("{offset}"), offset, None);
            let mut record = record(offset, None);
            record.timestamp = time.map(Timestamp);
            letter.record = record;
            letter.reason.clone_from(reason);
            letter.class = class;
            letter.attempts = u32::MAX;
            letter
        })
        .collect();
    assert_eq!(bury(&scene, &letters).await, Written::Done { duplicates: 0 });
    assert_eq!(column(&scene, "reason", 0).await.as_deref(), Some("a\u{fffd}b"));
    for (letter, offset) in letters.iter().zip(0..) {
        assert!(column(&scene, "reason", offset).await == Some(letter.stored_reason()));
        assert_eq!(column(&scene, "class", offset).await.as_deref(), Some(letter.class.as_str()));
        let time = column(&scene, "CAST(record_time AS text)", offset).await;
        assert_eq!(time, letter.record.timestamp.map(|time| time.0.to_string()));
        let attempts = column(&scene, "CAST(attempts AS text)", offset).await;
        assert_eq!(attempts, Some(i32::MAX.to_string()));
    }
    assert_eq!(scene.count("effects").await, 0);
}

/// Which key it holds, and when it was tried.
pub async fn a_letter_names_its_key_and_its_attempts<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let tried = DeadLetter {
        since_first: Some(Duration::from_hours(1)),
        blocks: true,
        key: Some(BusinessKey::new(b"k")),
        ..letter(&scene, "tried", 1, None)
    };
    let never = DeadLetter { attempts: 0, ..letter(&scene, "never tried", 2, None) };
    let long_ago = DeadLetter { since_first: Some(Duration::MAX), ..letter(&scene, "long ago", 3, None) };
    let keys = [&tried, &never].map(|letter| KeyId::of(letter.key.as_ref(), letter.id.stored()));
    assert_eq!(bury(&scene, &[tried, never, long_ago]).await, Written::Done { duplicates: 0 });
    for (key, offset) in keys.into_iter().zip(1..) {
        let expected = key.as_uuid().simple().to_string();
        assert_eq!(column(&scene, &D::id_hex("key_id"), offset).await, Some(expected));
    }
    let time = async |name: &str, offset| {
        let time = column(&scene, &D::millis(name), offset).await;
        time.map(|time| time.parse::<i64>().expect("a number"))
    };
    let (first, last) = (time("first_attempt_at", 1).await, time("last_attempt_at", 1).await);
    assert_eq!(last.zip(first).map(|(last, first)| last - first), Some(3_600_000));
    assert_eq!((time("first_attempt_at", 2).await, time("last_attempt_at", 2).await), (None, None));
    assert!(time("first_attempt_at", 3).await < Some(0), "a hundred years ago");
    for (offset, blocks) in [(1, true), (2, false), (3, false)] {
        assert_eq!(column(&scene, "CAST(blocks_key AS text)", offset).await.is_some(), blocks);
    }
}

/// What is there, in any state, stays; so does the first of two equal ids in one burial.
pub async fn an_id_that_is_there_is_counted<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    scene.write(&scene.admission([scene.admit("done", 1)])).await.expect("an answer");
    let again = letter(&scene, "dead", 2, Some(b"first"));
    assert_eq!(bury(&scene, std::slice::from_ref(&again)).await, Written::Done { duplicates: 0 });
    let letters = [
        letter(&scene, "done", 3, None),
        again,
        letter(&scene, "twice", 6, Some(b"later")),
        letter(&scene, "twice", 5, Some(b"earlier")),
        letter(&scene, "fresh", 7, None),
    ];
    assert_eq!(bury(&scene, &letters).await, Written::Done { duplicates: 3 });
    let done = format!("{} WHERE state = 2 AND record_offset = 1", D::table("messages"));
    assert_eq!((scene.count(&done).await, scene.messages().await), (1, 4));
    assert_eq!(column(&scene, &D::hex("payload"), 2).await, Some(hex(b"first")));
    // Of two with one id the lowest offset is kept.
    assert_eq!(column(&scene, &D::hex("payload"), 5).await, Some(hex(b"earlier")));
}

/// A dead letter is not run because it comes again.
pub async fn a_letter_is_a_conflict_for_admission<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    bury(&scene, &[letter(&scene, "a", 1, None)]).await;
    let Admitted::Open(conflicts) = scene.write(&scene.ids(["a"])).await.expect("an answer") else {
        panic!("it is ours")
    };
    assert_eq!((conflicts.len(), conflicts[0].state), (1, RowState::Dead));
}

/// One lost partition stops the burial, and only it is named.
pub async fn another_epoch_buries_nothing<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let other = scene.take_over(4).await;
    let at = |fence: Fence, id: &str| DeadLetter { fence, ..letter(&scene, id, 1, None) };
    let lost = foreign(other.partition);
    let letters = [at(scene.fence, "a"), at(lost, "b"), at(scene.fence, "c"), at(lost, "d")];
    assert_eq!(bury(&scene, &letters).await, Written::Fenced(vec![other.partition]));
    assert_eq!(scene.messages().await, 0);
    let letters = [at(scene.fence, "a"), at(other, "b")];
    assert_eq!(bury(&scene, &letters).await, Written::Done { duplicates: 0 });
    let offsets = format!("{} WHERE record_offset = {}", D::table("messages"), Offset(1));
    assert_eq!(scene.count(&offsets).await, 2);
}
