//! Execution of a judgement in one commit: event, stock level, changes.

use super::case::{Case, What};
use super::summary::Tally;
use crate::exec::{Context, JobError, change_events};
use crate::model::{Operation, WishId};
use crate::outbox::{Body, Reason, State};
use crate::reconcile::doubt::Settlement;
use crate::store::{Durability, Verdict};
use crate::telemetry::event;
use serde_json::json;

/// Kind of the event of a decision.
const SETTLED: &str = "outbox.settled";

/// Detail of an update that is sent again.
const UPDATE_NOT_DONE: &str = "the answer was lost; two looks at the service show the product as it was before, so the update is sent again";

pub(super) async fn decide(context: &Context, case: &Case, tally: &mut Tally) -> Result<(), JobError> {
    let count = case.wishes.len() as u64;
    match case.judge(context.settings().timeout, context.now()) {
        Settlement::LookAgain { .. } => {}
        Settlement::Landed(made) => {
            if landed(context, case, made).await? {
                tally.landed += count;
            }
        }
        Settlement::NotLanded => {
            if not_landed(context, case).await? {
                tally.not_landed += count;
            }
        }
        Settlement::Undecided { reason, detail } => {
            let said = case.said.iter().filter(|_| case.was_answered());
            let detail = said.fold(detail, |numbers, said| format!("{numbers}; {said}"));
            if undecided(context, case, reason, &detail).await? {
                tally.held += count;
            }
        }
    }
    Ok(())
}

/// Commits that the request took effect. Returns false if a change left the state in doubt in the meantime,
/// because a push also checks its own call. Then nothing is committed.
async fn landed(context: &Context, case: &Case, made: Option<i64>) -> Result<bool, JobError> {
    let now = context.now();
    let detail = match made {
        Some(id) => format!("the answer was lost; a look at the service shows that it made {id}"),
        None => format!("{}; a look at the service shows that it was done", case.doubt()),
    };
    let mut write = context.store.begin(Durability::Full).await?;
    let told = json!({"landed": true, "exchange": case.exchange, "made": made});
    write.event_append(now, SETTLED, &case.key, Some(&told.to_string())).await?;
    // An operator may have decided in the meantime; then the write must not be counted twice.
    let moved = write.outbox_move(State::InDoubt, &case.moves(State::Applied, None, &detail), now).await?;
    if moved != case.wishes.len() as u64 {
        return Ok(false);
    }
    if let What::Cell { write: cell, .. } = &case.what {
        write.cell_landed(case.exchange, case.sent_at, cell, now).await?;
    }
    if let What::Create { body: Body::ProductCreate(create), .. } = &case.what {
        write.learnt_sku_made(case.exchange, &create.sku, now).await?;
    }
    if let What::Update(claim) = &case.what {
        write.quarantine_lift(Operation::UpdateProduct, &claim.sku).await?;
        write.cells_free(now).await?;
    }
    if let (Some(id), Some(wish)) = (made, case.wishes.first()) {
        write.delivery_made(*wish, id).await?;
    }
    write.commit().await?;
    say(context, case, "landed", &detail).await;
    Ok(true)
}

/// Commits that the request had no effect. The changes are planned again. If the platform answered a call
/// with no other entry, it refused this content, and the changes are rejected. After an answer for several
/// entries each is sent isolated, because the fault may be in another entry.
async fn not_landed(context: &Context, case: &Case) -> Result<bool, JobError> {
    let now = context.now();
    let (to, reason, detail) = match &case.what {
        What::Update(_) => (State::Pending, Reason::NotLanded, UPDATE_NOT_DONE.to_owned()),
        _ if case.was_answered() && context.store.call_entries(case.exchange).await? > 1 => {
            let detail = format!(
                "{}; two looks at the service show that this one was not done, and another of its call may be why, so \
                 it is sent alone",
                case.doubt()
            );
            (State::Pending, Reason::Unmatched, detail)
        }
        _ if case.was_answered() => {
            let detail = format!("{}; two looks at the service show that it refused this one", case.doubt());
            (State::Rejected, Reason::ServiceRefused, detail)
        }
        _ => (
            State::Pending,
            Reason::NotLanded,
            "the answer was lost; two looks at the service show that it was not done, so it is planned anew"
                .into(),
        ),
    };
    let mut write = context.store.begin(Durability::Full).await?;
    let told = json!({"landed": false, "exchange": case.exchange});
    write.event_append(now, SETTLED, &case.key, Some(&told.to_string())).await?;
    let moved = write.outbox_move(State::InDoubt, &case.moves(to, Some(reason), &detail), now).await?;
    if moved != case.wishes.len() as u64 {
        return Ok(false);
    }
    if let What::Cell { write: cell, .. } = &case.what {
        write.cell_not_landed(case.exchange, cell, now).await?;
    }
    if let What::Update(claim) = &case.what {
        let why = "the answer was lost, and the product is as it was before";
        write.quarantine_add(Operation::UpdateProduct, &claim.sku, why, now).await?;
    }
    write.cells_free(now).await?;
    write.commit().await?;
    if to == State::Rejected {
        change_events::tell(context, &case.moves(to, Some(reason), &detail)).await;
    } else {
        say(context, case, "did not land", &detail).await;
    }
    Ok(true)
}

/// Commits that checks cannot decide the case. A shipment stays in doubt until an operator names it; other
/// changes are held. The stock level of a quantity stays claimed, so its later changes wait for the decision
/// too (docs/rules.md 8).
///
/// Returns false if a change left the state in doubt in the meantime.
async fn undecided(context: &Context, case: &Case, reason: Reason, detail: &str) -> Result<bool, JobError> {
    if case.reason.as_deref() == Some(reason.as_str()) {
        // Committed before. A later detail, for instance of an adoption, must stay.
        return Ok(true);
    }
    let now = context.now();
    let mut write = context.store.begin(Durability::Full).await?;
    let to = if reason == Reason::LandedOrAnother { State::InDoubt } else { State::Held };
    let moves = case.moves(to, Some(reason), detail);
    let moved = match to {
        State::InDoubt => write.outbox_note(State::InDoubt, &moves, now).await?,
        _ => write.outbox_move(State::InDoubt, &moves, now).await?,
    };
    if moved != case.wishes.len() as u64 {
        return Ok(false);
    }
    if let What::Update(_) = &case.what {
        // The update changed no quantity and is no longer in flight, so the stock levels of its product are
        // released.
        for cell in write.cell_writes_open(case.exchange).await? {
            write.cell_not_landed(case.exchange, &cell, now).await?;
        }
    }
    write.commit().await?;
    change_events::tell(context, &moves).await;
    Ok(true)
}

impl Case {
    /// Returns the reason why the case was in doubt.
    fn doubt(&self) -> &str {
        let said = self.said.as_deref().filter(|_| self.was_answered());
        said.unwrap_or("the answer was lost")
    }

    /// Returns the move for every change of the case.
    fn moves(&self, to: State, reason: Option<Reason>, detail: &str) -> Vec<Verdict> {
        let verdict = |id: &WishId| Verdict::new(*id, to, reason.map(Reason::as_str), detail);
        self.wishes.iter().map(verdict).collect()
    }
}

/// Logs a case in one line, because all its changes have the same outcome.
async fn say(context: &Context, case: &Case, what: &str, detail: &str) {
    let (exchange, wishes) = (case.exchange.0, case.wishes.len());
    let (ids, keys) = change_events::listed(context, &case.wishes).await;
    tracing::info!(
        event = event::OUTBOX_SETTLED,
        exchange,
        wishes,
        ids,
        keys,
        "the wish `{}` {what}: {detail}",
        case.key
    );
}
