//! What was produced against what the database says.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use crate::database::Effect;
use crate::received::FirstOffsets;
use crate::workload::Workload;

/// What the run has found at its end.
pub(crate) struct Evidence {
    /// In the order in which they happened.
    pub(crate) effects: Vec<Effect>,
    pub(crate) balances: HashMap<i64, i64>,
    pub(crate) dead: usize,
    pub(crate) finished: usize,
    /// Parked while accounts were closed.
    pub(crate) parked: usize,
    /// Of the worker that was started after the kill.
    pub(crate) first_offsets: FirstOffsets,
}

/// What became of every message.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Audit {
    /// Produced: payments, resends, and what nobody can decode.
    pub(crate) records: usize,
    /// Different payments among them.
    pub(crate) distinct: usize,
    /// Records that the inbox finished and that never had an effect, because another one had their id.
    pub(crate) duplicates: usize,
    /// Records that Kafka delivered again after the kill although their effect was there.
    pub(crate) redelivered: usize,
    /// Rows in the ledger.
    pub(crate) effects: usize,
    /// Payments that waited in the database until their account was opened.
    pub(crate) parked: usize,
    /// Dead letters.
    pub(crate) dead: usize,
    /// Payments without an effect.
    pub(crate) lost: usize,
    /// Payments with more than one.
    pub(crate) doubled: usize,
    /// Effects that came after one of the same account with a higher sequence number.
    pub(crate) out_of_order: usize,
    /// Accounts that do not hold the sum of their payments.
    #[serde(skip)]
    pub(crate) wrong_balances: usize,
    #[serde(skip)]
    expected: Expected,
}

#[derive(Debug, PartialEq, Eq)]
struct Expected {
    duplicates: usize,
    unfinished: usize,
    parked: usize,
}

impl Audit {
    pub(crate) fn of(workload: &Workload, evidence: &Evidence) -> Self {
        let Evidence { effects, balances, dead, finished, parked, first_offsets } = evidence;
        let mut times: HashMap<&str, usize> = HashMap::new();
        for effect in effects {
            *times.entry(&effect.message_id).or_default() += 1;
        }
        let places: HashSet<_> =
            effects.iter().map(|effect| (effect.kafka_partition, effect.kafka_offset)).collect();
        let lost = workload.payments.iter().filter(|sent| !times.contains_key(&*sent.id.to_string())).count();
        Self {
            records: workload.count(),
            distinct: workload.payments.len(),
            duplicates: finished.saturating_sub(places.len() + dead + lost),
            redelivered: effects.iter().filter(|effect| came_again(effect, first_offsets)).count(),
            effects: effects.len(),
            parked: *parked,
            dead: *dead,
            lost,
            doubled: times.values().filter(|times| **times > 1).count(),
            out_of_order: count_out_of_order(effects),
            wrong_balances: count_wrong(&workload.balances(), balances),
            expected: Expected {
                duplicates: workload.resends(),
                unfinished: workload.count().saturating_sub(*finished),
                parked: workload.to_closed(),
            },
        }
    }

    /// Every promise that was not kept, in words.
    pub(crate) fn broken(&self) -> Vec<String> {
        let Expected { duplicates, unfinished, parked } = self.expected;
        let undecodable = Workload::UNDECODABLE;
        [
            (unfinished > 0, format!("{unfinished} records were not finished")),
            (self.lost > 0, format!("{} payments are lost", self.lost)),
            (self.doubled > 0, format!("{} payments took effect more than once", self.doubled)),
            (self.effects != self.distinct, format!("{} effects, not {}", self.effects, self.distinct)),
            (self.out_of_order > 0, format!("{} payments took effect out of order", self.out_of_order)),
            (
                self.duplicates != duplicates,
                format!("{} duplicates refused, not {duplicates}", self.duplicates),
            ),
            (self.parked != parked, format!("{} payments were parked, not {parked}", self.parked)),
            (self.dead != undecodable, format!("{} dead letters, not {undecodable}", self.dead)),
            (
                self.wrong_balances > 0,
                format!("{} balances are not the sum of their payments", self.wrong_balances),
            ),
        ]
        .into_iter()
        .filter_map(|(broken, words)| broken.then_some(words))
        .collect()
    }
}

