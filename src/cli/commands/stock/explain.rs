//! `explain`: the history of a quantity, step by step in the journal's order, from stored data.

use crate::cli::context::CliContext;
use crate::cli::output::plain_line;
use crate::cli::{CommandResult, OutputArgs};
use crate::model::Timestamp;
use crate::present::explain::{SkuExplanation, StockLevelExplanation, current_state_text};
use clap::Args;

#[derive(Debug, Args)]
pub(in crate::cli) struct ExplainArgs {
    /// SKU
    sku: String,
    /// Warehouse id at the platform [default: all warehouses of the SKU]
    warehouse: Option<i64>,
    /// Maximum number of steps of each stock level, newest kept
    #[arg(long, value_name = "N", default_value_t = 40)]
    last: usize,
    #[command(flatten)]
    output: OutputArgs,
}

pub(in crate::cli) async fn explain_command(context: &CliContext, args: ExplainArgs) -> CommandResult {
    let (store, config) = (context.open_store().await?, context.config()?);
    let (clock, warehouse) = (context.clock(), args.warehouse);
    let explained = SkuExplanation::load(&config, &clock, &store, &args.sku, warehouse, args.last).await?;
    Ok(args.output.render(|| explained.to_json(), || explained_text(&explained)).into())
}

fn explained_text(SkuExplanation { subject, levels }: &SkuExplanation) -> String {
    let sku = plain_line(&subject.sku);
    let remark = subject.remark.iter().map(|remark| format!("{sku}: {remark}\n\n")).collect::<String>();
    let levels: Vec<String> = levels.iter().map(|level| level_text(level, &sku)).collect();
    remark + &levels.join("\n")
}

fn level_text(explanation: &StockLevelExplanation, sku: &str) -> String {
    let level = &explanation.level;
    let name = level.warehouse_name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    let mut text = format!("{sku} in warehouse {}{}\n", level.warehouse_id, plain_line(&name));
    if explanation.earlier_steps > 0 {
        text.push_str(&format!("  {} earlier steps\n", explanation.earlier_steps));
    }
    for step in &explanation.steps {
        let position = step.position.map(|position| format!("#{position}")).unwrap_or_default();
        let (at, sentence) = (Timestamp(step.at_ms), plain_line(&step.text));
        text.push_str(&format!("  {at}  {position:<8}  {sentence}\n"));
    }
    text.push_str(&format!("  now: {}\n", current_state_text(level)));
    if explanation.next_steps.is_empty() {
        text.push_str("  next: no change is open\n");
    }
    for next in &explanation.next_steps {
        text.push_str(&format!("  next: {}\n", plain_line(next)));
    }
    text
}
