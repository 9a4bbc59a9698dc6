//! Acting on a judgement: the event first, then the cell, then the wishes, in one commit.

use super::Tally;
use super::case::{Case, What};
use crate::job::{Context, JobError};
use crate::model::WishId;
use crate::outbox::{Reason, State};
use crate::reconcile::doubt::Settlement;
use crate::store::{Durability, Verdict};
use crate::telemetry::event;
use serde_json::json;

/// The kind of event that a decision of this job is.
const SETTLED: &str = "outbox.settled";

pub(super) async fn decide(context: &Context, case: &Case, tally: &mut Tally) -> Result<(), JobError> {
    let count = case.wishes.len() as u64;
    match case.judge(context) {
        Settlement::LookAgain { .. } => {}
        Settlement::Landed(made) => {
            landed(context, case, made).await?;
            tally.landed += count;
        }
        Settlement::NotLanded => {
            not_landed(context, case).await?;
            tally.not_landed += count;
        }
        Settlement::Undecided { reason, detail } => {
            undecided(context, case, reason, &detail).await?;
            tally.held += count;
        }
    }
    Ok(())
}

async fn landed(context: &Context, case: &Case, made: Option<i64>) -> Result<(), JobError> {
    let now = context.now();
    let detail = match made {
        Some(id) => format!("the answer was lost; a look at the service shows that it made {id}"),
        None => "the answer was lost; a look at the service shows that it was done".into(),
    };
    let mut write = context.store.begin(Durability::Full).await?;
    let told = json!({"landed": true, "exchange": case.exchange, "made": made});
    write.event_decided(SETTLED, &case.key, &told, now).await?;
    if let What::Cell { write: cell, .. } = &case.what {
        write.cell_landed(case.exchange, case.sent_at, cell, now).await?;
    }
    if let (Some(id), Some(wish)) = (made, case.wishes.first()) {
        write.delivery_made(*wish, id).await?;
    }
    write.outbox_move(State::InDoubt, &case.moves(State::Applied, None, &detail), now).await?;
    write.commit().await?;
    tell(case, "landed", &detail);
    Ok(())
}

async fn not_landed(context: &Context, case: &Case) -> Result<(), JobError> {
    let now = context.now();
    let detail = match case.what {
        What::Update => {
            "the answer was lost; an update done twice leaves the same product, so it is sent again"
        }
        _ => "the answer was lost; two looks at the service show that it was not done, so it is planned anew",
    };
    let mut write = context.store.begin(Durability::Full).await?;
    let told = json!({"landed": false, "exchange": case.exchange});
    write.event_decided(SETTLED, &case.key, &told, now).await?;
    if let What::Cell { write: cell, .. } = &case.what {
        write.cell_not_landed(case.exchange, cell, now).await?;
    }
    let moves = case.moves(State::Pending, Some(Reason::NotLanded), detail);
    write.outbox_move(State::InDoubt, &moves, now).await?;
    write.cells_free(now).await?;
    write.commit().await?;
    tell(case, "did not land", detail);
    Ok(())
}

/// A shipment stays in doubt until somebody names it; all else is held. The cell of a quantity stays claimed: its later
/// wishes wait for the person too (rules.md 8).
async fn undecided(context: &Context, case: &Case, reason: Reason, detail: &str) -> Result<(), JobError> {
    if case.reason.as_deref() == Some(reason.as_str()) {
        // Said before; what was said since, of an adoption for instance, stands.
        return Ok(());
    }
    let now = context.now();
    let mut write = context.store.begin(Durability::Full).await?;
    let moved = if reason == Reason::LandedOrAnother {
        write.outbox_note(State::InDoubt, &case.moves(State::InDoubt, Some(reason), detail), now).await?
    } else {
        write.outbox_move(State::InDoubt, &case.moves(State::Held, Some(reason), detail), now).await?
    };
    write.commit().await?;
    if moved > 0 {
        let (key, reason) = (&case.key, reason.as_str());
        tracing::warn!(
            event = event::OUTBOX_HELD,
            key,
            reason,
            "the wish `{key}` waits for a person: {detail}"
        );
    }
    Ok(())
}

impl Case {
    /// The same move for every wish of the case.
    fn moves(&self, to: State, reason: Option<Reason>, detail: &str) -> Vec<Verdict> {
        let verdict = |id: &WishId| Verdict::new(*id, to, reason.map(Reason::as_str), detail);
        self.wishes.iter().map(verdict).collect()
    }
}

fn tell(case: &Case, what: &str, detail: &str) {
    let (exchange, key, wishes) = (case.exchange.0, &case.key, case.wishes.len());
    tracing::info!(event = event::OUTBOX_SETTLED, exchange, key, wishes, "the wish `{key}` {what}: {detail}");
}
