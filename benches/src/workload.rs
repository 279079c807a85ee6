//! What is on the topic, and what must be in the database once a prefix of it has taken effect.
//!
//! The plan follows from seed and number alone, so the process that produces and the processes that
//! check need not tell each other anything.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub(crate) const PARTITIONS: u32 = 8;
pub(crate) const ACCOUNTS: u32 = 10_000;

/// The bytes of a record's value.
const VALUE_LENGTH: usize = 256;
/// One record in this many is a resend: 5 %.
const RESEND_ONE_IN: u64 = 20;
/// A resend repeats one of this many records sent before it in its partition.
const RESEND_WITHIN: usize = 1_000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    pub(crate) seed: u64,
    pub(crate) records: u32,
}

/// How many records of each partition, from its first on.
pub(crate) type Prefix = [u32; PARTITIONS as usize];

/// A record's value: move `cents` to an account. `id` names the logical operation.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Transfer {
    pub(crate) id: Uuid,
    pub(crate) account_id: i64,
    pub(crate) cents: i64,
}

pub(crate) struct Planned {
    pub(crate) partition: u32,
    pub(crate) transfer: Transfer,
    /// The same operation was sent before, with a lower offset in this partition.
    pub(crate) resend: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Balance {
    pub(crate) cents: i64,
    pub(crate) count: i64,
}

impl Workload {
    /// The records in the order in which they are sent; a partition's n-th has offset n.
    pub(crate) fn plan(self) -> impl Iterator<Item = Planned> {
        let mut random = Random(self.seed);
        let mut sent: [Vec<Transfer>; PARTITIONS as usize] = std::array::from_fn(|_| Vec::new());
        (0..self.records).map(move |number| {
            let partition = number % PARTITIONS;
            let sent = &mut sent[partition as usize];
            if !sent.is_empty() && random.below(RESEND_ONE_IN) == 0 {
                let transfer = sent[random.index(sent.len())];
                return Planned { partition, transfer, resend: true };
            }
            let transfer = random.transfer(partition);
            if sent.len() < RESEND_WITHIN {
                sent.push(transfer);
            } else {
                let oldest = (number / PARTITIONS) as usize % RESEND_WITHIN;
                sent[oldest] = transfer;
            }
            Planned { partition, transfer, resend: false }
        })
    }

    /// All there is.
    pub(crate) fn whole(self) -> Prefix {
        std::array::from_fn(|partition| {
            let before = u32::try_from(partition).unwrap_or(PARTITIONS);
            self.records.saturating_sub(before).div_ceil(PARTITIONS)
        })
    }

    /// The balances when each of these records' operations has taken effect once, by account.
    pub(crate) fn expected(self, consumed: &Prefix) -> Vec<Balance> {
        let mut balances = vec![Balance::default(); ACCOUNTS as usize];
        let mut seen = [0; PARTITIONS as usize];
        for planned in self.plan() {
            let partition = planned.partition as usize;
            seen[partition] += 1;
            if planned.resend || seen[partition] > consumed[partition] {
                continue;
            }
            let account = usize::try_from(planned.transfer.account_id).unwrap_or(usize::MAX);
            balances[account].cents += planned.transfer.cents;
            balances[account].count += 1;
        }
        balances
    }
}

impl Transfer {
    pub(crate) fn parse(value: Option<&[u8]>) -> crate::Result<Self> {
        Ok(serde_json::from_slice(value.ok_or("a record without value")?)?)
    }

    /// The JSON on the topic, padded to one length.
    pub(crate) fn value(&self) -> crate::Result<String> {
        let mut json = serde_json::to_string(self)?;
        json.pop();
        json.push_str(r#","pad":""#);
        while json.len() < VALUE_LENGTH - r#""}"#.len() {
            json.push('.');
        }
        json.push_str(r#""}"#);
        Ok(json)
    }
}

/// `SplitMix64`: small, seeded, and good enough to scatter keys.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.next() >> 32).unwrap_or(0) % length
    }

    /// An account has its home in one partition, as records with one key have.
    fn transfer(&mut self, partition: u32) -> Transfer {
        let bytes = (u128::from(self.next()) << 64) | u128::from(self.next());
        let nth = self.below(u64::from(ACCOUNTS / PARTITIONS));
        let account = nth * u64::from(PARTITIONS) + u64::from(partition);
        Transfer {
            id: uuid::Builder::from_random_bytes(bytes.to_be_bytes()).into_uuid(),
            account_id: account.cast_signed(),
            cents: (self.below(10_000) + 1).cast_signed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const WORKLOAD: Workload = Workload { seed: 7, records: 20_001 };

    #[test]
    fn a_resend_is_exactly_an_id_that_its_partition_has_seen() {
        let mut seen = HashSet::new();
        let mut resends = 0;
        for planned in WORKLOAD.plan() {
            let first = seen.insert((planned.partition, planned.transfer.id));
            assert_eq!(planned.resend, !first);
            resends += u32::from(planned.resend);
        }
        assert!((800..1_200).contains(&resends), "about 5 %: {resends}");
        let ids: HashSet<_> = seen.iter().map(|(_, id)| id).collect();
        assert_eq!(ids.len(), seen.len(), "an id has one partition");
    }

    #[test]
    fn a_prefix_counts_each_of_its_operations_once() {
        let whole = WORKLOAD.whole();
        assert_eq!(whole.iter().sum::<u32>(), WORKLOAD.records);
        let mut part = whole;
        part[3] = 100;
        let count = |prefix| -> i64 { WORKLOAD.expected(prefix).iter().map(|b| b.count).sum() };
        let in_part = WORKLOAD
            .plan()
            .filter(|planned| planned.partition != 3)
            .chain(WORKLOAD.plan().filter(|planned| planned.partition == 3).take(100))
            .filter(|planned| !planned.resend)
            .count();
        assert_eq!(usize::try_from(count(&part)).ok(), Some(in_part));
        assert!(count(&whole) > count(&part));
    }

    #[test]
    fn values_have_one_length_and_are_read_back() -> crate::Result<()> {
        for planned in WORKLOAD.plan().take(1_000) {
            let value = planned.transfer.value()?;
            assert_eq!(value.len(), VALUE_LENGTH);
            assert_eq!(Transfer::parse(Some(value.as_bytes()))?.id, planned.transfer.id);
        }
        Ok(())
    }
}
