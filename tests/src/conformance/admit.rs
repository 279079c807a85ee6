//! Admit: (none) → done, inside the effect's transaction; the constraint decides (P1).

use std::sync::Arc;

use inbox_core::Offset;
use inbox_core::store::{Admission, Admit, Admitted, Conflict, Park, RowState};
use tokio::time::timeout;

use crate::conformance::bury::letter;
use crate::conformance::park::{park, waiting};
use crate::dialect::Dialect;
use crate::scene::{A_WHILE, IMPATIENT, LIMITS, Scene, foreign};

/// What is true of a row that is no receipt, in any of its columns.
pub const WIDE: &str = "\
    coalesce(attempts, incarnation, record_time) IS NOT NULL OR coalesce(class, reason) IS NOT NULL \
    OR coalesce(raw_id, business_key, headers, record_key, payload) IS NOT NULL \
    OR coalesce(due_at, first_attempt_at, last_attempt_at, started_at) IS NOT NULL \
    OR coalesce(key_id, start_token) IS NOT NULL OR blocks_key IS NOT NULL";

fn conflict(index: usize, state: RowState) -> Conflict {
    Conflict { index, state, other_payload: false }
}

/// One message, and many.
pub async fn a_fresh_message_gets_a_receipt<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    assert_eq!(scene.write(&scene.ids(["a"])).await.expect("an answer"), Admitted::Open(vec![]));
    assert_eq!(scene.write(&scene.ids(["b", "c", "d"])).await.expect("an answer"), Admitted::Open(vec![]));
    let done = format!("{} WHERE state = 2 AND outcome = 0 AND fingerprint = 7", D::table("messages"));
    assert_eq!(scene.count(&done).await, 4);
}

/// The sender's resend: the same id at another offset.
pub async fn an_id_that_is_done_is_a_duplicate<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    scene.write(&scene.admission([scene.admit("a", 1)])).await.expect("an answer");
    let again = scene.write(&scene.admission([scene.admit("a", 9)])).await.expect("an answer");
    assert_eq!(again, Admitted::Open(vec![conflict(0, RowState::Done)]));
    let first = format!("{} WHERE record_offset = 1", D::table("messages"));
    assert_eq!((scene.messages().await, scene.count(&first).await), (1, 1));
}

/// Kafka's redelivery: nothing tells it from what is there, alone and among others.
pub async fn a_redelivery_of_the_same_offset_is_a_duplicate<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let one = scene.admission([scene.admit("a", 1)]);
    scene.write(&one).await.expect("an answer");
    assert_eq!(
        scene.write(&one).await.expect("an answer"),
        Admitted::Open(vec![conflict(0, RowState::Done)])
    );
    let two = scene.admission([scene.admit("a", 1), scene.admit("b", 2)]);
    let index = two.messages.iter().position(|message| message.offset == Offset(1)).expect("it is there");
    let admitted = scene.write(&two).await.expect("an answer");
    assert_eq!(admitted, Admitted::Open(vec![conflict(index, RowState::Done)]));
    let Admitted::Open(conflicts) = scene.write(&two).await.expect("an answer") else { panic!("it is ours") };
    assert_eq!(conflicts.len(), 2);
}

/// What the lanes make of it is theirs: the store only tells the state.
pub async fn a_dead_or_open_row_answers_with_its_state<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut conn = scene.conn().await;
    let dead = letter(&scene, "dead", 1, None);
    let open = Park { record: dead.record.clone(), ..waiting(&scene, "open", 2, None) };
    D::bury(&mut conn, &LIMITS, std::slice::from_ref(&dead)).await.expect("it is buried");
    park(&scene, &[open]).await;
    for (id, state) in [("dead", RowState::Dead), ("open", RowState::Open)] {
        let message = Admit { fingerprint: dead.record.fingerprint(), ..scene.admit(id, 5) };
        let one = scene.admission([message]);
        assert_eq!(scene.write(&one).await.expect("an answer"), Admitted::Open(vec![conflict(0, state)]));
        let two = scene.admission([message, scene.admit(&format!("fresh beside {id}"), 6)]);
        let index = two.messages.iter().position(|other| other.id == message.id).expect("it is there");
        assert_eq!(scene.write(&two).await.expect("an answer"), Admitted::Open(vec![conflict(index, state)]));
    }
}

