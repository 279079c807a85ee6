//! The payments of a run: planned from a seed, so that what must come of them is known.

use std::collections::HashMap;

use fastrand::Rng;
use uuid::{Builder, Uuid};

use crate::Result;
use crate::payment::Payment;

/// How many accounts there are, numbered from 0 on.
pub(crate) const ACCOUNTS: i64 = 3_000;
/// One account in this many is closed at first.
pub(crate) const CLOSED: i64 = 100;
pub(crate) const PARTITIONS: i32 = 8;

/// One payment in this many is sent a second time.
const RESENT: u32 = 16;
/// A near resend comes within so many records, as from a sender that had no answer in time; a far
/// one, as from a sender that was started again, within half of the run.
const NEAR: u32 = 20;

/// What a value that no one can decode looks like: JSON that ends too early.
const TORN: &str = "{\"account\":7,\"sequence\":";

/// A payment under the id that its sender gave it.
pub(crate) struct Sent {
    pub(crate) id: Uuid,
    pub(crate) payment: Payment,
}

/// All that is produced.
pub(crate) struct Workload {
    pub(crate) seed: u64,
    /// Each distinct payment, in the order of its first record.
    pub(crate) payments: Vec<Sent>,
    /// In the order of sending.
    records: Vec<Planned>,
    /// Names the torn record.
    torn: Uuid,
}

#[derive(Clone, Copy)]
enum Planned {
    /// The payment at this index, for the first or second time.
    Payment(usize),
    Torn,
}

/// A record to produce.
pub(crate) struct Outgoing {
    pub(crate) partition: i32,
    pub(crate) key: String,
    pub(crate) id: String,
    pub(crate) value: String,
}

impl Workload {
    pub(crate) fn plan(seed: u64, messages: u32) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut sequences: HashMap<i64, i64> = HashMap::new();
        let payments = (0..messages).map(|_| next_payment(&mut rng, &mut sequences)).collect();

        // The n-th payment is sent at time n, a resend between two of them.
        let mut timed: Vec<(u32, Planned)> = vec![(messages / 2, Planned::Torn)];
        for (time, index) in (0..messages).zip(0..) {
            timed.push((time, Planned::Payment(index)));
            if rng.u32(0..RESENT) == 0 {
                let reach = if rng.bool() { NEAR } else { messages / 2 };
                timed.push((time + rng.u32(0..=reach), Planned::Payment(index)));
            }
        }
        // Stable: a payment is always sent before it is sent again.
        timed.sort_by_key(|(time, _)| *time);
        let records = timed.into_iter().map(|(_, planned)| planned).collect();
        Self { seed, payments, records, torn: next_id(&mut rng) }
    }

    /// All records, in the order of sending.
    pub(crate) fn records(&self) -> impl Iterator<Item = Result<Outgoing>> {
        self.records.iter().map(|planned| self.outgoing(*planned))
    }

    fn outgoing(&self, planned: Planned) -> Result<Outgoing> {
        let (id, account, value) = match planned {
            Planned::Payment(index) => {
                let Sent { id, payment } = &self.payments[index];
                (id, payment.account, serde_json::to_string(payment)?)
            }
            Planned::Torn => (&self.torn, 0, TORN.to_owned()),
        };
        Ok(Outgoing { partition: partition(account)?, key: account.to_string(), id: id.to_string(), value })
    }

    pub(crate) fn count(&self) -> usize {
        self.records.len()
    }

    /// Records that repeat an earlier one: none may have an effect.
    pub(crate) fn resends(&self) -> usize {
        self.count() - self.payments.len() - Self::UNDECODABLE
    }

    /// Records that must end as dead letters.
    pub(crate) const UNDECODABLE: usize = 1;

    /// Payments to accounts that are closed at first.
    pub(crate) fn to_closed(&self) -> usize {
        self.payments.iter().filter(|sent| sent.payment.account % CLOSED == 0).count()
    }

    /// What each account must hold in the end.
    pub(crate) fn balances(&self) -> HashMap<i64, i64> {
        let mut balances: HashMap<i64, i64> = (0..ACCOUNTS).map(|account| (account, 0)).collect();
        for Sent { payment, .. } in &self.payments {
            *balances.entry(payment.account).or_default() += payment.cents;
        }
        balances
    }
}

fn next_payment(rng: &mut Rng, sequences: &mut HashMap<i64, i64>) -> Sent {
    let account = rng.i64(0..ACCOUNTS);
    let sequence = sequences.entry(account).or_default();
    *sequence += 1;
    Sent {
        id: next_id(rng),
        payment: Payment { account, sequence: *sequence, cents: rng.i64(-5_000..=20_000) },
    }
}

fn next_id(rng: &mut Rng) -> Uuid {
    Builder::from_random_bytes(rng.u128(..).to_be_bytes()).into_uuid()
}

/// By account, so that Kafka keeps each account's order.
fn partition(account: i64) -> Result<i32> {
    Ok(i32::try_from(account)? % PARTITIONS)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn sent(workload: &Workload) -> Vec<(i32, String, String)> {
        workload
            .records()
            .map(|record| record.expect("it is plain"))
            .map(|r| (r.partition, r.id, r.value))
            .collect()
    }

    #[test]
    fn the_same_seed_makes_the_same_workload() {
        assert_eq!(sent(&Workload::plan(7, 1_000)), sent(&Workload::plan(7, 1_000)));
        assert_ne!(sent(&Workload::plan(7, 1_000)), sent(&Workload::plan(8, 1_000)));
    }

    #[test]
    fn records_are_payments_resends_and_one_that_nobody_can_decode() {
        let workload = Workload::plan(7, 10_000);
        let records = sent(&workload);
        let distinct: HashSet<_> = records.iter().map(|(_, id, _)| id).collect();
        assert_eq!(distinct.len(), 10_000 + Workload::UNDECODABLE);
        assert_eq!(records.len(), workload.count());
        assert_eq!(workload.resends(), records.len() - distinct.len());
        assert!((400..900).contains(&workload.resends()), "{}", workload.resends());
        let undecodable =
            records.iter().filter(|(_, _, value)| serde_json::from_str::<Payment>(value).is_err());
        assert_eq!(undecodable.count(), Workload::UNDECODABLE);
    }

    #[test]
    fn first_records_of_an_account_are_in_the_order_of_its_sequence() {
        let workload = Workload::plan(7, 10_000);
        let mut seen = HashSet::new();
        let mut last: HashMap<i64, i64> = HashMap::new();
        for (_, id, value) in sent(&workload) {
            let Ok(payment) = serde_json::from_str::<Payment>(&value) else { continue };
            if seen.insert(id) {
                let last = last.entry(payment.account).or_default();
                assert_eq!(payment.sequence, *last + 1);
                *last = payment.sequence;
            }
        }
    }

    #[test]
    fn one_payment_is_a_workload_too() {
        assert_eq!(Workload::plan(7, 1).payments.len(), 1);
    }
}
