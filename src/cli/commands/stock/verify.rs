//! `verify`: compares mirror and platform within a number of calls; exit 3 on an unexplained difference.
//!
//! It changes no fact.

use crate::cli::context::CliContext;
use crate::cli::output::{TextTable, format_age, or_dash, plain_line, pretty_json};
use crate::cli::{CommandFailure, CommandOutput, OutputArgs};
use crate::daemon;
use crate::sync::{VERIFY_CALLS, VerifyReport};
use clap::Args;
use serde_json::json as value;
use std::sync::Arc;

/// Compares mirror and service.
#[derive(Debug, Args)]
pub(in crate::cli) struct VerifyArgs {
    /// Spend at most so many calls; each compares a page of SKUs, the stalest first
    #[arg(long, value_name = "N", default_value_t = VERIFY_CALLS as u64, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    calls: u64,
    #[command(flatten)]
    output: OutputArgs,
}

pub(in crate::cli) async fn verify_command(
    place: &CliContext,
    args: VerifyArgs,
) -> Result<CommandOutput, CommandFailure> {
    let calls = usize::try_from(args.calls).unwrap_or(usize::MAX);
    let verified = daemon::verify_mirror(place.config()?, Arc::new(place.clock()), calls).await?;
    let unexplained = verified.unexplained_count();
    let code = if unexplained > 0 { 3 } else { 0 };
    if args.output.json {
        let mut all = value!(verified);
        all["unexplained"] = unexplained.into();
        return Ok(CommandOutput { text: pretty_json(&all), exit_code: code });
    }
    Ok(CommandOutput { text: verify_text(&verified, unexplained), exit_code: code })
}

fn verify_text(verified: &VerifyReport, unexplained: usize) -> String {
    let VerifyReport { calls, skus, cells_compared, cells_known, drift, .. } = verified;
    let mut text = match drift.len() {
        0 => "mirror and service agree\n".to_owned(),
        all => format!("{all} stock level(s) differ, {unexplained} of them unexplained\n"),
    };
    let ages = [verified.oldest_age_seconds, verified.median_age_seconds]
        .map(|seconds| or_dash(seconds.map(format_age)));
    text.push_str(&format!(
        "{cells_compared} of {cells_known} stock level(s) compared, {skus} SKU(s) in {calls} call(s); \
         the oldest fact is {} old, the median {}\n",
        ages[0], ages[1]
    ));
    if let Some(why) = &verified.trouble {
        text.push_str(&format!("not all was compared: {}\n", plain_line(why)));
    }
    if drift.is_empty() {
        return text;
    }
    let mut table = TextTable::new(&["sku", "warehouse", "mirror", "service", "difference", "explained by"]);
    for drift in drift {
        table.add_row([
            drift.sku.clone(),
            drift.warehouse_id.to_string(),
            or_dash(drift.mirror),
            or_dash(drift.service),
            format!("{:+}", drift.difference),
            or_dash(drift.explained_by.as_ref()),
        ]);
    }
    text.push('\n');
    text.push_str(&table.to_text(""));
    text
}
