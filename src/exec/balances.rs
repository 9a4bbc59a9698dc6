//! Recording of read balances: refusal of implausible answers, repeated answers, and the bases of counts.

use super::call::Answer;
use super::{Context, JobError};
use crate::client::wire::{self, Decoded, ProductBalance};
use crate::model::{Sku, time};
use crate::projection::{balances, facts, products_found};
use crate::reconcile::brake;
use crate::store::{BalancesRecorded, Durability, MismatchRow, Unread, Write};
use crate::telemetry::event;
use serde_json::json;
use std::collections::BTreeSet;

/// Result of recording an answer.
#[derive(Debug)]
pub(crate) enum Looked {
    /// The answer is recorded.
    Taken(BalancesRecorded),
    /// None of several known SKUs came. The answer decides nothing and is not applied.
    Emptied {
        /// Number of known SKUs in the request.
        known: u64,
        /// True if no other known SKU could be asked for beside.
        ///
        /// Such an answer is recorded as one that shows nothing and proves nothing. An operator then sees
        /// since when the SKU is not shown.
        is_alone: bool,
    },
}

impl Looked {
    /// Returns true if the request should be repeated with other known SKUs beside it.
    pub(crate) fn wants_witnesses(&self) -> bool {
        matches!(self, Looked::Emptied { is_alone: false, .. })
    }

    /// Returns true if something of the request came.
    pub(crate) fn shows_some(&self) -> bool {
        matches!(self, Looked::Taken(recorded) if !recorded.is_silent)
    }

    /// Returns success if the answer was recorded. An answer that decides nothing is a failed read.
    pub(crate) fn told(self) -> Result<(), JobError> {
        match self {
            Looked::Taken(_) | Looked::Emptied { is_alone: true, .. } => Ok(()),
            Looked::Emptied { .. } => self.plausible().map(drop),
        }
    }

    /// Returns the record of the answer. An answer without any known SKU is a failed read.
    pub(crate) fn plausible(self) -> Result<BalancesRecorded, JobError> {
        match self {
            Looked::Taken(recorded) => Ok(recorded),
            Looked::Emptied { known, .. } => Err(JobError::Implausible(format!(
                "the service returned none of {known} known SKUs; nothing was changed; \
                 see whether the account is the right one: tallyd check --online"
            ))),
        }
    }
}

/// Records a page of balances and fixes the base of counts that waited for a read (docs/rules.md 3).
///
/// # Errors
/// An answer without any of the known SKUs is a failed read.
pub(crate) async fn balances_page(
    context: &Context,
    answer: &Answer,
    asked: &[Sku],
) -> Result<BalancesRecorded, JobError> {
    balances_look(context, answer, asked).await?.plausible()
}

/// Records a page of few SKUs, which may be requested again with others beside them.
pub(crate) async fn balances_look(
    context: &Context,
    answer: &Answer,
    asked: &[Sku],
) -> Result<Looked, JobError> {
    if repeats(context, answer, asked).await? {
        return Ok(Looked::Taken(BalancesRecorded::default()));
    }
    first_balances_look(context, answer, asked).await
}

/// Records a page of SKUs that were never asked for, so that the answer cannot equal a stored one.
pub(crate) async fn first_balances_look(
    context: &Context,
    answer: &Answer,
    asked: &[Sku],
) -> Result<Looked, JobError> {
    let decoded = context.decoded(answer, wire::decode_balances(&answer.reply.body)).await?;
    if !decoded.parked.is_empty() || !came_nothing(asked, &decoded) {
        return Ok(Looked::Taken(balances_keep(context, answer, asked, decoded).await?));
    }
    let (known, others) = context.store.product_known(asked).await?;
    if !brake::looks_emptied(known, 0) {
        return Ok(Looked::Taken(balances_keep(context, answer, asked, decoded).await?));
    }
    let is_alone = known == 1 && !others;
    if is_alone {
        balances_keep(context, answer, asked, decoded).await?;
    } else {
        context.end_alone(answer).await?;
    }
    Ok(Looked::Emptied { known, is_alone })
}

