//! The service: what it consumes, and what a payment does to the database.

use diesel::dsl::exists;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use inbox::{Failure, Handler, Message, Outcome, Postgres, Sqlite, Subscription, Tx};
use serde::{Deserialize, Serialize};

use crate::received::Received;
use crate::schema::{accounts, ledger};

/// The value of a record, as JSON.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Payment {
    pub(crate) account: i64,
    /// Counts the payments of this account, from 1 on.
    pub(crate) sequence: i64,
    pub(crate) cents: i64,
}

/// Books each payment on its account, once.
#[derive(Subscription)]
#[inbox(
    name = "quickstart.payments",     // durable: part of what makes a message known
    topic = self.topic.clone(),
    payload = Payment,
    id = header("event-id"),          // of two records with the same one, one takes effect
    key = payload(account),           // payments of one account take effect in order
    retry(base = "100ms", cap = "1s"), // of one that fails for now; else the first wait is 1 s, the last 10 min
    filter = self.received.watch(),   // only to count: it wants every record
)]
pub(crate) struct BookPayment {
    pub(crate) topic: String,
    pub(crate) worker: i32,
    pub(crate) received: Received,
}

/// A service has one database and writes the `impl` as it stands here, without the macro around it.
macro_rules! book_payments_in {
    ($database:ty) => {
        impl Handler<$database> for BookPayment {
            async fn handle(&self, payment: &Message<Payment>, tx: &mut Tx<'_, $database>) -> Outcome {
                let open = accounts::table.find(payment.account).filter(accounts::open);
                let found = diesel::update(open)
                    .set(accounts::cents.eq(accounts::cents + payment.cents))
                    .execute(tx)
                    .await?; // tried again, or waited out, by what kind of error it is
                if found == 0 {
                    let there = exists(accounts::table.find(payment.account));
                    return Err(if diesel::select(there).get_result(tx).await? {
                        // It waits, parked in the database, and later payments of its account behind it.
                        Failure::transient("the account is closed for now")
                    } else {
                        Failure::permanent("there is no such account") // a dead letter at once
                    });
                }
                diesel::insert_into(ledger::table)
                    .values((
                        ledger::message_id.eq(payment.id().as_str()),
                        ledger::account.eq(payment.account),
                        ledger::sequence.eq(payment.sequence),
                        ledger::kafka_partition.eq(payment.partition().0),
                        ledger::kafka_offset.eq(payment.offset().0),
                        ledger::worker.eq(self.worker),
                    ))
                    .execute(tx)
                    .await?;
                Ok(()) // committed together with the receipt that refuses this id from now on
            }
        }
    };
}

book_payments_in!(Sqlite);
book_payments_in!(Postgres);
