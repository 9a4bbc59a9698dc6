//! Explanation of a quantity: its history step by step in the journal's order, from stored data.
//!
//! A step has its fields (before, after, author, changes, call), and its sentence is made from them. The command
//! `explain`, its `--json` and the web page share both. It only reads, with or without a running daemon. It cannot
//! show a claim that was undone (throttled, not sent), because only its exchange is stored; `job show` prints that
//! exchange.

mod nearest;
mod sentence;
mod step;

pub(crate) use nearest::{NearestName, nearest_skus};
pub(crate) use step::{ExplainStep, StepKind};

use crate::model::{ChangeId, Sku, SkuError, Timestamp};
use crate::outbox::{ChangeState, Reason};
use crate::push::PushPreview;
use crate::store::{ChangeRow, CurrentStockLevel, KnownSku, Store, StoreError};
use serde_json::{Value, json};

#[derive(Debug, thiserror::Error)]
pub(crate) enum ExplainError {
    #[error("`{0}`: {1}")]
    InvalidSku(String, SkuError),
    #[error("`{0}` matches {1}, which differ only in case or blanks; name one of them exactly")]
    AmbiguousSku(String, String),
    /// Nothing is known of the stock level; the sentence says what to do.
    #[error("{0}")]
    NothingKnown(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

pub(crate) struct ExplainedSku {
    /// SKU in the platform's spelling where that is known.
    pub sku: String,
    /// Reason that the product's quantities are not pushed.
    pub remark: Option<String>,
    product_id: Option<i64>,
    spellings: Vec<String>,
    levels: Vec<CurrentStockLevel>,
}

impl ExplainedSku {
    /// Finds a SKU and its stock levels, or the one of a warehouse.
    ///
    /// The exact spelling counts first, then the only SKU of the platform with this case key, as for a change
    /// (docs/rules.md 8).
    pub(crate) async fn find(
        store: &Store,
        name: &str,
        warehouse: Option<i64>,
    ) -> Result<Self, ExplainError> {
        let sku = Sku::new(name).map_err(|error| ExplainError::InvalidSku(name.to_owned(), error))?;
        let known = store.explain_skus(&sku.case_key()).await?;
        let found = find_known(&known, name)?;
        let mut spellings = vec![name.to_owned()];
        let is_spelling = |row: &&KnownSku| found.is_some_and(|found| row.target_product == found.id);
        spellings.extend(known.iter().filter(is_spelling).map(|row| row.sku.clone()));
        let product_id = found.map(|row| row.id);
        let mut levels = store.explain_stock_levels(product_id, &spellings).await?;
        levels.retain(|level| warehouse.is_none_or(|warehouse| level.warehouse_id == warehouse));
        let sku = found.map_or_else(|| name.to_owned(), |row| row.sku.clone());
        let explained =
            Self { sku, remark: found.and_then(not_pushed_reason), product_id, spellings, levels };
        if !explained.levels.is_empty() {
            return Ok(explained);
        }
        let hints = nearest_skus(store, std::iter::once(name).filter(|_| found.is_none())).await?;
        Err(ExplainError::NothingKnown(explained.nothing_known_text(warehouse) + &hints.concat()))
    }

    pub(crate) fn to_json(&self, levels: &[StockLevelExplanation]) -> Value {
        let levels: Vec<Value> = levels.iter().map(StockLevelExplanation::to_json).collect();
        json!({"sku": self.sku, "remark": self.remark, "stock_levels": levels})
    }

    /// Returns the explanation of each stock level, with its newest `last` steps and with `plan` as the next push.
    /// Without a pending change the plan is not made, because it is that of a whole backlog.
    pub(crate) async fn explain<E: From<StoreError>>(
        &self,
        store: &Store,
        plan: impl Future<Output = Result<PushPreview, E>>,
        last: usize,
    ) -> Result<Vec<StockLevelExplanation>, E> {
        let mut explained = Vec::new();
        for level in &self.levels {
            let facts = match self.product_id {
                Some(product) => store.explain_quantity_states(product, level.warehouse_id).await?,
                None => Vec::new(),
            };
            let changes = store.explain_changes(&self.spellings, level.warehouse_id).await?;
            let ids: Vec<ChangeId> = changes.iter().map(|of| of.change.id).collect();
            let mut steps = step::history_steps(&facts, &changes, &store.explain_events(&ids).await?);
            let earlier_steps = steps.len().saturating_sub(last);
            let steps = steps.split_off(earlier_steps);
            let open = changes.into_iter().map(|of| of.change).filter(|change| !change.state.is_final());
            explained.push((level.clone(), earlier_steps, steps, open.collect::<Vec<_>>()));
        }
        let mut open = explained.iter().flat_map(|(.., open)| open);
        let has_pending = open.any(|change| change.state == ChangeState::Pending);
        let plan = if has_pending { plan.await? } else { PushPreview::default() };
        let with_next = |(level, earlier_steps, steps, open): (_, _, _, Vec<ChangeRow>)| {
            let next_steps = open.iter().map(|change| next_step_text(change, &plan)).collect();
            StockLevelExplanation { level, earlier_steps, steps, next_steps }
        };
        Ok(explained.into_iter().map(with_next).collect())
    }

    pub(crate) fn no_stock_text(&self) -> String {
        let sku = &self.sku;
        match &self.remark {
            Some(remark) => format!("no stock level of {sku} is known: {remark}"),
            None => format!("no stock level of {sku} is known yet: see `tallyd explain {sku}`"),
        }
    }

    fn nothing_known_text(&self, warehouse: Option<i64>) -> String {
        let sku = &self.sku;
        match (warehouse, self.product_id, &self.remark) {
            (Some(warehouse), Some(_), None) => {
                format!("no stock level of {sku} in warehouse {warehouse} is known: see `tallyd stock {sku}`")
            }
            (_, _, Some(_)) => self.no_stock_text(),
            (_, _, None) => format!(
                "no stock level of {sku} is known and no change names it: see `tallyd sku list`, or run \
                 `tallyd sku add {sku}`"
            ),
        }
    }
}

fn find_known<'a>(known: &'a [KnownSku], name: &str) -> Result<Option<&'a KnownSku>, ExplainError> {
    let exact = known.iter().find(|row| row.sku == name);
    let at_platform: Vec<&KnownSku> = known.iter().filter(|row| row.product_id.is_some()).collect();
    match (exact, at_platform.as_slice()) {
        (Some(row), _) => Ok(known.iter().find(|other| other.id == row.target_product).or(exact)),
        (None, [only]) => Ok(Some(only)),
        (None, []) => Ok(known.first()),
        (None, several) => {
            let names: Vec<String> = several.iter().map(|row| format!("`{}`", row.sku)).collect();
            Err(ExplainError::AmbiguousSku(name.to_owned(), names.join(", ")))
        }
    }
}

