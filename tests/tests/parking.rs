//! P3 and P5 for messages that fail for long: they are parked in the database, their key waits behind them
//! in order, everything else goes on, whatever becomes of the process.

use std::time::Duration;

use inbox_tests::job::{Act, Job};
use inbox_tests::kafka::{FreshTopic, Outgoing, Producer};
use inbox_tests::load::{Draft, notes, send};
use inbox_tests::oracle::{Ledger, Sent};
use inbox_tests::service::Service;
use inbox_tests::wait;
use inbox_tests::worker::Worker;

/// A database with a knob: handlers that [`depend`] on it fail until it is turned.
async fn scene(partitions: i32) -> (Ledger, FreshTopic) {
    let ledger = Ledger::new().await;
    ledger.execute("CREATE TABLE knob (n integer); INSERT INTO knob VALUES (0)").await;
    (ledger, FreshTopic::create(partitions).await)
}

fn depend(key: &str) -> Job {
    Job::of(key, [Act::Send("SELECT 1 / n FROM knob".into()), Act::Note])
}

async fn turn_the_knob(ledger: &Ledger) {
    ledger.execute("UPDATE knob SET n = 1").await;
}

/// One that fails, and five behind it, of the key `stuck`.
fn stuck(partition: i32, prefix: &str) -> Vec<Draft> {
    let mut drafts = vec![(partition, format!("{prefix}-0"), depend("stuck"))];
    drafts.extend((1..6).map(|n| (partition, format!("{prefix}-{n}"), Job::note("stuck"))));
    drafts
}

/// The watermark passes what is parked, and others are handled as if nothing was.
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_key_delays_no_other() {
    let (ledger, topic) = scene(1).await;
    let service = Service::new(&ledger, &topic);
    let running = service.start().await;
    let mut sent = send(&topic, &stuck(0, "a"));
    wait::until("the six are parked", async || ledger.open().await == 6).await;
    sent.extend(send(&topic, &notes("m", 10_000, 50, 1)));
    sent.extend(send(&topic, &stuck(0, "b")));
    ledger.reaches(10_000).await;
    ledger.is_passed(&topic).await;
    wait::until_is("the lag", 0, async || service.group().lag(&topic)).await;
    assert_eq!((ledger.open().await, ledger.count().await), (12, 10_000));
    for behind in ["a-1", "a-5", "b-0"] {
        assert!(running.runs.of(behind).is_empty(), "what waits is not tried");
    }

    turn_the_knob(&ledger).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    let effects = ledger.effects().await;
    assert!(effects[..10_000].iter().all(|effect| effect.attempt == 1));
    assert!(effects[10_000].attempt > 3, "the parked one's attempts go on: {:?}", effects[10_000]);
    let wide = "SELECT count(*) FROM inbox.messages WHERE payload IS NOT NULL OR raw_id IS NOT NULL \
                OR key_id IS NOT NULL OR incarnation IS NOT NULL OR due_at IS NOT NULL \
                OR first_attempt_at IS NOT NULL";
    assert_eq!(ledger.number(wide).await, 0, "a receipt is narrow, whatever it was before");
    assert_eq!(ledger.dead().await, []);
    // The key is free again: nothing of it is written twice.
    sent.extend(send(&topic, &[(0, "free".into(), Job::note("stuck"))]));
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
}

/// What is parked, and what waits behind it, is there for whoever comes next.
#[tokio::test(flavor = "multi_thread")]
async fn parked_across_a_kill_and_a_restart() {
    let (ledger, topic) = scene(2).await;
    let service = Service::new(&ledger, &topic).property("group.instance.id", "static");
    let mut sent = Vec::new();
    for life in 0..4 {
        let worker = Worker::start(&service.named(&format!("life-{life}")));
        for partition in 0..2 {
            sent.extend(send(&topic, &stuck(partition, &format!("{life}-{partition}"))));
        }
        sent.extend(send(&topic, &notes(&format!("m-{life}"), 20, 5, 2)));
        wait::until("it is parked", async || ledger.open().await == 12 * (life + 1)).await;
        ledger.reaches(20 * (life + 1)).await;
        if life % 2 == 0 { worker.kill() } else { worker.stop().await }
    }
    let attempts = "SELECT min(attempts)::bigint FROM inbox.messages WHERE state = 0 AND attempts > 0";
    assert!(ledger.number(attempts).await >= 3, "attempts are kept");
    let worker = Worker::start(&service.named("last"));
    turn_the_knob(&ledger).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert_eq!((ledger.count().await, ledger.dead().await), (sent.len(), vec![]));
    worker.stop().await;
}