/// The effect is of the first worker, and the second one received its record too.
fn came_again(effect: &Effect, first_offsets: &FirstOffsets) -> bool {
    let first = first_offsets.get(&effect.kafka_partition);
    effect.worker == 1 && first.is_some_and(|first| effect.kafka_offset >= *first)
}

fn count_out_of_order(effects: &[Effect]) -> usize {
    let mut highest: HashMap<i64, i64> = HashMap::new();
    let mut late = 0;
    for effect in effects {
        let highest = highest.entry(effect.account).or_default();
        if effect.sequence < *highest {
            late += 1;
        }
        *highest = effect.sequence.max(*highest);
    }
    late
}

fn count_wrong(expected: &HashMap<i64, i64>, found: &HashMap<i64, i64>) -> usize {
    let accounts: HashSet<_> = expected.keys().chain(found.keys()).collect();
    accounts.into_iter().filter(|account| expected.get(account) != found.get(account)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload() -> Workload {
        Workload::plan(7, 1_000)
    }

    /// As it should be: the first half before the kill, the rest after it, some records delivered
    /// again.
    fn good(workload: &Workload) -> Evidence {
        let effects = workload.payments.iter().zip(0..).map(|(sent, index)| Effect {
            message_id: sent.id.to_string(),
            account: sent.payment.account,
            sequence: sent.payment.sequence,
            kafka_partition: 0,
            kafka_offset: index,
            worker: if index < 500 { 1 } else { 2 },
        });
        Evidence {
            effects: effects.collect(),
            balances: workload.balances(),
            dead: 1,
            finished: workload.count(),
            parked: workload.to_closed(),
            first_offsets: FirstOffsets::from([(0, 480)]),
        }
    }

    fn audit(change: impl FnOnce(&mut Evidence)) -> Audit {
        let workload = workload();
        let mut evidence = good(&workload);
        change(&mut evidence);
        Audit::of(&workload, &evidence)
    }

    #[test]
    fn a_good_run_breaks_nothing() {
        let audit = audit(|_| {});
        assert_eq!(audit.broken(), Vec::<String>::new());
        assert_eq!((audit.effects, audit.dead, audit.redelivered), (1_000, 1, 20));
        assert_eq!(audit.duplicates, workload().resends());
    }

    #[test]
    fn what_is_missing_is_lost() {
        let audit = audit(|evidence| drop(evidence.effects.remove(17)));
        assert_eq!((audit.lost, audit.doubled, audit.duplicates), (1, 0, workload().resends()));
        assert!(!audit.broken().is_empty());
    }

    #[test]
    fn a_record_that_takes_effect_again_is_doubled() {
        let audit = audit(|evidence| {
            let again = evidence.effects[17].clone();
            evidence.effects.push(again);
        });
        assert_eq!((audit.lost, audit.doubled, audit.duplicates), (0, 1, workload().resends()));
        assert!(!audit.broken().is_empty());
    }

    #[test]
    fn a_resend_that_takes_effect_is_doubled_and_was_not_refused() {
        let audit = audit(|evidence| {
            let again = Effect { kafka_offset: 100_000, ..evidence.effects[17].clone() };
            evidence.effects.push(again);
        });
        assert_eq!((audit.lost, audit.doubled, audit.duplicates), (0, 1, workload().resends() - 1));
        assert!(!audit.broken().is_empty());
    }

    #[test]
    fn two_effects_of_one_account_that_changed_places_are_out_of_order() {
        let audit = audit(|evidence| {
            let effects = &mut evidence.effects;
            let second = effects.iter().position(|effect| effect.sequence == 2).expect("an account has two");
            let first = effects.iter().position(|effect| effect.account == effects[second].account);
            effects.swap(first.expect("it has a first one"), second);
        });
        assert_eq!((audit.out_of_order, audit.lost, audit.doubled), (1, 0, 0));
        assert_eq!(audit.broken().len(), 1);
    }

    #[test]
    fn balances_dead_letters_and_unfinished_records_are_checked() {
        assert_eq!(audit(|evidence| *evidence.balances.entry(3).or_default() += 1).wrong_balances, 1);
        assert_eq!(audit(|evidence| evidence.balances.retain(|account, _| *account != 3)).wrong_balances, 1);
        assert!(!audit(|evidence| evidence.dead = 0).broken().is_empty());
        assert!(!audit(|evidence| evidence.finished -= 1).broken().is_empty());
        assert!(!audit(|evidence| evidence.parked -= 1).broken().is_empty());
    }
}
