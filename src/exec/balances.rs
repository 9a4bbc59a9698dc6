//! Recording of read balances: refusal of implausible answers, repeated answers, and the bases of counts.

use super::call::AnsweredExchange;
use super::{JobContext, JobError};
use crate::client::wire::{self, DecodedAnswer, ProductBalance};
use crate::model::{Operation, Sku, counted, time};
use crate::projection::{project_balances, project_found_products};
use crate::store::{BalancesRecorded, MismatchRow, UnparsedAnswer, WriteTransaction};
use crate::telemetry::event;
use serde_json::json;
use std::collections::BTreeSet;

/// Records a page of balances and fixes the base of counts that waited for a read (docs/rules.md 1).
///
/// # Errors
/// [`JobError::Implausible`] if none of the requested SKUs came and one of them is known. Nothing is applied then. An
/// empty answer to one SKU is its lack, unless calls with it failed before. A SKU that its last answer lacked beside
/// others is not counted as known.
pub(super) async fn record_balances(
    context: &JobContext,
    answer: &AnsweredExchange,
    requested: &[Sku],
) -> Result<BalancesRecorded, JobError> {
    if record_if_unchanged(context, answer, requested).await? {
        return Ok(BalancesRecorded::default());
    }
    let decoded = context.decode_or_ignore(answer, wire::decode_balances(&answer.reply.body)).await?;
    let keys: BTreeSet<String> = requested.iter().map(Sku::case_key).collect();
    let lacks_all = !decoded.records.iter().any(|record| keys.contains(&record.sku.case_key()));
    if decoded.parked.is_empty() && lacks_all {
        let known = context.store.product_known_count(requested).await?;
        let (operation, first) = (Operation::GetProductBalances, requested.first().map_or("", Sku::as_str));
        if known > 0 && (requested.len() > 1 || context.has_failed(operation, first).await?) {
            context.exchange_end_ignored(answer).await?;
            let known = counted(known, "known SKU");
            return Err(JobError::Implausible(format!(
                "the platform returned none of {known}; nothing was changed; check that the account is the right one: \
                 tallyd check --online"
            )));
        }
    }
    store_balances(context, answer, requested, decoded).await
}

/// Returns true if the mirror holds the same answer already. The exchange is then ended without parsing its
/// body.
async fn record_if_unchanged(
    context: &JobContext,
    answer: &AnsweredExchange,
    requested: &[Sku],
) -> Result<bool, JobError> {
    let Some(first) = requested.first() else { return Ok(false) };
    let (exchange_id, observed_at, digest) = (answer.id, answer.sent_at, answer.digest);
    let unread = UnparsedAnswer { exchange_id, observed_at, first_sku: first, digest };
    if !context.store.read_batch_may_be_unchanged(&unread).await? {
        return Ok(false);
    }
    let mut write = context.begin_recording(answer).await?;
    if !write.read_batch_confirm(&unread).await? {
        return Ok(false);
    }
    fix_bases_and_commit(context, answer, write).await?;
    Ok(true)
}

/// Records the products of a lookup, which are balances too. Returns their SKUs.
pub(crate) async fn record_products(
    context: &JobContext,
    answer: &AnsweredExchange,
) -> Result<Vec<Sku>, JobError> {
    let decoded = context.decode_or_ignore(answer, wire::decode_products(&answer.reply.body)).await?;
    let mut write = context.begin_recording(answer).await?;
    let found = project_found_products(&mut write, answer.id, answer.sent_at, decoded).await?;
    fix_bases_and_commit(context, answer, write).await?;
    Ok(found)
}

async fn store_balances(
    context: &JobContext,
    answer: &AnsweredExchange,
    requested: &[Sku],
    decoded: DecodedAnswer<ProductBalance<'_>>,
) -> Result<BalancesRecorded, JobError> {
    // Parsing and compression come before the write lock, because pages are written one after the other.
    answer.compress_body();
    let stored = async {
        let mut write = context.begin_recording(answer).await?;
        let recorded = project_balances(&mut write, answer.id, answer.sent_at, requested, &decoded).await?;
        for row in &recorded.mismatched {
            let subject = format!("{} in warehouse {}", row.sku, row.warehouse_id);
            let detail = json!({"mine": row.written, "theirs": row.shown, "exchange": answer.id});
            write
                .event_append(context.now(), event::CONFLICT_OPENED, &subject, Some(&detail.to_string()))
                .await?;
        }
        fix_bases_and_commit(context, answer, write).await?;
        Ok(recorded)
    };
    match stored.await {
        // One record may be refused, by another program's trigger for instance; a smaller page finds it.
        Err(JobError::Store(error)) if error.is_refusal() => {
            context.exchange_end_ignored(answer).await?;
            Err(JobError::Implausible(error.to_string()))
        }
        stored => stored.inspect(log_conflicts),
    }
}

fn log_conflicts(recorded: &BalancesRecorded) {
    for MismatchRow { sku, warehouse_id, written, shown } in &recorded.mismatched {
        let shown_text = shown.map_or_else(|| "nothing".into(), |shown| shown.to_string());
        tracing::warn!(
            event = event::CONFLICT_OPENED,
            sku,
            warehouse = warehouse_id,
            mine = written,
            theirs = shown,
            "the platform accepted {written} for {sku} in warehouse {warehouse_id}, but two reads show \
             {shown_text}; check the product at the platform, then count it: tallyd quantity set"
        );
    }
    if recorded.conflicts_closed > 0 {
        let conflicts = recorded.conflicts_closed;
        tracing::info!(
            event = event::CONFLICT_CLOSED,
            conflicts,
            "{} closed: the platform shows the written quantities",
            counted(conflicts, "conflict")
        );
    }
}

async fn fix_bases_and_commit(
    context: &JobContext,
    answer: &AnsweredExchange,
    write: WriteTransaction,
) -> Result<(), JobError> {
    let max_base_age = time::whole_millis(context.settings().quantities.max_base_age);
    Ok(write.outbox_fix_bases_and_commit(answer.id, answer.sent_at, max_base_age).await?)
}
