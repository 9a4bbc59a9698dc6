//! `verify`: compares mirror and platform within a number of calls; exit 3 on an unexplained difference.
//!
//! It changes no fact. A sale since the last read is explained, and so is a kit whose components changed.

use crate::cli::context::CliContext;
use crate::cli::output::{NAMED_MAX, cell_text, columns, format_age, plain_line, shortened, table_section};
use crate::cli::{CommandOutput, CommandResult, OutputArgs};
use crate::daemon::ControlRequest;
use crate::model::counted;
use crate::present::listing::sentence_cell;
use crate::sync::{MirrorDifference, VERIFY_CALLS, VerifyReport};
use clap::Args;
use serde_json::json;

#[derive(Debug, Args)]
pub(in crate::cli) struct VerifyArgs {
    /// Maximum number of calls; each compares a page of SKUs, those with the oldest facts first
    #[arg(long, value_name = "N", default_value_t = VERIFY_CALLS as u64, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    calls: u64,
    #[command(flatten)]
    output: OutputArgs,
}

pub(in crate::cli) async fn verify_command(context: &CliContext, args: VerifyArgs) -> CommandResult {
    let calls = usize::try_from(args.calls).unwrap_or(usize::MAX);
    let report: VerifyReport = context.ask_daemon(&ControlRequest::Verify { calls }).await??;
    let unexplained = report.unexplained_count();
    let json = || {
        let mut all = json!(report);
        all["unexplained"] = unexplained.into();
        all
    };
    let text = args.output.render(json, || report_text(&report, unexplained));
    Ok(CommandOutput { text, exit_code: if unexplained > 0 { 3 } else { 0 } })
}

fn report_text(report: &VerifyReport, unexplained: usize) -> String {
    let VerifyReport { calls, skus, levels_compared, levels_known, drift, .. } = report;
    let mut text = match (drift.len(), unexplained) {
        (0, _) if *levels_compared == 0 && report.trouble.is_none() => {
            return "nothing is compared, because the mirror has no stock level yet; track SKUs, then run: \
                    tallyd job run balances\n"
                .into();
        }
        (0, _) => "mirror and platform are equal\n".to_owned(),
        (all, 0) => format!("{}, explained\n", counted(all, "difference")),
        (all, _) => {
            let named = |row: &MirrorDifference| format!("{} in warehouse {}", row.sku, row.warehouse_id);
            let names = shortened(report.unexplained().map(named), NAMED_MAX);
            format!(
                "{}, {unexplained} of them unexplained: {}\n",
                counted(all, "difference"),
                plain_line(&names.join(", "))
            )
        }
    };
    let ages = [report.oldest_age_seconds, report.median_age_seconds]
        .map(|seconds| cell_text(&seconds.map(format_age)));
    text.push_str(&format!(
        "compared {levels_compared} of {}, {} in {}; the oldest fact is {} old, the median {}\n",
        counted(levels_known, "stock level"),
        counted(skus, "SKU"),
        counted(calls, "call"),
        ages[0],
        ages[1]
    ));
    if let Some(why) = &report.trouble {
        text.push_str(&format!("the comparison is incomplete: {}\n", plain_line(why)));
    }
    let (unexplained, explained): (Vec<_>, Vec<_>) = drift.iter().partition(|row| row.explained_by.is_none());
    let rows = unexplained.into_iter().chain(explained).map(|row| {
        columns! {
            "sku": row.sku, "warehouse": row.warehouse_id, "mirror": row.mirror, "platform": row.service,
            "difference": format!("{:+}", row.difference),
            "explained by": sentence_cell(row.explained_by.as_deref()),
        }
    });
    text + &table_section(rows)
}
