//! Open rows: messages that failed, and those that wait behind them (P3).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::inbox::End;
use crate::store::{Database, Written, within};

use super::blame::PartEnd;
use super::lane::Lane;
use super::queue::Kind;
use super::unit::{Unit, Work};

impl<Db: Database> Lane<Db> {
    /// Takes out the messages whose key has open rows: they are to wait behind those, not to run. Those of a key
    /// whose rows are being finished wait in memory, for as long as that goes on.
    pub(super) fn take_waiting(&mut self, part: &mut Vec<Unit>) -> Vec<Unit> {
        if self.open.is_empty() {
            return Vec::new();
        }
        let (waiting, run): (Vec<Unit>, Vec<Unit>) = std::mem::take(part)
            .into_iter()
            .partition(|unit| unit.kind() == Kind::Message && self.open.contains(&unit.open_place()));
        *part = run;
        let mut to_park: Vec<Unit> = waiting.into_iter().filter_map(|unit| self.open.hold(unit)).collect();
        for unit in &mut to_park {
            unit.turn_to_parking(None);
        }
        to_park
    }

    /// Parks units of one subscription in one transaction; smaller ones if it fails.
    pub(super) async fn park_part(&mut self, part: Vec<Unit>) -> PartEnd {
        let subscriptions = Arc::clone(&self.subscriptions);
        let subscribed = &subscriptions[part[0].subscription];
        let limits = self.settings.limits(self.settings.time_limit);
        let messages: Vec<_> = part.iter().filter_map(|unit| unit.park(subscribed.id)).collect();
        let row = part[0].row.zip(messages.first().and_then(|message| message.failed.clone()));
        let (conn, used) = match self.connected().await {
            Ok(conn) => conn,
            Err(error) => return self.no_connection(part, &error).await,
        };
        let answer = match &row {
            Some((row, failed)) => within(limits.answer(), Db::postpone(conn, &limits, row, failed))
                .await
                .map(|end| Written::of(row, end)),
            None => within(limits.answer(), Db::park(conn, &limits, &messages)).await,
        };
        match answer {
            Ok(Written::Done { duplicates }) => {
                tracing::debug!(messages = part.len(), duplicates, "parked");
                for unit in &part {
                    let wait = match &unit.work {
                        Work::Park(parking) => parking.failed.as_ref().map(|failed| failed.due_in),
                        Work::Handle(_) | Work::Bury(_) => None,
                    };
                    let place = unit.open_place();
                    // One that waits changes nothing about its key's head, if there is one.
                    if wait.is_some() || !self.open.contains(&place) {
                        let due = Instant::now().checked_add(wait.unwrap_or(Duration::ZERO));
                        self.open_key(place, &unit.owner, due);
                        self.stand_still(&place);
                    }
                }
                self.report(part.into_iter().map(|unit| (unit, End::Parked)));
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
