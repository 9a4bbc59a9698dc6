//! `explain`: the history of a quantity, step by step in the journal's order, from stored data.
//!
//! It only reads, with or without a running daemon. It cannot show a claim that was undone (throttled, not
//! sent), because only its exchange is stored; `job show` prints that exchange.

mod history;

use self::history::{ExplainHistory, ExplainStep};
use crate::cli::change::WarehouseNames;
use crate::cli::context::CliContext;
use crate::cli::local_time::{local_sentence, local_time};
use crate::cli::output::{plain_line, time_text};
use crate::cli::{CommandFailure, CommandResult, OutputArgs};
use crate::daemon::preview_push;
use crate::model::{ChangeId, Sku, Timestamp};
use crate::outbox::Reason;
use crate::push::PushPreview;
use crate::store::{CurrentStockLevel, ExplainedChange, KnownSku, Store};
use clap::Args;
use serde_json::{Value, json};

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

struct ExplainedSku {
    sku: String,
    product_id: Option<i64>,
    /// All spellings of the SKU in changes.
    spellings: Vec<String>,
    /// The reason that the product's quantities are not pushed.
    remark: Option<String>,
}

pub(in crate::cli) async fn explain_command(context: &CliContext, args: ExplainArgs) -> CommandResult {
    let store = context.open_store().await?;
    let subject = find_sku(&store, &args.sku).await?;
    let mut levels = store.explain_stock_levels(subject.product_id, &subject.spellings).await?;
    let warehouse = match &args.warehouse {
        Some(text) => Some(WarehouseNames::read(&store).await?.id_of(text).map_err(CommandFailure::usage)?),
        None => None,
    };
    levels.retain(|level| warehouse.is_none_or(|warehouse| level.warehouse_id == warehouse));
    if levels.is_empty() {
        return Err(CommandFailure::failed(nothing_known(&subject, warehouse)));
    }
    let plan = preview_push(&context.config()?, &store, &context.clock()).await?;
    let mut explanations = Vec::new();
    for level in levels {
        let history = ExplainHistory::load(&store, subject.product_id, &subject.spellings, &level).await?;
        explanations.push(StockLevelExplanation::new(level, &history, &plan, args.last));
    }
    let json = || {
        let levels: Vec<Value> = explanations.iter().map(StockLevelExplanation::to_json).collect();
        json!({"sku": subject.sku, "remark": subject.remark, "stock_levels": levels})
    };
    let text = || {
        let sku = plain_line(&subject.sku);
        let remark = subject
            .remark
            .iter()
            .map(|remark| format!("{sku}: {}\n\n", local_sentence(remark)))
            .collect::<String>();
        let levels: Vec<String> = explanations.iter().map(|level| level.to_text(&sku)).collect();
        remark + &levels.join("\n")
    };
    Ok(args.output.render(json, text).into())
}

/// Finds the SKU: the exact spelling, else the only SKU of the platform with this case key, as for a change
/// (docs/rules.md 12).
async fn find_sku(store: &Store, name: &str) -> Result<ExplainedSku, CommandFailure> {
    let sku = Sku::new(name).map_err(|error| CommandFailure::usage(format!("`{name}`: {error}")))?;
    let known = store.explain_skus(&sku.case_key()).await?;
    let exact = known.iter().find(|row| row.sku == name);
    let at_platform: Vec<&KnownSku> = known.iter().filter(|row| row.product_id.is_some()).collect();
    let found = match (exact, at_platform.as_slice()) {
        (Some(row), _) => known.iter().find(|other| other.id == row.target_product).or(exact),
        (None, [only]) => Some(*only),
        (None, []) => known.first(),
        (None, several) => {
            let names: Vec<String> = several.iter().map(|row| format!("`{}`", row.sku)).collect();
            return Err(CommandFailure::failed(format!(
                "`{name}` matches {}, which differ only in case or blanks; name one of them exactly",
                names.join(", ")
            )));
        }
    };
    let mut spellings = vec![name.to_owned()];
    let is_spelling = |row: &&KnownSku| found.is_some_and(|found| row.target_product == found.id);
    spellings.extend(known.iter().filter(is_spelling).map(|row| row.sku.clone()));
    Ok(ExplainedSku {
        sku: found.map_or_else(|| name.to_owned(), |row| row.sku.clone()),
        product_id: found.map(|row| row.id),
        spellings,
        remark: found.and_then(not_pushed_reason),
    })
}

fn not_pushed_reason(row: &KnownSku) -> Option<String> {
    match (row.missing_ms, row.kind.as_deref()) {
        (Some(since), _) => Some(format!("the platform does not return this SKU since {}", Timestamp(since))),
        (None, Some("Kit")) => Some("a kit: its quantity follows from its components".into()),
        (None, _) => None,
    }
}