fn not_pushed_reason(row: &KnownSku) -> Option<String> {
    match (row.missing_ms, row.kind.as_deref()) {
        (Some(since), _) => Some(format!("the platform does not return this SKU since {}", Timestamp(since))),
        (None, Some("Kit")) => Some("a kit: its quantity follows from its components".into()),
        (None, _) => None,
    }
}

/// History of one stock level, cut to its newest steps, with its current state.
#[derive(Clone, Debug)]
pub(crate) struct StockLevelExplanation {
    pub level: CurrentStockLevel,
    /// Number of steps that are cut off.
    pub earlier_steps: usize,
    pub steps: Vec<ExplainStep>,
    pub next_steps: Vec<String>,
}

impl StockLevelExplanation {
    pub(crate) fn to_json(&self) -> Value {
        let level = &self.level;
        let steps: Vec<Value> = self.steps.iter().map(ExplainStep::to_json).collect();
        json!({
            "warehouse_id": level.warehouse_id, "warehouse_name": level.warehouse_name, "quantity": level.quantity,
            "ours": level.own_delta, "observed_at": level.fact_ms.map(|at| Timestamp(at).to_rfc3339()),
            "exchange_id": level.fact_exchange_id, "pending_quantity": level.pending_quantity,
            "earlier_steps": self.earlier_steps, "steps": steps, "next": self.next_steps,
        })
    }

    pub(crate) fn current_state_text(&self) -> String {
        let level = &self.level;
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
}

fn next_step_text(change: &ChangeRow, plan: &PushPreview) -> String {
    let id = change.id;
    let next = match change.state {
        ChangeState::Held if change.has_reason(Reason::NotShown) => {
            "is asked for again, and continues once an answer shows the stock level".into()
        }
        ChangeState::Held => "needs a decision: see `tallyd outbox show`".into(),
        ChangeState::InDoubt => "is in doubt; `settle` checks it at the platform".into(),
        ChangeState::Sending => "is being sent".into(),
        _ => {
            let is_read = plan.requests.first().is_some_and(|first| first.changes.contains(&id));
            match plan.changes_without_call.iter().find(|(change, _)| *change == id) {
                Some((_, how)) => format!("finishes without a call: {how}"),
                None if is_read && !plan.reads.is_empty() => {
                    "is sent by the next push, after a fresh read".into()
                }
                None if !plan.change_keys.contains_key(&id) => {
                    "is planned once the changes before it are sent; a push plans 5,000 at once".into()
                }
                None => "is sent by the next push: see `tallyd plan`".into(),
            }
        }
    };
    format!("`{}` {next}", change.key)
}
