//! A handler in plain diesel: its code is the same for each database, its types are not.

/// Makes the handler `PlainDiesel` for one database, and a test of it.
#[macro_export]
macro_rules! plain_diesel {
    ($db:ty) => {
        mod plain_diesel {
            diesel::table! {
                accounts (id) {
                    id -> Integer,
                    cents -> BigInt,
                    owner -> Nullable<Text>,
                }
            }

            /// Inserts, updates, loads, counts and deletes.
            struct PlainDiesel;

            impl inbox_core::Subscription for PlainDiesel {
                type Payload = i32;

                fn definition(&self) -> inbox_core::Definition<i32> {
                    inbox_core::Definition::new("plain", inbox_core::Json)
                }
            }

            impl inbox_core::Handler<$db> for PlainDiesel {
                async fn handle(
                    &self,
                    message: &inbox_core::Message<i32>,
                    tx: &mut inbox_core::Tx<'_, $db>,
                ) -> inbox_core::Outcome {
                    use diesel::prelude::*;
                    use diesel_async::RunQueryDsl;

                    let id = *message.payload();
                    let row = (accounts::id.eq(id), accounts::cents.eq(5), accounts::owner.eq(Some("Ada")));
                    diesel::insert_into(accounts::table).values(row).execute(tx).await?;
                    let changed = diesel::update(accounts::table.find(id))
                        .set(accounts::cents.eq(accounts::cents + 37))
                        .execute(tx)
                        .await?;
                    assert_eq!(changed, 1);
                    let found: (i64, Option<String>) =
                        accounts::table.find(id).select((accounts::cents, accounts::owner)).first(tx).await?;
                    assert_eq!(found, (42, Some("Ada".to_owned())));
                    let none: Option<i32> = accounts::table
                        .filter(accounts::id.eq(-1))
                        .select(accounts::id)
                        .first(tx)
                        .await
                        .optional()?;
                    assert_eq!(none, None);
                    let all: Vec<i32> = accounts::table
                        .filter(accounts::id.eq_any([id, -2]))
                        .select(accounts::id)
                        .load(tx)
                        .await?;
                    assert_eq!(all, [id]);
                    let count: i64 = accounts::table.count().get_result(tx).await?;
                    assert!(count >= 1);
                    let deleted =
                        diesel::delete(accounts::table.filter(accounts::id.eq(-3))).execute(tx).await?;
                    assert_eq!(deleted, 0);
                    assert_eq!(tx.statements(), 7);
                    Ok(())
                }
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_handler_in_plain_diesel_works() {
                use inbox_core::Database as _;

                let scene = $crate::scene::Scene::<$db>::new().await;
                scene
                    .sql("CREATE TABLE accounts (id integer PRIMARY KEY, cents bigint NOT NULL, owner text)")
                    .await;
                let mut conn = scene.conn().await;
                scene.open(&mut conn, "a").await;
                let messages = [1, 2, 3].map($crate::script::message_of);
                let messages: Vec<_> = messages.iter().collect();
                let time_limit = std::time::Duration::from_secs(20);
                let attempt = inbox_core::process::Attempt { time_limit, chains: None };
                let end = <$db>::handle_each(&mut conn, &PlainDiesel, &messages, &attempt).await;
                assert!(matches!(end, inbox_core::process::AttemptEnd::Done), "{end:?}");
                <$db>::commit(&mut conn).await.expect("it commits");
                assert_eq!(scene.count("accounts WHERE cents = 42").await, 3);
            }
        }
    };
}