/// Processes come and go while messages fail: each runs in one of them at a time, and its key in order.
#[tokio::test(flavor = "multi_thread")]
async fn parked_across_rebalances() {
    let (ledger, topic) = scene(3).await;
    // Whoever runs a message of a key while another one does fails in a way that its log shows.
    ledger
        .execute(
            "CREATE FUNCTION alone(key text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
                 IF NOT pg_try_advisory_xact_lock(7, hashtext(key)) THEN RAISE EXCEPTION 'two at once'; END IF;
                 PERFORM pg_sleep(0.03);
             END $$",
        )
        .await;
    let service =
        Service::new(&ledger, &topic).limits(|limits| limits.retry_cap = Duration::from_millis(200));
    let mut drafts = Vec::new();
    for key in 0..12 {
        for n in 0..8 {
            let alone = Act::Send(format!("SELECT alone('key-{key}')"));
            let fails = Act::FailUntil(if n % 3 == 0 { 7 } else { 1 });
            drafts.push((
                key % 3,
                format!("{key}-{n}"),
                Job::of(&format!("key-{key}"), [alone, fails, Act::Note]),
            ));
        }
    }
    let first = Worker::start(&service.named("first"));
    let sent = send(&topic, &drafts);
    wait::until("some are parked", async || ledger.open().await > 0).await;
    let second = Worker::start(&service.named("second"));
    let third = Worker::start(&service.named("third"));
    wait::until("three members", async || service.group().members().len() == 3).await;
    ledger.reaches(20).await;
    first.stop().await;
    ledger.reaches(40).await;
    let fourth = Worker::start(&service.named("fourth"));
    ledger.reaches(60).await;
    second.kill();
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert_eq!(ledger.dead().await, []);
    for worker in [&third, &fourth] {
        assert!(!worker.log().contains("two at once"), "{}", worker.log());
    }
    third.stop().await;
    fourth.stop().await;
}

/// A key whose parked messages are being finished gets no further rows, or it would never be rid of them while
/// it is busy: what comes waits in memory, and then runs as ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_drains_gets_no_further_rows() {
    let (ledger, topic) = scene(1).await;
    let running = Service::new(&ledger, &topic).start().await;
    let slow =
        |prefix: &str, n: i32| (0, format!("{prefix}-{n}"), Job::of("stuck", [Act::Sleep(30), Act::Note]));
    let mut drafts = vec![(0, "head".into(), depend("stuck"))];
    drafts.extend((0..60).map(|n| slow("early", n)));
    let mut sent = send(&topic, &drafts);
    wait::until("all are parked", async || ledger.open().await == 61).await;
    turn_the_knob(&ledger).await;
    ledger.reaches(3).await;
    sent.extend(send(&topic, &(0..40).map(|n| slow("late", n)).collect::<Vec<_>>()));
    let late = "SELECT count(*) FROM inbox.messages WHERE state = 0 AND raw_id LIKE 'late-%'";
    wait::until("all", async || {
        assert_eq!(ledger.number(late).await, 0, "they wait in memory");
        ledger.count().await == sent.len()
    })
    .await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
}

/// What waits in memory for a key that drains is written behind its next head that fails.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_drains_and_fails_again() {
    let (ledger, topic) = scene(1).await;
    let service = Service::new(&ledger, &topic);
    let running = service.start().await;
    ledger.execute("CREATE TABLE taken (id integer PRIMARY KEY); INSERT INTO taken VALUES (1)").await;
    let slow = |n: i32| (0, format!("slow-{n}"), Job::of("stuck", [Act::Sleep(30), Act::Note]));
    let mut drafts = vec![(0, "first".into(), depend("stuck"))];
    drafts.extend((0..30).map(slow));
    let again = Act::Send("INSERT INTO taken VALUES (1)".into());
    drafts.push((0, "again".into(), Job::of("stuck", [again, Act::Note])));
    let mut sent = send(&topic, &drafts);
    wait::until("all are parked", async || ledger.open().await == 32).await;
    turn_the_knob(&ledger).await;
    ledger.reaches(3).await;
    sent.extend(send(&topic, &notes("others", 50, 5, 1)));
    sent.extend(send(&topic, &[(0, "late".into(), Job::note("stuck"))]));
    ledger.reaches(81).await;
    wait::until("two wait", async || ledger.open().await == 2).await;
    ledger.is_passed(&topic).await;
    assert!(running.runs.of("late").is_empty());
    running.stop().await;
    ledger.execute("DELETE FROM taken").await;
    let running = service.start().await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
}