/// Returns true if an answer contains no record of the requested SKUs, compared by case key.
fn came_nothing(asked: &[Sku], decoded: &Decoded<ProductBalance<'_>>) -> bool {
    if decoded.records.is_empty() {
        return true;
    }
    let asked: BTreeSet<String> = asked.iter().map(Sku::fold).collect();
    !decoded.records.iter().any(|record| asked.contains(&record.sku.fold()))
}

/// Returns true if the mirror holds the same answer already. The exchange is then ended without parsing its
/// body.
async fn repeats(context: &Context, answer: &Answer, asked: &[Sku]) -> Result<bool, JobError> {
    let Some(first) = asked.first() else { return Ok(false) };
    let (exchange_id, observed_at, digest) = (answer.id, answer.sent_at, answer.digest);
    let unread = Unread { exchange_id, observed_at, first, digest };
    if !context.store.reading_may_repeat(&unread).await? {
        return Ok(false);
    }
    let mut write = context.store.begin(Durability::Normal).await?;
    context.exchange_end(&mut write, answer).await?;
    if !write.reading_repeat(&unread).await? {
        return Ok(false);
    }
    fix_bases_and_commit(context, answer, write).await?;
    Ok(true)
}

/// Records the products of a lookup, which are balances too. Returns their SKUs.
pub(crate) async fn products_page(context: &Context, answer: &Answer) -> Result<Vec<Sku>, JobError> {
    let decoded = context.decoded(answer, wire::decode_products(&answer.reply.body)).await?;
    let mut write = context.store.begin(Durability::Normal).await?;
    context.exchange_end(&mut write, answer).await?;
    let found = products_found(&mut write, answer.id, answer.sent_at, decoded).await?;
    fix_bases_and_commit(context, answer, write).await?;
    Ok(found)
}

async fn balances_keep(
    context: &Context,
    answer: &Answer,
    asked: &[Sku],
    decoded: Decoded<ProductBalance<'_>>,
) -> Result<BalancesRecorded, JobError> {
    // Parsing and compression come before the write lock, because pages are written one after the other.
    let decoded = facts(decoded);
    answer.pack();
    let mut write = context.store.begin(Durability::Normal).await?;
    context.exchange_end(&mut write, answer).await?;
    let when = (answer.sent_at, Some(answer.sent_moment));
    let recorded = balances(&mut write, answer.id, when, asked, &decoded).await?;
    for row in &recorded.mismatched {
        let subject = format!("{} in warehouse {}", row.sku, row.warehouse_id);
        let told = json!({"mine": row.written, "theirs": row.shown, "exchange": answer.id});
        write.event_append(context.now(), event::CONFLICT_OPENED, &subject, Some(&told.to_string())).await?;
    }
    fix_bases_and_commit(context, answer, write).await?;
    tell(&recorded);
    Ok(recorded)
}

fn tell(recorded: &BalancesRecorded) {
    for MismatchRow { sku, warehouse_id, written, shown } in &recorded.mismatched {
        let theirs = shown.map_or_else(|| "nothing".into(), |shown| shown.to_string());
        tracing::warn!(
            event = event::CONFLICT_OPENED,
            sku,
            warehouse = warehouse_id,
            mine = written,
            theirs = shown,
            "the service accepted {written} for {sku} in warehouse {warehouse_id} and two looks show {theirs}; \
             look at the product there, then count it: tallyd quantity set"
        );
    }
    if recorded.agreed > 0 {
        let conflicts = recorded.agreed;
        tracing::info!(
            event = event::CONFLICT_CLOSED,
            conflicts,
            "{conflicts} conflict(s) closed: the service shows what was written"
        );
    }
}

async fn fix_bases_and_commit(context: &Context, answer: &Answer, write: Write) -> Result<(), JobError> {
    let max_base_age = time::millis(context.settings().quantities.max_base_age);
    Ok(write.outbox_fix_bases(answer.id, answer.sent_at, max_base_age).await?)
}
