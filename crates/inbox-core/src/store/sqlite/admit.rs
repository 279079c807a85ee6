//! Admit: BEGIN, fence and receipts in one go.

use diesel::sql_types::{BigInt, Binary, Integer};
use diesel::{OptionalExtension, QueryableByName, RunQueryDsl, SqliteConnection, sql_query};

use crate::failure::FailureClass;
use crate::identity::SubscriptionId;
use crate::store::{Admission, Admit, Admitted, Conflict, Prepared, RowState, StoreError, TransactionLimits};

use super::SqliteConn;
use super::fence::lost;

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Integer)]
    state: i32,
    #[diesel(sql_type = Integer)]
    fingerprint: i32,
}

/// A wait for a turn may be one for a transaction with the same id, or with any other: either way it
/// is not the messages' fault.
pub(super) async fn admit(
    conn: &mut SqliteConn,
    limits: &TransactionLimits,
    admission: &Admission,
) -> Result<Admitted, StoreError> {
    let Some(lock) = conn.wait_for_turn(limits.lock).await else {
        return Ok(Admitted::Waiting);
    };
    let admission = admission.clone();
    let admit = move |sqlite: &mut SqliteConnection| admit_all(sqlite, &admission);
    conn.keep_open(lock, admit, |admitted| matches!(admitted, Admitted::Open(_))).await
}

fn admit_all(sqlite: &mut SqliteConnection, admission: &Admission) -> Result<Admitted, StoreError> {
    let lost = lost(sqlite, &admission.fences)?;
    if !lost.is_empty() {
        return Ok(Admitted::Fenced(lost));
    }
    let mut conflicts = Vec::new();
    for (index, message) in admission.messages.iter().enumerate() {
        if insert(sqlite, admission.subscription, message)? {
            continue;
        }
        let row = find(sqlite, admission.subscription, message)?;
        // The write lock is ours: nobody can have taken the row away in between.
        let known = row.and_then(|row| Some((RowState::from_stored(row.state)?, row.fingerprint)));
        let Some((state, fingerprint)) = known else {
            let reason = "the row that an id conflicts with is not what this version knows".into();
            return Err(StoreError::Statement { class: FailureClass::Conflict, reason });
        };
        conflicts.push(Conflict { index, state, other_payload: fingerprint != message.fingerprint });
    }
    Ok(Admitted::Open(conflicts))
}

/// `true`: it is fresh. The constraint decides.
fn insert(
    sqlite: &mut SqliteConnection,
    subscription: SubscriptionId,
    message: &Admit,
) -> Result<bool, StoreError> {
    let inserted = Prepared::of(
        sql_query(
            "INSERT INTO inbox_messages \
             (message_id, record_offset, subscription_id, partition_id, fingerprint, state, outcome) \
             VALUES (?, ?, ?, ?, ?, 2, 0) ON CONFLICT (subscription_id, message_id) DO NOTHING",
        )
        .bind::<Binary, _>(message.id.as_uuid().into_bytes())
        .bind::<BigInt, _>(message.offset.0)
        .bind::<Integer, _>(subscription.0)
        .bind::<Integer, _>(message.partition.0)
        .bind::<Integer, _>(message.fingerprint),
    )
    .execute(sqlite)?;
    Ok(inserted == 1)
}

fn find(
    sqlite: &mut SqliteConnection,
    subscription: SubscriptionId,
    message: &Admit,
) -> Result<Option<Row>, StoreError> {
    let query = sql_query(
        "SELECT state, fingerprint FROM inbox_messages WHERE subscription_id = ? AND message_id = ?",
    )
    .bind::<Integer, _>(subscription.0)
    .bind::<Binary, _>(message.id.as_uuid().into_bytes());
    Ok(Prepared::of(query).get_result(sqlite).optional()?)
}
