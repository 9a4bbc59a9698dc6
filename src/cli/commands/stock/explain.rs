//! `explain`: the history of a quantity, step by step, for people and programs.

use crate::cli::change::WarehouseNames;
use crate::cli::context::CliContext;
use crate::cli::local_time::{local_sentence, local_time};
use crate::cli::output::plain_line;
use crate::cli::{CommandFailure, CommandResult, OutputArgs};
use crate::daemon::preview_push;
use crate::explain::{ExplainedSku, StockLevelExplanation};
use crate::present::ViewError;
use clap::Args;

#[derive(Debug, Args)]
pub(in crate::cli) struct ExplainArgs {
    /// SKU
    sku: String,
    /// Warehouse: its number at the platform, or its name [default: all warehouses of the SKU]
    warehouse: Option<String>,
    /// Maximum number of steps of each stock level, newest kept
    #[arg(long, value_name = "N", default_value_t = 40)]
    last: usize,
    #[command(flatten)]
    output: OutputArgs,
}

pub(in crate::cli) async fn explain_command(context: &CliContext, args: ExplainArgs) -> CommandResult {
    let store = context.open_store().await?;
    let warehouse = match &args.warehouse {
        Some(text) => Some(WarehouseNames::read(&store).await?.id_of(text).map_err(CommandFailure::usage)?),
        None => None,
    };
    let subject = ExplainedSku::find(&store, &args.sku, warehouse).await.map_err(ViewError::from)?;
    let clock = context.clock();
    let plan = preview_push(context.readable_config()?, &store, &clock);
    let explanations = subject.explain(&store, plan, args.last).await?;
    let text = || {
        let sku = plain_line(&subject.sku);
        let remark = subject
            .remark
            .iter()
            .map(|remark| format!("{sku}: {}\n\n", local_sentence(remark)))
            .collect::<String>();
        let levels: Vec<String> = explanations.iter().map(|level| level_text(level, &sku)).collect();
        remark + &levels.join("\n")
    };
    Ok(args.output.render(|| subject.to_json(&explanations), text).into())
}

fn level_text(explained: &StockLevelExplanation, sku: &str) -> String {
    let level = &explained.level;
    let name = level.warehouse_name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    let mut text = format!("{sku} in warehouse {}{}\n", level.warehouse_id, plain_line(&name));
    if explained.earlier_steps > 0 {
        text.push_str(&format!("  {} earlier steps\n", explained.earlier_steps));
    }
    for step in &explained.steps {
        let position = step.position.map(|position| format!("#{position}")).unwrap_or_default();
        let sentence = local_sentence(step.to_string());
        text.push_str(&format!("  {}  {position:<8}  {}\n", local_time(step.at), plain_line(&sentence)));
    }
    text.push_str(&format!("  now: {}\n", local_sentence(explained.current_state_text())));
    if explained.next_steps.is_empty() {
        text.push_str("  next: no change is open\n");
    }
    for next in &explained.next_steps {
        text.push_str(&format!("  next: {}\n", plain_line(&local_sentence(next))));
    }
    text
}