fn nothing_known(subject: &ExplainedSku, warehouse: Option<i64>) -> String {
    let sku = &subject.sku;
    match (warehouse, subject.product_id, &subject.remark) {
        (Some(warehouse), Some(_), None) => {
            format!("no stock level of {sku} in warehouse {warehouse} is known: see `tallyd stock {sku}`")
        }
        (_, _, Some(remark)) => format!("no stock level of {sku} is known: {}", local_sentence(remark)),
        (_, _, None) => format!(
            "no stock level of {sku} is known and no change names it: see `tallyd sku list`, or run \
             `tallyd sku add {sku}`"
        ),
    }
}

/// The history of one stock level, cut to its newest steps, with its current state.
struct StockLevelExplanation {
    level: CurrentStockLevel,
    earlier_steps: usize,
    steps: Vec<ExplainStep>,
    next_steps: Vec<String>,
}

impl StockLevelExplanation {
    fn new(level: CurrentStockLevel, history: &ExplainHistory, plan: &PushPreview, last: usize) -> Self {
        let mut steps = history.steps();
        let earlier_steps = steps.len().saturating_sub(last);
        let steps = steps.split_off(earlier_steps);
        let open = history.open_changes();
        let next_steps = open.map(|change| format!("`{}` {}", change.key, next_step_text(change, plan)));
        Self { earlier_steps, steps, next_steps: next_steps.collect(), level }
    }

    fn to_json(&self) -> Value {
        let level = &self.level;
        let steps = self.steps.iter().map(|step| {
            json!({"position": step.position, "at": time_text(step.at_ms), "what": step.code, "text": step.text})
        });
        json!({
            "warehouse_id": level.warehouse_id, "warehouse_name": level.warehouse_name, "quantity": level.quantity,
            "ours": level.own_delta, "observed_at": level.fact_ms.map(time_text),
            "exchange_id": level.fact_exchange_id, "pending_quantity": level.pending_quantity,
            "earlier_steps": self.earlier_steps, "steps": steps.collect::<Vec<_>>(), "next": self.next_steps,
        })
    }

    fn to_text(&self, sku: &str) -> String {
        let level = &self.level;
        let name = level.warehouse_name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        let mut text = format!("{sku} in warehouse {}{}\n", level.warehouse_id, plain_line(&name));
        if self.earlier_steps > 0 {
            text.push_str(&format!("  {} earlier steps\n", self.earlier_steps));
        }
        for step in &self.steps {
            let position = step.position.map(|position| format!("#{position}")).unwrap_or_default();
            let (at, sentence) = (local_time(Timestamp(step.at_ms)), local_sentence(&step.text));
            text.push_str(&format!("  {at}  {position:<8}  {}\n", plain_line(&sentence)));
        }
        text.push_str(&format!("  now: {}\n", current_state_text(level)));
        if self.next_steps.is_empty() {
            text.push_str("  next: no change is open\n");
        }
        for next in &self.next_steps {
            text.push_str(&format!("  next: {}\n", plain_line(next)));
        }
        text
    }
}

fn current_state_text(level: &CurrentStockLevel) -> String {
    let mut now = match (level.quantity, level.fact_ms, level.fact_exchange_id) {
        (Some(quantity), Some(at), Some(exchange)) => {
            format!("{quantity}, read by exchange {exchange} at {}", local_time(Timestamp(at)))
        }
        (Some(quantity), _, _) => quantity.to_string(),
        (None, _, _) => "unknown".into(),
    };
    if level.unlinked_ms.is_some() {
        now.push_str("; the platform no longer links the product to this warehouse");
    }
    if let Some(writing) = level.written_in_flight {
        now.push_str(&format!("; {writing} was sent, and its outcome is not known yet"));
    }
    if let Some(pending) = level.pending_quantity {
        now.push_str(&format!("; becomes {pending} when the pending changes are applied"));
    }
    now
}

fn next_step_text(change: &ExplainedChange, plan: &PushPreview) -> String {
    let id = ChangeId(change.id);
    match change.state.as_str() {
        "held" if change.reason.as_deref() == Some(Reason::NoFact.as_str()) => {
            "is checked by `settle`, and continues after a read shows the stock level".into()
        }
        "held" => "needs a decision: see `tallyd outbox show`".into(),
        "in_doubt" => "is in doubt; `settle` checks it at the platform".into(),
        "sending" => "is being sent".into(),
        _ => {
            let is_read = plan.requests.first().is_some_and(|first| first.changes.contains(&id));
            match plan.changes_without_call.iter().find(|(change, _)| *change == id) {
                Some((_, how)) => format!("finishes without a call: {how}"),
                None if is_read && !plan.reads.is_empty() => {
                    "is sent by the next push, after a fresh read".into()
                }
                None => "is sent by the next push: see `tallyd plan`".into(),
            }
        }
    }
}
