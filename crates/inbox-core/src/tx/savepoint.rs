//! Savepoints: how a handler survives the error of a statement.

use std::future::Future;

use diesel::QueryResult;

use crate::failure::Failure;
use crate::store::Database;

use super::Tx;

/// What a [`Tx`] wraps: a connection that can also send what handlers may not.
pub trait Inner: Send {
    /// Sends this text as it is.
    fn control(&mut self, sql: String) -> impl Future<Output = QueryResult<()>> + Send;
}

/// A point to which the transaction can go back. If it is neither released nor rolled back to, what
/// came after it stays part of the transaction.
#[derive(Debug)]
#[must_use = "release it or roll back to it"]
pub struct Savepoint {
    number: u32,
}

impl<Db: Database> Tx<'_, Db> {
    /// Marks a point to which the transaction can go back, for a statement whose error the handler
    /// wants to survive.
    ///
    /// ```ignore
    /// let savepoint = tx.savepoint().await?;
    /// match diesel::insert_into(seats::table).values(&seat).execute(tx).await {
    ///     Ok(_) => tx.release(savepoint).await?,
    ///     Err(DatabaseError(UniqueViolation, _)) => tx.rollback_to(savepoint).await?,
    ///     Err(error) => return Err(error.into()),
    /// }
    /// ```
    ///
    /// # Errors
    /// If the database refuses it, after a statement that failed outside a savepoint, or where this
    /// batch may send only one statement per handler: it is then run again in another way.
    pub async fn savepoint(&mut self) -> Result<Savepoint, Failure> {
        // Two: the savepoint itself never is a handler's only statement.
        self.watch.count(|| "SAVEPOINT".into())?;
        let number = self.watch.statements();
        if number == 1 {
            self.watch.count(|| "SAVEPOINT".into())?;
        }
        // Rolling back forgets every error seen: there must be none from before.
        self.watch.given_up()?;
        self.control(format!("SAVEPOINT inbox_{number}")).await?;
        Ok(Savepoint { number })
    }

    /// Keeps what was done since the savepoint.
    ///
    /// # Errors
    /// If a statement since then failed: roll back to it instead.
    pub async fn release(&mut self, savepoint: Savepoint) -> Result<(), Failure> {
        self.watch.given_up()?;
        self.control(format!("RELEASE SAVEPOINT inbox_{}", savepoint.number)).await
    }

    /// Undoes what was done since the savepoint, and forgets the errors seen since.
    ///
    /// # Errors
    /// If the database refuses it, for instance since the connection is lost.
    pub async fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), Failure> {
        self.control(format!("ROLLBACK TO SAVEPOINT inbox_{}", savepoint.number)).await?;
        self.watch.forget_errors();
        Ok(())
    }

    async fn control(&mut self, sql: String) -> Result<(), Failure> {
        self.inner.control(sql).await.map_err(|error| {
            self.watch.failed(&error);
            error.into()
        })
    }
}
