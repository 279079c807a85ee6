//! The store's conformance suite on `SQLite`, and what only `SQLite` has: a file that one process uses.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use diesel::Connection as _;
use diesel::connection::SimpleConnection as _;
use diesel::sqlite::SqliteConnection;
use inbox_core::process::AttemptEnd;
use inbox_core::store::{Admitted, StoreError};
use inbox_core::{Database, Sqlite, SqliteStore};
use inbox_tests::scene::{A_WHILE, IMPATIENT, LIMITS, Scene};
use inbox_tests::script::Step;
use inbox_tests::sqlite::FreshFile;
use tempfile::TempDir;
use tokio::time::{Instant, timeout};

inbox_tests::store_conformance!(inbox_core::Sqlite);

/// Opens the store in another process and waits until it has it.
fn another_process(path: &str) -> (Child, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_hold_sqlite"))
        .arg(path)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program was built with the tests");
    let mut said = String::new();
    let stdout = child.stdout.take().expect("it is piped");
    BufReader::new(stdout).read_line(&mut said).expect("it says something");
    (child, said)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_process_is_refused_until_the_first_is_gone() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("test.db");
    let path = path.to_str().expect("UTF-8");
    let (mut child, said) = another_process(path);
    assert_eq!(said.trim(), "held");
    let error = SqliteStore::connect(path).await.expect_err("the other process has it");
    assert!(matches!(error, StoreError::InUse(_)), "{error:?}");
    for part in [path, "another process", "Postgres"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    // However it is written.
    let detour = format!("sqlite://{}/../{}/test.db", folder.path().display(), folder_name(&folder));
    let error = SqliteStore::connect(&detour).await.expect_err("it is the same file");
    assert!(matches!(error, StoreError::InUse(_)), "{error:?}");
    // SIGKILL: nothing of the process cleans up.
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let store = SqliteStore::connect(path).await.expect("the lock went with the process");
    store.migrate().await.expect("it works");

    let (mut child, said) = another_process(path);
    assert!(said.contains("in use by another process"), "{said}");
    child.wait().expect("it ends by itself");
}

fn folder_name(folder: &TempDir) -> String {
    folder.path().file_name().expect("a name").to_string_lossy().into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_is_held_as_long_as_a_clone_or_a_connection_lives() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("test.db");
    let path = path.to_str().expect("UTF-8");
    let store = SqliteStore::connect(path).await.expect("a new file");
    let clone = store.clone();
    drop(store);
    SqliteStore::connect(path).await.expect_err("the clone has it");
    let conn = Sqlite::connect(&clone).await.expect("a connection");
    drop(clone);
    SqliteStore::connect(path).await.expect_err("the connection has it");
    Sqlite::discard(conn).await;
    SqliteStore::connect(path).await.expect("nobody has it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_no_database_is_refused() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("test.db");
    std::fs::write(&path, "this is no database, but it is long enough to look at ".repeat(100))
        .expect("written");
    let error = SqliteStore::connect(path.to_str().expect("UTF-8")).await.expect_err("it is no database");
    assert!(matches!(error, StoreError::Connect(_)), "{error:?}");
    assert!(error.to_string().contains("test.db"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_has_gone_is_an_outage_and_no_new_file() {
    let file = FreshFile::create().await;
    let path = file.path();
    let store = <Sqlite as inbox_tests::dialect::Dialect>::store(&file).await;
    store.migrate().await.expect("it works");
    let moved = format!("{path}.moved");
    std::fs::rename(&path, &moved).expect("it is there");
    let error = Sqlite::probe(&store).await.expect_err("the file has gone");
    assert!(error.to_string().contains("has gone"), "{error}");
    assert!(!std::fs::exists(&path).expect("an answer"));
    std::fs::rename(&moved, &path).expect("it is there");
    Sqlite::probe(&store).await.expect("it is back");
}

/// The service's own connections, or a person's shell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_is_not_of_the_inbox_is_waited_for_with_a_limit() {
    let file = FreshFile::create().await;
    let store = <Sqlite as inbox_tests::dialect::Dialect>::store(&file).await;
    store.migrate().await.expect("it works");
    let mut outside = SqliteConnection::establish(&file.path()).expect("it opens");
    outside.batch_execute("BEGIN IMMEDIATE").expect("nobody writes");
    let mut conn = Sqlite::connect(&store).await.expect("a connection");
    let since = Instant::now();
    Sqlite::bury(&mut conn, &IMPATIENT, &[]).await.expect_err("the other one writes");
    // SQLite counts whole milliseconds, and what was waited for before them is part of the limit.
    assert!(since.elapsed() + Duration::from_millis(2) >= IMPATIENT.lock);
    {
        let mut waiting = std::pin::pin!(Sqlite::bury(&mut conn, &LIMITS, &[]));
        assert!(timeout(A_WHILE, &mut waiting).await.is_err(), "it did not wait");
        outside.batch_execute("COMMIT").expect("it is open");
        waiting.await.expect("nobody writes");
    }
}

/// Readers are never held up, nor do they hold up a writer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_sees_the_last_commit_while_a_lane_writes() {
    let scene = Scene::<Sqlite>::new().await;
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
    let end = scene.handle(&mut conn, [Step::send("INSERT INTO effects (id) VALUES (1)")]).await;
    assert!(matches!(end, AttemptEnd::Done), "{end:?}");
    assert_eq!(scene.count("effects").await, 0);
    Sqlite::commit(&mut conn).await.expect("it commits");
    assert_eq!(scene.count("effects").await, 1);
}

/// Fair turns: with more lanes than the machine has cores none waits for long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lanes_take_turns() {
    let scene = std::sync::Arc::new(Scene::<Sqlite>::new().await);
    let mut lanes = tokio::task::JoinSet::new();
    for lane in 0..8 {
        let scene = std::sync::Arc::clone(&scene);
        lanes.spawn(async move {
            let mut conn = scene.conn().await;
            let mut longest = Duration::ZERO;
            for round in 0..20 {
                let since = Instant::now();
                let id = format!("{lane}-{round}");
                let admitted =
                    Sqlite::admit(&mut conn, &LIMITS, &scene.ids([&*id])).await.expect("an answer");
                assert_eq!(admitted, Admitted::Open(vec![]));
                longest = longest.max(since.elapsed());
                scene.handle(&mut conn, [Step::Wait(2)]).await;
                Sqlite::commit(&mut conn).await.expect("it commits");
            }
            longest
        });
    }
    let longest = lanes.join_all().await.into_iter().max().expect("eight lanes");
    assert_eq!(scene.messages().await, 160);
    assert!(longest < Duration::from_secs(5), "{longest:?}");
}

/// The inbox refuses a runtime of one thread; the store does not depend on that, nor does it panic
/// where its futures are dropped.
#[tokio::test]
async fn a_runtime_of_one_thread_is_no_danger() {
    let scene = Scene::<Sqlite>::new().await;
    let busy = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000) \
                INSERT INTO effects (id) SELECT max(i) FROM n";
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
    let end = scene.handle_within(&mut conn, [Step::send(busy)], Duration::from_millis(5)).await;
    assert!(matches!(end, AttemptEnd::TimedOut { .. }), "{end:?}");
    Sqlite::discard(conn).await;
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
    let end = scene.handle(&mut conn, [Step::send("INSERT INTO effects (id) VALUES (1)")]).await;
    assert!(matches!(end, AttemptEnd::Done), "{end:?}");
    Sqlite::commit(&mut conn).await.expect("it commits");
    assert_eq!(scene.count("effects").await, 1);
}

/// A runtime that shuts down drops what runs, wherever it is; the file is left in order.
#[test]
fn a_runtime_that_shuts_down_in_the_middle_leaves_nothing_open() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("test.db").to_str().expect("UTF-8").to_owned();
    for round in 0..10 {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let path = path.clone();
        runtime.spawn(async move {
            let store = SqliteStore::connect(&path).await.expect("the last runtime is gone");
            store.migrate().await.expect("it works");
            loop {
                store.migrate_down(0).await.expect("down");
                store.migrate().await.expect("up");
            }
        });
        std::thread::sleep(Duration::from_millis(20 + round * 7));
        drop(runtime);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let store = SqliteStore::connect(&path).await.expect("nobody has it");
        store.migrate().await.expect("nothing is open");
        Sqlite::probe(&store).await.expect("it is up");
    });
}