/// The partition is taken away between a failure and its parking: nothing is written under the old epoch.
#[tokio::test(flavor = "multi_thread")]
async fn the_partition_moves_between_a_failure_and_its_parking() {
    let (ledger, topic) = scene(1).await;
    let service = Service::new(&ledger, &topic).limits(|limits| {
        limits.in_place = 1;
        limits.max_batch = 1;
    });
    let running = service.start().await;
    let mut drafts = vec![(0, "m".into(), Job::of("key", [Act::Sleep(700), Act::FailUntil(2), Act::Note]))];
    drafts.push((0, "behind".into(), Job::note("key")));
    let sent = send(&topic, &drafts);
    wait::until("it runs", async || running.runs.of("m").len() == 1).await;
    ledger.execute("UPDATE inbox.partitions SET epoch = gen_random_uuid()").await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert_eq!(running.runs.of("m"), [1, 1, 2], "the first failure was never written down");
    running.stop().await;
}

/// A rule that stays broken: the message is given up after few attempts, and its key goes on.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_fails_too_often_is_buried_and_frees_its_key() {
    let (ledger, topic) = scene(1).await;
    ledger.execute("CREATE TABLE taken (id integer PRIMARY KEY); INSERT INTO taken VALUES (1)").await;
    let service = Service::new(&ledger, &topic).limits(|limits| limits.max_attempts = 5);
    let running = service.start().await;
    let taken = Act::Send("INSERT INTO taken VALUES (1)".into());
    let drafts = [
        (0, "broken".into(), Job::of("key", [taken, Act::Note])),
        (0, "failing".into(), Job::of("key", [Act::FailUntil(100)])),
        (0, "panicking".into(), Job::of("other", [Act::Panic])),
    ];
    let _ = send(&topic, &drafts);
    let good = send(&topic, &[(0, "behind".into(), Job::note("key")), (0, "too".into(), Job::note("other"))]);
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &good).await;
    let dead = ledger.dead().await;
    let said: Vec<_> = dead.iter().map(|letter| (&*letter.id, &*letter.class, letter.attempts)).collect();
    let expected: Vec<_> =
        [&b"broken"[..], b"failing", b"panicking"].into_iter().map(|id| (id, "exhausted", 5)).collect();
    assert_eq!(said, expected);
    for (letter, why) in dead.iter().zip(["taken_pkey", "not yet", "panicked"]) {
        assert!(letter.reason.starts_with("it failed at each of 5 attempts: "), "{}", letter.reason);
        assert!(letter.reason.contains(why), "{}", letter.reason);
        assert!(letter.payload.is_some());
    }
    assert_eq!(running.runs.of("failing"), [1, 2, 3, 4, 5]);
    running.stop().await;
}

/// A dead letter that blocks its key holds it across a restart; others go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_that_blocks_its_key() {
    let (ledger, topic) = scene(1).await;
    let service = Service::new(&ledger, &topic).subscription(|subscription| subscription.blocks = true);
    let running = service.start().await;
    let bad = |id: &str, key: &str| (0, id.to_owned(), Job::of(key, [Act::Fail("cannot be".into())]));
    // One that was never parked, one that was, and one behind open rows.
    let mut drafts =
        vec![bad("bad-0", "key-0"), (0, "fails".into(), Job::of("key-1", [Act::FailUntil(6), Act::Note]))];
    drafts.push(bad("bad-1", "key-1"));
    let _ = send(&topic, &drafts);
    let mut sent = send(&topic, &notes("m", 30, 3, 1));
    sent.extend(send(&topic, &notes("n", 30, 3, 1)));
    wait::until("both are dead", async || ledger.dead().await.len() == 2).await;
    // Of three keys one is free; and what came before the second letter.
    ledger.reaches(21).await;
    ledger.is_passed(&topic).await;
    assert_eq!((ledger.open().await, ledger.count().await), (40, 21));
    running.stop().await;

    let running = service.start().await;
    sent.extend(send(&topic, &notes("o", 30, 3, 1)));
    ledger.reaches(31).await;
    ledger.is_passed(&topic).await;
    assert_eq!((ledger.open().await, ledger.count().await), (60, 31));
    running.stop().await;

    // A person lets them go.
    ledger.execute("UPDATE inbox.messages SET blocks_key = NULL WHERE state = 1").await;
    let running = service.start().await;
    ledger.is_finished(&topic).await;
    let effects = ledger.effects().await;
    let of_notes: Vec<_> = effects.iter().filter(|effect| effect.id != "fails").collect();
    let mistakes = inbox_tests::oracle::mistakes(&of_notes, &sent);
    assert!(mistakes.is_empty(), "{mistakes}");
    running.stop().await;
}

