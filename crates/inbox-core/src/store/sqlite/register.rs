//! Register: record subscriptions with group and rules, or find them recorded so.

use diesel::sql_types::{Integer, Text};
use diesel::{QueryableByName, RunQueryDsl, SqliteConnection, sql_query};

use crate::identity::SubscriptionId;
use crate::store::register::Recorded;
use crate::store::{RegisterError, Registration, StoreError, TransactionLimits};

use super::SqliteConn;

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Integer)]
    id: i32,
    #[diesel(sql_type = Text)]
    consumer_group: String,
    #[diesel(sql_type = Text)]
    id_rule: String,
    #[diesel(sql_type = Text)]
    key_rule: String,
}

pub(super) async fn register(
    conn: &mut SqliteConn,
    group: &str,
    subscriptions: &[Registration],
) -> Result<Vec<SubscriptionId>, RegisterError> {
    let (group, subscriptions) = (group.to_owned(), subscriptions.to_vec());
    conn.transaction(&TransactionLimits::OWN, move |sqlite| {
        subscriptions.iter().map(|subscription| register_one(sqlite, &group, subscription)).collect()
    })
    .await
}

fn register_one(
    sqlite: &mut SqliteConnection,
    group: &str,
    wanted: &Registration,
) -> Result<SubscriptionId, RegisterError> {
    sql_query(
        "INSERT INTO inbox_subscriptions (name, consumer_group, id_rule, key_rule) VALUES (?, ?, ?, ?) \
         ON CONFLICT (name) DO NOTHING",
    )
    .bind::<Text, _>(wanted.name.as_str())
    .bind::<Text, _>(group)
    .bind::<Text, _>(&wanted.id_rule)
    .bind::<Text, _>(&wanted.key_rule)
    .execute(sqlite)
    .map_err(StoreError::from)?;
    let row: Row =
        sql_query("SELECT id, consumer_group, id_rule, key_rule FROM inbox_subscriptions WHERE name = ?")
            .bind::<Text, _>(wanted.name.as_str())
            .get_result(sqlite)
            .map_err(StoreError::from)?;
    let recorded = Recorded { group: row.consumer_group, id_rule: row.id_rule, key_rule: row.key_rule };
    wanted.check(group, recorded)?;
    Ok(SubscriptionId(row.id))
}
