//! Held changes of which no answer showed what they name.
//!
//! They become pending when they are asked for again, with growing delays, or when an answer to any read shows their
//! stock level. The push reads what they name, and holds them again if that still does not show.

use super::SettleRun;
use crate::exec::{JobContext, JobError, change_events};
use crate::model::Timestamp;
use crate::outbox::ChangeState;
use crate::reconcile::unshown::next_ask;
use crate::store::{ChangeOutcome, Durability, NotShownRow, StoreError};

impl SettleRun<'_> {
    /// Makes the changes pending that are due.
    pub(super) async fn ask_again(&mut self) -> Result<(), JobError> {
        let context = self.context;
        let rows = context.store.not_shown_list().await?;
        let now = context.now();
        let detail = "what no answer showed is asked for again";
        let moves: Vec<ChangeOutcome> = rows
            .iter()
            .filter(|row| ask_at(row, now) <= now)
            .map(|row| ChangeOutcome::new(row.id, ChangeState::Pending, None, detail))
            .collect();
        if moves.is_empty() {
            return Ok(());
        }
        let mut write = context.store.begin_write(Durability::Full).await?;
        self.summary.shown += write.outbox_transition(ChangeState::Held, &moves, now).await?;
        write.commit().await?;
        change_events::log_outcomes(context, &moves).await;
        Ok(())
    }
}

/// Returns the time at which the next such change is due; `None` if there is none.
pub(super) async fn next_ask_at(context: &JobContext) -> Result<Option<Timestamp>, StoreError> {
    let (rows, now) = (context.store.not_shown_list().await?, context.now());
    Ok(rows.iter().map(|row| ask_at(row, now)).min())
}

fn ask_at(row: &NotShownRow, now: Timestamp) -> Timestamp {
    if row.is_shown { now } else { next_ask(row.first_ms, row.last_ms, now) }
}
