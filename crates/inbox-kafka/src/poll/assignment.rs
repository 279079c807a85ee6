//! Which partitions are consumed: assigned, claimed, lost, and the database's outages (P4, P6).

use std::sync::Arc;
use std::time::Instant;

use inbox_core::Database;
use inbox_core::inbox::Owner;
use rdkafka::consumer::Consumer as _;
use rdkafka::{Offset as KafkaOffset, TopicPartitionList};

use crate::context::{Place, Rebalance};
use crate::error::Error;

use super::Poll;
use super::claim::{self, Claim, Refusal};
use super::held::{Held, Running};

impl<Db: Database> Poll<'_, Db> {
    pub(super) fn take_rebalances(&mut self) -> Result<bool, Error> {
        let rebalances = self.consumer.context().take_rebalances();
        let busy = !rebalances.is_empty();
        for rebalance in rebalances {
            match rebalance {
                Rebalance::Eager => return Err(Error::EagerStrategy),
                Rebalance::Assigned(places) => {
                    tracing::info!(partitions = places.len(), "assigned");
                    for place in places {
                        self.begin_claim(place);
                    }
                }
                Rebalance::Revoked { places, lost } => self.begin_release(places, lost),
            }
        }
        Ok(busy)
    }

    pub(super) fn begin_claim(&mut self, place: Place) {
        if self.stopping {
            return;
        }
        let number = self.number();
        let (engine, consumer) = (Arc::clone(&self.engine), Arc::downgrade(&self.consumer));
        let claiming = claim::claim(engine, consumer, self.wakes.clone(), place.clone(), number);
        self.session.runtime.spawn(claiming);
        self.partitions.insert(place, Held::Claiming(number));
    }

    pub(super) fn claimed(
        &mut self,
        place: Place,
        claim: u64,
        result: Result<Claim, Refusal>,
    ) -> Result<(), Error> {
        // Revoked, or claimed anew, in the meantime.
        if !matches!(self.partitions.get(&place), Some(Held::Claiming(current)) if *current == claim) {
            return Ok(());
        }
        let Claim { owner, recognise } = match result {
            Ok(claim) => claim,
            Err(Refusal::End(error)) => return Err(error),
            Err(Refusal::Stop { incarnation, reason }) => {
                self.stop_partition(&place, incarnation, reason);
                return Ok(());
            }
        };
        let owner = Arc::new(owner);
        // The database went down meanwhile, and the outage was told before there was anything to end.
        if !self.engine.is_up() {
            self.partitions.insert(place, Held::Paused);
            return Ok(());
        }
        let Some(mut queue) = self.consumer.split_partition_queue(place.0.as_str(), place.1.0) else {
            return Err(Error::Broken(format!("no queue for {} [{}]", place.0, place.1)));
        };
        let waker = self.wakes.waker.clone();
        queue.set_nonempty_callback(move || waker.wake());
        let running = Running::new(owner, queue, recognise);
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(place.0.as_str(), place.1.0, KafkaOffset::Offset(running.from().0))
            .and_then(|()| self.consumer.incremental_assign(&list))
            .map_err(Error::Client)?;
        tracing::info!(topic = %place.0, partition = %place.1, from = %running.owner.start(), "owned");
        self.engine.begin(&running.owner);
        self.partitions.insert(place, Held::Running(Box::new(running)));
        self.look_at_positions();
        Ok(())
    }

    /// Another epoch owns a partition of ours, or another server has it.
    pub(super) fn lost(&mut self, owner: &Arc<Owner>) {
        let place = (owner.topic().clone(), owner.partition());
        let is_it = matches!(
            self.partitions.get(&place),
            Some(Held::Running(running)) if Arc::ptr_eq(&running.owner, owner)
        );
        // One that is being given back stays as it is: unassigning it now would tell the group that all
        // of them are.
        if is_it && !self.is_releasing(&place) {
            tracing::warn!(
                topic = %place.0, partition = %place.1,
                "the ownership of this partition is over in the database: another process has it, or the server is another"
            );
            self.rest(&place);
        }
    }

    /// The same of a parked message, of which this thread knows nothing else.
    pub(super) fn parked_dropped(&mut self, owner: &Arc<Owner>) {
        let place = (owner.topic().clone(), owner.partition());
        if matches!(self.partitions.get(&place), Some(Held::Running(r)) if Arc::ptr_eq(&r.owner, owner)) {
            self.dropped(&place);
        }
    }

    /// A unit of a partition that we hold was dropped: for the sake of an outage that was over for the
    /// poll thread when the partition was claimed. It begins anew, or the unit would be missing.
    pub(super) fn dropped(&mut self, place: &Place) {
        if self.is_releasing(place) {
            return;
        }
        self.halt(place, Held::Paused);
        // Otherwise the recovery is still to come.
        if self.engine.is_up() {
            self.begin_claim(place.clone());
        }
    }

    /// About one heartbeat, in which the group tells whom it means.
    pub(super) fn rest(&mut self, place: &Place) {
        let heartbeat = self.session.config.heartbeat();
        self.halt(place, Held::Resting(Instant::now() + heartbeat));
    }

    /// Those that the group still gives us when they have rested are claimed again.
    pub(super) fn claim_rested(&mut self) {
        let now = Instant::now();
        let rested: Vec<Place> = self
            .partitions
            .iter()
            .filter(|(_, held)| matches!(held, Held::Resting(until) | Held::Stopped(until) if *until <= now))
            .map(|(place, _)| place.clone())
            .collect();
        for place in rested {
            self.begin_claim(place);
        }
    }

    /// Nothing can be finished: every ownership ends, and nothing is fetched. The member stays in
    /// its group.
    pub(super) fn outage(&mut self) {
        let running: Vec<Place> = self
            .partitions
            .iter()
            .filter(|(_, held)| matches!(held, Held::Running(_)))
            .map(|(place, _)| place.clone())
            .collect();
        for place in running {
            if !self.is_releasing(&place) {
                self.halt(&place, Held::Paused);
            }
        }
    }

    /// After an outage each partition starts as a new assignment: another server may have been
    /// promoted meanwhile.
    pub(super) fn recovered(&mut self) {
        let paused: Vec<Place> = self
            .partitions
            .iter()
            .filter(|(_, held)| matches!(held, Held::Paused))
            .map(|(place, _)| place.clone())
            .collect();
        for place in paused {
            self.begin_claim(place);
        }
    }

    /// Ends the ownership of a partition that the group still gives us.
    pub(super) fn halt(&mut self, place: &Place, next: Held) {
        let Some(Held::Running(running)) = self.partitions.insert(place.clone(), next) else { return };
        running.owner.stop();
        self.engine.sweep();
        self.unassign(std::iter::once(place));
    }

    /// Nothing is fetched of these any more. What librdkafka had prefetched is gone with it.
    pub(super) fn unassign<'p>(&self, places: impl Iterator<Item = &'p Place>) {
        let mut list = TopicPartitionList::new();
        for (topic, partition) in places {
            list.add_partition(topic.as_str(), partition.0);
        }
        if let Err(error) = self.consumer.incremental_unassign(&list) {
            tracing::warn!(%error, "partitions could not be unassigned");
        }
    }
}
