//! Register: record subscriptions with group and rules, or find them recorded so.

use diesel::sql_types::{Integer, Text};
use diesel::{QueryableByName, sql_query};
use diesel_async::RunQueryDsl;

use crate::identity::SubscriptionId;
use crate::store::register::Recorded;
use crate::store::{RegisterError, Registration, StoreError, TransactionLimits};

use super::PgConn;
use super::commit::{commit, rollback};

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
    conn: &mut PgConn,
    group: &str,
    subscriptions: &[Registration],
) -> Result<Vec<SubscriptionId>, RegisterError> {
    conn.begin(&TransactionLimits::OWN).await?;
    let mut ids = Vec::with_capacity(subscriptions.len());
    for subscription in subscriptions {
        match register_one(conn, group, subscription).await {
            Ok(id) => ids.push(id),
            Err(refused) => {
                rollback(conn).await?;
                return Err(refused);
            }
        }
    }
    commit(conn).await?;
    Ok(ids)
}

async fn register_one(
    conn: &PgConn,
    group: &str,
    wanted: &Registration,
) -> Result<SubscriptionId, RegisterError> {
    let pg = &mut &conn.conn;
    sql_query(
        "INSERT INTO inbox.subscriptions (name, consumer_group, id_rule, key_rule) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (name) DO NOTHING",
    )
    .bind::<Text, _>(wanted.name.as_str())
    .bind::<Text, _>(group)
    .bind::<Text, _>(&wanted.id_rule)
    .bind::<Text, _>(&wanted.key_rule)
    .execute(pg)
    .await
    .map_err(StoreError::from)?;
    let row: Row =
        sql_query("SELECT id, consumer_group, id_rule, key_rule FROM inbox.subscriptions WHERE name = $1")
            .bind::<Text, _>(wanted.name.as_str())
            .get_result(pg)
            .await
            .map_err(StoreError::from)?;
    let recorded = Recorded { group: row.consumer_group, id_rule: row.id_rule, key_rule: row.key_rule };
    wanted.check(group, recorded)?;
    Ok(SubscriptionId(row.id))
}
