//! A migrated database with a subscription and a partition of ours.

use std::time::Duration;

use inbox_core::process::{Attempt, AttemptEnd};
use inbox_core::store::{
    Admission, Admit, Admitted, Fence, First, Log, Registration, StoreError, TakeOver, TransactionLimits,
};
use inbox_core::{
    Epoch, MessageId, Offset, Partition, PartitionId, StoredId, SubscriptionId, SubscriptionName, Topic,
};

use crate::dialect::Dialect;
use crate::script::{Script, Step, message};

/// Limits that no test reaches unless something hangs.
pub const LIMITS: TransactionLimits = TransactionLimits {
    statement: Duration::from_secs(20),
    lock: Duration::from_secs(20),
    idle: Duration::from_secs(30),
};

/// Limits under which a wait for a lock ends soon.
pub const IMPATIENT: TransactionLimits = TransactionLimits { lock: Duration::from_millis(200), ..LIMITS };

/// How long something that waits is watched, to see that it waits.
pub const A_WHILE: Duration = Duration::from_millis(300);

/// The consumer group of every scene.
pub const GROUP: &str = "payments";

/// A migrated database with one subscription and one partition under an epoch of ours.
pub struct Scene<D: Dialect> {
    /// Its store.
    pub store: D::Store,
    /// The subscription.
    pub subscription: SubscriptionId,
    /// The partition, under its first epoch.
    pub fence: Fence,
    // Last: the database goes when everything else has.
    database: D::Fresh,
}

impl<D: Dialect> Scene<D> {
    /// Makes it, with the table `effects (id integer primary key)` for handlers.
    pub async fn new() -> Self {
        let database = D::create().await;
        let store = D::store(&database).await;
        D::migrate(&store).await.expect("the migrations run");
        D::execute(&database, "CREATE TABLE effects (id integer PRIMARY KEY)").await;
        let mut conn = D::connect(&store).await.expect("a connection");
        let registered = D::register(&mut conn, GROUP, &[registration("payments.reserve")]).await;
        let subscription = registered.expect("a new subscription")[0];
        let asked = ownership(3, vec![subscription], 0);
        let taken = D::take_over(&mut conn, &LIMITS, &asked).await.expect("nobody else is here");
        D::discard(conn).await;
        let fence = Fence { partition: taken.partition, epoch: asked.epoch };
        Self { store, subscription, fence, database }
    }

    /// A new connection.
    pub async fn conn(&self) -> D::Conn {
        D::connect(&self.store).await.expect("a connection")
    }

    /// Another subscription, which consumes the scene's partition too.
    pub async fn subscribe(&self, name: &str) -> SubscriptionId {
        let mut conn = self.conn().await;
        D::register(&mut conn, GROUP, &[registration(name)]).await.expect("a new subscription")[0]
    }

    /// Takes this partition over for the scene's subscription; 3 is the scene's own.
    pub async fn take_over(&self, partition: i32) -> Fence {
        let mut conn = self.conn().await;
        let asked = ownership(partition, vec![self.subscription], 0);
        let taken = D::take_over(&mut conn, &LIMITS, &asked).await.expect("it is taken over");
        Fence { partition: taken.partition, epoch: asked.epoch }
    }

    /// An admission of these messages of the scene's partition, in any order.
    #[must_use]
    pub fn admission(&self, messages: impl IntoIterator<Item = Admit>) -> Admission {
        let mut messages: Vec<_> = messages.into_iter().collect();
        messages.sort_by_key(|message| message.id);
        Admission { subscription: self.subscription, fences: vec![self.fence], messages, patient: false }
    }

    /// A message of the scene's partition.
    #[must_use]
    pub fn admit(&self, id: &str, offset: i64) -> Admit {
        Admit { id: stored(id), partition: self.fence.partition, offset: Offset(offset), fingerprint: 7 }
    }

    /// An admission of messages with these ids, at the offsets 0, 1, ….
    #[must_use]
    pub fn ids<'a>(&self, ids: impl IntoIterator<Item = &'a str>) -> Admission {
        self.admission(ids.into_iter().zip(0..).map(|(id, offset)| self.admit(id, offset)))
    }

    /// Admits and commits.
    ///
    /// # Errors
    /// The store's.
    pub async fn write(&self, admission: &Admission) -> Result<Admitted, StoreError> {
        let mut conn = self.conn().await;
        let admitted = D::admit(&mut conn, &LIMITS, admission).await?;
        if matches!(admitted, Admitted::Open(_)) {
            D::commit(&mut conn).await?;
        }
        Ok(admitted)
    }

    /// Opens a transaction with a receipt for this id.
    pub async fn open(&self, conn: &mut D::Conn, id: &str) {
        let admitted = D::admit(conn, &LIMITS, &self.ids([id])).await.expect("it is admitted");
        assert_eq!(admitted, Admitted::Open(vec![]));
    }

    /// Runs a handler with these steps in the open transaction.
    pub async fn handle(&self, conn: &mut D::Conn, steps: impl IntoIterator<Item = Step>) -> AttemptEnd {
        self.handle_within(conn, steps, Duration::from_secs(20)).await
    }

    /// The same with a time limit.
    pub async fn handle_within(
        &self,
        conn: &mut D::Conn,
        steps: impl IntoIterator<Item = Step>,
        time_limit: Duration,
    ) -> AttemptEnd {
        let message = message(steps);
        D::handle_each(conn, &Script, &[&message], &Attempt { time_limit, chains: None }).await
    }

    /// Runs statements outside of the inbox.
    pub async fn sql(&self, sql: &str) {
        D::execute(&self.database, sql).await;
    }

    /// The column `value` of each row, asked outside of the inbox.
    pub async fn values(&self, sql: &str) -> Vec<Option<String>> {
        D::values(&self.database, sql).await
    }

    /// How many rows there are: `from` is a table and perhaps a condition.
    pub async fn count(&self, from: &str) -> u64 {
        let counted = self.values(&format!("SELECT CAST(count(*) AS text) AS value FROM {from}")).await;
        counted[0].as_deref().and_then(|count| count.parse().ok()).expect("a number")
    }

    /// How many messages have a row.
    pub async fn messages(&self) -> u64 {
        self.count(&D::table("messages")).await
    }
}

/// A subscription of this name.
#[must_use]
pub fn registration(name: &str) -> Registration {
    Registration {
        name: SubscriptionName::new(name),
        id_rule: "header(event-id)".into(),
        key_rule: "payload(order_id)".into(),
        first: First::Earliest,
    }
}

/// A new ownership of a partition.
#[must_use]
pub fn ownership(partition: i32, subscriptions: Vec<SubscriptionId>, first: i64) -> TakeOver {
    TakeOver {
        group: GROUP.into(),
        topic: Topic::new("orders"),
        partition: Partition(partition),
        epoch: Epoch::random(),
        raise_number_to: None,
        log: Log::default(),
        subscriptions,
        first: Offset(first),
    }
}

/// An id as the store has it.
#[must_use]
pub fn stored(id: &str) -> StoredId {
    MessageId::new(id).stored()
}

/// The same partition under an epoch that is nobody's.
#[must_use]
pub fn foreign(partition: PartitionId) -> Fence {
    Fence { partition, epoch: Epoch::random() }
}

/// Whether of this time at most a minute is over.
#[must_use]
pub fn just_begun(left: Duration, whole: Duration) -> bool {
    left <= whole && left + Duration::from_mins(1) > whole
}
