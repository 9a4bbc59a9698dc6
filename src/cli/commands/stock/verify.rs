//! `verify`: compares mirror and platform within a number of calls; exit 3 on an unexplained difference.
//!
//! It changes no fact.

use crate::cli::context::Place;
use crate::cli::output::{Table, age, dash, json, plain};
use crate::cli::{Answer, Failure, Reading};
use crate::daemon;
use crate::sync::{VERIFY_CALLS, Verified};
use clap::Args;
use serde_json::json as value;
use std::sync::Arc;

/// Compares mirror and service.
#[derive(Debug, Args)]
pub(in crate::cli) struct Verify {
    /// Spend at most so many calls; each compares a page of SKUs, the stalest first
    #[arg(long, value_name = "N", default_value_t = VERIFY_CALLS as u64, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    calls: u64,
    #[command(flatten)]
    reading: Reading,
}

pub(in crate::cli) async fn verify(place: &Place, args: Verify) -> Result<Answer, Failure> {
    let calls = usize::try_from(args.calls).unwrap_or(usize::MAX);
    let verified = daemon::verify(place.config()?, Arc::new(place.clock()), calls).await?;
    let unexplained = verified.unexplained();
    let code = if unexplained > 0 { 3 } else { 0 };
    if args.reading.json {
        let mut all = value!(verified);
        all["unexplained"] = unexplained.into();
        return Ok(Answer { text: json(&all), code });
    }
    Ok(Answer { text: text(&verified, unexplained), code })
}

fn text(verified: &Verified, unexplained: usize) -> String {
    let Verified { calls, skus, cells_compared, cells_known, drift, .. } = verified;
    let mut text = match drift.len() {
        0 => "mirror and service agree\n".to_owned(),
        all => format!("{all} cell(s) differ, {unexplained} of them unexplained\n"),
    };
    let ages =
        [verified.oldest_age_seconds, verified.median_age_seconds].map(|seconds| dash(seconds.map(age)));
    text.push_str(&format!(
        "{cells_compared} of {cells_known} cell(s) compared, {skus} SKU(s) in {calls} call(s); \
         the oldest fact is {} old, the median {}\n",
        ages[0], ages[1]
    ));
    if let Some(why) = &verified.trouble {
        text.push_str(&format!("not all was compared: {}\n", plain(why)));
    }
    if drift.is_empty() {
        return text;
    }
    let mut table = Table::new(&["sku", "warehouse", "mirror", "service", "difference", "explained by"]);
    for drift in drift {
        table.row([
            drift.sku.clone(),
            drift.warehouse_id.to_string(),
            dash(drift.mirror),
            dash(drift.service),
            format!("{:+}", drift.difference),
            dash(drift.explained_by.as_ref()),
        ]);
    }
    text.push('\n');
    text.push_str(&table.render(""));
    text
}