/// What the handlers depend on is down: no more than so many keys are parked, nothing behind is tried, and
/// one parked message at a time asks whether it is up again.
#[tokio::test(flavor = "multi_thread")]
async fn too_many_failing_keys_stop_their_subscription() {
    let (ledger, topic) = scene(2).await;
    let service = Service::new(&ledger, &topic).limits(|limits| {
        limits.max_open_keys = 6;
        limits.retry_cap = Duration::from_millis(100);
        limits.max_batch = 1;
    });
    let running = service.start().await;
    let drafts: Vec<Draft> =
        (0..400).map(|n| (n % 2, format!("m-{n}"), depend(&format!("key-{}", n % 100)))).collect();
    let sent = send(&topic, &drafts);
    let keys = "SELECT count(DISTINCT key_id) FROM inbox.messages WHERE state = 0";
    wait::until("the limit", async || ledger.number(keys).await >= 6).await;
    let attempts = "SELECT coalesce(sum(attempts), 0)::bigint FROM inbox.messages WHERE state = 0";
    let before = ledger.number(attempts).await;
    wait::until("probes", async || ledger.number(attempts).await > before + 150).await;
    // Each of the four lanes may have had one more in hand.
    assert!(ledger.number(keys).await <= 6 + 4, "{} keys are parked", ledger.number(keys).await);
    assert_eq!(ledger.count().await, 0);

    turn_the_knob(&ledger).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
}

/// Whoever refused a message said when to come back.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_the_handler_asked_for() {
    let (ledger, topic) = scene(1).await;
    let service = Service::new(&ledger, &topic);
    let running = service.start().await;
    let drafts = [
        (0, "soon".into(), Job::of("soon", [Act::FailAndAsk(6, 10), Act::Note])),
        (0, "late".into(), Job::of("late", [Act::FailAndAsk(2, 3_600_000), Act::Note])),
    ];
    let sent = send(&topic, &drafts);
    ledger.reaches(1).await;
    assert_eq!(running.runs.of("soon"), [1, 2, 3, 4, 5, 6]);
    wait::until("it is parked", async || ledger.open().await == 1).await;
    let wait =
        "SELECT extract(epoch FROM due_at - last_attempt_at)::bigint FROM inbox.messages WHERE state = 0";
    assert_eq!(ledger.number(wait).await, 3600, "a long wait is not waited for in memory");
    assert_eq!(running.runs.of("late"), [1]);
    running.stop().await;
    ledger.execute("UPDATE inbox.messages SET due_at = now() WHERE state = 0").await;
    let running = service.start().await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
}

/// The process is killed while a parked message runs: it runs again, once it had its effect no more.
#[tokio::test(flavor = "multi_thread")]
async fn killed_in_the_middle_of_a_parked_message() {
    let (ledger, topic) = scene(1).await;
    let service = Service::new(&ledger, &topic).property("group.instance.id", "static");
    let started = "SELECT count(*) FROM inbox.messages WHERE state = 0 AND start_token IS NOT NULL";
    let slow = Job::of("key", [Act::FailUntil(5), Act::Note, Act::Sleep(1500)]);
    let sent = send(&topic, &[(0, "m".into(), slow), (0, "behind".into(), Job::note("key"))]);
    for life in 0..3 {
        let worker = Worker::start(&service.named(&format!("life-{life}")));
        let parked = "SELECT coalesce(max(attempts), 0)::bigint FROM inbox.messages WHERE state = 0";
        wait::until("its fifth attempt", async || {
            ledger.number(parked).await == 4 && ledger.number(started).await == 1
        })
        .await;
        worker.kill();
        assert_eq!(ledger.count().await, 0);
    }
    let worker = Worker::start(&service.named("last"));
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert_eq!(ledger.effects().await[0].attempt, 5, "an end of the process is no attempt");
    worker.stop().await;
}

/// A handler that says "something else is down", which never counts, until the knob is turned.
async fn down(ledger: &Ledger) -> Act {
    ledger
        .execute(
            "CREATE FUNCTION down() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
                 IF (SELECT n FROM knob) = 0 THEN
                     RAISE EXCEPTION 'down' USING ERRCODE = 'read_only_sql_transaction';
                 END IF;
             END $$",
        )
        .await;
    Act::Send("SELECT down()".into())
}

