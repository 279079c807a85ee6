//! Dead letters, in transactions of their own.

use std::sync::Arc;

use crate::dead_letter::DeadClass;
use crate::inbox::End;
use crate::store::{Buried, Database, within};

use super::blame::PartEnd;
use super::lane::Lane;
use super::unit::{Unit, Work};

impl<Db: Database> Lane<Db> {
    /// Buries units of one subscription in one transaction; smaller ones if it fails.
    pub(super) async fn bury_part(&mut self, mut part: Vec<Unit>) -> PartEnd {
        let subscriptions = Arc::clone(&self.subscriptions);
        let subscribed = &subscriptions[part[0].subscription];
        let letters: Vec<_> = part.iter().filter_map(|unit| unit.letter(subscribed.id)).collect();
        let limits = self.settings.limits(self.settings.time_limit);
        let (conn, used) = match self.connected().await {
            Ok(conn) => conn,
            Err(error) => return self.no_connection(part, &error).await,
        };
        match within(limits.answer(), Db::bury(conn, &limits, &letters)).await {
            Ok(Buried::Done { duplicates }) => {
                tracing::debug!(letters = letters.len(), duplicates, "buried");
                for letter in &letters {
                    tracing::error!(
                        subscription = %subscribed.runner.name(), message_id = %letter.id, place = %letter.record.place,
                        class = %letter.class, reason = letter.reason, "a message became a dead letter"
                    );
                }
                self.report(part.into_iter().map(|unit| {
                    let class = match &unit.work {
                        Work::Bury(burial) => burial.class,
                        Work::Handle(_) => DeadClass::Permanent,
                    };
                    (unit, End::Dead(class))
                }));
                PartEnd::Over
            }
            Ok(Buried::Fenced(partitions)) => {
                self.lose(&part, &partitions);
                PartEnd::Again(part)
            }
            Err(error) => {
                self.drop_connection().await;
                if used && error.is_lost() {
                    return PartEnd::Again(part);
                }
                if part.len() > 1 {
                    if error.is_lost() && !self.suspect().await {
                        return PartEnd::Outage(part);
                    }
                    let second = part.split_off(part.len() / 2);
                    return PartEnd::Split(vec![part, second]);
                }
                let Some(unit) = part.pop() else { return PartEnd::Over };
                self.strike(unit, &error, DeadClass::Unstorable).await
            }
        }
    }
}
