//! What handlers do wrong, and what the database does to them: each message still has its effect once,
//! its key in order, and others go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use inbox_tests::handlers::{Count, Dependent, Move, Together};
use inbox_tests::job::{Act, Job, Runs};
use inbox_tests::kafka::{FreshTopic, Outgoing, Producer};
use inbox_tests::load::{Draft, notes, send};
use inbox_tests::oracle::{Effect, Ledger};
use inbox_tests::proxy::{Lost, Proxy};
use inbox_tests::service::{Running, Service};
use inbox_tests::wait;

async fn scene(partitions: i32) -> (Ledger, FreshTopic) {
    (Ledger::new().await, FreshTopic::create(partitions).await)
}

/// A message that fails as long as its database is not mended: nothing of it is kept, its key waits,
/// others go on. Then it has its effect, once.
async fn fails_until_mended(
    ledger: &Ledger,
    topic: &FreshTopic,
    running: &Running,
    acts: Vec<Act>,
    mend: &str,
) {
    let mut drafts = notes("before", 40, 8, 1);
    drafts.push((0, "bad".into(), Job::of("key-3", acts)));
    drafts.extend(notes("after", 40, 8, 1));
    let sent = send(topic, &drafts);
    wait::until("three attempts", async || running.runs.of("bad").iter().filter(|n| **n > 1).count() >= 3)
        .await;
    // All but the bad one and the five behind it in its key.
    ledger.reaches(75).await;
    let effects = ledger.effects().await;
    assert!(effects.iter().all(|effect| effect.id != "bad"), "nothing of it is kept");
    assert_eq!((effects.len(), ledger.receipts().await), (75, 75));

    ledger.execute(mend).await;
    ledger.reaches(81).await;
    ledger.is_finished(topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert!(attempt_of(&ledger.effects().await, "bad") > 3, "its failures were counted");
    for other in ledger.effects().await.iter().filter(|effect| effect.id != "bad") {
        assert_eq!(other.attempt, 1, "no failure of another is counted against {other:?}");
    }
    assert_eq!(ledger.dead().await, []);
}

fn attempt_of(effects: &[Effect], id: &str) -> i32 {
    effects.iter().find(|effect| effect.id == id).expect("it has its effect").attempt
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swallowed_unique_violation() {
    let (ledger, topic) = scene(1).await;
    ledger.execute("CREATE TABLE taken (id integer PRIMARY KEY); INSERT INTO taken VALUES (1)").await;
    let running = Service::new(&ledger, &topic).start().await;
    let acts = vec![Act::Note, Act::SendAndForget("INSERT INTO taken VALUES (1)".into())];
    fails_until_mended(&ledger, &topic, &running, acts, "DELETE FROM taken").await;
    running.stop().await;
}

/// The only statement of the handler, so that it runs pipelined with the others of its batch.
#[tokio::test(flavor = "multi_thread")]
async fn a_swallowed_error_of_the_only_statement() {
    let (ledger, topic) = scene(1).await;
    ledger
        .execute(
            "CREATE TABLE knob (n integer); INSERT INTO knob VALUES (0);
             CREATE FUNCTION noted() RETURNS void LANGUAGE plpgsql AS $$ DECLARE x integer; BEGIN
                 x := 1 / (SELECT n FROM knob);
                 INSERT INTO effects (subscription, message_id, business_key, topic, partition, record_offset, attempt)
                 VALUES ('jobs', 'bad', 'key-3', (SELECT min(topic) FROM effects), 0, 40, 99);
             END $$",
        )
        .await;
    let running = Service::new(&ledger, &topic).start().await;
    let acts = vec![Act::SendAndForget("SELECT noted()".into())];
    fails_until_mended(&ledger, &topic, &running, acts, "UPDATE knob SET n = 1").await;
    running.stop().await;
}

/// The error comes with a row that the handler never looks at.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_stream_dropped_early() {
    let (ledger, topic) = scene(1).await;
    ledger.execute("CREATE TABLE knob (n integer); INSERT INTO knob VALUES (0)").await;
    let running = Service::new(&ledger, &topic).start().await;
    let rows = "SELECT CASE g WHEN 60000 THEN 1 / (SELECT n FROM knob) ELSE g END AS n FROM generate_series(1, 60000) g";
    let acts = vec![Act::Note, Act::Peek(rows.into())];
    fails_until_mended(&ledger, &topic, &running, acts, "UPDATE knob SET n = 1").await;
    running.stop().await;
}

/// One bad message of many: COMMIT of the whole batch fails.
#[tokio::test(flavor = "multi_thread")]
async fn a_deferred_constraint_that_fails_at_commit() {
    let (ledger, topic) = scene(1).await;
    ledger
        .execute(
            "CREATE TABLE parents (id text PRIMARY KEY);
             CREATE TABLE children (parent text REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED);
             CREATE FUNCTION child() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 IF NEW.message_id = 'bad' THEN INSERT INTO children VALUES ('missing'); END IF;
                 RETURN NEW;
             END $$;
             CREATE TRIGGER child BEFORE INSERT ON effects FOR EACH ROW EXECUTE FUNCTION child()",
        )
        .await;
    let running = Service::new(&ledger, &topic).start().await;
    fails_until_mended(&ledger, &topic, &running, vec![Act::Note], "INSERT INTO parents VALUES ('missing')")
        .await;
    running.stop().await;
}

/// The database's own words for a deferred failure, of a kind that the driver does not know.
#[tokio::test(flavor = "multi_thread")]
async fn a_deferred_trigger_that_fails_at_commit() {
    let (ledger, topic) = scene(1).await;
    ledger
        .execute(
            "CREATE TABLE denied (id bytea); INSERT INTO denied VALUES ('bad');
             CREATE FUNCTION deny() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 IF EXISTS (SELECT FROM denied WHERE id = NEW.message_id) THEN RAISE EXCEPTION 'denied'; END IF;
                 RETURN NULL;
             END $$;
             CREATE CONSTRAINT TRIGGER deny AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED
                 FOR EACH ROW EXECUTE FUNCTION deny()",
        )
        .await;
    let running = Service::new(&ledger, &topic).start().await;
    fails_until_mended(&ledger, &topic, &running, vec![Act::Note], "DELETE FROM denied").await;
    running.stop().await;
}

/// A handler cannot end its transaction, whether it looks at the answer or not.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_by_the_handler() {
    let (ledger, topic) = scene(1).await;
    let running = Service::new(&ledger, &topic).start().await;
    let drafts: Vec<Draft> = ["COMMIT", "/* now */ rollback", "; END", "DO $$ BEGIN COMMIT; END $$", "ABORT"]
        .into_iter()
        .enumerate()
        .flat_map(|(number, sql)| {
            let looks = Job::of(&format!("looks-{number}"), [Act::Note, Act::Send(sql.into())]);
            let swallows = Job::of(
                &format!("swallows-{number}"),
                [Act::Note, Act::SendAndForget(sql.into()), Act::Note],
            );
            [(0, format!("looks-{number}"), looks), (0, format!("swallows-{number}"), swallows)]
        })
        .collect();
    let _ = send(&topic, &drafts);
    let others = send(&topic, &notes("m", 20, 5, 1));
    for (_, id, _) in &drafts {
        wait::until("three attempts", async || running.runs.of(id).len() >= 3).await;
    }
    ledger.reaches(20).await;
    ledger.assert_once_in_order("jobs", &others).await;
    assert_eq!(ledger.receipts().await, 20);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic() {
    let (ledger, topic) = scene(1).await;
    let running = Service::new(&ledger, &topic).start().await;
    let mut drafts = notes("m", 60, 6, 1);
    drafts.insert(30, (0, "bad".into(), Job::of("key-3", [Act::Note, Act::PanicUntil(4)])));
    let sent = send(&topic, &drafts);
    ledger.reaches(61).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert_eq!(attempt_of(&ledger.effects().await, "bad"), 4);
    nothing_is_left_open(&ledger).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_hangs() {
    let (ledger, topic) = scene(1).await;
    let service = Service::new(&ledger, &topic).subscription(|s| s.time_limit = Some(400));
    let running = service.start().await;
    let mut drafts = notes("m", 60, 6, 1);
    drafts.insert(30, (0, "bad".into(), Job::of("key-3", [Act::Note, Act::HangUntil(3)])));
    drafts.push((0, "in-database".into(), Job::of("asleep", [Act::Note, Act::SleepInDatabase(60_000)])));
    let sent = send(&topic, &drafts);
    ledger.reaches(61).await;
    wait::until("three attempts", async || running.runs.of("in-database").len() >= 3).await;
    let sent: Vec<_> = sent.into_iter().filter(|sent| sent.id != "in-database").collect();
    ledger.assert_once_in_order("jobs", &sent).await;
    assert_eq!(attempt_of(&ledger.effects().await, "bad"), 3);
    running.stop().await;
    nothing_is_left_open(&ledger).await;
}

/// No connection is in a transaction, or asleep in a statement, once its handler was cut off.
async fn nothing_is_left_open(ledger: &Ledger) {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
               AND pid <> pg_backend_pid() AND (state LIKE 'idle in%' OR query LIKE '%pg_sleep%' AND state = 'active')";
    wait::until("no transaction is open", async || ledger.number(sql).await == 0).await;
}

/// A dead letter keeps every byte, and releases its key.
#[tokio::test(flavor = "multi_thread")]
async fn a_permanent_failure() {
    let (ledger, topic) = scene(1).await;
    let service = Service::new(&ledger, &topic);
    let running = service.start().await;
    let bad = Job::of("key-3", [Act::Note, Act::Fail("no such\0account".into())]);
    let mut record: Outgoing = bad.outgoing(0, "bad");
    record.headers.push(("binary".into(), Some(vec![0xff, 0])));
    record.headers.push(("null".into(), None));
    record.timestamp = Some(1_234_567);
    let before = send(&topic, &notes("before", 40, 8, 1));
    let producer = Producer::new(&topic);
    let offset = producer.send(std::slice::from_ref(&record))[0];
    let after = send(&topic, &notes("after", 40, 8, 1));
    ledger.reaches(80).await;
    // A resend of what is dead is a duplicate.
    let _ = producer.send(std::slice::from_ref(&record));
    ledger.is_finished(&topic).await;

    ledger.assert_once_in_order("jobs", &[before, after].concat()).await;
    let dead = ledger.dead().await;
    let [letter] = &dead[..] else { panic!("{dead:?}") };
    assert_eq!((&*letter.id, &*letter.class, letter.offset), (&b"bad"[..], "permanent", offset));
    assert_eq!(letter.reason, "no such\u{fffd}account");
    assert_eq!(letter.key.as_deref(), Some(&b"key-3"[..]));
    assert_eq!((&letter.payload, &letter.record_key), (&record.value, &record.key));
    assert_eq!(
        letter.headers.as_deref(),
        Some(&br#"[["event-id","YmFk"],["binary","/wA="],["null",null]]"#[..])
    );
    assert_eq!((letter.attempts, letter.time), (1, Some(1_234_567)));
    assert_eq!(service.group().lag(&topic), 0);
    running.stop().await;
}

/// The key waits and keeps its order; others pass it by.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_for_a_while() {
    let (ledger, topic) = scene(1).await;
    let running = Service::new(&ledger, &topic).start().await;
    let failing = |id: &str| (0, id.to_owned(), Job::of("failing", [Act::FailUntil(6), Act::Note]));
    let mut drafts = vec![failing("first")];
    drafts.extend(notes("m", 100, 10, 1));
    drafts.push((0, "second".into(), Job::note("failing")));
    drafts.push(failing("third"));
    let sent = send(&topic, &drafts);
    ledger.reaches(103).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    // With others in its batch it may run again, uncounted.
    let attempts = |id| {
        let mut attempts = running.runs.of(id);
        attempts.dedup();
        attempts
    };
    assert_eq!(attempts("first"), [1, 2, 3, 4, 5, 6]);
    assert_eq!(attempts("second"), [1]);
    assert_eq!(attempts("third"), [1, 2, 3, 4, 5, 6]);
    let effects = ledger.effects().await;
    let of_key: Vec<_> = effects.iter().skip(100).map(|effect| &*effect.id).collect();
    assert_eq!(of_key, ["first", "second", "third"], "the others did not wait");
    running.stop().await;
}

/// The service stops while a message waits in memory for its next attempt: it is not lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_across_a_restart() {
    let (ledger, topic) = scene(1).await;
    ledger.execute("CREATE TABLE knob (n integer); INSERT INTO knob VALUES (0)").await;
    let service = Service::new(&ledger, &topic).limits(|limits| limits.in_place = 1000);
    let running = service.start().await;
    let mut drafts = notes("before", 10, 5, 1);
    drafts.push((0, "bad".into(), Job::of("key-3", [Act::Send("SELECT 1 / n FROM knob".into()), Act::Note])));
    drafts.extend(notes("after", 10, 5, 1));
    let sent = send(&topic, &drafts);
    wait::until("two attempts", async || running.runs.of("bad").len() >= 2).await;
    ledger.reaches(18).await;
    running.stop().await;
    assert_eq!(service.group().lag(&topic), 11, "the watermark waits for the message");

    ledger.execute("UPDATE knob SET n = 1").await;
    let running = service.start().await;
    ledger.reaches(21).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert!(running.runs.of("after-1").is_empty(), "what had its effect is refused by its receipt");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_of_a_batch_read_and_then_write_the_same_row() {
    counts("SELECT n FROM counter", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_of_two_lanes_lock_and_then_write_the_same_row() {
    counts("SELECT n FROM counter FOR UPDATE", 4).await;
}

async fn counts(read: &'static str, lanes: usize) {
    let (ledger, topic) = scene(1).await;
    ledger.execute("CREATE TABLE counter (n bigint); INSERT INTO counter VALUES (0)").await;
    let _ = send(&topic, &notes("m", 300, 30, 1));
    let service = Service::new(&ledger, &topic).limits(|limits| limits.lanes = lanes);
    let handler = Count { subscription: service.subscriptions[0].clone(), read };
    let running = service.start_with(service.inbox().await.handle(handler), Runs::default());
    ledger.is_finished(&topic).await;
    assert_eq!(ledger.number("SELECT n FROM counter").await, 300);
    running.stop().await;
}

/// Lanes that update the same rows in opposite order deadlock; all get through.
#[tokio::test(flavor = "multi_thread")]
async fn deadlocks_on_hot_rows_make_progress() {
    let (ledger, topic) = scene(4).await;
    ledger
        .execute("CREATE TABLE hot (id integer PRIMARY KEY, n bigint); INSERT INTO hot VALUES (1, 0), (2, 0)")
        .await;
    let sent = send(&topic, &notes("m", 400, 40, 4));
    let service = Service::new(&ledger, &topic);
    let handler = Move { subscription: service.subscriptions[0].clone() };
    let running = service.start_with(service.inbox().await.handle(handler), Runs::default());
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert_eq!(ledger.number("SELECT sum(n)::bigint FROM hot").await, 800);
    assert!(
        ledger.effects().await.iter().all(|effect| effect.attempt == 1),
        "nothing counts against a message"
    );
    assert_eq!(ledger.dead().await, []);
    running.stop().await;
}

/// The same with one statement each, so that batches are pipelined: the statement locks two rows.
#[tokio::test(flavor = "multi_thread")]
async fn deadlocks_of_pipelined_batches_make_progress() {
    let (ledger, topic) = scene(4).await;
    ledger
        .execute(
            "CREATE TABLE hot (id integer PRIMARY KEY, n bigint);
             INSERT INTO hot SELECT g, 0 FROM generate_series(0, 4) g;
             CREATE FUNCTION heat() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 UPDATE hot SET n = n + 1 WHERE id = (NEW.record_offset * 7 + NEW.partition) % 5;
                 RETURN NEW;
             END $$;
             CREATE TRIGGER heat BEFORE INSERT ON effects FOR EACH ROW EXECUTE FUNCTION heat()",
        )
        .await;
    let sent = send(&topic, &notes("m", 2000, 200, 4));
    let running = Service::new(&ledger, &topic).start().await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert_eq!(ledger.number("SELECT sum(n)::bigint FROM hot").await, 2000);
    assert!(
        ledger.effects().await.iter().all(|effect| effect.attempt == 1),
        "nothing counts against a message"
    );
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_is_lost() {
    commits_are_lost(Lost::Answer).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_never_arrives() {
    commits_are_lost(Lost::OnTheWay).await;
}

/// Whether the transaction was committed is unknown to the service; the next admission knows.
async fn commits_are_lost(lost: Lost) {
    let (ledger, topic) = scene(2).await;
    let proxy = Proxy::to(&ledger.url()).await;
    let mut service = Service::new(&ledger, &topic);
    service.database = proxy.url().to_owned();
    let running = service.start().await;
    let mut sent = send(&topic, &notes("before", 20, 10, 2));
    ledger.reaches(20).await;
    for round in 0..5 {
        proxy.lose_commits(3, lost);
        sent.extend(send(&topic, &notes(&format!("round-{round}"), 60, 10, 2)));
        wait::until("the commits are lost", async || proxy.commits_to_lose() == 0).await;
        ledger.reaches(20 + 60 * (round + 1)).await;
    }
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert!(
        ledger.effects().await.iter().all(|effect| effect.attempt == 1),
        "nothing counts against a message"
    );
    assert_eq!(ledger.dead().await, []);
    running.stop().await;
}

/// Alone in its transaction, where a failure would be judged.
#[tokio::test(flavor = "multi_thread")]
async fn one_message_alone_whose_commit_is_lost() {
    let (ledger, topic) = scene(1).await;
    let proxy = Proxy::to(&ledger.url()).await;
    let mut service =
        Service::new(&ledger, &topic).limits(|limits| limits.flush_interval = Duration::from_mins(10));
    service.database = proxy.url().to_owned();
    let running = service.start().await;
    let mut sent = send(&topic, &notes("before", 1, 1, 1));
    ledger.reaches(1).await;
    proxy.lose_commits(1, Lost::Answer);
    sent.extend(send(&topic, &[(0, "m".into(), Job::note("key-0"))]));
    sent.extend(send(&topic, &[(0, "n".into(), Job::note("key-0"))]));
    ledger.reaches(3).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
    ledger.is_finished(&topic).await;
    assert_eq!(ledger.dead().await, []);
}

/// P6: what is not the message's fault is not counted.
#[tokio::test(flavor = "multi_thread")]
async fn something_else_is_down() {
    let (ledger, topic) = scene(1).await;
    let service = Service::new(&ledger, &topic);
    let (up, runs) = (Arc::new(AtomicBool::new(false)), Runs::default());
    let handler =
        Dependent { subscription: service.subscriptions[0].clone(), up: Arc::clone(&up), runs: runs.clone() };
    let running = service.start_with(service.inbox().await.handle(handler), runs);
    let sent = send(&topic, &notes("m", 12, 3, 1));
    wait::until("it was tried", async || running.runs.of("m-0").len() >= 3).await;
    up.store(true, Ordering::Release);
    ledger.reaches(12).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert!(ledger.effects().await.iter().all(|effect| effect.attempt == 1));
    running.stop().await;
}

/// Another transaction holds the message's id for longer than a lock may be waited for.
#[tokio::test(flavor = "multi_thread")]
async fn another_transaction_holds_the_id() {
    const HELD: [&str; 2] = ["7b1c5e64-0a39-4c0f-8f0e-3f2a5d9e1c01", "7b1c5e64-0a39-4c0f-8f0e-3f2a5d9e1c02"];
    let (ledger, topic) = scene(1).await;
    let service =
        Service::new(&ledger, &topic).limits(|limits| limits.lock_timeout = Duration::from_millis(200));
    let running = service.start().await;
    let mut sent = send(&topic, &notes("before", 4, 4, 1));
    ledger.reaches(4).await;

    let other = inbox_tests::oracle::connect(&ledger.url()).await;
    for id in HELD {
        let hold = format!(
            "INSERT INTO inbox.messages (message_id, record_offset, subscription_id, partition_id, fingerprint, state, outcome) \
             SELECT '{id}', 1, id, 1, 0, 2, 0 FROM inbox.subscriptions"
        );
        other.batch_execute(&format!("BEGIN; {hold}")).await.expect("it is held");
        sent.extend(send(
            &topic,
            &[(0, id.into(), Job::note("held")), (0, format!("behind {id}"), Job::note("held"))],
        ));
        sent.extend(send(&topic, &notes(&format!("beside {id}"), 10, 5, 1)));
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        for _ in 0..4 {
            wait::until("a wait", async || ledger.number(waits).await > 0).await;
            wait::until("its end", async || ledger.number(waits).await == 0).await;
        }
        other.batch_execute(if id == HELD[0] { "ROLLBACK" } else { "COMMIT" }).await.expect("it ends");
        ledger.is_finished(&topic).await;
    }
    // Of the second id somebody else has the receipt.
    let sent: Vec<_> = sent.into_iter().filter(|sent| sent.id != HELD[1]).collect();
    ledger.assert_once_in_order("jobs", &sent).await;
    assert!(ledger.effects().await.iter().all(|effect| effect.attempt == 1), "a wait is not counted");
    assert_eq!(ledger.dead().await, []);
    running.stop().await;
}

/// Only a failure alone is judged: the others of its batch are handled.
#[tokio::test(flavor = "multi_thread")]
async fn one_bad_message_of_a_batch_handler() {
    let (ledger, topic) = scene(1).await;
    let mut drafts = notes("m", 200, 20, 1);
    for (at, id) in [(0, "bad-0"), (77, "bad-1"), (150, "bad-2"), (203, "bad-3")] {
        drafts.insert(at, (0, id.into(), Job::of("key-3", [Act::Fail("cannot be".into())])));
    }
    let sent = send(&topic, &drafts);
    let service = Service::new(&ledger, &topic).limits(|limits| limits.lanes = 1);
    let handler = Together { subscription: service.subscriptions[0].clone() };
    let running = service.start_with(service.inbox().await.handle_batch(handler), Runs::default());
    ledger.is_finished(&topic).await;
    let good: Vec<_> = sent.into_iter().filter(|sent| !sent.id.starts_with("bad")).collect();
    ledger.assert_once_in_order("jobs", &good).await;
    let dead: Vec<_> = ledger.dead().await.into_iter().map(|letter| letter.id).collect();
    assert_eq!(dead, [b"bad-0", b"bad-1", b"bad-2", b"bad-3"]);
    running.stop().await;
}
