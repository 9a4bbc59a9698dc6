//! `explain`: the history of a quantity, step by step in the journal's order, from stored data.
//!
//! It only reads, with or without a running daemon. It cannot show a claim that was undone (throttled, not
//! sent), because only its exchange is stored; `job show` prints that exchange.

mod history;

use self::history::{ExplainHistory, ExplainStep};
use crate::cli::context::CliContext;
use crate::cli::output::{plain_line, pretty_json};
use crate::cli::{CommandFailure, CommandOutput, OutputArgs};
use crate::daemon::preview_push;
use crate::model::{ChangeId, Sku, Timestamp};
use crate::outbox::Reason;
use crate::push::PushPreview;
use crate::store::{CurrentStockLevel, ExplainedChange, KnownSku, Store};
use clap::Args;
use serde_json::{Value, json as value};

/// Why a quantity is what it is: which exchange, change, merge or brake.
#[derive(Debug, Args)]
pub(in crate::cli) struct ExplainArgs {
    /// The SKU
    sku: String,
    /// The warehouse's id at the platform [default: all of the SKU's]
    warehouse: Option<i64>,
    /// So many steps of each stock level, the newest
    #[arg(long, value_name = "N", default_value_t = 40)]
    last: usize,
    #[command(flatten)]
    output: OutputArgs,
}

/// A SKU in the mirror and the outbox.
struct ExplainedSku {
    sku: String,
    product_id: Option<i64>,
    /// All spellings of the SKU in changes.
    spellings: Vec<String>,
    /// The reason that the product's quantities are not pushed.
    remark: Option<String>,
}

pub(in crate::cli) async fn explain_command(
    place: &CliContext,
    args: ExplainArgs,
) -> Result<CommandOutput, CommandFailure> {
    let store = place.open_store().await?;
    let subject = find_sku(&store, &args.sku).await?;
    let mut levels = store.explain_stock_levels(subject.product_id, &subject.spellings).await?;
    levels.retain(|level| args.warehouse.is_none_or(|warehouse| level.warehouse_id == warehouse));
    if levels.is_empty() {
        return Err(CommandFailure::failed(nothing_known(&subject, args.warehouse)));
    }
    let plan = preview_push(&place.config()?, &store, &place.clock())
        .await
        .map_err(|error| CommandFailure::failed(error.to_string()))?;
    let mut detail = Vec::new();
    for level in levels {
        let story = ExplainHistory::load(&store, subject.product_id, &subject.spellings, &level).await?;
        detail.push(StockLevelExplanation::new(level, &story, &plan, args.last));
    }
    if args.output.json {
        let levels: Vec<Value> = detail.iter().map(StockLevelExplanation::to_json).collect();
        let all = value!({"sku": subject.sku, "remark": subject.remark, "stock_levels": levels});
        return Ok(pretty_json(&all).into());
    }
    let mut text: String =
        subject.remark.iter().map(|remark| format!("{}: {remark}\n\n", plain_line(&subject.sku))).collect();
    let levels: Vec<String> = detail.iter().map(|detail| detail.to_text(&subject.sku)).collect();
    text.push_str(&levels.join("\n"));
    Ok(text.into())
}

/// Finds the SKU: the exact spelling, else the only SKU of the platform with this case key, as for a change
/// (docs/rules.md 12).
async fn find_sku(store: &Store, asked: &str) -> Result<ExplainedSku, CommandFailure> {
    let sku = Sku::new(asked).map_err(|error| CommandFailure::usage(format!("`{asked}`: {error}")))?;
    let known = store.explain_skus(&sku.case_key()).await?;
    let exact = known.iter().find(|row| row.sku == asked);
    let at_service: Vec<&KnownSku> = known.iter().filter(|row| row.product_id.is_some()).collect();
    let meant = match (exact, at_service.as_slice()) {
        (Some(row), _) => known.iter().find(|other| other.id == row.target_product).or(exact),
        (None, [only]) => Some(*only),
        (None, []) => known.first(),
        (None, several) => {
            let names: Vec<String> = several.iter().map(|row| format!("`{}`", row.sku)).collect();
            let names = names.join(", ");
            return Err(CommandFailure::failed(format!(
                "`{asked}` may be {names}, which differ in case or blanks only; name one of them exactly"
            )));
        }
    };
    let mut spellings = vec![asked.to_owned()];
    let same = |row: &&KnownSku| meant.is_some_and(|meant| row.target_product == meant.id);
    spellings.extend(known.iter().filter(same).map(|row| row.sku.clone()));
    Ok(ExplainedSku {
        sku: meant.map_or_else(|| asked.to_owned(), |row| row.sku.clone()),
        product_id: meant.map(|row| row.id),
        spellings,
        remark: meant.and_then(not_pushed_reason),
    })
}

