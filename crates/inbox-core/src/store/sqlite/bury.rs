//! Bury: (none) → dead, in a transaction of its own.

use diesel::sql_types::{BigInt, Binary, Integer, Nullable, Text};
use diesel::{RunQueryDsl, SqliteConnection, sql_query};

use crate::dead_letter::DeadLetter;
use crate::identity::{BusinessKey, StoredId};
use crate::store::bury::{by_id, fences_of};
use crate::store::{Buried, Prepared, StoreError, TransactionLimits};

use super::SqliteConn;
use super::fence::lost;

pub(super) async fn bury(
    conn: &mut SqliteConn,
    limits: &TransactionLimits,
    letters: &[DeadLetter],
) -> Result<Buried, StoreError> {
    let letters = letters.to_vec();
    conn.transaction(limits, move |sqlite| {
        let lost = lost(sqlite, &fences_of(&letters))?;
        if !lost.is_empty() {
            return Ok(Buried::Fenced(lost));
        }
        let mut duplicates = 0;
        for (id, letter) in by_id(&letters) {
            duplicates += usize::from(!bury_one(sqlite, id, letter)?);
        }
        Ok(Buried::Done { duplicates })
    })
    .await
}

/// `false`: a row was there already.
fn bury_one(sqlite: &mut SqliteConnection, id: StoredId, letter: &DeadLetter) -> Result<bool, StoreError> {
    let record = &letter.record;
    let bytes = letter.with_bytes;
    let inserted = Prepared::of(
        sql_query(
            "INSERT INTO inbox_messages \
             (message_id, record_offset, subscription_id, partition_id, fingerprint, state, attempts, class, reason, \
              raw_id, business_key, headers, record_key, payload, record_time) \
             VALUES (?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?) \
             ON CONFLICT (subscription_id, message_id) DO NOTHING",
        )
        .bind::<Binary, _>(id.as_uuid().into_bytes())
        .bind::<BigInt, _>(record.offset().0)
        .bind::<Integer, _>(letter.subscription.0)
        .bind::<Integer, _>(letter.fence.partition.0)
        .bind::<Integer, _>(record.fingerprint())
        .bind::<Integer, _>(i32::try_from(letter.attempts).unwrap_or(i32::MAX))
        .bind::<Text, _>(letter.class.as_str())
        .bind::<Text, _>(letter.stored_reason())
        .bind::<Binary, _>(letter.id.as_str().as_bytes())
        .bind::<Nullable<Binary>, _>(letter.key.as_ref().map(BusinessKey::as_bytes))
        .bind::<Nullable<Binary>, _>(bytes.then(|| letter.stored_headers()))
        .bind::<Nullable<Binary>, _>(record.key.as_deref().filter(|_| bytes))
        .bind::<Nullable<Binary>, _>(record.value.as_deref().filter(|_| bytes))
        .bind::<Nullable<BigInt>, _>(record.timestamp.map(|time| time.0)),
    )
    .execute(sqlite)?;
    Ok(inserted == 1)
}