/// A parked message whose attempts do not count waits beside the queue: what comes for its key is parked.
#[tokio::test(flavor = "multi_thread")]
async fn a_parked_message_that_waits_uncounted_holds_no_watermark() {
    let (ledger, topic) = scene(1).await;
    let running = Service::new(&ledger, &topic).start().await;
    let acts = [Act::FailUntil(5), down(&ledger).await, Act::Note];
    let mut sent = send(&topic, &[(0, "m".into(), Job::of("key", acts))]);
    wait::until("it waits, uncounted", async || running.runs.of("m").len() > 5).await;
    sent.extend(send(&topic, &[(0, "behind".into(), Job::note("key")), (0, "other".into(), Job::note("k"))]));
    ledger.is_passed(&topic).await;
    assert_eq!((ledger.open().await, ledger.count().await), (2, 1));
    assert_eq!(running.runs.of("m")[4..].iter().max(), Some(&5));
    turn_the_knob(&ledger).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
}

/// The same while too many keys have parked messages: those are what asks whether it is up again.
#[tokio::test(flavor = "multi_thread")]
async fn parked_messages_that_wait_uncounted_are_tried_again_at_the_limit() {
    let (ledger, topic) = scene(1).await;
    let service = Service::new(&ledger, &topic).limits(|limits| limits.max_open_keys = 2);
    let running = service.start().await;
    let acts = [Act::FailUntil(5), down(&ledger).await, Act::Note];
    let mut sent = send(&topic, &["a", "b"].map(|key| (0, key.to_owned(), Job::of(key, acts.clone()))));
    for id in ["a", "b"] {
        wait::until("it waits, uncounted", async || running.runs.of(id).contains(&5)).await;
    }
    sent.extend(send(&topic, &[(0, "c".into(), Job::note("c"))]));
    turn_the_knob(&ledger).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
}

/// A letter that is not written, since its id has a row already, holds no key.
#[tokio::test(flavor = "multi_thread")]
async fn a_letter_whose_id_came_before_blocks_nothing() {
    let (ledger, topic) = scene(1).await;
    let service = Service::new(&ledger, &topic).subscription(|subscription| subscription.blocks = true);
    let running = service.start().await;
    let mut sent = send(&topic, &[(0, "twice".into(), Job::note("key"))]);
    ledger.is_finished(&topic).await;
    Producer::new(&topic).send(&[Outgoing::new(0, "twice", "key", "no JSON")]);
    sent.extend(send(&topic, &[(0, "behind".into(), Job::note("key"))]));
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert_eq!(ledger.dead().await, []);
    running.stop().await;
}

/// Parked, but each answer was lost, and then a letter cannot be written either, since there is a row: the key
/// is open all the same.
#[tokio::test(flavor = "multi_thread")]
async fn parked_without_an_answer_until_it_is_given_up() {
    let (ledger, topic) = scene(1).await;
    let service = Service::new(&ledger, &topic).limits(|limits| limits.in_place = 1);
    let running = service.start().await;
    let later = Job::of("key", [Act::FailAndAsk(2, 12_000), Act::Note]);
    let mut sent = send(&topic, &[(0, "m".into(), later)]);
    wait::until("it is parked", async || ledger.open().await == 1).await;
    ledger.is_passed(&topic).await;
    running.stop().await;
    ledger
        .execute(
            "CREATE TABLE kept AS SELECT * FROM inbox.messages; DELETE FROM inbox.messages;
             UPDATE inbox.watermarks SET watermark = 0;
             CREATE FUNCTION lost() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 IF new.state = 0 AND new.raw_id = 'm' THEN RAISE EXCEPTION 'lost'; END IF; RETURN new;
             END $$;
             CREATE TRIGGER lost BEFORE INSERT ON inbox.messages FOR EACH ROW EXECUTE FUNCTION lost()",
        )
        .await;
    let running = service.start().await;
    wait::until("it fails", async || !running.runs.of("m").is_empty()).await;
    ledger
        .execute(
            "SET session_replication_role = replica;
             INSERT INTO inbox.messages SELECT * FROM kept;
             SET session_replication_role = DEFAULT",
        )
        .await;
    sent.extend(send(&topic, &[(0, "behind".into(), Job::note("key"))]));
    ledger.is_passed(&topic).await;
    assert_eq!((ledger.open().await, ledger.count().await), (2, 0));
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
}

