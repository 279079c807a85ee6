//! Dead letters, in transactions of their own.

use std::sync::Arc;

use tokio::time::Instant;

use crate::dead_letter::DeadClass;
use crate::inbox::End;
use crate::store::{Database, Written, within};

use super::blame::PartEnd;
use super::lane::Lane;
use super::unit::{Unit, Work};

impl<Db: Database> Lane<Db> {
    /// Buries units of one subscription in one transaction; smaller ones if it fails.
    pub(super) async fn bury_part(&mut self, part: Vec<Unit>) -> PartEnd {
        let subscriptions = Arc::clone(&self.subscriptions);
        let subscribed = &subscriptions[part[0].subscription];
        let letters: Vec<_> = part.iter().filter_map(|unit| unit.letter(subscribed.id)).collect();
        let limits = self.settings.limits(self.settings.time_limit);
        let (conn, used) = match self.connected().await {
            Ok(conn) => conn,
            Err(error) => return self.no_connection(part, &error).await,
        };
        let answer = match (part[0].row, letters.first()) {
            (Some(row), Some(letter)) => within(limits.answer(), Db::bury_open(conn, &limits, &row, letter))
                .await
                .map(|end| Written::of(&row, end)),
            _ => within(limits.answer(), Db::bury(conn, &limits, &letters)).await,
        };
        match answer {
            Ok(Written::Done { duplicates }) => {
                tracing::debug!(letters = letters.len(), duplicates, "buried");
                for (letter, unit) in letters.iter().zip(&part) {
                    tracing::error!(
                        subscription = %subscribed.runner.name(), message_id = %letter.id, place = %letter.record.place,
                        class = %letter.class, attempts = letter.attempts, reason = letter.reason,
                        "a message became a dead letter"
                    );
                    let place = unit.open_place();
                    // One that was to be parked before may have an open row: that answer was lost.
                    let is_open = duplicates > 0 && unit.attempt > 0;
                    // The store is asked what the key's head is: an id that had a row before has no letter.
                    // Where open rows are ahead of it the key goes on until it is the head.
                    if (letter.blocks || is_open) && unit.row.is_none() && !self.open.contains(&place) {
                        self.open_key(place, &unit.owner, Some(Instant::now()));
                    }
                }
                self.report(part.into_iter().map(|unit| {
                    let class = match &unit.work {
                        Work::Bury(burial) => burial.class,
                        Work::Handle(_) | Work::Park(_) => DeadClass::Permanent,
                    };
                    (unit, End::Dead(class))
                }));
                PartEnd::Over
            }
            Ok(Written::Fenced(partitions)) => {
                self.lose(&part, &partitions);
                PartEnd::Again(part)
            }
            Err(error) => self.not_written(part, &error, used).await,
        }
    }
}
