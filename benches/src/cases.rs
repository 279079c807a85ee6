//! The table of cases. A case is one function in one file: it consumes the topic as it likes and
//! says what it consumed and how long that took; the sums are checked by who called it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::env::Env;
use crate::report::Latency;
use crate::restart::Member;
use crate::workload::Prefix;
use crate::{
    Result, bare_transaction, batch_handler, by_batch, by_partition, by_partition_two, by_record, by_set,
    handler, handler_two, one_at_a_time, restart,
};

/// What a case says when it is through.
pub(crate) struct Finished {
    /// How far each partition's records have taken effect. The sums of exactly these are compared.
    pub(crate) consumed: Prefix,
    /// From the first record received to the last commit.
    pub(crate) elapsed: Duration,
    /// For cases that handle one thing at a time.
    pub(crate) latency: Option<Latency>,
}

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) run: fn(Arc<Env>) -> BoxFuture<'static, Result<Finished>>,
}

/// In the order in which they run and are printed.
pub(crate) const CASES: &[Case] = &[
    Case { name: "bare-transaction", run: |env| Box::pin(bare_transaction::run(env)) },
    Case { name: "by-record", run: |env| Box::pin(by_record::run(env)) },
    Case { name: "by-partition", run: |env| Box::pin(by_partition::run(env)) },
    Case { name: "by-partition-two", run: |env| Box::pin(by_partition_two::run(env)) },
    Case { name: "by-batch", run: |env| Box::pin(by_batch::run(env)) },
    Case { name: "by-set", run: |env| Box::pin(by_set::run(env)) },
    Case { name: "handler", run: |env| Box::pin(handler::run(env)) },
    Case { name: "handler_two", run: |env| Box::pin(handler_two::run(env)) },
    Case { name: "batch_handler", run: |env| Box::pin(batch_handler::run(env)) },
    Case { name: "one_at_a_time", run: |env| Box::pin(one_at_a_time::run(env)) },
    Case { name: "restart", run: |env| Box::pin(restart::run(env, Member::Static)) },
    Case { name: "restart_dynamic", run: |env| Box::pin(restart::run(env, Member::Dynamic)) },
];

pub(crate) fn one(name: &str) -> Result<&'static Case> {
    CASES
        .iter()
        .find(|case| case.name == name)
        .ok_or_else(|| format!("no such case: {name:?}; there are: {}", names()).into())
}

pub(crate) fn named(list: &str) -> Result<Vec<&'static Case>> {
    list.split(',').map(|name| one(name.trim())).collect()
}

pub(crate) fn names() -> String {
    let names: Vec<_> = CASES.iter().map(|case| case.name).collect();
    names.join(", ")
}