/// The same id for another subscription is another message.
pub async fn another_subscription_has_messages_of_its_own<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let other = scene.subscribe("totals").await;
    let admission = scene.ids(["a", "b"]);
    scene.write(&admission).await.expect("an answer");
    let elsewhere = Admission { subscription: other, ..admission };
    assert_eq!(scene.write(&elsewhere).await.expect("an answer"), Admitted::Open(vec![]));
    assert_eq!(scene.messages().await, 4);
}

/// A sender that uses an id twice is noticed, whatever the row's state.
pub async fn another_payload_under_the_same_id_is_told<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    scene.write(&scene.ids(["a", "b"])).await.expect("an answer");
    let mut conn = scene.conn().await;
    D::bury(&mut conn, &LIMITS, &[letter(&scene, "dead", 1, Some(b"x"))]).await.expect("it is buried");
    for (id, state) in [("a", RowState::Done), ("dead", RowState::Dead)] {
        let changed = scene.admission([Admit { fingerprint: -1, ..scene.admit(id, 3) }]);
        let told = Admitted::Open(vec![Conflict { index: 0, state, other_payload: true }]);
        assert_eq!(scene.write(&changed).await.expect("an answer"), told);
    }
    let changed =
        scene.admission([scene.admit("a", 0), Admit { fingerprint: i32::MIN, ..scene.admit("b", 1) }]);
    let Admitted::Open(conflicts) = scene.write(&changed).await.expect("an answer") else {
        panic!("it is ours")
    };
    for Conflict { index, state, other_payload } in conflicts {
        assert_eq!(state, RowState::Done);
        assert_eq!(other_payload, changed.messages[index].fingerprint == i32::MIN);
    }
}

/// A batch of 500 of which each third is there.
pub async fn of_many_only_those_in_conflict_are_named<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let ids: Vec<String> = (0..500).map(|n| format!("id-{n}")).collect();
    let third = ids.iter().step_by(3).map(String::as_str);
    let there = scene.ids(third);
    scene.write(&there).await.expect("an answer");
    let all = scene.ids(ids.iter().map(String::as_str));
    let Admitted::Open(conflicts) = scene.write(&all).await.expect("an answer") else { panic!("it is ours") };
    assert_eq!(conflicts.len(), there.messages.len());
    for conflict in &conflicts {
        let id = all.messages[conflict.index].id;
        assert!(there.messages.iter().any(|message| message.id == id));
        assert_eq!((conflict.state, conflict.other_payload), (RowState::Done, false));
    }
    assert_eq!(scene.messages().await, 500);
}

/// One lost partition stops the batch, and only it is named.
pub async fn a_batch_over_two_partitions_needs_both<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let other = scene.take_over(4).await;
    let messages = [scene.admit("a", 1), Admit { partition: other.partition, ..scene.admit("b", 1) }];
    let mut fences = vec![scene.fence, other];
    fences.sort_by_key(|fence| fence.partition);
    let both = Admission { fences, ..scene.admission(messages) };
    assert_eq!(scene.write(&both).await.expect("an answer"), Admitted::Open(vec![]));

    let lost = foreign(other.partition);
    let fences = both.fences.iter().map(|fence| if *fence == other { lost } else { *fence }).collect();
    let messages = [scene.admit("c", 2), Admit { partition: other.partition, ..scene.admit("d", 2) }];
    let half = Admission { fences, ..scene.admission(messages) };
    assert_eq!(scene.write(&half).await.expect("an answer"), Admitted::Fenced(vec![other.partition]));
    assert_eq!(scene.messages().await, 2);
}

/// Two processes with the same message: one effect.
pub async fn of_two_at_once_the_second_waits_and_is_a_duplicate<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    for batch in [&["a"][..], &["b", "c"][..]] {
        let admission = scene.ids(batch.iter().copied());
        let (mut first, mut second) = (scene.conn().await, scene.conn().await);
        assert_eq!(
            D::admit(&mut first, &LIMITS, &admission).await.expect("an answer"),
            Admitted::Open(vec![])
        );
        let answer = {
            let mut waiting = std::pin::pin!(D::admit(&mut second, &LIMITS, &admission));
            assert!(timeout(A_WHILE, &mut waiting).await.is_err(), "it did not wait");
            D::commit(&mut first).await.expect("it was there first");
            waiting.await.expect("an answer")
        };
        let all = (0..batch.len()).map(|index| conflict(index, RowState::Done)).collect();
        assert_eq!(answer, Admitted::Open(all));
        D::rollback(&mut second).await.expect("it is open");
    }
}