fn not_pushed_reason(row: &KnownSku) -> Option<String> {
    match (row.missing_ms, row.kind.as_deref()) {
        (Some(since), _) => Some(format!("the platform does not return it since {}", Timestamp(since))),
        (None, Some("Kit")) => Some("a kit: its quantity follows from its components".into()),
        (None, _) => None,
    }
}

fn nothing_known(subject: &ExplainedSku, warehouse: Option<i64>) -> String {
    let sku = &subject.sku;
    match (warehouse, subject.product_id, &subject.remark) {
        (Some(warehouse), Some(_), None) => {
            format!("nothing is known of {sku} in warehouse {warehouse}: see `tallyd stock {sku}`")
        }
        (_, _, Some(remark)) => format!("no quantity of {sku} is known: {remark}"),
        (_, _, None) => format!(
            "no quantity of {sku} is known and no change names it: see `tallyd sku list`, or begin with \
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
    fn new(level: CurrentStockLevel, story: &ExplainHistory, plan: &PushPreview, last: usize) -> Self {
        let mut steps = story.steps();
        let earlier = steps.len().saturating_sub(last);
        let steps = steps.split_off(earlier);
        let next =
            story.open_changes().map(|change| format!("`{}` {}", change.key, next_step_text(change, plan)));
        Self { earlier_steps: earlier, steps, next_steps: next.collect(), level }
    }

    fn to_json(&self) -> Value {
        let level = &self.level;
        let steps = self.steps.iter().map(|step| {
            value!({"position": step.position, "at": Timestamp(step.at_ms).to_rfc3339(), "what": step.code,
                    "text": step.text})
        });
        value!({
            "warehouse_id": level.warehouse_id, "warehouse_name": level.warehouse_name, "quantity": level.quantity,
            "ours": level.own_delta, "observed_at": level.fact_ms.map(|ms| Timestamp(ms).to_rfc3339()),
            "exchange_id": level.fact_exchange_id, "pending_quantity": level.pending_quantity,
            "earlier_steps": self.earlier_steps, "steps": steps.collect::<Vec<_>>(), "next": self.next_steps,
        })
    }

    fn to_text(&self, sku: &str) -> String {
        let level = &self.level;
        let name = level.warehouse_name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        let mut text =
            format!("{} in warehouse {}{}\n", plain_line(sku), level.warehouse_id, plain_line(&name));
        if self.earlier_steps > 0 {
            text.push_str(&format!("  {} earlier steps\n", self.earlier_steps));
        }
        for step in &self.steps {
            let position = step.position.map(|position| format!("#{position}")).unwrap_or_default();
            text.push_str(&format!(
                "  {}  {position:<8}  {}\n",
                Timestamp(step.at_ms),
                plain_line(&step.text)
            ));
        }
        text.push_str(&format!("  now: {}\n", current_state_text(level)));
        if self.next_steps.is_empty() {
            text.push_str("  next: nothing waits\n");
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
            format!("{quantity}, by exchange {exchange} of {}", Timestamp(at))
        }
        (Some(quantity), _, _) => quantity.to_string(),
        (None, _, _) => "not known".into(),
    };
    if level.unlinked_ms.is_some() {
        now.push_str("; the platform links the product to this warehouse no longer");
    }
    if let Some(writing) = level.written_in_flight {
        now.push_str(&format!("; {writing} was sent and it is not known yet whether it was done"));
    }
    if let Some(pending) = level.pending_quantity {
        now.push_str(&format!("; becomes {pending} once what is pending applies"));
    }
    now
}

/// Returns the next step of an open change.
fn next_step_text(change: &ExplainedChange, plan: &PushPreview) -> String {
    let id = change.id;
    match change.state.as_str() {
        "held" if change.reason.as_deref() == Some(Reason::NoFact.as_str()) => {
            "is looked at again by `settle`, and goes on once an answer shows the stock level".into()
        }
        "held" => "waits for a person".into(),
        "in_doubt" => "is looked for at the platform by `settle`".into(),
        "sending" => "is in a call".into(),
        _ => {
            let detail = plan.changes_without_call.iter().find(|(change, _)| *change == ChangeId(id));
            let is_read = plan.requests.first().is_some_and(|first| first.changes.contains(&ChangeId(id)));
            match detail {
                Some((_, how)) => format!("is decided without a call: {how}"),
                None if is_read && !plan.reads.is_empty() => {
                    "goes with the next push, after a fresh read".into()
                }
                None => "goes with the next push: see `tallyd plan`".into(),
            }
        }
    }
}
