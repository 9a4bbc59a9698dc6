//! The history of a SKU's stock levels, step by step in the journal's order, from stored data.
//!
//! It only reads, with or without a running daemon. It cannot show a claim that was undone (throttled, not
//! sent), because only its exchange is stored; a run shows that exchange.

mod history;

pub(crate) use self::history::{ExplainHistory, ExplainStep};

use super::{ViewError, time_text};
use crate::config::Config;
use crate::daemon::preview_push;
use crate::model::{ChangeId, Clock, Sku, Timestamp};
use crate::outbox::Reason;
use crate::push::PushPreview;
use crate::store::{CurrentStockLevel, ExplainedChange, KnownSku, Store};
use serde_json::{Value, json};

/// A SKU and the explanations of its stock levels.
pub(crate) struct SkuExplanation {
    pub(crate) subject: ExplainedSku,
    pub(crate) levels: Vec<StockLevelExplanation>,
}

/// A SKU as the mirror and the changes know it.
pub(crate) struct ExplainedSku {
    pub(crate) sku: String,
    pub(crate) product_id: Option<i64>,
    /// All spellings of the SKU in changes.
    pub(crate) spellings: Vec<String>,
    /// The reason that the product's quantities are not pushed.
    pub(crate) remark: Option<String>,
}

impl SkuExplanation {
    /// Explains the stock levels of a SKU, or that of one warehouse; `last` is the number of steps kept.
    pub(crate) async fn load(
        config: &Config,
        clock: &dyn Clock,
        store: &Store,
        name: &str,
        warehouse: Option<i64>,
        last: usize,
    ) -> Result<Self, ViewError> {
        let subject = find_sku(store, name).await?;
        let mut levels = store.explain_stock_levels(subject.product_id, &subject.spellings).await?;
        levels.retain(|level| warehouse.is_none_or(|warehouse| level.warehouse_id == warehouse));
        if levels.is_empty() {
            return Err(ViewError::Unknown(nothing_known(&subject, warehouse)));
        }
        let plan = preview_push(config, store, clock).await?;
        let mut explanations = Vec::new();
        for level in levels {
            let history = ExplainHistory::load(store, subject.product_id, &subject.spellings, &level).await?;
            explanations.push(StockLevelExplanation::new(level, history, &plan, last));
        }
        Ok(Self { subject, levels: explanations })
    }

    pub(crate) fn to_json(&self) -> Value {
        let levels: Vec<Value> = self.levels.iter().map(StockLevelExplanation::to_json).collect();
        json!({"sku": self.subject.sku, "remark": self.subject.remark, "stock_levels": levels})
    }
}

/// Finds the SKU: the exact spelling, else the only SKU of the platform with this case key, as for a change
/// (docs/rules.md 12).
async fn find_sku(store: &Store, name: &str) -> Result<ExplainedSku, ViewError> {
    let sku = Sku::new(name).map_err(|error| ViewError::Invalid(format!("`{name}`: {error}")))?;
    let known = store.explain_skus(&sku.case_key()).await?;
    let exact = known.iter().find(|row| row.sku == name);
    let at_platform: Vec<&KnownSku> = known.iter().filter(|row| row.product_id.is_some()).collect();
    let found = match (exact, at_platform.as_slice()) {
        (Some(row), _) => known.iter().find(|other| other.id == row.target_product).or(exact),
        (None, [only]) => Some(*only),
        (None, []) => known.first(),
        (None, several) => {
            let names: Vec<String> = several.iter().map(|row| format!("`{}`", row.sku)).collect();
            return Err(ViewError::Unknown(format!(
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
        (_, _, Some(remark)) => format!("no stock level of {sku} is known: {remark}"),
        (_, _, None) => format!(
            "no stock level of {sku} is known and no change names it: see `tallyd sku list`, or run \
             `tallyd sku add {sku}`"
        ),
    }
}

/// The history of one stock level, cut to its newest steps, with its current state.
pub(crate) struct StockLevelExplanation {
    pub(crate) level: CurrentStockLevel,
    pub(crate) earlier_steps: usize,
    pub(crate) steps: Vec<ExplainStep>,
    pub(crate) next_steps: Vec<String>,
    pub(crate) history: ExplainHistory,
}

impl StockLevelExplanation {
    fn new(level: CurrentStockLevel, history: ExplainHistory, plan: &PushPreview, last: usize) -> Self {
        let mut steps = history.steps();
        let earlier_steps = steps.len().saturating_sub(last);
        let steps = steps.split_off(earlier_steps);
        let open = history.open_changes();
        let next_steps =
            open.map(|change| format!("`{}` {}", change.key, next_step_text(change, plan))).collect();
        Self { earlier_steps, steps, next_steps, level, history }
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
}

pub(crate) fn current_state_text(level: &CurrentStockLevel) -> String {
    let mut now = match (level.quantity, level.fact_ms, level.fact_exchange_id) {
        (Some(quantity), Some(at), Some(exchange)) => {
            format!("{quantity}, read by exchange {exchange} at {}", Timestamp(at))
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