/// The first one's effect did not happen, so the second one's must.
pub async fn after_a_rollback_of_the_first_the_second_is_fresh<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    for batch in [&["a"][..], &["b", "c"][..]] {
        let admission = scene.ids(batch.iter().copied());
        let (mut first, mut second) = (scene.conn().await, scene.conn().await);
        D::admit(&mut first, &LIMITS, &admission).await.expect("an answer");
        let answer = {
            let mut waiting = std::pin::pin!(D::admit(&mut second, &LIMITS, &admission));
            assert!(timeout(A_WHILE, &mut waiting).await.is_err(), "it did not wait");
            D::rollback(&mut first).await.expect("it is open");
            waiting.await.expect("an answer")
        };
        assert_eq!(answer, Admitted::Open(vec![]));
        D::commit(&mut second).await.expect("it is alone");
    }
    assert_eq!(scene.messages().await, 3);
}

/// Waiting for another transaction is not the message's fault, and the answer says so.
pub async fn a_patient_one_is_told_that_it_waits<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let (mut first, mut second) = (scene.conn().await, scene.conn().await);
    scene.open(&mut first, "a").await;
    let patient = Admission { patient: true, ..scene.ids(["a"]) };
    assert_eq!(D::admit(&mut second, &IMPATIENT, &patient).await.expect("an answer"), Admitted::Waiting);
    D::rollback(&mut first).await.expect("it is open");
    // No transaction was left open on the connection.
    assert_eq!(D::admit(&mut second, &IMPATIENT, &patient).await.expect("an answer"), Admitted::Open(vec![]));
    D::commit(&mut second).await.expect("it commits");
    let again = D::admit(&mut second, &IMPATIENT, &patient).await.expect("an answer");
    assert_eq!(again, Admitted::Open(vec![conflict(0, RowState::Done)]));
    D::rollback(&mut second).await.expect("it is open");
}

/// Sorted batches take their locks in the same order.
pub async fn overlapping_batches_do_not_deadlock<D: Dialect>() {
    const WORKERS: usize = 4;
    const ROUNDS: usize = 15;
    let scene = Arc::new(Scene::<D>::new().await);
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..WORKERS {
        let scene = Arc::clone(&scene);
        workers.spawn(async move {
            let mut conn = scene.conn().await;
            let mut fresh = 0;
            for round in 0..ROUNDS {
                // Each worker has most ids of its neighbours, in another order.
                let mut ids: Vec<String> = (0..20).map(|n| format!("{round}-{}", n + worker * 3)).collect();
                ids.rotate_left(worker * 5);
                let admission = scene.ids(ids.iter().map(String::as_str));
                let admitted = D::admit(&mut conn, &LIMITS, &admission).await.expect("no deadlock");
                let Admitted::Open(conflicts) = admitted else { panic!("{admitted:?}") };
                fresh += admission.messages.len() - conflicts.len();
                D::commit(&mut conn).await.expect("it commits");
            }
            fresh
        });
    }
    let fresh: usize = workers.join_all().await.into_iter().sum();
    assert_eq!(fresh as u64, scene.messages().await);
    assert_eq!(fresh, ROUNDS * (20 + (WORKERS - 1) * 3));
}

/// Receipts are the mass: they are as narrow as they can be.
pub async fn a_receipt_uses_no_column_of_a_letter<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    scene.write(&scene.ids(["a"])).await.expect("an answer");
    scene.write(&scene.ids(["b", "c"])).await.expect("an answer");
    assert_eq!(scene.count(&format!("{} WHERE {WIDE}", D::table("messages"))).await, 0);
    assert_eq!(scene.messages().await, 3);
}

/// A duplicate is reported as finished: a zombie must not do that either.
pub async fn a_batch_of_nothing_fresh_still_checks_the_epoch<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let admission = scene.ids(["a", "b"]);
    scene.write(&admission).await.expect("an answer");
    let stale = Admission { fences: vec![foreign(scene.fence.partition)], ..admission };
    let answer = scene.write(&stale).await.expect("an answer");
    assert_eq!(answer, Admitted::Fenced(vec![scene.fence.partition]));
}
