//! The topics that the group is told of: those that are named and have existed, and those that match.

use std::collections::BTreeSet;

use inbox_core::{Database, Topic};
use rdkafka::consumer::Consumer as _;

use crate::error::Error;
use crate::topics::Found;

use super::Poll;
use super::held::Held;

impl<Db: Database> Poll<'_, Db> {
    pub(super) fn subscribe(&mut self, topics: BTreeSet<Topic>) -> Result<(), Error> {
        if topics.is_empty() {
            self.consumer.unsubscribe();
        } else {
            let names: Vec<&str> = topics.iter().map(Topic::as_str).collect();
            self.consumer.subscribe(&names).map_err(Error::Client)?;
        }
        self.subscribed = topics;
        Ok(())
    }

    /// Topics came or went, or were made anew under their names.
    pub(super) fn found(&mut self, found: Found) -> Result<(), Error> {
        if self.stopping {
            return Ok(());
        }
        for (topic, id) in &found {
            self.begin_anew_unless(topic, id.as_ref());
        }
        let named = self.session.wanted.names();
        // One that is named stays, also while it is gone: leaving it out would tell nobody anything.
        let gone = self.subscribed.iter().filter(|topic| named.contains(*topic)).cloned();
        let wanted: BTreeSet<Topic> = found.into_keys().chain(gone).collect();
        if wanted == self.subscribed {
            return Ok(());
        }
        for topic in wanted.difference(&self.subscribed) {
            tracing::info!(%topic, "found");
        }
        for topic in self.subscribed.difference(&wanted) {
            tracing::warn!(%topic, "gone");
        }
        self.subscribe(wanted)
    }

    /// Partitions whose topic has another id now than at their claim begin anew, which finds out.
    fn begin_anew_unless(&mut self, topic: &Topic, id: Option<&String>) {
        let places: Vec<_> = self
            .partitions
            .iter()
            .filter(|((held, _), state)| {
                held == topic
                    && matches!(state, Held::Running(running)
                        if id.zip(running.owner.topic_id()).is_some_and(|(found, had)| found != had))
            })
            .map(|(place, _)| place.clone())
            .collect();
        for place in places {
            if !self.is_releasing(&place) {
                tracing::warn!(topic = %place.0, partition = %place.1, "the topic was made anew");
                self.halt(&place, Held::Paused);
                self.begin_claim(place);
            }
        }
    }
}
