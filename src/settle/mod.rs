//! `settle`: decides changes in doubt by checks at the platform (docs/rules.md 7, 8, 22, 23, 26).
//!
//! Each check is stored with its change. The judgement uses all checks since the send, so it is the same
//! after a crash.
//!
//! - The first check that shows the effect decides that the change took effect.
//! - A quiet time and two checks without an effect decide that it had no effect. Until then the change is
//!   checked again when a result is possible ([`due`]), not earlier.
//! - A change that checks cannot decide is left to an operator, with the evidence.
//!
//! An answer that does not name its entries leaves nothing in flight. The push then checks the stock levels
//! at once, without a quiet time ([`look_back`]).
//!
//! The job also reads accepted writes back ([`readback`]). For held changes it reads the stock levels that no
//! answer showed ([`unshown`]).

mod adopt;
mod case;
mod check;
mod decide;
mod readback;
mod summary;
mod unshown;

use self::case::{Calendar, Case, What};
pub(crate) use self::summary::Tally;
use crate::exec::quarantine::{Aside, Way};
use crate::exec::{Context, JobError, Report};
use crate::model::{ExchangeId, Operation, RunId, Timestamp, WishId};
use crate::reconcile::doubt::Settlement;
use crate::store::{Store, StoreError};
use std::time::Duration;

pub(crate) async fn run(context: &Context, run: RunId) -> Result<Report, JobError> {
    let mut tally = Tally::default();
    adopt::run(context, run, &mut tally).await?;
    let now = context.now();
    let cases = gather(context).await?;
    let aside = Asides::of(context).await?;
    let is_due = |case: &&Case| next_look(case, context, &aside).is_some_and(|at| at <= now);
    let due: Vec<&Case> = cases.iter().filter(is_due).collect();
    check::at(context, run, &due, &mut tally).await?;
    for case in gather(context).await? {
        decide::decide(context, &case, &mut tally).await?;
    }
    readback::run(context, run, &mut tally).await?;
    unshown::run(context, run, &mut tally).await?;
    Ok(tally.report())
}

/// Checks at once the stock levels of a call without named entries in its answer. Later runs of this job
/// check the undecided ones again.
pub(crate) async fn look_back(
    context: &Context,
    run: RunId,
    exchange: ExchangeId,
) -> Result<Tally, JobError> {
    let mut tally = Tally::default();
    let cases = gather(context).await?;
    let mine: Vec<&Case> = cases.iter().filter(|case| case.exchange == exchange).collect();
    check::at(context, run, &mine, &mut tally).await?;
    for case in gather(context).await?.iter().filter(|case| case.exchange == exchange) {
        decide::decide(context, case, &mut tally).await?;
    }
    Ok(tally)
}

/// Returns the time of the next check. A check is due for a change in doubt, an accepted write, or a stock
/// level that no answer showed. `None` if nothing is open, or if only an operator can decide.
pub async fn due(context: &Context) -> Result<Option<Timestamp>, StoreError> {
    if !context.store.adoption_list().await?.is_empty() {
        return Ok(Some(context.now()));
    }
    let cases = gather(context).await?;
    let (aside, now) = (Asides::of(context).await?, context.now());
    let looks = cases.iter().filter_map(|case| next_look(case, context, &aside));
    let readback = match context.store.readback_due(&[]).await? {
        None => None,
        Some(_) => {
            let left_out: Vec<&str> = aside.cells.waiting(now).map(|(entry, _)| entry).collect();
            let tried_again = aside.cells.waiting(now).map(|(_, at)| at).min();
            context.store.readback_due(&left_out).await?.into_iter().chain(tried_again).min()
        }
    };
    let others = [readback, unshown::due(context, &aside.cells).await?];
    Ok(looks.chain(others.into_iter().flatten()).min())
}

/// Returns what a change in doubt waits for, as text, and the time of its next check. `None` if the change is
/// not in doubt. `timeout` is the timeout of a call.
pub async fn wait(
    store: &Store,
    timeout: Duration,
    now: Timestamp,
    wish: WishId,
) -> Result<Option<(String, Option<Timestamp>)>, StoreError> {
    if let Some(asked) = store.adoption_list().await?.iter().find(|asked| asked.wish_id == wish.0) {
        let words = format!("shipment {} is about to be compared with what was sent", asked.shipment_id);
        return Ok(Some((words, Some(now))));
    }
    let cases = case::gather(store, Calendar::as_written()).await?;
    let case = cases.iter().find(|case| case.wishes.contains(&wish));
    Ok(case.map(|case| match case.judge(timeout, now) {
        Settlement::LookAgain { not_before } if not_before <= now => {
            ("a look at the service".into(), Some(now))
        }
        Settlement::LookAgain { not_before } => {
            ("another look, once the call cannot be carried out any more".into(), Some(not_before))
        }
        Settlement::Landed(_) => ("nothing: the looks show that it was done".into(), Some(now)),
        Settlement::NotLanded => ("nothing: the looks show that it was not done".into(), Some(now)),
        Settlement::Undecided { detail, .. } => (format!("a person's word: {detail}"), None),
    }))
}

async fn gather(context: &Context) -> Result<Vec<Case>, StoreError> {
    case::gather(&context.store, Calendar::of(&*context.clock)).await
}

/// Quarantined entries of the operations that this job reads.
struct Asides {
    cells: Aside,
    orders: Aside,
    shipments: Aside,
}

impl Asides {
    async fn of(context: &Context) -> Result<Self, StoreError> {
        Ok(Self {
            cells: context.aside(Operation::GetProductBalances).await?,
            orders: context.aside(Operation::GetOrderLineItems).await?,
            shipments: context.aside(Operation::ShipmentLineItems).await?,
        })
    }

    /// Returns the time before which the case is not checked, because its reads fail.
    fn later(&self, context: &Context, case: &Case) -> Option<Timestamp> {
        let (aside, entry) = match &case.what {
            What::Cell { sku, .. } => (&self.cells, sku.to_string()),
            What::Shipment { order, .. } => (&self.orders, order.to_string()),
            What::Tracking(claim) => (&self.shipments, claim.shipment_id.to_string()),
            What::Update(_) | What::Create { .. } | What::Lost => return None,
        };
        match aside.way(context, &entry) {
            Way::Later(until, _) => Some(until),
            Way::Alone | Way::Suspect | Way::Together => None,
        }
    }
}

/// Returns the time of the next check. A quarantined entry is checked at its next attempt.
fn next_look(case: &Case, context: &Context, aside: &Asides) -> Option<Timestamp> {
    match case.judge(context.settings().timeout, context.now()) {
        Settlement::LookAgain { not_before } => {
            let later = aside.later(context, case);
            Some(later.map_or(not_before, |later| later.max(not_before)))
        }
        // Checks have decided the case, but a crash prevented the commit; it is due now.
        Settlement::Landed(_) | Settlement::NotLanded => Some(context.now()),
        Settlement::Undecided { .. } => None,
    }
}
