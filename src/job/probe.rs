//! The probe: one cheap call that decides whether the key works.
//!
//! The work queue has no body, no id and no parameter, so that a 403 there can only mean the key (rules.md 18, 34).

use super::{Context, JobError};
use crate::client::{Verdict, wire};
use crate::limiter::Pace;
use crate::model::{Lane, Operation, RunId};
use crate::store::Durability;

/// Whether the service accepts the key now. Anything but an accepted answer or a refusal decides nothing, and then
/// the key is not blamed.
pub async fn key_works(context: &Context, run: RunId) -> Result<bool, JobError> {
    let request = wire::work_queue();
    let permit = context.place(Operation::WorkQueue, Lane::Probe, Pace::Paid).await?;
    let write = context.store.begin(Durability::Normal).await?;
    let begun = context.exchange_begin_alone(write, run, Lane::Probe, &request).await?;
    let answer = context.send(permit, begun, request).await;
    context.end_alone(&answer).await?;
    Ok(!matches!(answer.reply.verdict, Verdict::Refused { .. }))
}
