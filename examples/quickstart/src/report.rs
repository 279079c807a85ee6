//! The end of a run: a table for people, or one line of JSON.

use std::time::Duration;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use crate::Result;
use crate::audit::Audit;
use crate::workload::ACCOUNTS;

#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    audit: &'a Audit,
    seconds: f64,
}

pub(crate) fn print(audit: &Audit, took: Duration, json: bool) -> Result<()> {
    let seconds = (took.as_secs_f64() * 10.0).round() / 10.0;
    for promise in audit.broken() {
        eprintln!("BROKEN: {promise}");
    }
    if json {
        println!("{}", serde_json::to_string(&Line { audit, seconds })?);
    } else {
        println!("{}", table(audit));
        println!(
            "{} in {seconds} s",
            if audit.broken().is_empty() { "every promise kept" } else { "NOT every promise kept" }
        );
    }
    Ok(())
}

fn table(audit: &Audit) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    for (what, count, meaning) in [
        ("records", audit.records, "produced"),
        ("distinct messages", audit.distinct, "payments among them"),
        ("duplicates refused", audit.duplicates, "sent again, no second effect"),
        ("redelivered after the kill", audit.redelivered, "effect was there, no second one"),
        ("effects", audit.effects, "one for each distinct message"),
        ("parked", audit.parked, "until their accounts were opened, then in order"),
        ("dead letters", audit.dead, "could not be decoded, kept with their bytes"),
        ("lost", audit.lost, "messages without effect"),
        ("doubled", audit.doubled, "messages with several"),
        ("out of order", audit.out_of_order, "effects after a later one of their account"),
    ] {
        table.add_row([what.to_owned(), count.to_string(), meaning.to_owned()]);
    }
    table.add_row([
        "wrong balances".to_owned(),
        audit.wrong_balances.to_string(),
        format!("of {ACCOUNTS}, against the sum of what was produced"),
    ]);
    if let Some(counts) = table.column_mut(1) {
        counts.set_cell_alignment(CellAlignment::Right);
    }
    table
}