/// Keys that dead letters block count against the limit, but wait for a person: when what the handler depends on
/// is up again, they keep no other key from going on.
#[tokio::test(flavor = "multi_thread")]
async fn the_limit_is_left_although_many_keys_are_blocked() {
    let (ledger, topic) = scene(1).await;
    let service = Service::new(&ledger, &topic)
        .subscription(|subscription| subscription.blocks = true)
        .limits(|limits| limits.max_open_keys = 4);
    let running = service.start().await;
    let bad = |n: i32| (0, format!("bad-{n}"), Job::of(&format!("bad-{n}"), [Act::Fail("cannot be".into())]));
    let _ = send(&topic, &[bad(0), bad(1), bad(2)]);
    wait::until("three letters", async || ledger.dead().await.len() == 3).await;
    let mut sent = send(&topic, &[(0, "m".into(), depend("stuck"))]);
    wait::until("it is parked", async || ledger.open().await == 1).await;
    sent.extend(send(&topic, &notes("n", 20, 5, 1)));
    turn_the_knob(&ledger).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
}

/// What a parked message holds cannot be decoded any more: its letter counts the attempts that there were.
#[tokio::test(flavor = "multi_thread")]
async fn a_parked_message_that_cannot_be_read_again() {
    let (ledger, topic) = scene(1).await;
    let service = Service::new(&ledger, &topic);
    let running = service.start().await;
    let _ = send(&topic, &[(0, "m".into(), Job::of("key", [Act::FailAndAsk(2, 3_600_000)]))]);
    wait::until("it is parked", async || ledger.open().await == 1).await;
    running.stop().await;
    ledger.execute("UPDATE inbox.messages SET payload = 'no JSON', due_at = now() WHERE state = 0").await;
    let running = service.start().await;
    wait::until("it is dead", async || ledger.dead().await.len() == 1).await;
    let dead = ledger.dead().await;
    assert_eq!((&*dead[0].class, dead[0].attempts), ("undecodable", 1));
    let tried = "SELECT count(*) FROM inbox.messages WHERE last_attempt_at < recorded_at";
    assert_eq!(ledger.number(tried).await, 1);
    running.stop().await;
}

/// An id that comes again without a key, too, is in one lane: that of its row.
#[tokio::test(flavor = "multi_thread")]
async fn an_id_without_a_key_that_comes_again_and_again() {
    let (ledger, topic) = scene(1).await;
    let running = Service::new(&ledger, &topic).start().await;
    let job = Job::of("any", [Act::FailUntil(8), Act::Note]);
    let records: Vec<Outgoing> = (0..40).map(|_| Outgoing { key: None, ..job.outgoing(0, "m") }).collect();
    let offsets = Producer::new(&topic).send(&records);
    ledger.is_finished(&topic).await;
    // The first time it may have others in its batch, and run again uncounted.
    let later: Vec<_> = running.runs.of("m").into_iter().skip_while(|attempt| *attempt == 1).collect();
    assert_eq!(later, [2, 3, 4, 5, 6, 7, 8]);
    let sent: Vec<Sent> =
        offsets.into_iter().map(|offset| Sent { id: "m".into(), partition: 0, offset }).collect();
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
}

/// Another transaction has the id of a message that is to be parked: that is not the message's fault.
#[tokio::test(flavor = "multi_thread")]
async fn a_parking_waits_for_whoever_has_its_id() {
    let (ledger, topic) = scene(1).await;
    let service = Service::new(&ledger, &topic).limits(|limits| {
        limits.in_place = 1;
        limits.lock_timeout = Duration::from_millis(100);
    });
    let running = service.start().await;
    let id = "00000000-0000-4000-8000-000000000001";
    let sent =
        send(&topic, &[(0, id.into(), Job::of("key", [Act::Sleep(1000), Act::FailUntil(2), Act::Note]))]);
    wait::until("it runs", async || !running.runs.of(id).is_empty()).await;
    ledger
        .execute(&format!(
            "BEGIN; INSERT INTO inbox.messages (message_id, record_offset, subscription_id, partition_id, fingerprint, \
             state, outcome) SELECT '{id}', 9, subscription_id, partition_id, 0, 2, 0 FROM inbox.watermarks; \
             SELECT pg_sleep(10); ROLLBACK"
        ))
        .await;
    ledger.is_finished(&topic).await;
    assert_eq!(ledger.dead().await, []);
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
}
