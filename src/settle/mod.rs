//! `settle`: decides changes in doubt by checks at the platform (docs/rules.md 4, 14).
//!
//! Each check is stored with its change. The judgement uses all checks since the send, so it is the same
//! after a crash.
//!
//! - The first check that shows the effect decides that the change took effect.
//! - A quiet time and two checks without an effect decide that it had no effect. Until then the change is
//!   checked again when a result is possible ([`next_check_at`]), not earlier.
//! - A change that checks cannot decide is left to an operator, with the evidence.
//!
//! An answer that does not name its entries leaves nothing in flight. The push then checks the stock levels
//! at once, without a quiet time ([`check_call`]).
//!
//! The job also reads accepted writes back ([`SettleRun::read_back`]), and makes changes pending again that were
//! held because no answer showed what they name ([`unshown`]).

mod adopt;
mod case;
mod check;
mod decide;
mod summary;
mod unshown;

use self::case::{BootCalendar, InDoubtCase, InDoubtRequest};
pub(crate) use self::summary::SettleSummary;
use crate::exec::quarantine::{EntryRoute, Quarantine};
use crate::exec::reads::ReadOrigin;
use crate::exec::{JobContext, JobError, RunReport};
use crate::model::{ChangeId, ExchangeId, Lane, Operation, RunId, Timestamp};
use crate::reconcile::in_doubt::Settlement;
use crate::store::{Store, StoreError};
use std::time::Duration;

pub(crate) async fn run(context: &JobContext, run: RunId) -> Result<RunReport, JobError> {
    let mut settle = SettleRun { context, run, summary: SettleSummary::default() };
    settle.adopt_named().await?;
    let now = context.now();
    let cases = load_cases(context).await?;
    let quarantine = context.quarantine().await?;
    let is_due = |case: &&InDoubtCase| next_check(case, context, &quarantine).is_some_and(|at| at <= now);
    let due: Vec<&InDoubtCase> = cases.iter().filter(is_due).collect();
    settle.check_cases(&due).await?;
    for case in load_cases(context).await? {
        let decided = settle.decide_case(&case).await;
        settle.summary.note_read(decided.map(|()| 0))?;
    }
    settle.read_back().await?;
    settle.ask_again().await?;
    Ok(settle.summary.run_report())
}

/// Checks at once the stock levels of a call without named entries in its answer. Later runs of this job
/// check the undecided ones again.
pub(crate) async fn check_call(
    context: &JobContext,
    run: RunId,
    exchange: ExchangeId,
) -> Result<SettleSummary, JobError> {
    let mut settle = SettleRun { context, run, summary: SettleSummary::default() };
    let cases = load_cases(context).await?;
    let mine: Vec<&InDoubtCase> = cases.iter().filter(|case| case.exchange == exchange).collect();
    settle.check_cases(&mine).await?;
    for case in load_cases(context).await?.iter().filter(|case| case.exchange == exchange) {
        settle.decide_case(case).await?;
    }
    Ok(settle.summary)
}

/// Run of the job, or the checks of one call in the run of another job.
struct SettleRun<'a> {
    context: &'a JobContext,
    run: RunId,
    summary: SettleSummary,
}

impl<'a> SettleRun<'a> {
    fn origin(&self, lane: Lane) -> ReadOrigin<'a> {
        ReadOrigin { context: self.context, run: self.run, lane }
    }
}

/// Returns the time of the next check. A check is due for a change in doubt, an accepted write, or a change
/// held for what no answer showed. `None` if nothing is open, or if only an operator can decide.
pub async fn next_check_at(context: &JobContext) -> Result<Option<Timestamp>, StoreError> {
    if !context.store.adoption_list().await?.is_empty() {
        return Ok(Some(context.now()));
    }
    let cases = load_cases(context).await?;
    let quarantine = context.quarantine().await?;
    let checks = cases.iter().filter_map(|case| next_check(case, context, &quarantine));
    let deferred = quarantine.deferred_entries(Operation::GetProductBalances);
    let readback = match context.store.readback_due(&[]).await? {
        None => None,
        Some(_) => {
            let left_out: Vec<&str> = deferred.iter().map(|(entry, _)| *entry).collect();
            let tried_again = deferred.iter().map(|(_, at)| *at).min();
            context.store.readback_due(&left_out).await?.into_iter().chain(tried_again).min()
        }
    };
    let others = [readback, unshown::next_ask_at(context).await?];
    Ok(checks.chain(others.into_iter().flatten()).min())
}

/// Returns what a change in doubt waits for, as text, and the time of its next check. `None` if the change is
/// not in doubt. `timeout` is the timeout of a call.
pub(crate) async fn describe_wait(
    store: &Store,
    timeout: Duration,
    now: Timestamp,
    change: ChangeId,
) -> Result<Option<(String, Option<Timestamp>)>, StoreError> {
    if let Some(request) = store.adoption_list().await?.iter().find(|row| row.change_id == change) {
        let text = format!("shipment {} will be compared with the claim", request.shipment_id);
        return Ok(Some((text, Some(now))));
    }
    let cases = case::load_cases(store, BootCalendar::without_shift()).await?;
    let case = cases.iter().find(|case| case.changes.contains(&change));
    Ok(case.map(|case| match case.judge_checks(timeout, now) {
        Settlement::CheckAgain { not_before } if not_before <= now => ("a check".into(), Some(now)),
        Settlement::CheckAgain { not_before } => {
            ("another check, once the call can no longer take effect".into(), Some(not_before))
        }
        Settlement::TookEffect(_) => ("nothing: the checks show that it took effect".into(), Some(now)),
        Settlement::HadNoEffect => ("nothing: the checks show that it had no effect".into(), Some(now)),
        Settlement::Undecided { detail, .. } => (format!("an operator's decision: {detail}"), None),
    }))
}

async fn load_cases(context: &JobContext) -> Result<Vec<InDoubtCase>, StoreError> {
    case::load_cases(&context.store, BootCalendar::new(&*context.clock)).await
}

/// Returns the time before which the case is not checked, because its reads fail.
fn retry_at(case: &InDoubtCase, quarantine: &Quarantine<'_>) -> Option<Timestamp> {
    let (operation, entry) = match &case.request {
        InDoubtRequest::Quantity { sku, .. } => (Operation::GetProductBalances, sku.to_string()),
        InDoubtRequest::Shipment { order, .. } => (Operation::GetOrderLineItems, order.to_string()),
        InDoubtRequest::Tracking(claim) => (Operation::ShipmentLineItems, claim.shipment_id.to_string()),
        InDoubtRequest::Update(_) | InDoubtRequest::Create { .. } | InDoubtRequest::Unreadable => {
            return None;
        }
    };
    match quarantine.route_of(operation, &entry) {
        EntryRoute::Deferred(until, _) => Some(until),
        EntryRoute::Isolated | EntryRoute::Suspect | EntryRoute::Shared => None,
    }
}

/// Returns the time of the next check. A quarantined entry is checked at its next attempt.
fn next_check(case: &InDoubtCase, context: &JobContext, quarantine: &Quarantine<'_>) -> Option<Timestamp> {
    match case.judge_checks(context.settings().timeout, context.now()) {
        Settlement::CheckAgain { not_before } => {
            let later = retry_at(case, quarantine);
            Some(later.map_or(not_before, |later| later.max(not_before)))
        }
        // Checks have decided the case, but a crash prevented the commit; it is due now.
        Settlement::TookEffect(_) | Settlement::HadNoEffect => Some(context.now()),
        Settlement::Undecided { .. } => None,
    }
}
